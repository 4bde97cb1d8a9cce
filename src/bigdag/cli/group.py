"""The group of all words of the command: where errors become sentences and exit codes.

Exit codes: 0; 1 for what the data or the run did; 2 for what the words did. A mistake of the user
ends in one sentence on stderr; only a fault of bigdag itself shows a traceback. What is heavy to
import is imported by the word that needs it.
"""

from __future__ import annotations

import errno
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from bigdag import __version__
from bigdag.errors import (
    BigdagError,
    ClusterWarning,
    DataWarning,
    OutputExistsError,
    ParameterError,
    close_names,
)
from bigdag.interrupts import ends_like_ctrl_c

if TYPE_CHECKING:
    from bigdag.writing import Output

__all__ = ["app", "will_write"]


# The base of what typer raises on a wrong word; it comes from click or from a copy of it.
_REFUSED_WORDS: type[Exception] = typer.BadParameter.__mro__[2]
_TYPED = "bigdag.typed"  # the word and what follows it, in what contexts share
_CANNOT_PRINT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # a full disk behind stdout


class _Words(TyperGroup):
    """The group of all words: where errors become sentences and exit codes."""

    def main(self, *given: Any, **more: Any) -> Any:
        from bigdag.terminal import sober_streams

        with sober_streams():
            return super().main(*given, **more)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        ctx.meta[_TYPED] = (command, list(rest))  # which parsing uses up
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        from bigdag.cli import messages
        from bigdag.terminal import printable

        with ends_like_ctrl_c(), warnings.catch_warnings():
            for kind in (DataWarning, ClusterWarning):
                warnings.simplefilter("always", kind)
            warnings.showwarning = messages.warning_printer()
            try:
                return super().invoke(ctx)
            except BigdagError as error:
                messages.show_error(_said(error, ctx))
                words = isinstance(error, ParameterError | OutputExistsError)
                raise typer.Exit(2 if words else 1) from None
            except MemoryError as error:
                why = f" ({error})" if str(error) else ""
                messages.show_error(f"The memory is used up{why}. Use fewer variables.")
                raise typer.Exit(1) from None
            except _REFUSED_WORDS as error:
                error.message = printable(error.message)  # type: ignore[attr-defined]
                given = getattr(error, "option_name", None)
                if given and getattr(error, "possibilities", None):  # some are not near
                    wrong = cast(Any, error)
                    wrong.possibilities = close_names(given, wrong.possibilities)
                raise
            except OSError as error:
                if error.errno not in _CANNOT_PRINT:
                    raise
                with suppress(OSError):
                    sys.stdout.close()  # or it would be tried again at the end
                messages.show_error(f"The result could not be printed: {error.strerror}.")
                raise typer.Exit(1) from None
            except KeyboardInterrupt:
                messages.show_error(" ".join(["Interrupted.", *_what_was_written()]))
                raise typer.Exit(1) from None
            finally:
                _to_write.clear()


_to_write: list[Output] = []  # by the word under way


def will_write(*outputs: Output | None) -> None:
    """Name what a word will write, so that an interrupt can say whether it was written."""
    _to_write.extend(output for output in outputs if output is not None)


def _what_was_written() -> list[str]:
    """Return a sentence on each file that the word was to write."""
    return [
        f"{output.path} was not written."
        if output.saved is None
        else f"{output.saved} was written before that, and is complete."
        for output in _to_write
    ]


def _said(error: BigdagError, ctx: Any) -> str:
    """Return an error's sentences in the words that were typed."""
    from bigdag.cli.wording import in_words_of_the_command, options_typed

    return in_words_of_the_command(str(error), options_typed(*ctx.meta.get(_TYPED, (None, ()))))


app = typer.Typer(
    name="bigdag",
    cls=_Words,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bigdag {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Examples:\n\nbigdag check genes.csv\n\n"
    "bigdag fit genes.csv --out genes.dag.parquet\n\n"
    "bigdag fit genes.csv --batch plate --missing em\n\n"
    "bigdag show genes.dag.parquet --variable TP53 --plot tp53.png\n\n"
    "bigdag explore genes.dag.parquet --out genes.html\n\n"
    "bigdag experiment run exp1 --preset smoke --store runs.db\n\n"
    "bigdag fit --help"
)
def _bigdag(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learn directed acyclic graphs from tables with thousands of columns."""
