"""Outputs that cannot be written: refused before the work, not lost after it, nothing harmed."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bigdag import writing
from bigdag.cli import app
from bigdag.errors import BigdagError, OutputExistsError, ParameterError
from bigdag.graph.dag import DAG
from bigdag.learners.recipe import Recipe
from bigdag.writing import Output, whole_file, whole_folder


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X[:, 1] += 2 * X[:, 0]
    pd.DataFrame(X, columns=list("abc")).to_csv("t.csv", index=False)
    DAG([[0, 1.0], [0, 0]], ["a", "b"]).save("small.npz")


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result


def fit(out, *words, code=0):
    return run("fit", "t.csv", "--method", "sort-variance", "--out", out, *words, code=code)


def files(folder="."):
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if not p.is_dir()}


def put(path, mode=None, text="precious"):
    Path(path).write_text(text)
    if mode is not None:
        os.chmod(path, mode)
    return path


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# ------------------------------------------------------------------ refused before the work


def loop():
    os.symlink("one.npz", "two.npz")
    os.symlink("two.npz", "one.npz")
    return "one.npz"


def pipe():
    os.mkfifo("pipe.npz")
    return "pipe.npz"


def link_to_nowhere():
    os.symlink("none/dag.npz", "link.npz")
    return "link.npz"


def device():
    os.symlink("/dev/null", "null.npz")
    return "null.npz"


def folder():
    os.mkdir("folder.npz")
    return "folder.npz"


REFUSED = {
    "a name of 300 letters": (lambda: "a" * 300 + ".npz", "File name too long"),
    "a path of 9,000 letters": (lambda: "a/" * 4500 + "b.npz", "File name too long"),
    "a missing folder": (lambda: "none/dag.npz", "folder none does not exist"),
    "a file as folder": (lambda: "t.csv/dag.npz", "Not a directory"),
    "a folder": (folder, "is a folder"),
    "a link to nowhere": (link_to_nowhere, "none does not exist"),
    "a loop of links": (loop, "symbolic links"),
    "a named pipe": (pipe, "is a named pipe, and only regular files"),
    "a device": (device, "is a device, and only regular files"),
    "a read-only file": (lambda: put("dag.npz", 0o444), "read-only (mode 0444)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_before_the_fit(case, monkeypatch):
    make, words = REFUSED[case]
    path = make()
    before = files()
    monkeypatch.setattr(Recipe, "follow", lambda *_: pytest.fail("the fit was begun"))
    text = fit(path, "--force", code=2).stderr
    assert words in text
    assert len(text.splitlines()) == 1
    assert files() == before
    if case.startswith(("a name of", "a path", "a missing", "a file as")):
        picture = str(path).replace(".npz", ".png")
        assert words in run("show", "small.npz", "--plot", picture, "--force", code=2).stderr
    if case == "a read-only file":
        assert Path("dag.npz").read_text() == "precious"
    if case == "a named pipe":
        assert stat.S_ISFIFO(os.stat(path).st_mode)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_a_folder_that_takes_no_file_is_refused_before_the_work(number, monkeypatch):
    real = builtins.open

    def refusing(name, how="r", *more, **rest):
        if "x" in how:
            raise OSError(number, os.strerror(number))
        return real(name, how, *more, **rest)

    before = files()
    monkeypatch.setattr(builtins, "open", refusing)
    monkeypatch.setattr(Recipe, "follow", lambda *_: pytest.fail("the fit was begun"))
    monkeypatch.setattr("bigdag.simulate.worlds.World.draw", lambda *_: pytest.fail("it was drawn"))
    monkeypatch.setattr("bigdag.graph.draw._paint", lambda *_: pytest.fail("it was painted"))
    for words in (
        ["fit", "t.csv", "--out", "dag.npz"],
        ["simulate", "--out", "world"],
        ["show", "small.npz", "--plot", "a.png"],
    ):
        assert os.strerror(number) in run(*words, code=2).stderr
    assert files() == before


def test_a_full_disk_is_told_by_the_probe(monkeypatch):
    real = builtins.open

    def full(name, how="r", *more, **rest):
        return real("/dev/full", "wb") if "x" in how else real(name, how, *more, **rest)

    monkeypatch.setattr(builtins, "open", full)
    with pytest.raises(ParameterError, match="No space left"):
        Output("dag.npz").reserve()


# ------------------------------------------------------------------ not lost after the work


def during_the_fit(monkeypatch, what):
    real = Recipe.follow

    def follow(self, *given):
        found = real(self, *given)
        what()
        return found

    monkeypatch.setattr(Recipe, "follow", follow)


def test_a_name_taken_during_the_fit_is_left_alone(monkeypatch):
    during_the_fit(monkeypatch, lambda: put("dag.npz"))
    text = fit("dag.npz", code=1).stderr
    assert "exists already" in text
    assert "saved to dag.saved-1.npz instead" in text
    assert Path("dag.npz").read_text() == "precious"
    assert DAG.load("dag.saved-1.npz").names == ("a", "b", "c")


def test_a_folder_removed_during_the_fit(monkeypatch):
    os.mkdir("out")
    during_the_fit(monkeypatch, lambda: shutil.rmtree("out"))
    text = fit("out/dag.csv", code=1).stderr
    assert "folder out does not exist" in text
    [saved] = Path("temporary").rglob("dag.csv")
    assert str(saved.resolve()) in text
    assert DAG.load(saved).names == ("a", "b", "c")
    assert mode(saved.parent) == 0o700


def test_a_disk_that_fills_during_the_fit(monkeypatch):
    def fill():
        real = builtins.open

        def full(name, how="r", *more, **rest):
            if "x" in how and "temporary" not in str(name):
                return real("/dev/full", "wb")
            return real(name, how, *more, **rest)

        monkeypatch.setattr(builtins, "open", full)

    during_the_fit(monkeypatch, fill)
    text = fit("dag.parquet", code=1).stderr
    assert "No space left" in text
    [saved] = Path("temporary").rglob("dag.parquet")
    assert DAG.load(saved).names == ("a", "b", "c")
    assert not [name for name in files() if ".tmp" in name]


def test_a_pipe_put_in_its_place_during_the_fit(monkeypatch):
    during_the_fit(monkeypatch, lambda: os.mkfifo("dag.npz"))
    assert "named pipe" in fit("dag.npz", "--force", code=1).stderr
    assert stat.S_ISFIFO(os.stat("dag.npz").st_mode)
    assert DAG.load("dag.saved-1.npz").names == ("a", "b", "c")


def test_a_world_and_a_picture_are_not_lost(monkeypatch):
    real = writing.Output.reserve

    def reserve(self):
        real(self)
        put(self.path)
        return self

    monkeypatch.setattr(writing.Output, "reserve", reserve)
    assert "world.saved-1" in run("simulate", "--d", 5, "--out", "world", code=1).stderr
    assert len(files("world.saved-1")) == 4
    assert "a.saved-1.png" in run("show", "small.npz", "--plot", "a.png", code=1).stderr
    assert Path("a.saved-1.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.png").read_text() == Path("world").read_text() == "precious"


def test_nothing_can_be_written_anywhere(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(BigdagError, match="either"):
        Output("a.txt").write(lambda file: file.write(b"x"))
    assert not files("temporary")
    assert not [name for name in files() if "tmp" in name or "a." in name]


# ------------------------------------------------------------------ modes, owners, links


@pytest.mark.parametrize("old", [0o600, 0o640, 0o644, 0o666, 0o755])
def test_what_is_replaced_keeps_its_mode(old):
    put("dag.npz", old)
    fit("dag.npz", "--force")
    assert mode("dag.npz") == old
    assert DAG.load("dag.npz").n_nodes == 3


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_have_the_mode_of_the_umask(mask):
    before = os.umask(mask)
    try:
        fit("dag.npz")
        run("simulate", "--d", 5, "--out", "world")
    finally:
        os.umask(before)
    assert mode("dag.npz") == mode("world/train.parquet") == 0o666 & ~mask
    assert mode("world") == 0o777 & ~mask


def test_a_world_written_again_keeps_modes_and_other_files():
    run("simulate", "--d", 5, "--out", "world")
    put("world/notes.txt")
    os.chmod("world/truth.parquet", 0o600)
    os.chmod("world", 0o700)
    run("simulate", "--d", 6, "--out", "world", "--force")
    assert mode("world/truth.parquet") == 0o600
    assert mode("world") == 0o700
    assert Path("world/notes.txt").read_text() == "precious"
    assert DAG.load("world/truth.parquet").n_nodes == 6
    os.chmod("world/card.json", 0o444)
    assert "read-only" in run("simulate", "--d", 7, "--out", "world", "--force", code=1).stderr
    assert DAG.load("world/truth.parquet").n_nodes == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_is_replaced_keeps_its_owner():
    put("dag.npz", 0o640)
    os.chown("dag.npz", 1234, 5678)
    fit("dag.npz", "--force")
    found = os.stat("dag.npz")
    assert (found.st_uid, found.st_gid, mode("dag.npz")) == (1234, 5678, 0o640)


def test_rights_of_a_group_that_cannot_be_kept_are_dropped(monkeypatch):
    put("a.txt", 0o660)
    put("b.txt", 0o600)

    def refuse(*_):
        raise PermissionError

    found = os.stat_result((*os.stat("a.txt")[:5], os.stat("a.txt").st_gid + 1, *([0] * 4)))
    with monkeypatch.context() as patched:
        patched.setattr(os, "chown", refuse)
        patched.setattr(Path, "stat", lambda _: found)
        writing._like(Path("a.txt"), Path("b.txt"))
    assert mode("b.txt") == 0o600


def test_a_link_is_written_through():
    os.symlink("target.npz", "link.npz")
    fit("link.npz")
    assert os.path.islink("link.npz")
    assert DAG.load("target.npz").n_nodes == 3


def test_two_at_once_do_not_overwrite_each_other():
    with whole_file("a.txt") as first:
        first.write(b"first")
        with whole_file("a.txt") as second:
            second.write(b"second")
        with pytest.raises(OutputExistsError):
            writing._place(Path(first.name), Path("a.txt"), "a.txt", False)
        Path("a.txt").rename("kept.txt")
    assert Path("kept.txt").read_bytes() == b"second"
    assert Path("a.txt").read_bytes() == b"first"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_folder_leaves_nothing(error):
    def write():
        with whole_folder("world") as new:
            (new / "a.txt").write_text("half")
            raise error

    before = files()
    with pytest.raises(error):
        write()
    assert files() == before
    assert not Path("world").exists()


# ------------------------------------------------------------------ worlds too large


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--d", 10**8], 1, "memory"),
        (["--d", 10**30], 1, "memory"),
        (["--n", 10**15], 1, "memory"),
        (["--validation", 10**40], 1, "memory"),
        (["--d", 5000, "--k", 2000], 1, "memory"),
        (["--k", 10**9], 2, "choose k from"),
        (["--k", 1e300], 2, "choose k from"),
        (["--d", 200, "--memory-limit", "10MB"], 1, "10 MB in all (--memory-limit)"),
        (["--memory-limit", "much"], 2, "--memory-limit must be"),
    ],
)
def test_a_world_that_does_not_fit_is_refused_before_it_is_drawn(
    words, code, sentence, monkeypatch
):
    monkeypatch.setattr("bigdag.simulate.models.random_dag", lambda *_: pytest.fail("it was drawn"))
    monkeypatch.setattr("bigdag.resources._free_in_machine", lambda: 2**26)
    before = files()
    assert sentence in run("simulate", "--out", "world", *words, code=code).stderr
    assert files() == before
    assert not Path("world").exists()
