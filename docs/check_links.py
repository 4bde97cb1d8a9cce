"""Check a built site: every link to a file or a place within it leads somewhere.

Addresses of other sites are left alone. Called by ``make docs``; the exit code is 1, and each
broken link a line, where something is missing.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page offers as places (``id``, ``name``), and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.places.add(value)
            elif name in ("href", "src") and tag != "base":
                self.links.add(value)


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8", errors="replace"))
    return page


def broken_links(site: Path) -> list[str]:
    """Return a line for each link of the site that leads nowhere."""
    site = site.resolve()
    read = cache(_read)
    found = []
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.parts:  # templates of the theme
            continue
        for link in sorted(read(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link in ("", "#"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            here = path.relative_to(site)
            if not target.is_relative_to(site) or not target.exists():
                found.append(f"{here}: {link} is no file of the site")
            elif (
                parts.fragment
                and target.suffix == ".html"
                and unquote(parts.fragment) not in read(target).places
            ):
                found.append(f"{here}: {link} is no place of that page")
    return found


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]))
    print(*broken, sep="\n", end="\n" if broken else "")
    sys.exit(bool(broken))
