"""What a fit leaves in writing: how its DAG was learnt, and the report that the command prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bigdag.cli.preparing import finding_records
from bigdag.cli.reports import records, undirected

if TYPE_CHECKING:
    from pathlib import Path

    from bigdag.data.prepare import Prepared
    from bigdag.graph.dag import DAG
    from bigdag.learners.recipe import Outcome, Recipe

__all__ = ["Answer", "how_it_was_learnt"]

_CRITERIA = {
    "bic": "extended BIC",
    "own variances": "extended BIC",
    "least_squares": "least squares, equation (1)",
    "equal variances": "least squares, equation (1)",
}
_NOT_SAID = ("warm_start_dag", "knowledge", "checkpoint")  # a graph, what is said apart, a file


def how_it_was_learnt(
    recipe: Recipe, found: Outcome, prepared: Prepared, standardise: bool
) -> dict[str, Any]:
    """Return how a DAG was learnt, for its file; the same run gives the same."""
    import platform
    from importlib.metadata import version

    from bigdag import __version__

    given = recipe.parameters | recipe.bic
    lowered = found.assumption or recipe.search or recipe.method.fixed.get("criterion")
    used = ("numpy", "scipy", "numba", "scikit-learn")
    versions = {"python": platform.python_version()} | {name: version(name) for name in used}
    return {
        "bigdag": __version__, "versions": versions, "method": recipe.method.word,
        "criterion": _CRITERIA.get(str(lowered), recipe.method.summary),
        "parameters": {name: v for name, v in given.items() if name not in _NOT_SAID},
        "search": recipe.search, "threshold": recipe.threshold, "standardised": standardise,
        "transform": prepared.transform, "missing": prepared.missing,
        "prepared": list(prepared.notes),
        "groups": {name: list(rest) for name, rest in prepared.groups.items()},
        "findings": [finding.sentence() for finding in prepared.findings],
        "n_rows": prepared.n_rows or prepared.data.n_samples,
        "n_samples": prepared.data.n_samples, "status": found.status, "n_iter": found.n_iter,
        "objective": found.objective, "lambda1": found.lambda1,
        "extended_bic": found.extended_bic, "penalty": found.penalty,
        "assumption": found.assumption, "explanation": found.explanation,
        **({} if found.history is None else {"history": found.history}),
        **({} if found.n_resamples is None else {"bootstrap": _about_resamples(recipe, found)}),
    }  # fmt: skip


class Answer(NamedTuple):
    """What came of one call of ``bigdag fit``."""

    table: Path
    out: Path
    page: Path | None  # where it was written
    dag: DAG
    found: Outcome
    prepared: Prepared
    standardised: bool
    warm_start: Path | None  # the file of the DAG to begin with
    absent: list[str]  # names of what is known that are no columns
    around: str | None  # what a fit around one variable leaves out
    agreement: dict[str, Any] | None  # with a fit in other units

    def report(self, recipe: Recipe) -> dict[str, Any]:
        """Return all that the command says of it, as for ``--json``."""
        from bigdag.evaluation.units import order_of_variances
        from bigdag.graph.files import nodes_file

        dag, found, prepared, data = self.dag, self.found, self.prepared, self.prepared.data
        given, units = recipe.parameters | recipe.bic, found.depends_on_units
        return {
            "table": self.table, "out": self.out, "page": self.page,
            "nodes_out": nodes_file(self.out) if self.out.suffix.lower() == ".csv" else None,
            "method": recipe.method.word,
            "parameters": {name: v for name, v in given.items() if name != "knowledge"}
            | ({"warm_start_dag": self.warm_start} if self.warm_start else {}),
            "knowledge": dag.about.get("knowledge"),
            "knowledge_absent": self.absent,
            "around": self.around,
            "n_rows": prepared.n_rows or data.n_samples,
            "n_samples": data.n_samples, "n_variables": dag.n_nodes,
            "standardised": self.standardised,
            "prepared": list(prepared.notes), "transform": prepared.transform,
            "missing": prepared.missing, "left_out": list(prepared.left_out),
            "groups": {name: list(rest) for name, rest in prepared.groups.items()},
            "findings": finding_records(prepared.findings),
            "search": recipe.search, "before_search": found.first,
            "status": found.status, "n_iter": found.n_iter, "seconds": found.seconds,
            "objective": found.objective, "lambda1": found.lambda1,
            "extended_bic": found.extended_bic, "penalty": found.penalty,
            "refit_gain": found.refit_gain,
            "bootstrap": _about_resamples(recipe, found), "no_bootstrap": found.no_resamples,
            "n_arcs_found": found.dag.n_arcs, "threshold": recipe.threshold, "n_arcs": dag.n_arcs,
            "n_undirected": undirected(dag), "var_sortability": order_of_variances(data, dag),
            "assumption": found.assumption, "explanation": found.explanation,
            "depends_on_units": recipe.depends_on_units if units is None else units,
            "check_units": self.agreement,
            "strongest": records(dag, 10),
        }  # fmt: skip


def _about_resamples(recipe: Recipe, found: Outcome) -> dict[str, Any] | None:
    """Return how many resamples were done, and the least probability of a pair."""
    if found.n_resamples is None:
        return None
    given = recipe.bootstrap if isinstance(recipe.bootstrap, dict) else {}
    return {
        "n_resamples": found.n_resamples,
        "wanted": found.n_wanted,
        "min_prob": given.get("threshold", 0.5),
        "weighs_chance": found.weighs_chance,
    }
