"""The look at a table: each oddity is found with its columns, and nothing in a plain table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bigdag
from bigdag import simulate
from bigdag.cli import app
from bigdag.data import copies
from bigdag.data.checks import COLUMNS, _largest_by_chance
from bigdag.data.copies import near_copies
from bigdag.data.raw import raw_table
from bigdag.data.row_groups import Intervals
from bigdag.data.sums import linear_relations
from bigdag.data.wished import as_wished
from bigdag.data.wishes import Wishes


def found(table):
    """Return the columns of each finding."""
    frame = bigdag.check(table)
    assert list(frame.columns) == COLUMNS
    assert (frame["n_columns"] == frame["columns"].map(len)).all()
    return dict(zip(frame["finding"], frame["columns"]))


def frame_of(n=300, d=20, k=2, seed=0, noise="gaussian"):
    X = simulate.sample(simulate.random_dag(d, k, rng=seed), n, noise=noise, rng=seed)
    return pd.DataFrame(np.asarray(X), columns=[f"v{j}" for j in range(d)])


@pytest.mark.parametrize(("n", "d"), [(50, 5), (50, 100), (100, 50), (1000, 20)])
def test_nothing_is_odd_in_gaussian_columns(n, d):
    for seed in range(6):
        table = np.random.default_rng(seed).normal(size=(n, d))
        assert bigdag.check(table).empty
        assert bigdag.check(pd.DataFrame(table).add_prefix("v")).empty


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("n", [50, 100, 500])
def test_nothing_is_odd_in_simulated_tables(n, k):
    for seed in range(4):
        table = found(frame_of(n, 100, k, seed))
        # With four arcs a variable, the noise of one is a hundredth of its deviation.
        assert set(table) <= ({"near copies"} if (k, seed) == (4, 3) else set())
        assert len(table.get("near copies", [])) in (0, 2)


@pytest.mark.parametrize("noise", ["exponential", "gumbel"])
def test_skewed_noise_is_noted_and_no_more(noise):
    table = bigdag.check(frame_of(500, 100, 2, noise=noise))
    assert set(table["finding"]) <= {"skewed", "outliers"}
    assert set(table["severity"]) == {"note"}


DAMAGE = {
    "constant": (lambda f: f.assign(v3=7.0), ["v3"]),
    "near copies": (
        lambda f: f.assign(w=-2 * f["v4"] + 0.02 * f["v4"].std() * np.sin(np.arange(len(f)))),
        ["v4", "w"],
    ),
    "row number": (lambda f: f.assign(n=range(1, len(f) + 1)), ["n"]),
    "text": (lambda f: f.assign(site=["a", "b", "c"] * (len(f) // 3)), ["site"]),
    "text ": (lambda f: f.assign(site=pd.Categorical([1, 2, 3] * (len(f) // 3))), ["site"]),
    "date ": (lambda f: f.assign(age=pd.to_timedelta(range(len(f)), "h")), ["age"]),
    "date": (lambda f: f.assign(day=pd.date_range("2020-01-01", periods=len(f))), ["day"]),
    "skewed": (lambda f: f.assign(v3=np.exp(f["v3"] / f["v3"].std())), ["v3"]),
    "outliers": (lambda f: f.assign(v5=f["v5"] * np.where(np.arange(len(f)) % 50, 1, 30)), ["v5"]),
    "missing values": (lambda f: f.assign(v6=f["v6"].where(np.arange(len(f)) % 9 > 0)), ["v6"]),
    "no values": (lambda f: f.assign(v6=np.nan), ["v6"]),
    "infinite": (lambda f: f.assign(v6=[np.inf, *f["v6"][1:]]), ["v6"]),
    "too large": (lambda f: f.assign(v6=1e200 * f["v6"], v7=1e200 * f["v7"]), ["v6", "v7"]),
    "table too small": (lambda f: f.iloc[:1], []),
    "empty": (lambda f: f.iloc[:0], []),
    "many zeros": (
        lambda f: f.assign(v2=np.where(np.arange(len(f)) % 2, f["v2"], 0.0)), ["v2"],
    ),
    "units": (lambda f: f.assign(v1=1e6 * f["v1"]), None),
    "sums": (
        lambda f: f.assign(total=(f["v1"] - 3 * f["v4"] + f["v6"]).round(3)),
        ["total", "v1", "v4", "v6"],
    ),
    "few rows": (lambda f: pd.concat([f, frame_of(len(f), 700).add_prefix("w")], axis=1), []),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_each_oddity_is_found_with_its_columns(what):
    damage, columns = DAMAGE[what]
    what = what.strip()  # there are two kinds of some
    table = found(damage(frame_of()))
    assert what in table
    if columns is not None:
        assert sorted(table[what]) == columns


@pytest.mark.parametrize(
    "make",
    [
        lambda n, rng: np.sort(rng.integers(10**6, size=n)),
        lambda n, rng: rng.permutation(n) + 500,
        lambda n, rng: np.arange(n, 0, -1),
        lambda n, rng: np.cumsum(rng.uniform(0.1, 1, n)),  # a time
    ],
)
def test_what_numbers_the_rows(make):
    rng = np.random.default_rng(0)
    assert found(frame_of().assign(w=make(300, rng)))["row number"] == ("w",)


@pytest.mark.parametrize("name", ["patient_id", "ID", "sampleID", "row", "Sample No"])
def test_names_are_a_hint_for_different_whole_numbers_only(name):
    rng = np.random.default_rng(0)
    numbers = rng.choice(10**6, 300, replace=False)
    table = frame_of()
    assert found(table.assign(**{name: numbers})).get("row number") == (name,)
    assert "row number" not in found(table.assign(width=numbers))
    assert "row number" not in found(table.assign(**{name: rng.normal(size=300)}))


def test_counts():
    X = frame_of(300, 30)
    Z = (X - X.mean()) / X.std()
    counts = np.random.default_rng(0).poisson(np.exp(Z + 1))
    table = bigdag.check(pd.DataFrame(counts, columns=X.columns)).set_index("finding")
    assert table.loc["counts", "n_columns"] == 30
    assert "log1p" in table.loc["counts", "remedy"]
    assert "counts" not in found(np.rint(100 * Z + 500))


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_groups_of_rows_that_differ_in_mean(k, share):
    rng = np.random.default_rng(1)
    table = frame_of(300, 60, k)
    batch = rng.random(300) < share
    shifts = rng.normal(size=60)
    shifted = table + np.outer(batch, shifts * table.std())
    columns = found(shifted)["batches"]
    large = [name for name, shift in zip(table, shifts) if abs(shift) > 1]
    assert set(large) <= set(columns)
    told = bigdag.check(shifted.assign(plate=np.where(batch, "p", "q"))).set_index("finding")
    assert told.loc["batches", "remedy"] == "--batch plate."


@pytest.mark.parametrize("n", [100, 300, 1000])
@pytest.mark.parametrize("kind", ["lognormal", "exponential", "counts"])
def test_skewed_columns_are_no_groups_of_rows(kind, n):
    for seed in range(3):
        noise = "exponential" if kind == "exponential" else "gaussian"
        X = simulate.standardise(frame_of(n, 5, 1, seed, noise))
        X = np.exp(X) if kind == "lognormal" else X
        X = np.random.default_rng(seed).poisson(np.exp(1 + X)) if kind == "counts" else X
        assert "batches" not in found(X.astype(float))


def test_groups_of_rows_in_skewed_columns():
    rng = np.random.default_rng(1)
    Z = simulate.standardise(frame_of(300, 60))
    assert "batches" in found(np.exp(Z + np.outer(rng.random(300) < 0.4, rng.normal(size=60))))


def test_three_groups_of_rows():
    rng = np.random.default_rng(1)
    table = frame_of(300, 60)
    groups = rng.integers(3, size=300)
    shifted = table + (2 * rng.normal(size=(3, 60)) * table.std().to_numpy())[groups]
    assert "batches" in found(shifted)


def test_cuts_of_sorted_numbers_are_the_best():
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.normal(size=30), 9 + rng.normal(size=20), 30 + rng.normal(size=10)])
    left, labels = Intervals(len(score), 3, 3).of(score)[1]
    assert labels.tolist() == [0] * 30 + [1] * 20 + [2] * 10
    within = sum(((score[labels == g] - score[labels == g].mean()) ** 2).sum() for g in range(3))
    assert left == pytest.approx(within / ((score - score.mean()) ** 2).sum())


def test_what_is_found_comes_worst_first_and_is_said_plainly():
    table = bigdag.check(DAMAGE["constant"][0](frame_of()).assign(site="x", n=range(300)))
    assert table["severity"].tolist() == ["error", "warning", "note"]
    assert (table[["detail", "effect", "remedy"]].map(len) > 10).all(axis=None)


def bigdag_(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_command_checks_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = DAMAGE["outliers"][0](frame_of()).assign(site=["a", "b"] * 150, copy=lambda f: f["v1"])
    frame.to_csv("t.csv", index=False)
    told = bigdag_("check", "t.csv")
    report = json.loads(bigdag_("check", "t.csv", "--json"))
    for finding in ("text", "outliers", "near copies"):
        assert finding in told
        assert finding in [row["finding"] for row in report["findings"]]
    assert report["n_columns"] == 22
    batch = np.arange(300) % 2
    shifted = frame_of() + np.outer(batch, 3 * frame_of().std())
    for file in ("b.csv", "b.parquet"):
        groups = shifted.assign(plate=np.where(batch, "p", "q"))
        groups.to_csv(file, index=False) if file == "b.csv" else groups.to_parquet(file)
        assert "--batch plate." in bigdag_("check", file)
    frame_of().to_csv("plain.csv", index=False)
    assert "nothing odd" in bigdag_("check", "plain.csv")


def test_a_fit_says_what_is_odd_and_what_was_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    plates = np.where(np.arange(300) % 2, "p", "q")
    frame = frame_of().assign(plate=plates, copy=lambda f: 2 * f["v1"])
    frame = frame.assign(v5=np.where(rng.random(300) < 0.05, 40.0, frame["v5"]))
    frame.to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", "--method", "order-search-bic", "--force"]
    told = bigdag_(*fit, "--drop", "plate")
    assert "near copies (v1, copy)" in told
    assert "outliers" in told
    told = bigdag_(*fit, "--batch", "plate", "--duplicates", "group", "--transform", "rank")
    assert "check" not in told
    assert "The effect of 'plate' (2 groups)" in " ".join(told.split())
    report = json.loads(bigdag_(*fit, "--batch", "plate", "--duplicates", "group", "--json"))
    assert report["groups"] == {"v1": ["copy"]}
    assert [row["finding"] for row in report["findings"]] == ["skewed", "outliers"]
    assert report["left_out"] == ["plate"]
    assert len(report["prepared"]) == 2


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "feather"])
def test_files_keep_missing_values_where_it_is_asked_for(suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = DAMAGE["missing values"][0](frame_of(200, 8).iloc[:, :7])
    if suffix == "npz":
        np.savez("t.npz", X=frame.to_numpy(), names=np.array(frame.columns, dtype=str))
    elif suffix == "csv":
        text = frame.to_csv(index=False, na_rep="NA").replace(",NA", ",", 3)
        (tmp_path / "t.csv").write_text(text)
    else:
        nullable = frame.convert_dtypes()
        nullable.to_parquet("t.parquet") if suffix == "parquet" else nullable.to_feather(
            "t.feather"
        )
    fit = ["fit", f"t.{suffix}", "--method", "order-search-bic", "--missing"]
    report = json.loads(bigdag_(*fit, "pairwise", "--json"))
    assert report["missing"] == "pairwise"
    assert report["n_samples"] < 200
    wanted = bigdag.prepare(frame, missing="pairwise").data
    assert report["n_samples"] == wanted.n_samples
    report = json.loads(bigdag_(*fit, "drop", "--json", "--force"))
    assert report["n_samples"] == int(frame.notna().all(axis=1).sum())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_keep_groups_in_text_and_numbers(suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = frame_of(60, 5).assign(site=["1", "2", "west"] * 20, plate=[1, 2, 3, 4, 5, 6] * 10)
    # The first rows of a column of text may hold numbers.
    frame = frame.sort_values("site", kind="stable").reset_index(drop=True)
    path = f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    words = ["fit", path, "--method", "order-search-bic", "--adjust", "site", "--batch", "plate"]
    report = json.loads(bigdag_(*words, "--json"))
    assert report["prepared"][0].startswith("The effect of 'site' (3 groups), 'plate' (6 groups)")
    assert report["n_variables"] == 5


def test_infinite_values_do_not_count_as_missing():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[3, 1] = np.inf
    found = bigdag.check(X)
    assert found["finding"].tolist() == ["infinite"]
    assert found["detail"].tolist() == ["1 value is infinite, the first in row 4 of 'x1'"]
    assert found["remedy"].iloc[0].startswith("To count it as missing: --missing-code=inf.")
    X[7, 0], X[[2, 9], 2] = np.inf, -np.inf
    found = bigdag.check(X)
    assert found["detail"].tolist() == ["4 values are infinite, the first in row 8 of 'x0'"]
    assert "missing: --missing-code=inf --missing-code=-inf." in found["remedy"].iloc[0]
    prepared = bigdag.prepare(X, missing="drop", missing_code=["inf", "-inf"])
    assert prepared.data.n_samples == 46


@pytest.mark.parametrize(
    ("rows", "columns", "word"), [(3, 4, "few rows"), (50, 1, "one column"), (3, 1, "one column")]
)
def test_too_few_rows_or_columns_are_a_warning(rows, columns, word):
    found = bigdag.check(np.random.default_rng(0).normal(size=(rows, columns)))
    assert found["finding"].tolist() == [word]
    assert found["severity"].tolist() == ["warning"]


def test_two_totals_are_two_groups_and_few_rows_say_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 9)) * 10.0 ** np.arange(-4, 5)
    X[:, 2] = X[:, 0] + X[:, 1]
    X[:, 8] = X[:, 4] - X[:, 5] / 7
    assert linear_relations(X, np.arange(9)) == [[0, 1, 2], [4, 5, 8]]
    assert linear_relations(X[:17], np.arange(9)) == []
    X[::3, 6] = np.nan
    assert linear_relations(X, np.arange(9)) == [[0, 1, 2], [4, 5, 8]]


def test_shares_of_a_whole_are_told_and_near_relations_are_not():
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(6), size=200)
    assert "sums" in bigdag.check(shares)["finding"].tolist()
    shares[:, 0] += 0.01 * rng.normal(size=200)
    assert "sums" not in bigdag.check(shares)["finding"].tolist()


def test_the_largest_correlation_by_chance_is_that_of_simulated_tables():
    rng = np.random.default_rng(2)
    above = []
    for _ in range(200):
        C = np.corrcoef(rng.normal(size=(12, 30)), rowvar=False)
        above.append(np.sum(np.abs(C[np.triu_indices(30, 1)]) > _largest_by_chance(12, 30)))
    assert np.mean(above) == pytest.approx(1.0, abs=0.25)


def test_missing_values_that_every_method_refuses_are_told_so():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:10, 0] = np.nan
    assert bigdag.check(X)["effect"].tolist() == ["named methods refuse the table"]
    X[:30, 0] = np.nan
    assert "every method refuses" in bigdag.check(X)["effect"].iloc[0]


def test_columns_that_are_never_there_together_are_named():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:50, 0] = X[50:, 2] = np.nan
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(none=np.nan)
    found = bigdag.check(table).set_index("finding")
    assert "'a' and 'c' are both there in no row" in found.loc["missing values", "detail"]
    assert "--drop" in found.loc["missing values", "remedy"]


def test_numbers_that_stand_for_missing_values_are_found():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    table.loc[[3, 9, 17], "a"] = -999
    table.loc[range(30), "b"] = -999  # also where they are the half of a column
    table.loc[5, "c"] = 999  # once: it may be measured
    table["d"] = rng.integers(0, 95, 60)
    table.loc[[1, 2], "d"] = 99  # no further away than the others are from each other
    found = bigdag.check(table).set_index("finding")
    assert found.loc["missing code", "columns"] == ("a", "b")
    assert "-999 is there 33 times" in found.loc["missing code", "detail"]
    assert "--missing-code=-999" in found.loc["missing code", "remedy"]
    prepared = bigdag.prepare(table, missing="pairwise", missing_code=-999)
    assert prepared.notes[0] == "33 values of -999 count as missing."
    gaps = table.replace(-999, np.nan)
    expected = bigdag.prepare(gaps, missing="pairwise")
    np.testing.assert_array_equal(prepared.data.covariance, expected.data.covariance)


def test_rows_that_are_there_more_than_once_are_told():
    rng = np.random.default_rng(0)
    once = pd.DataFrame(rng.normal(size=(20, 6))).add_prefix("v")
    found = bigdag.check(pd.concat([once] * 3)).set_index("finding")
    assert found.loc["repeated rows", "detail"] == "40 of 60 rows are the same as an earlier one"
    assert "repeated rows" not in set(bigdag.check(once)["finding"])
    whole = pd.DataFrame(rng.integers(0, 2, size=(200, 3))).add_prefix("v")  # which are alike
    assert "repeated rows" not in set(bigdag.check(whole)["finding"])


def test_one_cell_of_text_is_told_apart_from_a_column_of_text():
    table = pd.DataFrame({"a": np.arange(30) % 7, "b": np.sqrt(np.arange(30)), "site": "x"})
    table["b"] = table["b"].astype(object)
    table.loc[11, "b"] = "n.d."
    frame = bigdag.check(table).set_index("finding")
    assert frame.loc["text among numbers", "columns"] == ("b",)
    slip = frame.loc["text among numbers"]
    assert "1 cell is no number, such as 'n.d.' in row 12" in slip["detail"]
    assert "NA" in slip["remedy"]
    assert frame.loc["text", "columns"] == ("site",)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_near_copies_are_the_same_by_all_distances_and_by_a_tree(monkeypatch, missing):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40))
    X[:, 20:30] = 3 - 2 * X[:, :10] + 1e-4 * rng.normal(size=(60, 10))
    X[:, 30:35] = X[:, :5]
    X[rng.random(X.shape) < missing] = np.nan
    by_distances = near_copies(X)
    monkeypatch.setattr(copies, "_FEW_POINTS", 0)
    assert by_distances == near_copies(X) != []


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_near_copies_with_missing_values_are_found(share, noise):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 40))
    X[:, 20:25] = 3 - 2 * X[:, :5] + noise * rng.normal(size=(300, 5))
    X[rng.random(X.shape) < share] = np.nan
    groups = sorted(sorted(group) for group in near_copies(X))
    assert groups == [[j, j + 20] for j in range(5)]


def test_relatives_with_missing_values_are_no_copies():
    rng = np.random.default_rng(4)
    common = rng.normal(size=(300, 1))
    noise = rng.normal(size=(300, 6)) * [0, 0.01, 0.03, 0.03, 0.03, 0.03]
    X = np.hstack([common + noise, rng.normal(size=(300, 6))])
    X[rng.random(X.shape) < 0.05] = np.nan
    assert near_copies(X) == []  # a whole family is nearly as near as the first two
    X = (rng.random((300, 50)) < 0.5).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    assert near_copies(X) == []


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e30, 1e200])
def test_columns_in_any_unit_vary(unit):
    X = np.random.default_rng(5).normal(size=(100, 4))
    X[:, 2] *= unit
    names = found(X)
    assert "constant" not in names
    assert names.get("too small") == (("x2",) if unit == 1e-200 else None)
    assert names.get("too large") == (("x2",) if unit == 1e200 else None)
    X[:, 2] = unit
    assert found(X)["constant"] == ("x2",)


# ------------------------------------------------------------------ rows in sequence


def drifting(seed, n=300, d=6):
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(3, 5, d) * rng.choice([-1, 1], d)
    X = np.linspace(0, 1, n)[:, None] * slopes + rng.normal(size=(n, d))
    return pd.DataFrame(X).add_prefix("s")


def walking(seed, n=300, d=5):
    steps = np.random.default_rng(seed).normal(size=(n, d))
    return pd.DataFrame(np.cumsum(steps, axis=0)).add_prefix("s")


@pytest.mark.parametrize("make", [drifting, walking])
def test_rows_in_sequence_are_told_and_groups_that_no_column_tells_are_not(make):
    for seed in range(10):
        table = make(seed)
        found = bigdag.check(table).set_index("finding")
        assert found.loc["sequence", "severity"] == "warning"
        assert found.loc["sequence", "columns"] == tuple(table)
        assert "batches" not in found.index
        assert found.loc["sequence", "remedy"].startswith("Learn from the differences")
        gaps = table.mask(np.random.default_rng(seed).random(table.shape) < 0.1)
        assert "sequence" in set(bigdag.check(gaps)["finding"])
        shuffled = table.sample(frac=1, random_state=seed)
        assert "sequence" not in set(bigdag.check(shuffled)["finding"])
        differences = table.diff().iloc[1:]
        assert "sequence" not in set(bigdag.check(differences)["finding"])


def test_the_detail_of_a_sequence_is_the_correlation_of_successive_rows():
    table = walking(3).iloc[:, :2]
    told = bigdag.check(table).set_index("finding").loc["sequence", "detail"]
    largest = max(table[name].autocorr() for name in table)
    assert told.startswith("in 2 columns")
    assert float(told.split("up to ")[1].split()[0]) == pytest.approx(largest, abs=0.03)


def test_rows_that_are_samples_of_their_own_are_in_no_sequence():
    alarms = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n, d = [(25, 6), (100, 40), (400, 20), (1000, 10)][seed % 4]
        for table in (
            frame_of(n, d, 1 + seed % 4, seed),
            rng.poisson(0.7, size=(n, d)).astype(float),
            rng.standard_cauchy(size=(n, d)),
            (rng.random((n, d)) < 0.02).astype(float),  # of which two may be neighbours
        ):
            alarms += "sequence" in set(bigdag.check(table)["finding"])
    assert alarms <= 1


def test_one_column_in_sequence_does_no_harm():
    table = frame_of(300, 10).assign(walk=walking(0)["s0"])
    assert "sequence" not in found(table)


def test_fewer_than_twenty_rows_are_in_no_sequence():
    assert "sequence" not in found(walking(0, n=19))
    assert "sequence" in found(walking(0, n=40))


def test_rows_that_are_every_so_many_apart_are_offered_where_the_sequence_fades():
    noise = np.random.default_rng(0).normal(size=(801, 5))
    pairs = noise[1:] + noise[:-1]
    remedy = bigdag.check(pairs).set_index("finding").loc["sequence", "remedy"]
    assert "or from every 2nd row." in remedy
    assert "sequence" not in found(pairs[::2])
    for table in (drifting(0), walking(0)):  # which every k-th row is, too
        assert "every" not in bigdag.check(table).set_index("finding").loc["sequence", "remedy"]


@pytest.mark.parametrize("name", ["minutes", "v0"])
def test_a_column_that_the_rows_are_sorted_by_is_named(name):
    if name == "minutes":
        table = drifting(1).assign(minutes=np.arange(300.0))
    else:
        rng = np.random.default_rng(0)
        cause = rng.integers(0, 60, size=300) / 20  # with ties, so that it is no row number
        table = pd.DataFrame({f"v{j}": cause + rng.normal(size=300) for j in range(1, 5)})
        table = table.assign(v0=cause).sort_values("v0")
    told = bigdag.check(table).set_index("finding")
    assert told.loc["sequence", "severity"] == ("warning" if name == "minutes" else "note")
    assert f"sorted by {name!r}" in told.loc["sequence", "detail"]
    assert f"--adjust {name}." in told.loc["sequence", "remedy"]
    if name == "minutes":
        assert "--adjust" in told.loc["row number", "remedy"]
    left = as_wished(raw_table(table), Wishes(adjust=[name]))
    assert "sequence" not in found(pd.DataFrame(left.X, columns=left.names))


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize("sites", [2, 12])
def test_rows_that_are_sorted_by_groups_are_not_taken_for_a_series(kind, sites):
    rng = np.random.default_rng(0)
    site = np.sort(rng.integers(sites, size=300))
    table = frame_of(300, 12, 1) / frame_of(300, 12, 1).std()
    table += 2 * rng.normal(size=(sites, 12))[site]
    table["site"] = np.array([f"site {s}" for s in site], dtype=object) if kind == "text" else site
    told = bigdag.check(table).set_index("finding")
    together = told.loc[[word for word in told.index if word in ("batches", "sequence")]]
    assert together["remedy"].tolist() == ["--batch site."]


# ------------------------------------------------------------------ text that is told apart


def test_text_gets_advice_that_fits_it():
    n = 40
    table = frame_of(n, 5).assign(
        sample=[f"P{i:04d}" for i in range(n)],
        price=[f"${i}.5" for i in range(n)],
        share=[f"{i}.3%" for i in range(n)],
        tags=[[i, 2] for i in range(n)],
        json=[f'{{"a": {i}}}' for i in range(n)],
        stamp=[f"01/02/2020 10:{i:02d}" for i in range(n)],
        clock=[f"10:{i:02d}:00" for i in range(n)],
        month=[f"{1 + i % 28} March 2021" for i in range(n)],
        site=["a", "b"] * (n // 2),
    )
    frame = bigdag.check(table).set_index("finding")
    assert frame["columns"].to_dict() == {
        "date": ("stamp", "clock", "month"), "ID": ("sample",),
        "sign beside numbers": ("price", "share"), "nested values": ("tags", "json"),
        "text": ("site",),
    }  # fmt: skip
    batch = frame["remedy"].str.contains("--batch")
    assert frame.index[batch].tolist() == ["text"]
    assert "signs out of the file" in frame.loc["sign beside numbers", "remedy"]
    assert "numbers of them first" in frame.loc["date", "remedy"]


def test_the_command_tells_an_id_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame_of(60, 5).assign(who=[f"w{i}" for i in range(60)], site=["a", "b"] * 30)
    for file in ("t.csv", "t.parquet"):
        table.to_csv(file, index=False) if file == "t.csv" else table.to_parquet(file)
        rows = json.loads(bigdag_("check", file, "--json"))["findings"]
        assert {row["finding"]: row["columns"] for row in rows} == {"ID": ["who"], "text": ["site"]}


def fit_error(*words):
    result = CliRunner().invoke(app, ["fit", *words, "--method", "order-search-bic"])
    assert result.exit_code != 0
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("row", [0, 17])
def test_a_line_of_units_gets_the_advice_of_a_fit(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame_of(40, 5).round(3).astype(object)
    table.loc[row] = ["degC", "m", "s", "kg", "V"]
    table.to_csv("t.csv", index=False)
    (finding,) = [
        row
        for row in json.loads(bigdag_("check", "t.csv", "--json"))["findings"]
        if row["finding"] == "text among numbers"
    ]
    assert finding["detail"].startswith(f"row {row + 1} holds text in 5 columns of numbers")
    assert "missing-code" not in finding["remedy"]
    assert "out of the file" in finding["remedy"]
    assert fit_error("t.csv").endswith(f"{finding['detail']}. {finding['remedy']}")


def test_a_line_of_units_is_told_beside_other_cells_of_text():
    table = frame_of(40, 5).round(3).astype(object)
    table.loc[0] = ["degC", "m", "s", "kg", "V"]
    table.loc[9, "v2"] = "n.d."
    table["v5"] = ["?", *range(39)]
    table.loc[:1, "v5"] = [1.5, "?"]
    told = bigdag.check(table)
    told = told[told["finding"] == "text among numbers"]
    assert told["columns"].tolist() == [("v0", "v1", "v2", "v3", "v4"), ("v5",)]
    assert "units" in told["remedy"].iloc[0]
    assert "--missing-code='?'" in told["remedy"].iloc[1]


def test_different_words_among_numbers_are_all_named():
    table = frame_of(40, 5).astype(object)
    table.loc[3, "v0"], table.loc[5, "v2"] = "n.d.", "?"
    (remedy,) = bigdag.check(table).query("finding == 'text among numbers'")["remedy"]
    assert "--missing-code='n.d.'" in remedy
    assert "Other such cells are '?'" in remedy


def test_another_separator_gets_the_advice_of_a_fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame_of(40, 5).to_csv("t.csv", index=False, sep="|")
    rows = json.loads(bigdag_("check", "t.csv", "--json"))["findings"]
    assert [row["finding"] for row in rows] == ["text", "table too small"]
    assert rows[0]["remedy"] == "If '|' separates its cells, write the line sep=| above the names."
    assert rows[0]["remedy"] in fit_error("t.csv")


def test_one_column_of_numbers_is_told_so_as_long_as_others_hold_text():
    table = pd.DataFrame({"age": np.arange(30) % 7, "sex": ["m", "f"] * 15})
    frame = bigdag.check(table).set_index("finding")
    said = "there is no other to relate it with, as long as 'sex' holds text"
    assert frame.loc["one column", "detail"] == said
    frame = bigdag.check(table[["sex"]].assign(site=["x", "y"] * 15)).set_index("finding")
    said = "30 rows and no columns of numbers, as long as 'sex', 'site' hold text"
    assert frame.loc["table too small", "detail"] == said


# ------------------------------------------------------------------ large numbers


def test_large_whole_numbers_are_not_called_the_same_for_sure():
    table = frame_of(50, 5).assign(big=2**60 + np.arange(50) % 7, one=1.0)
    frame = bigdag.check(table[["v0", "v1", "big"]]).set_index("finding")
    assert frame.loc["constant", "severity"] == "warning"
    assert (
        "may differ in the table by less than float64 can tell" in frame.loc["constant", "detail"]
    )
    assert "Subtract" in frame.loc["constant", "remedy"]
    both = bigdag.check(table).set_index("finding").loc["constant"]
    assert both["columns"] == ("big", "one")
    assert "; those in 'big' are so large" in both["detail"]


def test_the_deviation_of_huge_values_is_the_right_one():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 1] *= 1e200 / X[:, 1].std()
    told = bigdag.check(X).set_index("finding").loc["units", "detail"]
    assert told.endswith("to 1e+200 ('x1')")


# ------------------------------------------------------------------ options of the command


def checked(*words):
    return {
        row["finding"]: row for row in json.loads(bigdag_("check", *words, "--json"))["findings"]
    }


def test_the_command_looks_past_columns_that_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame_of(100, 5).assign(site=["a", "b"] * 50, one=1, w=lambda f: 1e9 * f["v1"])
    table.to_csv("t.csv", index=False)
    assert set(checked("t.csv")) == {"text", "constant", "near copies", "units"}
    assert set(checked("t.csv", "--drop", "site,one")) == {"near copies", "units"}
    assert set(checked("t.csv", "--drop", "site,one", "--duplicates", "group")) == set()
    assert set(checked("t.csv", "--keep", "v*,one")) == {"constant"}
    result = CliRunner().invoke(app, ["check", "t.csv", "--drop", "sit"])
    assert result.exit_code == 2
    assert "'site'" in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_looks_past_codes_for_missing_values(suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame_of(100, 5)
    table.loc[[3, 9, 40], "v3"] = -999
    words = table["v1"].round(3).astype(str)
    words[[5, 6]], words[7] = "?", "n.d."
    table["v1"] = words
    path = f"t.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    assert "missing code" in checked(path)
    half = checked(path, "--missing-code=-999", "--missing-code=?")
    assert "missing code" not in half
    if suffix == "csv":
        assert half["text among numbers"]["detail"].startswith(
            "1 cell is no number, such as 'n.d.'"
        )
    codes = ["--missing-code=-999", "--missing-code=?", "--missing-code=n.d."]
    left = checked(path, *codes)
    assert set(left) == {"missing values"}
    assert left["missing values"]["detail"].startswith("6 values")
    assert sorted(left["missing values"]["columns"]) == ["v1", "v3"]
    assert checked(path, *codes, "--missing", "pairwise") == {}
    report = json.loads(bigdag_("check", path, *codes, "--missing", "drop", "--json"))
    assert (report["n_samples"], report["findings"]) == (94, [])


def test_the_command_says_that_a_code_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame_of(100, 5).to_csv("t.csv", index=False)
    result = CliRunner().invoke(app, ["check", "t.csv", "--missing-code=-7"])
    assert result.exit_code == 0
    assert "no value is -7" in " ".join(result.stderr.split()).lower()


def test_the_command_takes_effects_out_before_it_looks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    batch = np.arange(300) % 2
    shifted = frame_of() + np.outer(batch, 3 * frame_of().std())
    shifted.assign(plate=np.where(batch, "p", "q")).to_csv("b.csv", index=False)
    assert set(checked("b.csv")) == {"text", "batches"}
    assert checked("b.csv", "--batch", "plate") == {}
    drifting(0).assign(minutes=np.arange(300)).to_csv("d.csv", index=False)
    assert set(checked("d.csv")) == {"sequence", "row number"}
    assert checked("d.csv", "--adjust", "minutes") == {}


def test_the_command_looks_at_the_scale_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = frame_of(200, 5)
    table = table.assign(v3=np.exp(2 * table["v3"] / table["v3"].std()))
    table.to_csv("t.csv", index=False)
    assert "skewed" in checked("t.csv")
    assert checked("t.csv", "--transform", "rank") == {}
