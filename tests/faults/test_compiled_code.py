"""The cache of compiled code: where it may lie, what damages it, and what it must notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import bigdag
from bigdag import SortRegress, compiled
from bigdag.compiled import Stopwatch
from bigdag.data.dataset import as_dataset
from bigdag.learners.run import Run

PACKAGE = Path(bigdag.__file__).parent


def python(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose home and cache are in a folder."""
    chosen = ("BIGDAG_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    clean = {name: value for name, value in os.environ.items() if name not in chosen}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "HOME": str(folder), "PYTHONPATH": str(PACKAGE.parent), **env},
        capture_output=True,
        text=True,
        check=False,
    )


# A kernel that takes little time to compile.
LEAST = "from bigdag.engine.order import nth_least; import numpy as np; "
LEAST += "print(nth_least(np.array([3.0, 1.0, 2.0]), 3, 0))"


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("bigdag.*") if p.is_file())


def test_damaged_entries_are_compiled_again(tmp_path):
    assert python(LEAST, tmp_path).stdout == "1.0\n"
    files = entries(tmp_path / ".cache")
    assert files
    whole = [file.read_bytes() for file in files]
    for damage in (
        lambda b: b"",
        lambda b: b[:10],
        lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:],
        lambda b: b"no compiled code at all, though long enough to hold a digest",
    ):
        for file, content in zip(files, whole):
            file.write_bytes(damage(content))
        done = python(LEAST, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "1.0\n", "")
    assert entries(tmp_path / ".cache") == files  # and kept again


def test_no_folder_that_can_be_written_but_the_temporary_one(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = python(LEAST, file, TMPDIR=str(temporary))
    assert (done.returncode, done.stdout, done.stderr) == (0, "1.0\n", "")
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entries(folder)


def test_a_temporary_folder_of_somebody_else_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = compiled._temporary_parent()
    folder.chmod(0o777)
    with pytest.raises(PermissionError):
        compiled._temporary_parent()


@pytest.mark.parametrize("name", ["BIGDAG_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_the_folder_can_be_chosen(tmp_path, name, monkeypatch):
    for other in ("BIGDAG_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, str(tmp_path))
    folder = compiled._cache_folder.__wrapped__()
    assert tmp_path / "bigdag" in folder.parents
    assert folder.name == compiled._key()


def test_the_key_depends_on_every_kernel_and_on_the_compiler(tmp_path, monkeypatch):
    copy = tmp_path / "bigdag"
    copy.mkdir()
    (copy / "compiled.py").write_text("")
    (copy / "one.py").write_text("@kernel\ndef f(x):\n    return x\n")
    (copy / "other.py").write_text("nothing compiled here")
    monkeypatch.setattr(compiled, "__file__", str(copy / "compiled.py"))
    before = compiled._key_and_stamps.__wrapped__()[0]
    (copy / "other.py").write_text("nothing compiled here, either")
    assert compiled._key_and_stamps.__wrapped__()[0] == before
    (copy / "one.py").write_text("@kernel\ndef f(x):\n    return x + 1\n")
    keys = {before, compiled._key_and_stamps.__wrapped__()[0]}
    for package in ("numba", "llvmlite"):
        monkeypatch.setattr(f"{package}.__version__", "999")
        keys.add(compiled._key_and_stamps.__wrapped__()[0])
    assert len(keys) == 4


def test_code_of_sources_that_have_changed_since_is_not_kept(tmp_path):
    """A process that runs while bigdag is updated must not leave old code under the new key."""
    copy = tmp_path / "src" / "bigdag"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "experiments"))
    change = (
        f"import pathlib; p = pathlib.Path({str(copy / 'engine' / 'order.py')!r}); "
        "p.write_text(p.read_text() + '\\n'); "
    )
    done = python(LEAST.replace("print", change + "print"), tmp_path, PYTHONPATH=str(copy.parent))
    assert (done.stdout, done.stderr) == ("1.0\n", "")
    assert entries(tmp_path / ".cache") == []


def test_every_compiled_function_uses_this_cache():
    for path in PACKAGE.rglob("*.py"):
        if path.name != "compiled.py":
            assert "njit" not in path.read_text(), path


def test_only_old_folders_of_ours_are_removed(tmp_path):
    names = ["0123456789abcdef", "fedcba9876543210", "docs", "0123456789ABCDEF", "file", "link"]
    mine, fresh, foreign, other, file, link = (tmp_path / name for name in names)
    for folder in (mine, fresh, foreign, other):
        folder.mkdir()
        (folder / "content").write_text("")
    file.write_text("")
    link.symlink_to(foreign)
    for path in (mine, foreign, other, file):
        os.utime(path, (0, 0))
    compiled._remove_unused(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_cache_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    chosen = tmp_path / "bigdag" / "compiled" / compiled._key()
    chosen.mkdir(parents=True)
    chosen.chmod(0o777)
    monkeypatch.setenv("BIGDAG_CACHE_DIR", str(tmp_path))
    assert compiled._cache_folder.__wrapped__() != chosen


def test_compiling_is_not_part_of_the_time(monkeypatch):
    before = compiled.compiling_seconds()
    numba.njit(lambda x: 2 * x)(3.0)
    assert compiled.compiling_seconds() > before
    now, compiling = [100.0], [30.0]
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "compiling_seconds", lambda: compiling[0])
        patch.setattr(compiled.time, "perf_counter", lambda: now[0])
        watch = Stopwatch()
        now[0], compiling[0] = now[0] + 10.0, compiling[0] + 7.0
        assert watch.seconds == 3.0
    run = Run(SortRegress(), as_dataset(np.eye(3)))
    assert isinstance(run._watch, Stopwatch)


def test_somebody_is_told_once_when_compiling_begins():
    told = []
    compiled.on_compiling(lambda: told.append(1))
    for _ in range(2):
        numba.njit(lambda x: x + 1)(1)
    compiled.on_compiling(None)
    assert told == [1]


# A kernel that only others call, here one that is made for this call.
INSIDE = "from bigdag.engine.gram import correlation; import numpy as np; "
INSIDE += "print(correlation(np.array([[3.0], [4.0]]), False, 0, 1))"


def test_a_kernel_inside_of_others_is_kept_and_damage_noticed(tmp_path):
    assert python(INSIDE, tmp_path).stdout == "12.0\n"
    (file,) = entries(tmp_path / ".cache")
    content, written = file.read_bytes(), file.stat().st_mtime_ns
    assert python(INSIDE, tmp_path).stdout == "12.0\n"
    assert file.stat().st_mtime_ns == written  # read, not compiled again
    file.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    done = python(INSIDE, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12.0\n", "")
    assert file.read_bytes()[:32] == content[:32]  # and kept again
