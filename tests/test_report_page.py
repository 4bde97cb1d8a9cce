"""The report's page in a real headless Chromium, narrow and wide, light and dark."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from xml.etree import ElementTree

import pytest

import browser
from bigdag.experiments.report.write import write_report
from browser import CONTRAST, STICKS_OUT, Browser
from report_stores import METHODS, fill, job, record

pytestmark = pytest.mark.skipif(browser.find() is None, reason="needs Chromium or Chrome")

WIDTHS = [400, 1400]


@pytest.fixture(scope="module")
def page(big_report):
    return big_report / "report" / "index.html"


@pytest.fixture(scope="module")
def chromium():
    with Browser() as one:
        yield one


def column(chromium, table, heading):
    """Return the texts of a table's column, in the rows that are shown."""
    return chromium.run(
        f"""(() => {{
          const table = document.querySelector("#{table} table");
          const at = Array.from(table.tHead.rows[0].cells)
            .findIndex(cell => cell.textContent === "{heading}");
          return Array.from(table.tBodies[0].rows).filter(row => !row.hidden)
            .map(row => row.cells[at].textContent);
        }})()"""
    )


def focus_heading(chromium, table, heading):
    chromium.run(
        f"""Array.from(document.querySelectorAll("#{table} th button"))
          .find(button => button.textContent === "{heading}").focus()"""
    )


