"""The page of the command line, written from the command itself before the pages are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def _plain(text: str | None) -> str:
    """Return help as one line of a Markdown table."""
    words = " ".join((text or "").split())
    return words.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def _name(option: Any) -> str:
    if option.param_type_name == "argument":
        return f"`{option.make_metavar(None) if option.metavar is None else option.metavar}`"
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])


def _default(option: Any) -> str:
    value = option.default
    if value is None or value is False or option.required or callable(value):
        return ""
    if type(value).__name__ == "Sentinel" or str(value).startswith("Sentinel"):
        return ""
    return f" Default: `{value}`." if value not in ((), "") else ""


def _section(words: list[str], command: Any, depth: int) -> list[str]:
    lines = ["#" * depth + " " + " ".join(words), ""]
    paragraphs = re.split(r"\n\s*\n|\f|\x08", command.help or "")
    lines += [line for text in paragraphs if text.strip() for line in (_paragraph(text), "")]
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            lines += _section([*words, name], inner, depth + 1)
        return lines
    options = [o for o in command.params if not getattr(o, "hidden", False) and o.name != "help"]
    if options:
        lines += ["| option | what it does |", "|---|---|"]
        lines += [
            f"| {_name(o)} | {_plain(getattr(o, 'help', ''))}{_default(o)} |" for o in options
        ]
        lines += [""]
    return lines


def _paragraph(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines()]
    if all(line.startswith("bigdag ") for line in lines):
        return "\n".join(["```sh", *lines, "```"])
    return " ".join(lines).replace("<", "&lt;").replace("*", r"\*")


def write(path: Path) -> None:
    """Write the page, unless it is there with the same text."""
    from typer.main import get_command

    from bigdag.cli import app as words

    command = get_command(words)
    text = "\n".join(
        [
            "# The command, word by word",
            "",
            "What `bigdag --help` and the help of each word say. "
            "[The guide](guide.md) shows them at work.",
            "",
            *(
                line
                for name, inner in command.commands.items()
                for line in _section(["bigdag", name], inner, 2)
            ),
        ]
    )
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the page before Sphinx looks for its pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "command.md"), priority=100)
    return {"parallel_read_safe": True}
