"""The methods by the words of the command line: one row a method, and what each one needs.

A row names an estimator of :mod:`bigdag` and the parameters it is fixed to. The estimator is
imported when it is built, so that the table costs nothing to read.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import bigdag
from bigdag.errors import ParameterError, close_names

if TYPE_CHECKING:
    from bigdag.learners.base import Learner

__all__ = ["METHODS", "Method", "find_method"]

_PROCESS = 290 * 2**20  # the interpreter and the libraries that every fit loads
_TORCH = 300 * 2**20  # torch beside them

# What the command does to a table before any method sees it, by the parameters of AutoDAG.
_OPTIONS_OF_FIT = {
    "transformation": "--transform",
    "missing": "--missing",
    "adjust": "--adjust",
    "batch": "--batch",
    "duplicates": "--duplicates",
}


@dataclass(frozen=True)
class Method:
    """A method that ``bigdag fit --method`` knows.

    Attributes
    ----------
    word : str
        Its name on the command line.
    estimator : str
        The public name of its class.
    summary : str
        What it is, in one line.
    depends_on_units : bool
        Whether rescaling a column can change the causal order it finds. Where it cannot, lambda1
        still weighs the arcs in the units of the data.
    fixed : mapping
        Parameters that this row sets.
    extra : str or None
        The extra of bigdag it needs.

    Examples
    --------
    >>> METHODS["golem-nv"].estimator, dict(METHODS["golem-nv"].fixed)
    ('GOLEM', {'variance': 'NV'})
    >>> METHODS["proximas"].build(lambda1=0.2).lambda1
    0.2
    """

    word: str
    estimator: str
    summary: str
    depends_on_units: bool
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    extra: str | None = None

    @property
    def installed(self) -> bool:
        """Whether the packages it needs are there."""
        return self.extra is None or find_spec(self.extra) is not None

    def needs(self, parameters: Mapping[str, Any]) -> str | None:
        """Return the extra of bigdag that it needs with some parameters, if there is one."""
        of_torch = {"engine": "dense", "solver": "soft_penalty"}
        torch = any(parameters.get(name) == value for name, value in of_torch.items())
        return "torch" if torch else self.extra

    def memory(self, n: int, d: int, parameters: Mapping[str, Any] | None = None) -> int:
        """Return about the bytes that the process holds at the peak of a fit, all included.

        The correlations are counted as held; where they do not fit, most methods compute them on
        demand.
        """
        from bigdag.engine.gram import moments_memory

        given = parameters or {}
        learner = self.build(**given)
        hold = learner._hold(d, False) is not False
        table, moments = 8 * n * d, moments_memory(n, d, hold)
        process = _PROCESS + (_TORCH if self.needs(given) == "torch" else 0)
        return process + table + moments + learner._workspace(n, d, hold)

    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters a user may set."""
        names = inspect.signature(getattr(bigdag, self.estimator)).parameters
        return tuple(name for name in names if name not in self.fixed)

    def allows(self, name: str, value: Any) -> bool:
        """Tell whether a user may set a parameter to a value."""
        known = getattr(bigdag, self.estimator)._parameters
        return name in self.parameters() and name in known and bool(known[name].allows(value))

    def build(self, **parameters: Any) -> Learner:
        """Return the estimator, not yet fitted.

        Raises
        ------
        ParameterError
            If the method has no such parameter; the message names the methods that do.
        """
        for name in parameters:
            if name not in self.parameters():
                raise ParameterError(self._refusal(name))
        learner: Learner = getattr(bigdag, self.estimator)(**self.fixed, **parameters)
        return learner

    def _refusal(self, name: str) -> str:
        text = f"The method {self.word!r} has no parameter {name!r}."
        if name in _OPTIONS_OF_FIT and name in self.fixed:
            return f"{text} In bigdag fit, {_OPTIONS_OF_FIT[name]} says it."
        having = [other.word for other in METHODS.values() if name in other.parameters()]
        if having:
            return f"{text} Methods that have it: {', '.join(having)}."
        near = close_names(name, self.parameters(), 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"{text}{hint} It has: {', '.join(sorted(self.parameters()))}."


def _rows() -> dict[str, Method]:
    def sort_regress(word: str, order: str, summary: str, units: bool) -> Method:
        fixed = MappingProxyType({"order": order})
        return Method(word, "SortRegress", summary, units, fixed)

    def order_search(word: str, criterion: str, summary: str, units: bool) -> Method:
        fixed = MappingProxyType({"criterion": criterion})
        return Method(word, "OrderSearch", summary, units, fixed)

    def golem(word: str, variance: str, summary: str) -> Method:
        fixed = MappingProxyType({"variance": variance})
        return Method(word, "GOLEM", summary, True, fixed, "torch")

    rows = [
        Method(
            "auto",
            "AutoDAG",
            "prepares the table, then picks the search that suits it",
            True,
            # The command prepares the table itself, by options of its own.
            MappingProxyType(
                {
                    "transformation": "none",
                    "missing": "error",
                    "adjust": (),
                    "batch": None,
                    "duplicates": "keep",
                }
            ),
        ),
        Method(
            "proximas",
            "ProxiMAS",
            "proximal steps, projected on acyclic graphs (Gillot & Parviainen)",
            True,
        ),
        Method(
            "optimas",
            "OptiMAS",
            "the same loop with any torch optimiser (Gillot & Parviainen)",
            True,
            extra="torch",
        ),
        Method(
            "notears",
            "NOTEARS",
            "least squares under a smooth constraint on cycles (Zheng et al.)",
            True,
        ),
        Method(
            "dagma",
            "DAGMA",
            "least squares with a log-determinant on cycles (Bello et al.)",
            True,
        ),
        golem("golem-ev", "EV", "likelihood with equal noise variances (Ng et al.)"),
        golem("golem-nv", "NV", "likelihood with free noise variances (Ng et al.)"),
        Method(
            "gd",
            "GD",
            "gradient steps and order swaps (Park & Klabjan)",
            True,
        ),
        order_search(
            "order-search", "least_squares", "search over orders for the least equation (1)", True
        ),
        order_search(
            "order-search-bic", "bic", "search over orders for the least extended BIC", False
        ),
        sort_regress("sort-variance", "variance", "baseline: order by variance, then lasso", True),
        sort_regress("sort-r2", "r2", "baseline: order by R², then lasso", False),
        sort_regress("sort-random", "random", "baseline: random order, then lasso", False),
        sort_regress(
            "least-variance",
            "least_variance",
            "order by least variance left, then lasso (Chen, Drton & Wang)",
            True,
        ),
        sort_regress("lasso-mas", "lasso_mas", "baseline: lasso, one projection, lasso", True),
        sort_regress("empty", "empty", "baseline: no arcs at all", False),
    ]
    return {row.word: row for row in rows}


METHODS: Mapping[str, Method] = MappingProxyType(_rows())


def find_method(word: str) -> Method:
    """Return the method of a word.

    Parameters
    ----------
    word : str
        One of the keys of `METHODS`, in any case.

    Returns
    -------
    Method

    Raises
    ------
    ParameterError
        If there is none; the message lists them and names the nearest.

    Examples
    --------
    >>> find_method("proximas").estimator
    'ProxiMAS'
    >>> find_method("proximass")
    Traceback (most recent call last):
        ...
    bigdag.errors.ParameterError: There is no method 'proximass'. Did you mean 'proximas'? ...
    """
    found = METHODS.get(word.lower())
    if found is None:
        near = close_names(word, METHODS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"There is no method {word!r}.{hint} Methods are: {', '.join(METHODS)}."
        )
    return found
