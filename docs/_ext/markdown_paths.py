"""Our Markdown links files as they lie in the repository; the site has them at other places.

The texts of the repository's top folder are pages of the site too, and the report of the
experiments is a page of its own beside ``results/README``.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# Where a file of the repository is found in the site, seen from the folder docs/.
PAGES = {
    "benchmarks/RESULTS.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def _moved(docs: Path, text_of: Path, shown_in: Path, match: re.Match[str]) -> str:
    """Return a link of a text, as a page of the site that may lie elsewhere must have it."""
    text, target = match.groups()
    if "://" in target or target.startswith(("#", "mailto:")):
        return match[0]
    path, _, anchor = target.partition("#")
    place = (text_of.parent / path).resolve()
    up = "../" * len(shown_in.relative_to(docs).parent.parts)
    if place.is_relative_to(docs / "results" / "report"):
        file = place.relative_to(docs)
        return f"`{file}`" if place.is_dir() else f'<a href="{up}{file}">{text}</a>'
    name = place.relative_to(docs.parent).as_posix()
    if name not in PAGES and not place.is_relative_to(docs):
        return text  # a file that only a clone has
    page = PAGES.get(name) or place.relative_to(docs).as_posix()
    return f"[{text}]({up}{page}{'#' + anchor if anchor else ''})"


def _rewritten(text: str, docs: Path, text_of: Path, shown_in: Path) -> str:
    return "".join(
        part
        if _CODE.fullmatch(part)
        else _LINK.sub(lambda match: _moved(docs, text_of, shown_in, match), part)
        for part in _CODE.split(text)
    )


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md":
        source[0] = _rewritten(source[0], Path(app.srcdir), page, page)


def _read_included(app: Sphinx, relative_path: Path, parent: str, source: list[str]) -> None:
    """Do the same to the texts of the top folder, which pages of the site include."""
    docs = Path(app.srcdir)
    text_of = (docs / relative_path).resolve()
    if text_of.suffix == ".md":
        source[0] = _rewritten(source[0], docs, text_of, Path(app.env.doc2path(parent)))


def _copy_report(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "results" / "report"
        shutil.copytree(Path(app.srcdir) / "results" / "report", target, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Rewrite links when a page is read, and copy the report at the end."""
    app.connect("source-read", _read)
    app.connect("include-read", _read_included)
    app.connect("build-finished", _copy_report)
    return {"parallel_read_safe": True}
