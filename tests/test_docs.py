"""The texts: links lead somewhere, every page is in the site, and what the README prints is true.

The whole site is built by ``make docs``. This is what can be checked of it without Sphinx.
"""

from __future__ import annotations

import ast
import importlib
import io
import re
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

import bigdag

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), DOCS / "results/README.md"])
TEXTS = sorted([*ROOT.glob("*.md"), *PAGES, ROOT / "benchmarks/RESULTS.md"])
MADE = {"command", "gallery/index"}  # by the build itself
MADE_FILES = {DOCS / f"{name}{suffix}" for name in MADE for suffix in (".md", ".rst")}
EXAMPLES = sorted((DOCS / "examples").glob("plot_*.py"))


def plain(path):
    """Return a text without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


@cache
def places(path):
    """Return the anchors of a text's headings, as Markdown viewers make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    included = re.search(r"\{include\} (\S+)", path.read_text())
    if included:
        return places((path.parent / included[1]).resolve())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(text):
    for target in re.findall(r"\]\(([^)\s]+)\)", plain(text)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith(("https://", "mailto:")), target
            continue
        name, _, anchor = target.partition("#")
        path = (text.parent / name).resolve() if name else text
        if path in MADE_FILES:
            continue
        assert path.exists(), f"{target} in {text.name}"
        if anchor and path.suffix == ".md":
            assert anchor in places(path), f"{target} in {text.name}"


def listed(path):
    """Return what the lists of contents of a page name."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def test_every_page_is_in_the_site_once():
    found = [name for page in PAGES for name in listed(page)]
    assert len(found) == len(set(found))
    names = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES}
    assert set(found) == (names | MADE) - {"index"}


def public_names():
    for module in ("", "metrics", "simulate", "transforms", "experiments"):
        home = importlib.import_module(f"bigdag.{module}".rstrip("."))
        for name in home.__all__:
            if name != "__version__" and name not in bigdag._MODULES:
                yield f"bigdag.{module}.{name}".replace("..", ".")
    for name in dir(bigdag.errors):
        value = getattr(bigdag.errors, name)
        if isinstance(value, type) and value.__module__ == "bigdag.errors":
            yield f"bigdag.errors.{name}"


def documented():
    """Return the names that the page of the library lists, and so makes pages for."""
    found, module = set(), ""
    for line in (DOCS / "api.md").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            found.add(f"{module}.{line.strip()}")
    return found


def test_every_public_name_has_a_page_and_every_page_a_name():
    found = documented()
    assert set(public_names()) <= found
    for name in found:
        home, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(home), last).__doc__, name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_words_and_a_picture(example):
    text = example.read_text()
    tree = ast.parse(text)
    title, line = ast.get_docstring(tree).splitlines()[:2]
    assert set(line) == {"="}
    assert len(line) == len(title)
    assert text.count("# %%") >= 3
    assert "plt." in text
    for node in ast.walk(tree):  # names that it takes from bigdag are there
        if isinstance(node, ast.ImportFrom) and node.module.startswith("bigdag"):
            for alias in node.names:
                assert hasattr(importlib.import_module(node.module), alias.name)


def test_there_are_as_many_examples_as_the_front_page_says():
    assert len(EXAMPLES) == 8
    assert "Eight examples" in (DOCS / "index.md").read_text()


def words(text):
    """Return the words of a text, its numbers rounded to two digits."""
    return [
        f"{float(word):.2g}" if re.fullmatch(r"-?\d+\.\d+", word) else word for word in text.split()
    ]


def test_the_readme_prints_what_it_says():
    text = (ROOT / "README.md").read_text()
    code, said = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    assert len(code.split("\n\n")[-1].splitlines()) == 5
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "README.md", "exec"), {})
    assert words(printed.getvalue()) == words(said)


def test_every_block_of_python_in_the_readme_runs_as_it_stands():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(blocks[1], "README.md", "exec"), {})
    assert "probability" in printed.getvalue()
    assert "directed by what is known" in printed.getvalue()


def test_the_picture_of_the_readme_is_small():
    picture = DOCS / "picture.svg"
    assert "docs/picture.svg" in (ROOT / "README.md").read_text()
    assert picture.stat().st_size < 150_000


def test_nothing_tells_to_install_from_an_index():
    for text in TEXTS:
        assert not re.search(r"pip install '?bigdag\b(?!-\d)", text.read_text()), text.name


def test_figures_of_the_readme_are_those_of_the_results():
    """Each row of the README's table has its figures in the results, rounded to two digits."""
    results = (ROOT / "benchmarks/RESULTS.md").read_text()
    sections = dict(
        re.findall(r"^\*\*(.+?)\*\*.*?\n\n(\|.*?)\n\n", results, re.DOTALL | re.MULTILINE)
    )

    def figure(section, side, column="ap_half"):
        head, _, *rows = [
            [cell.strip() for cell in row.strip("|").split("|")]
            for row in sections[section].splitlines()
        ]
        (row,) = [row for row in rows if row[0] == side]
        return float(row[head.index(column)])

    readme = (ROOT / "README.md").read_text()
    rows = {
        line.split("|")[1].strip(): [cell.strip(" *") for cell in line.split("|")[3:-1]]
        for line in readme.splitlines()
        if line.startswith("| ")
    }
    for label, section in [
        ("gene network `arth150`, 107 variables, 1,000 rows", "arth150 standardised n=1000"),
        ("gene network `magic-niab`, 44 variables, 1,000 rows", "magic-niab standardised n=1000"),
        ("... 200 rows", "magic-niab standardised n=200"),
        ("... 5,000 rows", "magic-niab standardised n=5000"),
    ]:
        sides = ["order-search-bic", "flopsearch", "lasso-mas", "sort-variance"]
        wanted = [figure(section, side) for side in sides]
        wanted.append(figure(section, "correlation", "ap"))
        assert [float(x) for x in rows[label]] == pytest.approx(
            list(map(float, wanted)), abs=0.0101
        )


# ------------------------------------------------------------------ releases


def test_the_citation_and_the_changelog_have_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {bigdag.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## \[(.+?)\](?: - (.+))?$", changes, re.MULTILINE)
    assert heads[0] == ("Unreleased", "")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) for _, day in heads[1:])
    kinds = set(re.findall(r"^### (.+)$", changes, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_links_of_a_built_site_are_looked_at(tmp_path):
    sys.path.insert(0, str(DOCS))
    try:
        from check_links import broken_links
    finally:
        sys.path.remove(str(DOCS))
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a><a href="#here">a</a><a href="https://x.y/z">c</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><img src="b.png">')
    assert broken_links(tmp_path) == ["b.html: b.png is no file of the site"]
    (tmp_path / "b.html").write_text('<p id="where">')
    assert broken_links(tmp_path) == ["a.html: b.html#there is no place of that page"]


def test_the_hosting_runs_the_same_commands_on_the_lowest_and_a_newer_python():
    steps = (ROOT / ".github/workflows/ci.yml").read_text()
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"- run: (.+)", steps)
    assert commands == [".ci/run", "make docs", "make release-check"]
    for command in commands[1:]:
        assert f"\n{command.removeprefix('make ')}:" in makefile
    lowest = re.search(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text())[1]
    versions = re.search(r"python: \[(.+)\]", steps)[1].replace('"', "").split(", ")
    assert versions[0] == lowest
    assert int(versions[-1].split(".")[1]) > int(lowest.split(".")[1])
