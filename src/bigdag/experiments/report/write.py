"""The report on a store: the paper's figures and tables and more, as one page, pictures and CSV.

In a report's folder lie ``index.html``, which needs nothing else, ``figures/`` (PNG and SVG),
``data/`` (the numbers of each figure and table, all runs and all jobs) and ``report.json``, the
list of the report's own files: a later report replaces these and no others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from bigdag import __version__
from bigdag.experiments.report import figures, tables, words
from bigdag.experiments.report.conclusions import conclusions
from bigdag.experiments.report.figures import Level, Style
from bigdag.experiments.report.folder import PAGE, earlier_files, put
from bigdag.experiments.report.page import Figure, Listing, Section, Table, page
from bigdag.experiments.report.picture import Picture
from bigdag.experiments.report.results import OWN_TABLE, SETTING, Results, summarise
from bigdag.experiments.store import Store

__all__ = ["Report", "write_report"]

_ROWS = 40  # of data sets in one picture of sortabilities
_PANELS = 12  # of the objective over time, where no plan was made for curves
_UNITS = (
    Level("raw", "raw", "full"),
    Level("standardised", "standardised", "open"),
    Level("iscm", "internally standardised (iSCM)", "half"),
)
_SORTABILITY = (Level("var", "by variance", "full"), Level("r2", "by R²", "open"))
_SHORT = {
    "precision": "Precision", "skeleton": "Skeletons", "time": "Over time", "size": "Size, memory",
    "sortability": "Sortability", "units": "Units", "failures": "Failures",
    "numbers": "All numbers", "repeat": "Repeat it",
}  # fmt: skip
_AXIS = "The axis gives the more room, the nearer values are to 1."
_DIRECTED = (Level("ap", "arcs", "full"), Level("skeleton", "skeleton", "open"))


def write_report(
    store_path: str | os.PathLike[str], out: str | os.PathLike[str], force: bool = False
) -> Path:
    """Write the report on a store into a folder.

    Everything is made in a folder of its own first, so that a fault leaves an earlier report as it
    was. A new report then appears whole; in the place of an earlier one its files are replaced, the
    page last. Files that are not the report's stay.

    Parameters
    ----------
    store_path : path-like
        The store; it is only read, and may be written to by a runner meanwhile.
    out : path-like
        The folder: new, empty, or with an earlier report.
    force : bool, default=False
        Write into a folder that holds other things, and over files of the same names.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    OutputExistsError
        If the folder holds something that is no report.
    MissingExtraError
        If matplotlib or Jinja is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Store(f"{folder}/runs.db").close()
    ...     write_report(f"{folder}/runs.db", f"{folder}/report").name
    'index.html'
    """
    target = Path(out)
    earlier = earlier_files(target, force)
    with Store(store_path, read_only=True) as store:
        results = Results.of(store.runs(), store.scores())
    report = Report(results, Path(store_path), target)
    return put(report.files | {PAGE: report.text().encode()}, target, earlier)


# ------------------------------------------------------------------ what it says


class Report:
    """The parts of a report; making one draws all its pictures."""

    def __init__(self, results: Results, store: Path, out: Path) -> None:
        self.results, self.store, self.out = results, store, out
        self.look = figures.styles(results.methods)
        self.files: dict[str, bytes] = {}
        self.sections = [
            self._overview(),
            self._precision(),
            self._skeleton(),
            self._time(),
            self._size(),
            self._sortability(),
            self._units(),
            self._failures(),
            self._numbers(),
            self._repeat(),
        ]

    def text(self) -> str:
        """Return the page."""
        runs = self.results.runs
        plans = ", ".join(words.plan_name(key) for key, _ in words.plans(runs))
        when = sorted(str(t)[:10] for t in runs["finished"].dropna())
        span = "" if not when else f", made on {when[0]}" + f" to {when[-1]}" * (when[0] < when[-1])
        lead = f"The runs in {self.store.name}{span}. Experiments: {plans}."
        if not len(runs):
            lead = f"The store {self.store.name} holds no finished run yet."
        counts = (
            (len(runs), "finished run"),
            (int(runs["failed"].sum()), "failed run"),
            (len(self.results.methods), "method"),
            (len(runs[[*SETTING, "repetition"]].drop_duplicates()), "data set"),
        )
        facts = [(f"{n:,}", word if n == 1 else f"{word}s") for n, word in counts]
        sections = [
            replace(part, short=_SHORT.get(part.name, part.short)) for part in self.sections
        ]
        return page("bigdag experiments", lead, facts, sections)

    # The parts keep to one shape: frames to CSV, pictures of them, a table, words.

    def _csv(self, name: str, frame: pd.DataFrame) -> str:
        path = f"data/{name}.csv"
        self.files[path] = frame.to_csv(
            index=False, lineterminator="\n", float_format="%.8g"
        ).encode()
        return path

    def _figures(
        self, label: str, caption: str, drawn: Sequence[Picture], csv: str, frame: pd.DataFrame
    ) -> Iterator[Figure]:
        for i, picture in enumerate(drawn):
            while f"figures/{picture.name}.png" in self.files:  # names that differ in signs alone
                picture = replace(picture, name=f"{picture.name}-b")
            self.files[f"figures/{picture.name}.png"] = picture.png
            self.files[f"figures/{picture.name}.svg"] = picture.svg
            part = f" (part {i + 1} of {len(drawn)})" if len(drawn) > 1 else ""
            alt = f"{label}{part}. {caption} {words.in_words(frame)}".strip()
            yield Figure(label + part, caption, alt, picture, csv)

    def _overview(self) -> Section:
        frame = self.results.overview()
        said = [
            "Average precision is the area under precision over recall of the arcs, ranked by the "
            "size of their weights; 1 is best, and the empty graph has the share of true arcs, "
            "near 0. It needs no threshold.",
            "Which weights are scored: as in the paper, the raw weights of a learner that has them "
            "(NOTEARS, GOLEM, DAGMA: before cycles are cut), and else the weights of the DAG. The "
            "tables have both. Averages are over the runs that gave an answer; how many did not "
            "stands beside them.",
        ]
        title, points = "Conclusions", conclusions(self.results)
        if not len(frame):
            return Section("overview", title, [], [], title, points)
        table = Table(
            "methods",
            "Average precision of each method, by experiment and kind of data. Only methods with "
            "no failures compare; the sections below compare like with like.",
            tables.by_method(frame),
            self._csv("methods", frame),
        )
        return Section("overview", title, said, [table], title, points)

    def _precision(self) -> Section:
        results = self.results
        frame = results.precision(results.figure_runs(1))
        title = "Average precision by method (Figure 1)"
        if not frame["mean"].notna().any():
            why = "No run of experiment 1, or of a plan of your own, has an average precision. " + (
                "It needs data sets with a known truth and runs that did not fail."
            )
            return Section("precision", title, [why])
        csv = self._csv("figure1_average_precision", frame)
        items: list[Figure | Table] = list(self._panels("Figure 1", "figure1", frame, csv, ()))
        caption = "Average precision by data set and method, mean ± standard deviation."
        both = {
            "DAG": results.precision(results.figure_runs(1), "ap_dag"),
            "raw weights": results.precision(results.figure_runs(1), "ap_raw"),
        }
        items.append(Table("precision-table", caption, tables.precision(frame, both), csv))
        return Section("precision", title, [], items)

    def _panels(
        self, label: str, name: str, frame: pd.DataFrame, csv: str, levels: Sequence[Level]
    ) -> Iterator[Figure]:
        """Draw one picture a plan, units and noise, or a few noises: sizes down, graphs across."""
        sheets = [
            (plan, str(units), noises)
            for plan, part in words.plans(frame)
            for units, one in part.groupby("units", sort=False)
            for noises in words.sheets(one)
        ]
        for letter, (plan, units, shown) in zip(words.letters(len(sheets)), sheets):
            noises = list(dict.fromkeys(shown["noise"]))
            column = shown["family"]
            if len(noises) > 1:
                column = shown["noise"] + "\n" + column
            shown = shown.assign(
                row=words.said(shown, ["d", "n"]), column=column, category=shown["method"]
            )
            kind = ", ".join(filter(None, (*noises, words.unit_words(units))))
            what = words.title(kind, plan)
            drawn = figures.dots(
                words.slug(name, *plan, units, *noises), shown, self.look, levels=levels,
                title=f"Average precision · {what}",
            )  # fmt: skip
            caption = "Average precision of each method" + (
                f": of the arcs (filled) and of the skeleton (open). {what}."
                if levels
                else f", one panel for each graph and size. {what}. Bars are standard deviations "
                "over the data sets. A fraction tells how many runs gave an answer; words tell "
                "why none did."
            )
            yield from self._figures(f"{label}{letter}", caption, drawn, csv, shown)

    def _time(self) -> Section:
        results = self.results
        items: list[Figure] = []
        frame = results.over_time(results.figure_runs(2))
        final = results.precision(results.figure_runs(2))
        said = []
        if len(frame):
            csv = self._csv("figure2_over_time", frame)
            for letter, plan, part in words.lettered(frame):
                shown, common, xlabel, log = words.timed(part, [*SETTING[2:]])
                drawn = figures.curves(
                    words.slug("figure2", *plan), shown, self.look, xlabel=xlabel, log_x=log,
                    ylabel="average precision", near_one=True,
                    title=f"Average precision · {words.title(common, plan)}",
                )  # fmt: skip
                caption = (
                    f"Average precision of the snapshots over time. {words.title(common, plan)}. "
                    "A method that has ended keeps its last answer. Shades are standard "
                    f"deviations. {_AXIS}"
                    f"{words.unanswered(final[final['experiment'] == plan[0]])}"
                )
                items += self._figures(f"Figure 2{letter}", caption, drawn, csv, shown)
        else:
            said.append("There are no snapshots with an average precision (Figure 2).")
        runs = results.figure_runs(2)
        curves = results.objective(runs if runs["experiment"].eq("exp2").any() else results.runs)
        if not len(curves):
            said.append("No run recorded its objective over time.")
        else:
            items += self._objective(curves)
        return Section("time", "Over time (Figure 2) and the objective", said, items)

    def _objective(self, curves: pd.DataFrame) -> Iterator[Figure]:
        csv = self._csv("objective_over_time", curves)
        for letter, plan, part in words.lettered(curves):
            # Weights of the penalty that one method alone has share a panel.
            fields = [*SETTING[2:], "lambda1"]
            shared = part.groupby(fields, dropna=False)["method"].transform("nunique") > 1
            part = part.assign(lambda1=part["lambda1"].where(shared))
            settings = part[fields].drop_duplicates().sort_values("d", ascending=False)
            kept = part.merge(settings.head(_PANELS), on=fields)
            shown, common, xlabel, log = words.timed(kept.assign(sd=float("nan")), fields)
            low, high = min(shown["mean"].min(), 1.0), shown["mean"].max()
            drawn = figures.curves(
                words.slug("objective", *plan), shown, self.look, xlabel=xlabel, log_x=log,
                log_y=True, ylabel="objective ÷ best",
                ylim=(low / 1.03, max(min(high * 1.04, 10.0), 1.1)),
                title=f"Objective · {words.title(common, plan)}",
            )  # fmt: skip
            left_out = len(settings) - min(len(settings), _PANELS)
            caption = (
                "Objective over time, divided by the best that any method with the same λ1 ended "
                "with on the same data set; methods with a λ1 of their own stand apart, each "
                f"divided by its own best. {words.title(common, plan)}. Lines are the iterates, "
                "open marks the DAGs that were handed over. While a learner fits without "
                "acyclicity, or before it cuts its cycles, its line may lie below any DAG: what "
                "lies between the end of a line and its open mark is the price of acyclicity. A "
                "line that falls and jumps up early is a first fit without acyclicity and the "
                "first DAG after it; one that rises late lowers another score, as GOLEM does a "
                "likelihood. Above 10 it is cut off."
                + (f" {left_out} settings with fewer variables are in the CSV." if left_out else "")
            )
            yield from self._figures(f"Figure S2{letter}", caption, drawn, csv, shown)

    def _size(self) -> Section:
        results = self.results
        runs = results.figure_runs(3)
        frame = results.precision(runs)
        items: list[Figure | Table] = []
        said = []
        several = frame.groupby([*SETTING[:4], "n", "units"], dropna=False)["d"].transform(
            "nunique"
        )
        everyone = frame[several > 1]
        frame = everyone[everyone["mean"].notna()]
        if len(frame):
            csv = self._csv("figure3_over_d", frame)
            for letter, plan, part in words.lettered(frame):
                fields = ["family", "noise", "n", "units"]
                panel, common = words.common(part, fields)
                shown = part.assign(panel=panel, x=part["d"]).sort_values("x", kind="stable")
                drawn = figures.curves(
                    words.slug("figure3", *plan), shown, self.look, xlabel="variables d",
                    ylabel="average precision", near_one=True,
                    title=f"Average precision · {words.title(common, plan)}",
                    ticks=sorted(set(part["d"])), log_x=part["d"].max() > 6 * part["d"].min(),
                )  # fmt: skip
                lost = words.unanswered(everyone[everyone["experiment"] == plan[0]])
                caption = (
                    f"Average precision over the number of variables. {words.title(common, plan)}. "
                    f"Shades are standard deviations. {_AXIS} Where a point is missing, no run "
                    f"gave an answer.{lost}"
                )
                items += self._figures(f"Figure 3{letter}", caption, drawn, csv, shown)
        else:
            said.append("No plan has the same kind of data in several sizes d (Figure 3).")
        table = results.resources(runs if len(runs) else results.runs)
        if len(table):
            csv = self._csv("table3_memory_and_time", table)
            if table["d"].nunique() > 1:
                items += self._resources(table, csv)
            caption = (
                "Table 3. Peak memory of the run's process, and seconds a step in each phase of a "
                "method, by size. Means over runs."
            )
            items.append(Table("table3", caption, tables.resources(table), csv))
        else:
            said.append("No run gave an answer, so there is nothing to say of memory (Table 3).")
        return Section("size", "Over d (Figure 3), memory and time a step (Table 3)", said, items)

    def _resources(self, table: pd.DataFrame, csv: str) -> Iterator[Figure]:
        for letter, plan, part in words.lettered(table):
            by = ["n", "d", "method"]
            means = self.results._sorted(part.groupby(by)[["peak_gb", "step"]].mean().reset_index())
            panels = []
            for value, ylabel in (("peak_gb", "peak memory, GB"), ("step", "seconds a step")):
                title = words.said(means, ["n"])
                panels.append(
                    means.assign(
                        panel=f"{ylabel}, " + title, ylabel=ylabel, mean=means[value],
                        sd=float("nan"), x=means["d"],
                    )
                )  # fmt: skip
            shown = pd.concat(panels).dropna(subset=["mean", "x"])
            drawn = figures.curves(
                words.slug("table3", *plan), shown, self.look, xlabel="variables d", ylabel="",
                title=f"Memory and time a step · {words.plan_name(plan)}",
                ticks=sorted(set(part["d"])), log_x=True, log_y=True,
            )  # fmt: skip
            caption = (
                "Table 3 as curves: peak memory, and seconds a step with acyclicity enforced (the "
                "phase 'mas' where a method has one, else the one with the most steps). "
                f"{' '.join(plan).strip()}."
            )
            yield from self._figures(f"Figure S3{letter}", caption, drawn, csv, pd.DataFrame())

    def _skeleton(self) -> Section:
        results = self.results
        runs = results.figure_runs(1)
        runs = runs if runs["skeleton"].notna().any() else results.runs
        title = "Skeletons: which variables are joined"
        parts = [
            results.precision(runs, level.name).assign(level=level.name) for level in _DIRECTED
        ]
        frame = pd.concat(parts, ignore_index=True)
        if not parts[1]["mean"].notna().any():
            return Section("skeleton", title, ["No run has a skeleton's average precision."])
        csv = self._csv("skeleton_average_precision", frame)
        drawn = self._panels("Figure S1", "skeleton", frame[frame["mean"].notna()], csv, _DIRECTED)
        said = [
            "The same scores with directions left out, beside those of the arcs: the gap is what a "
            "method loses by turning arcs round."
        ]
        return Section("skeleton", title, said, list(drawn))

    def _sortability(self) -> Section:
        title = "Sortabilities: how far simple scores give the order away"
        frame = self.results.sortability()
        if not len(frame):
            return Section("sortability", title, ["No data set has a known truth."])
        said = [
            "1 means that sorting the variables by the score finds the causal order, 0.5 that the "
            "score tells nothing (dashed). On data near 1, a method that only sorts columns does "
            "as well as one that learns structure."
        ]
        csv = self._csv("sortability", frame)
        items: list[Figure | Table] = []
        sizes = [f" d={d:.0f} n={n:.0f}" for d, n in zip(frame["d"], frame["n"])]
        kind = (frame["family"] + " " + frame["noise"]).str.replace(f" {OWN_TABLE}", "")
        column = frame["units"].map(words.unit_words)
        shown = frame.assign(row="", column=column, category=kind + sizes, level=frame["score"])
        shown = shown.drop_duplicates(["column", "category", "level"])  # of several experiments
        names = list(dict.fromkeys(shown["category"]))
        drawn = []
        for i in range(0, len(names), _ROWS):
            look = dict.fromkeys(names[i : i + _ROWS], Style("#0072B2", "o", "-"))
            drawn += figures.dots(
                f"sortability_{i // _ROWS + 1}", shown[shown["category"].isin(look)], look,
                levels=_SORTABILITY, xlabel="sortability", chance=0.5, joined=False,
                title="Sortability of the data sets",
            )  # fmt: skip
        caption = (
            "Sortability of the data sets by variance and by R². Bars are standard deviations."
        )
        items += self._figures("Figure S4", caption, drawn, csv, pd.DataFrame())
        runs = self.results.runs
        found = self.results.precision(runs, "var_sortability_found").dropna(subset=["mean"])
        if len(found):
            by = ["units", "method"]
            known = runs.dropna(subset=["var_sortability_found"])
            mean = self.results._sorted(summarise(known, by, "var_sortability_found"))
            mean = mean.assign(
                row="", column=mean["units"].map(words.unit_words), category=mean["method"]
            )
            csv = self._csv("sortability_found", found)
            drawn = figures.dots(
                "sortability_found",
                mean,
                self.look,
                xlabel="sortability by variance",
                chance=0.5,
                title="Sortability by variance of the DAGs found",
            )
            caption = (
                "Sortability by variance of the same data with respect to the DAGs that were "
                "found. A method that follows variances stands near 1 whatever the truth."
            )
            items += self._figures("Figure S5", caption, drawn, csv, pd.DataFrame())
        items.append(
            Table(
                "sortability-table",
                "Sortability of the data sets, mean ± standard deviation.",
                tables.sortability(frame),
                csv,
            )
        )
        return Section("sortability", title, said, items)

    def _units(self) -> Section:
        title = "Raw against standardised data"
        frame = self.results.units()
        if not len(frame):
            return Section("units", title, ["No data set was run in more than one kind of units."])
        csv = self._csv("raw_against_standardised", frame)
        items: list[Figure | Table] = []
        for letter, plan, part in words.lettered(frame):
            column = (part["noise"] + "\n" + part["family"]).str.replace(f"{OWN_TABLE}\n", "")
            shown = part.assign(
                row=words.said(part, ["d", "n"]), column=column, category=part["method"],
                level=part["units"],
            )  # fmt: skip
            levels = [level for level in _UNITS if level.name in set(part["units"])]
            drawn = figures.dots(
                words.slug("units", *plan), shown, self.look, levels=levels,
                title=f"Average precision by units · {words.plan_name(plan)}",
            )  # fmt: skip
            caption = (
                "Average precision of each method on the same models in different units. A method "
                "that falls from raw to standardised data reads the units. "
                f"{' '.join(plan).strip()}."
            )
            items += self._figures(f"Figure S6{letter}", caption, drawn, csv, pd.DataFrame())
        table = tables.units(frame)
        items.append(Table("units-table", "Average precision by units.", table, csv))
        return Section("units", title, [], items)

    def _failures(self) -> Section:
        title = "Failures by cause"
        frame = self.results.statuses()
        if not len(frame):
            return Section("failures", title, ["Nothing has been run yet."])
        csv = self._csv("statuses", frame)
        items: list[Figure | Table] = []
        for letter, plan, part in words.lettered(frame):
            name = words.plan_name(plan)
            drawn = figures.bars(
                words.slug("statuses", *plan), part, title=f"How the runs ended · {name}"
            )
            caption = f"How the runs of each method ended. {name}."
            items += self._figures(f"Figure S7{letter}", caption, drawn, csv, pd.DataFrame())
        failed = tables.failures(self.results.runs)
        said = [
            "A run that ends by its own time limit has answered with what it had. A failure has no "
            "answer: an error, a crash, more memory than its limit, or no return within the hard "
            "time limit."
        ]
        if len(failed):
            csv = self._csv("failures", failed)
            caption = f"The failed runs: {len(failed):,}." + tables.cut_words(failed)
            items.append(Table("failures-table", caption, tables.cut(failed), csv))
        else:
            said.append("No run failed.")
        return Section("failures", title, said, items)

    def _numbers(self) -> Section:
        runs = tables.runs(self.results.runs)
        if not len(runs):
            return Section("numbers", "All numbers", ["Nothing has been run yet."])
        items = []
        metrics = self.results.metrics()
        if len(metrics):
            shown, said = tables.metrics(metrics)
            csv = self._csv("metrics", metrics)
            items.append(Table("metrics", f"Metrics of the final weights. {said}", shown, csv))
        caption = f"All runs: {len(runs):,}." + tables.cut_words(runs)
        items.append(Table("runs", caption, tables.cut(runs), self._csv("runs", runs)))
        return Section("numbers", "All numbers", [], items)

    def _repeat(self) -> Section:
        frame = self.results.runs
        title = "To repeat it"
        lines = tables.commands(frame, self.store.name, self.out.name)
        listing = Listing(
            "The commands. Runs that the store has already are not done again; give a new store to "
            "do all of them. PLAN.toml stands for a plan of your own.",
            "\n".join(lines),
        )
        if not len(frame):
            return Section("repeat", title, [f"Written by bigdag {__version__}."], [listing])
        jobs = [json.dumps(job, sort_keys=True) for job in frame["job"] if job]
        self.files["data/jobs.jsonl"] = "".join(f"{job}\n" for job in jobs).encode()
        said = [
            f"Written by bigdag {__version__}. The file data/jobs.jsonl beside this page has every "
            "run's job in full: data set, seeds, method, parameters and limits."
        ]
        items: list[Table | Listing] = [
            listing,
            Table("plans", "Budgets of the experiments.", tables.plans(frame)),
            Table(
                "parameters",
                "Methods and their parameters; what is not named has the default "
                "of the version below.",
                tables.parameters(frame),
            ),
            Table(
                "datasets", "Data sets and the seeds they are made from.", tables.datasets(frame)
            ),
            Table("machines", "Machines and versions.", tables.machines(frame)),
        ]
        return Section("repeat", title, said, items)
