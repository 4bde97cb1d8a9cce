"""Options that words of the command share, or that are too many to stand beside their word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def option(*words: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option without its default in the help, in a panel of it."""
    return typer.Option(*words, rich_help_panel=panel, show_default=False, **more)


def number_or(word: str, help: str, panel: str | None = None) -> Any:
    """Return an option that takes a number or one word."""

    def parse(text: str) -> float | str:
        if text == word:
            return text
        try:
            return float(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is neither a number nor {word!r}.") from None

    return option(parser=parse, metavar=f"NUMBER|{word}", help=help, panel=panel)


def file_argument(metavar: str, help: str) -> Any:
    """Return an argument that names a file which is there."""
    return typer.Argument(
        exists=True, dir_okay=False, show_default=False, metavar=metavar, help=help
    )


METHOD, SEARCH, TABLE = "The method", "The search over orders", "The table"
BOOTSTRAP = "How sure each arc is"
FORMATS = ".parquet, .npz, .csv, .graphml, .dot or .json"
READABLE = FORMATS.replace(".dot ", "").replace(".graphml, or", ".graphml or")

Json = Annotated[bool, option("--json", help="Print one JSON object instead.")]
Force = Annotated[bool, option("--force", help="Overwrite what exists.")]
Dag = Annotated[Path, file_argument("DAG", f"A file that ends in {READABLE}.")]

Table = Annotated[
    Path,
    file_argument(
        "TABLE",
        "CSV, TSV, TXT (each also .gz), Parquet, Feather, NPY, NPZ or H5AD; one column per "
        "variable.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="One of those in: bigdag methods. auto prepares the table, and chooses by the data.",
        rich_help_panel=METHOD,
    ),
]
Lambda1 = Annotated[
    Any, number_or("bic", "Weight of the L1 penalty; bic chooses it from the data.", METHOD)
]
Lambda2 = Annotated[float | None, option(help="Weight of the pull to a DAG.", panel=METHOD)]
MaxIter = Annotated[int | None, option(help="Iterations of the method at the most.", panel=METHOD)]
TimeLimit = Annotated[float | None, option(help="Seconds at the most.", panel=METHOD)]
NoRefit = Annotated[bool, option("--no-refit", help="No lasso at the end.", panel=METHOD)]
WarmStart = Annotated[
    Path | None, option(exists=True, dir_okay=False, help="A DAG to begin from.", panel=METHOD)
]
Seed = Annotated[
    int | None, option(help="Seed of the random numbers; 0 for resamples.", panel=METHOD)
]
NJobs = Annotated[int | None, option(help="Threads; all cores by default.", panel=METHOD)]
MemoryLimit = Annotated[
    str | None, option(help="Memory of the whole process, such as 4GB.", panel=METHOD)
]
Device = Annotated[str | None, option(help="Device for torch, such as cuda.", panel=METHOD)]
Search = Annotated[
    bool,
    option("--search", help="After a method but auto, search on from its DAG.", panel=SEARCH),
]
SearchCriterion = Annotated[
    str | None,
    option(help="What --search lowers: least_squares (the default) or bic.", panel=SEARCH),
]
Gamma = Annotated[
    Any,
    number_or(
        "auto", "Extended BIC: how much the number of variables counts; 0 is the plain BIC.", SEARCH
    ),
]
Penalty = Annotated[
    Any,
    number_or(
        "auto", "Extended BIC: factor of an arc's cost; auto chooses it by rows held out.", SEARCH
    ),
]
Restarts = Annotated[
    int | None, option(help="Random restarts of a search by BIC; 0 by default.", panel=SEARCH)
]
NoBootstrap = Annotated[
    bool,
    option(
        "--no-bootstrap",
        help="One fit only, where the automatic method would learn from resamples, too.",
        panel=BOOTSTRAP,
    ),
]
Bootstrap = Annotated[
    int | None,
    option(help="Learn again from so many resamples of the rows, as 100.", panel=BOOTSTRAP),
]
ConsensusProb = Annotated[
    float | None,
    option(
        "--min-prob",
        help="Keep pairs joined with this probability, at least; 0.5 by default. Also for the "
        "resamples that the automatic method makes by itself.",
        panel=BOOTSTRAP,
    ),
]
FeatureFraction = Annotated[
    float | None,
    option(
        help="The share of the pairs that each resample may join; with --method "
        "order-search-bic and --bootstrap.",
        panel=BOOTSTRAP,
    ),
]
Checkpoint = Annotated[
    Path | None,
    option(
        help="Keep what is done in this file, and go on from it: resamples (of --bootstrap, or "
        "those that the automatic method makes by itself), or one fit by order-search or "
        "order-search-bic."
    ),
]
Dask = Annotated[
    str | None,
    option(
        help="Do the large parts of the fit, and the resamples, on this scheduler's Dask cluster."
    ),
]
DaskFolder = Annotated[
    Path | None,
    option(
        help="A folder that this machine and the workers of --dask see under the same path: the "
        "rows are written there once, for workers to map them, and deleted at the end. Without "
        "it, they are sent to every worker."
    ),
]
MinProb = Annotated[
    float | None,
    option(help="Keep only pairs that are joined with at least this probability."),
]
Settings = Annotated[
    list[str] | None,
    option("--set", metavar="NAME=VALUE", help="Any other parameter.", panel=METHOD),
]
Transform = Annotated[
    str | None,
    option(
        metavar="none|rank|log1p|auto",
        help="rank: normal scores of ranks, for outliers and skew; log1p, for counts; auto: what "
        "the check recommends. Default: auto with --method auto, else none.",
        panel=TABLE,
    ),
]
Missing = Annotated[
    str | None,
    option(
        metavar="error|pairwise|em|drop|auto",
        help="Missing values: refuse them; use the pairs that are there; fit a Gaussian model; "
        "drop rows. auto: pairwise up to a fifth. Default: auto with --method auto, else error.",
        panel=TABLE,
    ),
]
MissingCode = Annotated[
    list[str] | None,
    option(
        metavar="CODE",
        help="A number or a word that stands for missing values, as in --missing-code=-999 or "
        "--missing-code='?'; may be given several times.",
        panel=TABLE,
    ),
]
Drop = Annotated[
    list[str] | None,
    option(metavar="NAME,...", help="Columns to leave out; globs as in 'x_*'.", panel=TABLE),
]
Keep = Annotated[
    list[str] | None,
    option(metavar="NAME,...", help="The only columns to keep; globs.", panel=TABLE),
]
Batch = Annotated[
    str | None,
    option(metavar="NAME", help="Column of groups whose effect is taken out first.", panel=TABLE),
]
AdjustFor = Annotated[
    list[str] | None,
    option(
        "--adjust",
        metavar="NAME,...",
        help="Columns whose linear effect is taken out first: age, sex.",
        panel=TABLE,
    ),
]
Duplicates = Annotated[
    str | None,
    option(
        metavar="group|keep|error",
        help="Near-identical columns: one variable; all of them; refuse. Default: keep.",
        panel=TABLE,
    ),
]
Standardise = Annotated[
    bool, option("--standardise", help="Scale columns to variance 1 first.", panel=TABLE)
]
CheckUnits = Annotated[
    bool,
    option(
        "--check-units",
        help="Also fit in the other units, and compare; for methods but auto.",
        panel=TABLE,
    ),
]
Covariance = Annotated[
    bool, option("--covariance", help="TABLE holds a covariance matrix.", panel=TABLE)
]
NSamples = Annotated[int | None, option(help="How many samples --covariance is of.", panel=TABLE)]
Header = Annotated[
    bool | None,
    option(
        "--header/--no-header",
        help="Whether the first line has names; detected by default.",
        panel=TABLE,
    ),
]
RowLabels = Annotated[
    bool | None,
    option(
        "--row-labels/--no-row-labels",
        help="Whether the first column labels the rows; detected by default.",
        panel=TABLE,
    ),
]
Layer = Annotated[
    str | None, option(help="The layer of an H5AD file, in place of its X.", panel=TABLE)
]
Out = Annotated[
    Path | None,
    option(help=f"{FORMATS}. Default: TABLE's name and .dag.parquet, in this folder."),
]
Page = Annotated[
    Path | None,
    option(help="Also write a page to explore the DAG in a browser; it ends in .html or .htm."),
]
Threshold = Annotated[float | None, option(help="Keep only arcs with |weight| above it.")]
Cut = Annotated[
    Any, number_or("auto", "Keep arcs with |weight| above it; auto: those worth their cost.")
]
SafeCsv = Annotated[
    bool, option("--safe-csv", help="Guard names in a .csv that spreadsheets take for formulas.")
]
Quiet = Annotated[bool, option("--quiet", help="No progress, no summary.")]
