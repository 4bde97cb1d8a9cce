"""What is known beforehand, in files: all in one, or a list, tiers or arcs in one of its own."""

from __future__ import annotations

import csv
import io
import os
import reprlib
import tomllib
from pathlib import Path
from typing import Any

from bigdag.errors import ParameterError
from bigdag.knowledge.known import FIELDS, SETS, Knowledge, from_mapping

__all__ = ["read_knowledge", "read_part"]

# Words of a first line that is no data: those of the first column, and of the second.
_HEADS = {
    "temporal_order": ({"name", "variable"}, {"tier"}),
    "arcs": ({"source", "cause", "from"}, {"target", "effect", "to"}),
}


def read_knowledge(path: str | os.PathLike[str]) -> Knowledge:
    """Read knowledge from a TOML file, whose keys are the parameters of `Knowledge`.

    Text in place of a list is the name of a file beside it, as :func:`read_part` reads it.

    Raises
    ------
    ParameterError
        If a key or a file is wrong, or if what is known contradicts itself.
    """
    try:
        given: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{path} is no TOML file: {error}.") from None
    for key, value in given.items():
        if isinstance(value, str) and key in FIELDS and key not in ("within_tier", "unmatched"):
            beside = Path(path).parent / value
            if not beside.exists():
                raise ParameterError(
                    f"{path}: {key} = {value!r} is text, the name of a file beside {path}, but "
                    f"there is no file {beside}. Correct it, or write variables as a list: "
                    f"{key} = {_as_list(key, value)}."
                )
            given[key] = read_part(key, beside)
    return from_mapping(given, str(path))


def read_part(field: str, path: str | os.PathLike[str]) -> Any:
    """Read one part of what is known from a file.

    Parameters
    ----------
    field : str
        A parameter of `Knowledge`. A list of variables is a text file with a name a line, tiers are
        a CSV file with the columns name and tier, and arcs one with the columns source and target;
        a first line with these words is no data, and says which column is which.
    path : path
        The file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ParameterError(f"{field}: {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{field}: {path} is no text in UTF-8.") from None
    if field in SETS:
        lines = [line.strip() for line in text.splitlines()]
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise ParameterError(f"{field}: {path} names no variable. Write one name a line.")
        return found
    kind = field if field in _HEADS else "arcs"
    words = ("name", "tier") if kind == "temporal_order" else ("source", "target")
    tabs = _has_tabs(path, text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if tabs else ",")
    pairs: list[tuple[str, str]] = []
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) != 2 or not all(cells):
                raise ParameterError(
                    f"{field}: {path} must have two columns, {words[0]} and {words[1]}, with a "
                    f"{'tab' if tabs else 'comma'} between. Line {reader.line_num} has "
                    f"{sum(map(bool, cells))}: {reprlib.repr(','.join(row))}."
                )
            pairs.append((cells[0], cells[1]))
    except csv.Error as error:
        raise ParameterError(
            f"{field}: {path} is no CSV file with the columns {words[0]} and {words[1]}: {error}, "
            f"in line {reader.line_num}."
        ) from None
    pairs = _without_head(pairs, *_HEADS[kind])
    if not pairs:
        raise ParameterError(f"{field}: {path} holds no row of {words[0]} and {words[1]}.")
    return pairs if kind == "arcs" else _tiers_of_rows(pairs, path)


def _has_tabs(path: str | os.PathLike[str], text: str) -> bool:
    """Tell whether tabs part the columns; the names in a .tsv file may hold commas."""
    suffix = Path(path).suffix.lower()
    if suffix == ".tsv" and all("\t" in line for line in text.split("\n") if line.strip()):
        return True
    return suffix in (".tsv", ".txt") and "," not in text


def _without_head(
    pairs: list[tuple[str, str]], first: set[str], second: set[str]
) -> list[tuple[str, str]]:
    """Return the rows below a first line that names the columns, in the sequence it says."""
    if not pairs:
        return pairs
    a, b = (cell.lower() for cell in pairs[0])
    if a in first and b in second:
        return pairs[1:]
    if a in second and b in first:
        return [(right, left) for left, right in pairs[1:]]
    return pairs


def _as_list(field: str, value: str) -> str:
    """Return how a list for a field looks in TOML, for a message."""
    if field == "temporal_order":
        return f'[["{value}"], ["..."]]'
    return f'["{value}"]' if field in SETS else f'[["{value}", "..."]]'


def _tiers_of_rows(rows: list[tuple[str, str]], path: Any) -> dict[str, float]:
    tiers: dict[str, float] = {}
    for name, text in rows:
        if name in tiers:
            raise ParameterError(
                f"temporal_order: {path} names {name!r} twice. A variable can be in one tier only."
            )
        try:
            tiers[name] = float(text)
        except ValueError:
            raise ParameterError(
                f"temporal_order: {path} must give each variable a number as its tier. {name!r} "
                f"has {text!r}."
            ) from None
    return tiers
