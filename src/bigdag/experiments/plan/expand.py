"""Plans as data: a TOML file is checked, and expanded to its runs.

What a plan's file may hold is in `bigdag.experiments.plan.file`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bigdag.errors import ParameterError, nearest
from bigdag.experiments.plan.file import (
    PLANS,
    Limits,
    MethodRow,
    absent_extra,
    digest_of,
    read_plan,
    unchanged,
)
from bigdag.learners.methods import METHODS

__all__ = ["EXPERIMENTS", "PRESETS", "Estimate", "Limits", "MethodRow", "Plan", "load_plan"]

EXPERIMENTS = ("exp1", "exp2", "exp3")
PRESETS = ("paper", "overnight", "laptop", "smoke")
_MORE_PRESETS = {"exp3": ("paper-sizes",)}  # of one experiment only
_LONGEST = 100  # letters of a data set's name in the name of its folder
_HELD_OUT = 5  # a user's table: one row in so many is kept for validation


@dataclass(frozen=True)
class Estimate:
    """What a plan asks for.

    Attributes
    ----------
    instances, runs : int
        Data sets, and methods on them.
    core_hours : float
        At the most: all runs up to their time limits, on all their threads.
    time_limit : float
        Seconds of the learner in the run that may take the longest.
    memory : int
        Bytes of the run that needs the most.
    disk : int
        Bytes of the data sets.
    too_big : list of (str, int, int, int)
        Methods that are expected to need more than the memory limit: name, d, n, bytes.
    missing : list of (str, str)
        Methods whose packages are not installed: name, extra of bigdag.
    """

    instances: int
    runs: int
    core_hours: float
    time_limit: float
    memory: int
    disk: int
    too_big: list[tuple[str, int, int, int]]
    missing: list[tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """A checked plan.

    Attributes
    ----------
    experiment, preset, title : str
        Its names.
    limits : Limits
        Of each run; a table ``[[data]]`` may have a time limit of its own.
    thresholds : tuple of float
        Where graphs are cut for the metrics.
    seed : int
        Of the first repetition; the next ones follow on.
    methods : tuple of MethodRow
        In the order of the figures.
    data : tuple of dict
        The tables ``[[data]]``, checked and with their defaults.
    only_methods, only_sizes : tuple
        Names of methods and numbers of variables that it is cut down to, see `part`; empty for all.

    Examples
    --------
    >>> plan = load_plan("exp2", "paper")
    >>> plan.limits.time_limit, len(plan.datasets)
    (86400.0, 4)
    >>> job = plan.jobs()[0]
    >>> job["dataset"]["name"], job["method"]["name"]
    ('ER1 gaussian-EV d=5000 n=1000', 'OptiMAS')
    """

    experiment: str
    preset: str
    title: str
    limits: Limits
    thresholds: tuple[float, ...]
    seed: int
    methods: tuple[MethodRow, ...]
    data: tuple[dict[str, Any], ...]
    only_methods: tuple[str, ...] = ()
    only_sizes: tuple[int, ...] = ()

    @cached_property
    def _pairs(self) -> list[tuple[dict[str, Any], list[tuple[MethodRow, float]]]]:
        """Each data set once, with all methods that any table runs on it, and their time limits."""
        found: dict[str, tuple[dict[str, Any], dict[str, float]]] = {}
        for block in self.data:
            seconds = block["time_limit"] or self.limits.time_limit
            for dataset in _expand(block, self.seed):
                limits = found.setdefault(dataset["key"], (dataset, {}))[1]
                for name in block["methods"]:
                    if limits.setdefault(name, seconds) != seconds:
                        raise ParameterError(
                            f"{self.experiment}: two tables [[data]] run {name!r} on "
                            f"{dataset['name']!r}, with time limits of {limits[name]:g} and "
                            f"{seconds:g} seconds. Leave it out of one of them."
                        )
        pairs = [
            (dataset, [(row, limits[row.name]) for row in self.methods if self._has(row, limits)])
            for dataset, limits in found.values()
            if not self.only_sizes or dataset["d"] in self.only_sizes
        ]
        pairs = [(dataset, rows) for dataset, rows in pairs if rows]
        return sorted(pairs, key=lambda pair: (pair[0]["d"], pair[0]["n"]))

    def _has(self, row: MethodRow, names: Iterable[str]) -> bool:
        return row.name in names and (not self.only_methods or row.name in self.only_methods)

    def part(self, methods: Iterable[str] = (), sizes: Iterable[int] = ()) -> Plan:
        """Return some of the runs as a plan; its runs are the same as in the whole.

        Parameters
        ----------
        methods : iterable of str
            Names of methods; all if empty.
        sizes : iterable of int
            Numbers of variables; all if empty.

        Returns
        -------
        Plan

        Raises
        ------
        ParameterError
            If the plan has no such method or size, or nothing with both.

        Examples
        --------
        >>> part = load_plan("exp3", "paper").part(["ProxiMAS"], [5000])
        >>> [job["dataset"]["name"] for job in part.jobs()]
        ['ER1 gaussian-EV d=5000 n=1000', 'ER1 gaussian-EV d=5000 n=10000']
        """
        methods, sizes = tuple(methods), tuple(sizes)
        names = [row.name for row in self.methods]
        for name in methods:
            if name not in names:
                said = nearest(name, names, "Its methods are")
                raise ParameterError(f"{self.experiment} has no method {said}")
        there = sorted({dataset["d"] for dataset in self.datasets})
        for d in sizes:
            if d not in there:
                raise ParameterError(
                    f"{self.experiment} has no data set with {d:,} variables. Its data sets have "
                    f"{', '.join(f'{size:,}' for size in there)}."
                )
        part = replace(self, only_methods=methods, only_sizes=sizes)
        if not part.datasets:
            raise ParameterError(
                f"{self.experiment} has no run of {', '.join(methods)} with "
                f"{', '.join(f'{d:,}' for d in sizes)} variables."
            )
        return part

    @property
    def datasets(self) -> list[dict[str, Any]]:
        """The data sets, small ones first."""
        return [dataset for dataset, _ in self._pairs]

    def jobs(self) -> list[dict[str, Any]]:
        """Return all runs, those of a data set together and small data sets first.

        Returns
        -------
        list of dict
            Ready for JSON. ``run`` is a hash of what decides the result: the data, the method, its
            parameters, the time limit, the snapshots, the thresholds and the names of experiment
            and preset. Threads and the memory limit are left out, so that a plan goes on where it
            stopped on another machine; under a time limit they too can change a result.
        """
        return [
            self._job(dataset, row, seconds)
            for dataset, rows in self._pairs
            for row, seconds in rows
        ]

    def _job(self, dataset: dict[str, Any], row: MethodRow, time_limit: float) -> dict[str, Any]:
        deciding = {
            "experiment": self.experiment,
            "preset": self.preset,
            "thresholds": list(self.thresholds),
            "time_limit": time_limit,
            "snapshot_every": self.limits.snapshot_every,
            "seed": dataset["seed"],
        }
        method = {"word": row.word, "parameters": dict(row.parameters)}
        return {
            "run": digest_of({**deciding, "data": dataset["key"], "method": method}),
            **deciding,
            "dataset": dict(dataset),
            "method": {"name": row.name, **method},
            "threads": self.limits.threads,
            "memory_limit": self.limits.memory_limit,
        }

    def estimate(self) -> Estimate:
        """Say what the plan asks for, before anything runs.

        Returns
        -------
        Estimate
            The memory of a method is that of `bigdag.learners.methods`.

        Examples
        --------
        >>> load_plan("exp3", "paper").estimate().instances
        8
        """
        needs: dict[tuple[str, int, int], int] = {}
        times: list[float] = []
        for dataset, rows in self._pairs:
            n, d = dataset["n"], dataset["d"]
            for row, seconds in rows:
                times.append(seconds)
                if (row.name, d, n) not in needs:
                    needs[row.name, d, n] = METHODS[row.word].memory(n, d, row.parameters)
        limits = self.limits
        used = {name for name, _, _ in needs}
        return Estimate(
            instances=len(self._pairs),
            runs=len(times),
            core_hours=sum(times) * limits.threads / 3600,
            time_limit=max(times),
            memory=max(needs.values()),
            # float64 tables for training and validation
            disk=sum(16 * dataset["n"] * dataset["d"] for dataset in self.datasets),
            too_big=[(*at, need) for at, need in needs.items() if need > limits.memory_limit],
            missing=[
                (row.name, extra)
                for row in self.methods
                if row.name in used and (extra := absent_extra(row.word, row.parameters))
            ],
        )


def load_plan(plan: str | os.PathLike[str], preset: str = "laptop") -> Plan:
    """Read and check a plan.

    Parameters
    ----------
    plan : str or path-like
        "exp1", "exp2" or "exp3", or the path of a TOML file.
    preset : {"paper", "overnight", "laptop", "smoke", "paper-sizes"}
        Which one of a shipped experiment; not used for a file. Only "exp3" has "paper-sizes".

    Returns
    -------
    Plan

    Raises
    ------
    ParameterError
        If there is no such plan, or it holds an unknown key, a value that is not allowed, or a
        method that bigdag does not have. The message says where, and names the nearest known word.

    Examples
    --------
    >>> load_plan("exp1", "smoke").experiment
    'exp1'
    >>> load_plan("exp1", "labtop")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: There is no preset 'labtop'. Did you mean 'laptop'? ...
    """
    path = Path(plan)
    if path.suffix == ".toml" or path.name != str(plan):
        return Plan(**read_plan(path))
    name = str(plan)
    if name not in EXPERIMENTS:
        raise ParameterError(
            f"There is no experiment {nearest(name, EXPERIMENTS, 'Experiments are')} In bigdag "
            "experiment, all means all of them. A plan of your own is a file that ends in .toml."
        )
    presets = (*PRESETS, *_MORE_PRESETS.get(name, ()))
    if preset not in presets:
        said = nearest(preset, presets, f"Presets of {name} are")
        raise ParameterError(f"There is no preset {said}")
    return Plan(**read_plan(PLANS / f"{name}.{preset}.toml"))


# ------------------------------------------------------------------ from a plan to data sets


def _expand(block: dict[str, Any], first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield the data sets of a table ``[[data]]``."""
    seeds = range(first_seed, first_seed + block["repetitions"])
    if "table" in block:
        about = _own_table(block)
        for units, seed in itertools.product(block["units"], seeds):
            # The name of a folder, which must not be long; the digest tells data sets apart.
            slug = re.sub(r"[^A-Za-z0-9]+", "-", block["name"]).strip("-")[:_LONGEST]
            key = f"{slug}-{units}-{about['digest'][:12]}-s{seed}"
            yield {
                "name": block["name"], "table": block["table"], "truth": block["truth"],
                "digest": about["digest"], "d": about["d"], "n": about["n"], "units": units,
                "seed": seed, "key": key,
            }  # fmt: skip
        return
    names = ("d", "n", "graph", "k", "noise", "variance", "units")
    for values in itertools.product(*(block[name] for name in names), seeds):
        d, n, graph, k, noise, variance, units, seed = values
        k = int(k) if float(k).is_integer() else k
        yield {
            "name": f"{graph}{k} {noise}-{variance} d={d} n={n}",
            "graph": graph, "k": k, "d": d, "n": n, "noise": noise, "variance": variance,
            "units": units, "seed": seed,
            "key": f"{graph}{k}-{noise}-{variance}-d{d}-n{n}-{units}-s{seed}",
        }  # fmt: skip


def _own_table(block: dict[str, Any]) -> dict[str, Any]:
    """Return the size of a user's table, n being its rows for training, and a hash of its files."""
    from bigdag.data.tables import read_table

    with unchanged((block["table"], block["truth"])) as digest:
        data = read_table(block["table"])
    held_out = data.n_samples // _HELD_OUT
    if held_out < 2:
        raise ParameterError(
            f"{block['table']} must have at least {2 * _HELD_OUT} rows, as one in {_HELD_OUT} is "
            f"kept for validation. Got {data.n_samples} instead."
        )
    return {"d": data.n_features, "n": data.n_samples - held_out, "digest": digest}
