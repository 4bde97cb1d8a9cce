"""One HTML document that needs nothing but itself.

A document is a template of the package, its style sheet, its scripts, and data. The style sheet and
the script are named by their hashes in the document's own policy, which forbids every other script
and style, and to load anything. Texts are escaped, and data are JSON in which no sign is left that
HTML gives a meaning: whatever a table calls its columns, it stays data.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["content_policy", "document", "packed"]

# Signs with a meaning in HTML or, as ends of lines, in scripts; in JSON texts they may be escaped.
_SIGNS = re.compile("[<>&\u2028\u2029\ufeff\x7f]")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def document(
    folder: str, scripts: Sequence[str], texts: Mapping[str, str], data: Mapping[str, Any]
) -> str:
    r"""Return a document of a folder's template.html, style.css and scripts.

    Parameters
    ----------
    folder : str
        Inside of this package.
    scripts : sequence of str
        Names of scripts in it, which become one.
    texts : mapping of str to str
        For the places ``{{name}}`` of the template, escaped.
    data : mapping
        What the scripts read, as JSON can hold it, in the element with the id "data".

    Returns
    -------
    str
        The document; the same for the same data.

    Examples
    --------
    >>> text = document("explore", ["graph.js"], {"title": "a < b", "generator": "x"}, {"n": "<"})
    >>> "<title>a &lt; b</title>" in text, '{"n":"\\u003c"}' in text
    (True, True)
    """
    here = files("bigdag.page").joinpath(folder)
    template, style = (here.joinpath(n).read_text("utf-8") for n in ("template.html", "style.css"))
    parts = [here.joinpath(name).read_text("utf-8") for name in scripts]
    script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
    filled = {name: html.escape(text) for name, text in texts.items()}
    filled["policy"] = html.escape(content_policy(style, script, images="data: blob:"))
    # These two are files of the package, and the data are escaped JSON.
    filled |= {"style": style, "script": script, "data": _json(data)}
    assert set(_PLACE.findall(template)) == set(filled), "the template has other places"
    return _PLACE.sub(lambda found: filled[found[1]], template)


def content_policy(style: str, script: str, images: str = "data:") -> str:
    """Return a policy that allows this style sheet and this script, and to load nothing.

    Examples
    --------
    >>> content_policy("", "alert(1)").split("; ")[3]
    "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
    """
    return (
        f"default-src 'none'; img-src {images}; style-src {_hash(style)}; "
        f"script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def packed(array: NDArray[Any]) -> dict[str, str]:
    """Return an array as JSON can hold it: its kind of numbers, and its bytes in base64.

    Truth values are bytes, whole numbers have 32 bits and others 64, little-endian.

    Examples
    --------
    >>> packed(np.array([1, 256]))
    {'kind': 'int32', 'bytes': 'AQAAAAABAAA='}
    """
    kind = {"b": "uint8", "i": "int32", "f": "float64"}[array.dtype.kind]
    if kind == "int32" and len(array):
        assert max(array.max(), -array.min()) < 2**31
    raw = array.astype(np.dtype(kind).newbyteorder("<")).tobytes()
    return {"kind": kind, "bytes": base64.b64encode(raw).decode()}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _SIGNS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
