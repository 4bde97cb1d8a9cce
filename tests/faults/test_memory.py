"""Limits on memory: whose limits count, and that they are on the whole process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bigdag import OrderSearch, ProxiMAS, SortRegress, resources
from bigdag.data.dataset import as_dataset
from bigdag.engine.gram import _PLANNED, Gram, moments_memory
from bigdag.errors import MemoryLimitError
from bigdag.resources import bytes_of, format_bytes, memory_budget, memory_held, memory_left
from test_cli import bigdag_

GB = 2**30


@pytest.mark.parametrize("text", ["1GB", "1 GB", "1gb", "1GiB", "1024 MB", "1048576KiB"])
def test_one_meaning_of_gb(text):
    assert bytes_of(text) == GB
    assert format_bytes(GB) == "1 GB"


def group(root: Path, path: str, limit: str, used: int, cached: int = 0) -> None:
    """Write what a cgroup (version 2) says of itself."""
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(limit + "\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")


def test_the_tightest_group_above_the_process_counts(tmp_path, monkeypatch):
    group(tmp_path, "", "max", 0)
    group(tmp_path, "batch", str(8 * GB), 7 * GB)
    group(tmp_path, "batch/job", str(4 * GB), 2 * GB, cached=GB)
    about = tmp_path / "about"
    about.write_text("0::/batch/job\n")
    found = resources._cgroups(tmp_path, about)
    assert found == [(4 * GB, GB), (8 * GB, 7 * GB)]
    monkeypatch.setattr(resources, "_cgroups", lambda: found)
    monkeypatch.setattr(resources, "_free_in_machine", lambda: 100 * GB)
    monkeypatch.setattr(resources, "_free_address_space", lambda: None)
    assert resources.container_limit() == 4 * GB
    assert memory_budget() == pytest.approx(memory_held() + 0.8 * GB, rel=0.01)


def test_the_first_version_of_groups_counts_too(tmp_path):
    folder = tmp_path / "memory" / "job"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{2 * GB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{GB}\n")
    (folder / "memory.stat").write_text("total_inactive_file 5\n")
    about = tmp_path / "about"
    about.write_text("5:cpu,cpuacct:/job\n4:memory:/job\n")
    assert resources._cgroups(tmp_path, about) == [(2 * GB, GB - 5)]


@pytest.mark.parametrize("text", ["", "0::/nowhere\n", "nonsense", "1:name=systemd:/x\n"])
def test_no_groups_or_odd_ones(text, tmp_path):
    about = tmp_path / "about"
    about.write_text(text)
    assert resources._cgroups(tmp_path / "none", about) == []
    assert resources._cgroups(tmp_path / "none", tmp_path / "missing") == []


def test_the_limit_of_the_shell_counts():
    code = "from bigdag.resources import memory_budget; print(memory_budget())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 * GB, 2 * GB)),
    )
    assert int(done.stdout) < 2 * GB


def test_correlations_are_held_only_where_they_fit():
    """A limit between what holding them needs and what not holding them needs is enough."""
    data = as_dataset(np.random.default_rng(0).normal(size=(10, 3000)))
    with_, without = (moments_memory(10, 3000, hold) for hold in (True, False))
    between = memory_held() + without + (with_ - without) // 2
    gram = Gram(data, memory_limit=between / _PLANNED)
    assert gram.C is None
    assert Gram(data).C is not None
    with pytest.raises(MemoryLimitError, match="at most"):
        Gram(data, memory_limit=memory_held() + without // 4)


@pytest.mark.parametrize(
    "learner",
    [ProxiMAS(), OrderSearch(), OrderSearch(criterion="bic"), SortRegress(order="r2")],
    ids=["proximas", "least_squares", "bic", "r2"],
)
def test_a_limit_on_the_whole_process_is_kept_from_inside(learner):
    """The memory that a fit adds to the process stays within what it may add."""
    X = np.random.default_rng(0).normal(size=(40, 1500))
    learner.set_params(n_jobs=1, time_limit=5, lambda1=0.7)
    # The share of a limit that no plan uses is of all that the process holds, whatever came before.
    limit = int((memory_held() + 190 * 2**20) / _PLANNED)
    learner.set_params(memory_limit=limit).fit(X)
    assert memory_held() <= limit


def test_nothing_left_is_a_sentence():
    assert memory_left("1KB") == 0
    with pytest.raises(MemoryLimitError, match=r"it may hold 1 KB in all"):
        Gram(as_dataset(np.eye(3)), memory_limit="1KB")


def test_what_is_announced_includes_the_process():
    table = bigdag_("methods", "--d", 10, "--n", 10, "--json")[0]
    for row in json.loads(table)["methods"]:
        assert row["memory_bytes"] > 200 * 2**20
