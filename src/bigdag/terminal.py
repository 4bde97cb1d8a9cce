"""What a terminal may get: nothing that it obeys, and nothing that its encoding lacks.

Names, paths and cells come from files that anybody may have written, and pass here before they are
printed.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

__all__ = ["json_text", "printable", "sober_streams"]

# C0, DEL and C1 control characters, separators of lines, marks and overrides of the direction of
# text, characters without width, and halves of surrogate pairs (bytes of a name that are no text).
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# For a terminal or a file whose encoding lacks them.
_ASCII = {"→": "->", "–": "-", "—": "-", "²": "2", "…": "...", "λ": "lambda", "·": "*", "×": "x"}


def printable(text: str) -> str:
    r"""Return a text in which nothing is left that a terminal obeys instead of showing it.

    Examples
    --------
    >>> print(printable("red \x1b[31m and\nnew line"))
    red \x1b[31m and\nnew line
    """
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def json_text(value: Any) -> str:
    r"""Return JSON for stdout: nothing in it that a terminal obeys or its encoding lacks.

    Examples
    --------
    >>> print(json_text({"name": "\x9b31m"}))
    {
      "name": "\u009b31m"
    }
    """
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, allow_nan=False)
    lines = text.split("\n")  # json.dumps escapes those in texts
    return "\n".join(_OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], x) for x in lines)


def _replace_unknown(error: UnicodeError) -> tuple[str, int]:
    """Stand in for what an encoding lacks: ASCII that looks alike, or an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    escaped = (c.encode("ascii", "backslashreplace").decode() for c in part)
    return "".join(_ASCII.get(c, e) for c, e in zip(part, escaped)), error.end


codecs.register_error("bigdag", _replace_unknown)


@contextmanager
def sober_streams() -> Iterator[None]:
    """Let stdout and stderr replace what their encoding lacks, within the block."""
    changed = []
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            changed.append((reconfigure, stream.errors))
            reconfigure(errors="bigdag")
    try:
        yield
    finally:
        for reconfigure, errors in changed:
            with suppress(ValueError, OSError):  # closed meanwhile
                reconfigure(errors=errors)
