"""What a release holds: a wheel is built without a network, looked into, installed and run.

`make release-check` names a folder, BIGDAG_DIST, with a wheel and a source archive that are there
already; otherwise a wheel is built here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import bigdag

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"


def run(*words, **more):
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False, **more
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    given = os.environ.get("BIGDAG_DIST")
    folder = ROOT / given if given else tmp_path_factory.mktemp("dist")
    if not given:
        built = run(
            "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
            "--quiet", "--wheel-dir", folder, ROOT,
        )  # fmt: skip
        assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert wheel.name == f"bigdag-{bigdag.__version__}-py3-none-any.whl"
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "bigdag").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = f"bigdag-{bigdag.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(about)} == wanted
    # Pages, plans and styles are there, too, not only modules.
    assert {".py", ".js", ".css", ".toml"} <= {Path(name).suffix for name in wanted}
    assert f"{about}licenses/LICENSE" in names


def test_its_description_is_the_readme(wheel):
    with zipfile.ZipFile(wheel) as archive:
        path = f"bigdag-{bigdag.__version__}.dist-info/METADATA"
        about = Parser().parsestr(archive.read(path).decode())
    assert about["Version"] == bigdag.__version__
    assert about["Requires-Python"] == ">=3.11"
    assert about["License-Expression"] == "BSD-3-Clause"
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload().strip() == (ROOT / "README.md").read_text().strip()


def test_it_installs_and_runs_outside_of_the_clone(wheel, tmp_path):
    target = tmp_path / "installed"
    done = run(
        "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", target, wheel
    )
    assert done.returncode == 0, done.stderr
    env = {**os.environ, "PYTHONPATH": str(target)}
    told = run(target / "bin" / "bigdag", "--version", cwd=tmp_path, env=env)
    assert (told.stdout, told.returncode) == (f"bigdag {bigdag.__version__}\n", 0), told.stderr
    where = run("-c", "import bigdag; print(bigdag.__file__)", cwd=tmp_path, env=env)
    assert Path(where.stdout.strip()).is_relative_to(target)
    plan = run("-m", "bigdag.cli", "experiment", "plan", "exp1", "--preset", "smoke",
               cwd=tmp_path, env=env)  # fmt: skip
    assert plan.returncode == 0, plan.stderr  # files beside the modules are found


@pytest.mark.skipif("BIGDAG_DIST" not in os.environ, reason="make release-check builds it")
def test_the_source_archive_can_be_tested_and_holds_nothing_made():
    (path,) = (ROOT / os.environ["BIGDAG_DIST"]).glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for wanted in ("README.md", "pyproject.toml", "CITATION.cff", "src/bigdag/__init__.py",
                   "tests/test_wheel.py", "docs/conf.py", "Makefile"):  # fmt: skip
        assert wanted in names
    assert not [name for name in names if "_build" in name or name.endswith((".pyc", ".db"))]