def sorted_by(chromium, table):
    return chromium.run(
        f"""Array.from(document.querySelectorAll("#{table} th"))
          .map(th => [th.textContent, th.getAttribute("aria-sort")])
          .filter(([, sort]) => sort !== "none")"""
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_whole_at_every_width(chromium, page, width, dark):
    chromium.open(page, width, dark=dark)
    assert chromium.complaints() == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run(STICKS_OUT) == []
    images = chromium.run(
        "Array.from(document.images, i => [i.naturalWidth, i.clientWidth, i.clientHeight, i.alt])"
    )
    assert len(images) >= 12
    for natural, shown, height, alt in images:
        assert natural > 300
        assert min(shown, height) > 100
        assert alt
    for tag, contrast in chromium.run(CONTRAST).items():
        assert contrast >= 4.5, tag


def test_pictures_fit_a_telephone(chromium, page):
    """Below 44 rem each picture is its narrow drawing, at its own size, and nothing scrolls."""
    chromium.open(page, 420)
    pictures = chromium.run(
        """Array.from(document.querySelectorAll(".plot"), plot => {
          const image = plot.querySelector("img");
          return [plot.scrollWidth <= plot.clientWidth, image.currentSrc === image.src,
            image.naturalWidth, image.clientWidth];
        })"""
    )
    assert pictures
    for fits, is_wide, natural, shown in pictures:
        assert fits
        assert not is_wide
        assert shown > 0.9 * natural  # its letters are not much smaller than they were drawn
    chromium.open(page, 1400)
    assert chromium.run(
        "Array.from(document.querySelectorAll('.plot img')).every(i => i.currentSrc === i.src)"
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_the_contents_stay_and_say_where_one_is(chromium, page, width):
    chromium.open(page, width)
    for name in ("time", "numbers"):
        chromium.run(f"document.getElementById('{name}').scrollIntoView()")
        chromium.run(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        top, marked = chromium.run(
            """[document.querySelector("nav").getBoundingClientRect().top,
              Array.from(document.querySelectorAll("nav a[aria-current]"),
                a => a.getAttribute("href"))]"""
        )
        assert top == 0
        assert marked == [f"#{name}"]
        heading = chromium.run(
            f"document.getElementById('{name}-title').getBoundingClientRect().top"
        )
        assert heading > chromium.run(
            "document.querySelector('nav').getBoundingClientRect().bottom"
        )


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_are_drawn(chromium, page, width):
    """A picture has ink: each image, painted on a canvas, has many colours."""
    chromium.open(page, width)
    colours = chromium.run(
        """Array.from(document.images, image => {
          const canvas = new OffscreenCanvas(300, 300).getContext("2d");
          canvas.drawImage(image, 0, 0, 300, 300);
          const data = new Uint32Array(canvas.getImageData(0, 0, 300, 300).data.buffer);
          return new Set(data).size;
        })"""
    )
    assert min(colours) > 20


def test_tables_sort_by_mouse_and_by_keyboard(chromium, page):
    chromium.open(page)
    focus_heading(chromium, "runs", "seconds")
    chromium.press("Enter", 13, "\r")
    assert sorted_by(chromium, "runs") == [["seconds", "ascending"]]
    values = [float(v.replace(",", "")) for v in column(chromium, "runs", "seconds") if v]
    assert len(values) > 100
    assert values == sorted(values)
    everything = column(chromium, "runs", "seconds")
    assert everything[-1] == ""  # failed runs have no time, and come last
    chromium.press("Enter", 13, "\r")
    assert sorted_by(chromium, "runs") == [["seconds", "descending"]]
    values = [float(v.replace(",", "")) for v in column(chromium, "runs", "seconds") if v]
    assert values == sorted(values, reverse=True)
    assert column(chromium, "runs", "seconds")[-1] == ""
    chromium.run(
        """Array.from(document.querySelectorAll("#runs th button"))
          .find(button => button.textContent === "method").click()"""
    )
    assert sorted_by(chromium, "runs") == [["method", "ascending"]]
    names = column(chromium, "runs", "method")
    assert len(set(names)) == len(METHODS)
    assert sum(a != b for a, b in pairwise(names)) == len(METHODS) - 1


def test_every_table_sorts_in_every_column(chromium, page):
    chromium.open(page)
    faults = chromium.run(
        """Array.from(document.querySelectorAll(".table")).flatMap(box => {
          const rows = () => Array.from(box.querySelectorAll("tbody tr"), r => r.textContent);
          const before = rows().sort().join("|");
          return Array.from(box.querySelectorAll("th"), (th, column) => {
            const button = th.querySelector("button");
            if (!button) return rows().length > 1 ? [box.id, column, "no button"] : null;
            button.click();
            const values = Array.from(box.querySelectorAll("tbody tr"),
              r => r.cells[column].textContent).filter(Boolean);
            const isNumber = th.classList.contains("n");
            const compare = isNumber
              ? (a, b) => parseFloat(a.replaceAll(",", "")) - parseFloat(b.replaceAll(",", ""))
              : new Intl.Collator("en", { numeric: true }).compare;
            if (values.some((v, i) => i && compare(values[i - 1], v) > 0))
              return [box.id, column, "not sorted"];
            if (rows().sort().join("|") !== before) return [box.id, column, "rows lost"];
            return null;
          }).filter(Boolean);
        })"""
    )
    assert faults == []
    assert chromium.complaints() == []


def test_tables_filter_as_one_types(chromium, page):
    chromium.open(page, 400)
    total = len(column(chromium, "runs", "method"))
    chromium.run('document.querySelector("#runs-filter").focus()')
    chromium.type("golem-ev standard")
    names = column(chromium, "runs", "method")
    assert set(names) == {"GOLEM-EV"}
    assert set(column(chromium, "runs", "units")) == {"standardised"}
    said = chromium.run('document.querySelector("#runs output").textContent')
    assert said == f"{len(names)} of {total} rows"
    # A table that is sorted while filtered stays filtered.
    focus_heading(chromium, "runs", "seconds")
    chromium.press("Enter", 13, "\r")
    assert set(column(chromium, "runs", "method")) == {"GOLEM-EV"}
    chromium.run(
        """(() => { const box = document.querySelector("#runs-filter");
        box.value = ""; box.dispatchEvent(new Event("input")); })()"""
    )
    assert len(column(chromium, "runs", "method")) == total


def test_the_page_can_be_heard(chromium, page):
    """What a screen reader needs: headings in order, captions, labels, scopes, a language."""
    chromium.open(page)
    assert chromium.run("document.documentElement.lang") == "en"
    levels = chromium.run("Array.from(document.querySelectorAll('h1,h2,h3'), h => h.tagName)")
    assert levels[0] == "H1"
    assert set(levels[1:]) == {"H2"}
    assert chromium.run(
        """Array.from(document.querySelectorAll("table")).every(t =>
          t.caption && t.caption.textContent.length > 10 &&
          Array.from(t.tHead.rows[0].cells).every(c => c.scope === "col"))"""
    )
    assert chromium.run(
        "Array.from(document.querySelectorAll('input')).every(i => i.labels.length === 1)"
    )
    assert chromium.run(
        """Array.from(document.querySelectorAll("nav a"))
          .every(a => document.querySelector(a.getAttribute("href")))"""
    )
    assert chromium.run(
        """(() => { const ids = Array.from(document.querySelectorAll("[id]"), e => e.id);
          return ids.length === new Set(ids).size; })()"""
    )


@pytest.mark.parametrize("kind", ["empty", "failures", "no truth", "long words"])
def test_odd_stores_have_a_page_without_faults(chromium, tmp_path, kind):
    pairs = []
    if kind == "failures":
        pairs = [(job(), record(job(), status="crashed", message="<b>It died.</b>" * 30))]
    elif kind == "no truth":
        one = job(name="mine", graph=None, k=None, noise=None, variance=None, table="a.csv")
        pairs = [(one, record(one, truth=False))]
    elif kind == "long words":
        one = job(("x" * 300, "gd", {"y" * 300: "z" * 300}, 0.5), experiment="w" * 300)
        pairs = [(one, record(one))]
    path = write_report(fill(tmp_path / "runs.db", pairs), tmp_path / "report")
    for width in WIDTHS:
        chromium.open(path, width)
        assert chromium.complaints() == []
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.run(STICKS_OUT) == []


# Each would open a dialog in another way if it were taken as markup. They begin as numbers do.
HOSTILE = [
    f"1 ± {text}"
    for text in (
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        '"><svg onload=alert(3)>',
        "' onmouseover='alert(4)' autofocus onfocus='alert(4)",
        "</script><script>alert(5)</script>",
        "</style></title></caption></textarea><script>alert(6)</script>",
        "-->]]><script>alert(7)</script>",
        "{{ 7 * 7 }}{% raw %}<iframe srcdoc='<script>alert(8)</script>'>",
        "javascript:alert(9)",
        "&lt;script&gt;alert(10)&lt;/script&gt;",
        "data:text/html,<script>alert(11)</script>",
        "$<b>x</b>_1$ \u202e \U0001f600 \x07",
    )
]


def hostile_pairs():
    """Every field of a store that takes text holds hostile text."""
    texts = [*HOSTILE, *HOSTILE]
    pairs = []
    for i in range(len(HOSTILE)):
        name, word, experiment, preset, data, units, noise, message, metric, machine, key, file = (
            texts[i : i + 12]
        )
        # Each of these has pictures of its own, which take time.
        experiment, preset, units, noise, graph = (HOSTILE[place] for place in (0, 2, 4, 6, 8))
        about = {"name": data, "units": units, "noise": noise, "variance": experiment,
                 "graph": graph, "table": file, "truth": file}  # fmt: skip
        if i % 2:
            about |= {"graph": None, "k": None, "noise": None, "variance": None}
        for sizes in ({"d": 10}, {"d": 20}):
            one = job(
                (name, word, {key: file}, 0.5), experiment=experiment, preset=preset, **about,
                **sizes,
            )  # fmt: skip
            result = record(one, message=message)
            result["scores"] += [
                {"snapshot": 1.0, "weights": metric, "directed": True, "threshold": 0.1,
                 "metric": metric, "value": 0.5},
                {"snapshot": None, "weights": "dag", "directed": True, "threshold": None,
                 "metric": metric, "value": 0.5},
            ]  # fmt: skip
            result |= {
                "machine": {machine: machine, "nested": {key: file}}, "versions": {file: key},
                "phase_seconds": {metric: 0.1}, "phase_steps": {metric: 3}, "started": message,
                "finished": message,
            }  # fmt: skip
            pairs.append((one, result))
        failed = job((name, word, {}, 0.5), experiment=experiment, preset=preset, seed=1, **about)
        pairs.append((failed, record(failed, status="error", message=message)))
        odd = job((name, word, {}, 0.5), experiment=experiment, preset=preset, seed=2, **about)
        pairs.append((odd, record(odd, status=message)))
    return pairs


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return write_report(fill(folder / "<b>runs.db", hostile_pairs()), folder / "<i>report")


def test_hostile_names_in_every_field_are_shown_as_text(chromium, hostile_page):
    for width in WIDTHS:
        chromium.open(hostile_page, width)
        assert chromium.complaints() == []
    kinds = chromium.run(
        "Array.from(new Set(Array.from(document.querySelectorAll('*'), e => e.localName)))"
    )
    assert not {"iframe", "svg", "b:script", "object", "embed", "base", "form"} & set(kinds)
    assert chromium.run("document.scripts.length") == 1
    assert chromium.run(
        """Array.from(document.querySelectorAll("*")).flatMap(e => Array.from(e.attributes))
          .filter(a => a.name.startsWith("on") || a.name === "style" || a.name === "srcdoc" ||
            /^\\s*javascript:/i.test(a.value)).map(a => a.name)"""
    ) == []  # fmt: skip
    assert chromium.run(
        """Array.from(document.querySelectorAll("a"), a => a.getAttribute("href"))
          .filter(href => !/^(#|figures\\/|data\\/)[A-Za-z0-9._-]+$/.test(href))"""
    ) == []  # fmt: skip
    # A name is the text of a cell, sign for sign, also beside a number.
    names = column(chromium, "runs", "method")
    for name in HOSTILE:
        assert names.count(name) == 4, name
    assert HOSTILE[0] in chromium.run("Array.from(document.images, i => i.alt).join()")
    # Sorting and filtering, which move and read these texts, do not run them either.
    focus_heading(chromium, "runs", "method")
    chromium.press("Enter", 13, "\r")
    chromium.run('document.querySelector("#runs-filter").focus()')
    chromium.type("<script>alert(1)")
    assert set(column(chromium, "runs", "method")) >= {HOSTILE[0]}
    assert chromium.complaints() == []


def test_hostile_names_are_drawn_and_not_written_into_pictures(chromium, hostile_page):
    pictures = sorted(hostile_page.parent.glob("figures/*.svg"))
    assert len(pictures) > 10
    for path in pictures:
        text = path.read_text("utf-8")
        assert "alert" not in text
        for element in ElementTree.fromstring(text).iter():
            assert element.tag.rpartition("}")[2] in DRAWN, path
            assert not any(name.lower().startswith("on") for name in element.attrib)
    chromium.open(pictures[0])
    assert chromium.complaints() == []


DRAWN = {"svg", "g", "path", "use", "defs", "style", "clipPath", "rect", "pattern", "image"}


def test_the_policy_lets_no_other_script_run(chromium, page, tmp_path):
    """If a text got through as markup all the same, it would not be run."""
    written = page.read_text("utf-8")
    inserted = (
        "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)></svg>"
        "<a id=bait href='javascript:alert(4)' onclick='alert(5)'>bait</a>"
        "<style>h1 { color: rgb(1, 2, 3) }</style><script src='data:,alert(6)'></script>"
        "<iframe srcdoc='<script>parent.alert(7)</script>'></iframe><base href='data:,x'>"
    )
    copy = tmp_path / "index.html"
    copy.write_text(written.replace('<main id="main">', f'<main id="main">{inserted}'), "utf-8")
    chromium.open(copy, wait_for_images=False)
    chromium.run("document.querySelector('#bait').click()")
    chromium.run("new Promise(done => setTimeout(done, 100))")
    found = chromium.complaints()
    refused = str(found)
    assert "dialog" not in refused
    for words in ("inline script", "inline event handler", "inline style"):
        assert words in refused.lower(), refused
    assert chromium.run("getComputedStyle(document.querySelector('h1')).color") != "rgb(1, 2, 3)"
    # Its own script has run.
    assert chromium.run("document.querySelectorAll('.tools').length") > 5


def test_without_scripts_the_page_is_whole(chromium, page):
    chromium.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        chromium.call("Page.navigate", url=page.as_uri())
        rows, deadline = [], time.monotonic() + 100
        while len(rows) <= 400 and time.monotonic() < deadline:  # until it is loaded
            root = chromium.call("DOM.getDocument", depth=0)["root"]["nodeId"]
            with suppress(AssertionError):  # a document that was still changing has a new root
                found = chromium.call("DOM.querySelectorAll", nodeId=root, selector="tbody tr")
                rows = found["nodeIds"]
    finally:
        chromium.call("Emulation.setScriptExecutionDisabled", value=False)
    assert len(rows) > 400
