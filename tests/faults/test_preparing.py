"""Tables that cannot be prepared as it is wished: one sentence with the names, nothing written."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bigdag
from bigdag.cli import app
from bigdag.errors import BigdagError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(40, 4)), columns=["a", "b", "c", "d"])
SITES = FRAME.assign(site=["north"] * 20 + ["south"] * 20, age=RNG.uniform(20, 70, 40))


def holes(frame=FRAME, **columns):
    """Return a frame whose columns miss the given rows."""
    frame = frame.copy()
    for name, rows in columns.items():
        frame.loc[frame.index[rows], name] = np.nan
    return frame


FIRST, LAST, ALL = slice(0, 20), slice(20, 40), slice(0, 40)
ONE_ROW = SITES.assign(site=["north"] * 39 + ["south"])
EVERY_ROW = holes(a=slice(0, 15), b=slice(15, 30), c=slice(30, 40))

# The table, the options, the exit code (1: the data; 2: the words), and what the sentence says.
BAD = {
    # Missing values.
    "missing values": (holes(b=[3]), "", 1, "'b'.*row 4.*--missing pairwise"),
    "all missing, pairwise": (holes(b=ALL), "--missing pairwise", 1, "at all: 'b'.*--drop"),
    "all missing, em": (holes(b=ALL), "--missing em", 1, "no values at all: 'b'"),
    "all missing, drop": (holes(b=ALL), "--missing drop", 1, "Every row but 0 of 40.*'b'"),
    "all missing, error": (holes(b=ALL), "", 1, "'b'.*--missing"),
    "all missing, auto": (holes(b=ALL), "--missing auto", 1, "no values at all: 'b'"),
    "two values": (holes(b=slice(2, 40)), "--missing pairwise", 1, "one or two values: 'b'"),
    "never together": (holes(a=FIRST, b=LAST), "--missing pairwise", 1, "'a' and 'b'.*in no row"),
    "never together, wide": (
        holes(pd.DataFrame(RNG.normal(size=(40, 50))).add_prefix("g"), g3=FIRST, g7=LAST),
        "--missing pairwise", 1, "'g3' and 'g7'.*in no row",
    ),
    "too much for auto": (holes(c=slice(0, 9)), "--missing auto", 1, "'c' lacks 22 %.*--missing"),
    "no row is complete": (EVERY_ROW, "--missing drop", 1, "Every row but 0.*--missing pairwise"),
    "infinite": (FRAME.assign(b=np.inf), "--missing pairwise", 1, "infinite in 'b'"),
    # Batches and other effects.
    "a batch of one row": (ONE_ROW, "--batch site", 1, "'site'.*one row: 'south'"),
    "an adjusted group of one row": (ONE_ROW, "--adjust site", 1, "'site'.*one row: 'south'"),
    "an ID as batch": (SITES.assign(n=range(40)), "--batch n --drop site", 1, "'n'.*one row"),
    "no such batch": (SITES, "--batch sites", 2, "--batch.*'sites'.*Did you mean 'site'"),
    "a glob as batch": (SITES, "--batch s*", 2, "one column.*'s\\*'"),
    "no such column to adjust for": (SITES, "--adjust age,sex", 2, "--adjust.*'sex'"),
    "missing in the batch": (
        holes(SITES.assign(age=1.0), age=[0]), "--batch age --drop site", 1, "'age'.*misses 1 of",
    ),
    "as many effects as rows": (
        pd.DataFrame(RNG.normal(size=(12, 14))).add_prefix("g"), "--adjust g?", 1, "all of 12",
    ),
    "an infinite group": (
        FRAME.assign(plate=[1.0, np.inf] * (len(FRAME) // 2)), "--batch plate", 1, "'plate'",
    ),
    "text beside the batch": (
        SITES.assign(who="me"), "--batch site", 1, "'who'.*--drop",
    ),
    # Columns.
    "all dropped": (FRAME, "--drop *", 2, "None of the 4 columns.*'a'"),
    "none kept": (FRAME, "--keep a --drop a*", 2, "None of the 4 columns"),
    "all adjusted for": (FRAME, "--adjust *", 2, "None of the 4 columns"),
    "no such column to drop": (FRAME, "--drop a,e", 2, "--drop.*'e'"),
    "no such column to keep": (FRAME, "--keep x*", 2, "--keep.*'x\\*'"),
    "an empty name": (FRAME, "--drop a,,b", 2, "--drop must be names"),
    "kept and dropped": (FRAME, "--keep a,b --drop b", 2, "'b' cannot be in drop and in keep"),
    "dropped and adjusted for": (SITES, "--drop site --batch site", 2, "'site' cannot be in drop"),
    "dropped by glob and adjusted for": (SITES, "--drop s* --batch site", 2, "'site' cannot be in"),
    "kept and adjusted for": (SITES, "--keep a,b,age --adjust age", 2, "'age' cannot be in keep"),
    # Scales and copies.
    "no logarithm": (FRAME, "--transform log1p", 1, "above -1.*4 of 4|above -1.*'a'"),
    "copies": (FRAME.assign(e=2 * FRAME["a"]), "--duplicates error", 1, "'a', 'e'.*group"),
    # Words.
    "no such transform": (FRAME, "--transform ranks", 2, "--transform must be one of.*'rank'"),
    "no such way": (FRAME, "--missing mean", 2, "--missing must be one of.*'pairwise'"),
    "no such word": (FRAME, "--duplicates drop", 2, "--duplicates must be one of.*'group'"),
    "ranks of a covariance matrix": (
        FRAME.cov(), "--covariance --n-samples 40 --transform rank", 2, "needs samples",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("case", BAD)
def test_it_ends_in_one_sentence_and_writes_nothing(case, suffix, tmp_path):
    frame, words, code, said = BAD[case]
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.reset_index(drop=True).to_parquet(
        path
    )
    result = run("fit", path, "--method", "order-search-bic", *words.split())
    assert result.exit_code == code, (result.stdout, result.stderr)
    text = " ".join(result.stderr.split())
    assert re.search(said, text), text
    assert "Traceback" not in text
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


LIBRARY = ("transform", "missing", "drop", "keep", "adjust", "batch", "duplicates")


@pytest.mark.parametrize("case", [case for case in BAD if "--covariance" not in BAD[case][1]])
def test_the_library_refuses_the_same(case):
    frame, words, _, said = BAD[case]
    options = dict(pair.split(" ", 1) for pair in words.split("--")[1:] if pair)
    given = {
        name: value.strip().split(",") if name in ("drop", "keep", "adjust") else value.strip()
        for name, value in options.items()
    }
    with pytest.raises(BigdagError) as caught:
        bigdag.prepare(frame, **given)
    assert re.search(
        said.replace("--transform must", "transform must")
        .replace("--missing must", "missing must")
        .replace("--duplicates must", "duplicates must")
        .replace("--drop must", "drop must"),
        str(caught.value),
    )


def test_bad_data_do_not_stop_a_check(tmp_path):
    frame = holes(SITES, a=ALL, b=FIRST).assign(one=1.0, far=[np.inf, *range(39)], n=range(40))
    frame.to_csv("t.csv", index=False)
    result = run("check", "t.csv")
    assert result.exit_code == 0
    for word in (
        "text (site)",
        "no values (a)",
        "missing values (b",
        "constant (one)",
        "infinite",
        "row number (n",
    ):
        assert word in result.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
