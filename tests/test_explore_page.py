"""The page to explore a graph in a real headless Chromium, narrow and wide, light and dark."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from scipy import sparse

import browser
from bigdag import DAG, LinearModel, simulate
from browser import CONTRAST, STICKS_OUT, Browser

pytestmark = pytest.mark.skipif(browser.find() is None, reason="needs Chromium or Chrome")

WIDTHS = [400, 900, 1400]
TABS = ["graph", "overview", "arcs", "learnt"]
ABOUT = {
    "bigdag": "0.1.0", "method": "auto", "n_samples": 500, "status": "converged", "n_iter": 7,
    "parameters": {"gamma": 0.5}, "transform": "rank", "prepared": ["Normal scores of ranks."],
    "findings": ["3 columns are skewed."], "versions": {"numpy": "2.4"}, "odd_thing": [1, {"a": 2}],
    "bootstrap": {"n_resamples": 100, "wanted": 100, "min_prob": 0.5},
    "history": {"phase": ["start", "moves", "moves"], "iteration": [0, 1, 2],
                "objective": [9.5, 7.25, 7.125], "arcs": [0, 5, 6]},
}  # fmt: skip


def learnt(d=60, seed=3):
    """Return a DAG as a bootstrap gives one, with undirected and required arcs."""
    dag = simulate.random_dag(d, 1.6, rng=seed)
    rng, m = np.random.default_rng(seed), dag.n_arcs
    flags = dag.weights.astype(bool)
    flags.data = rng.random(m) < 0.25
    flags.eliminate_zeros()
    pair = rng.uniform(0.5, 1, m)
    return DAG(
        dag.weights, [f"gene_{v:02d}" for v in range(d)], dag.order, flags,
        arc_data={"probability": pair * 0.9, "adjacency": pair, "required": pair > 0.95},
        node_data={"mean": rng.normal(size=d), "noise_variance": np.ones(d)}, about=ABOUT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def dag():
    return learnt()


@pytest.fixture(scope="module")
def page(dag, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "dag.html"
    dag.to_html(path)
    return path


@pytest.fixture(scope="module")
def chromium():
    with Browser() as one:
        yield one


def go(chromium, fragment):
    """Go to an address within the page, and wait until it is shown."""
    chromium.run(
        f"""new Promise(done => {{
          const wanted = {json.dumps("#" + fragment)};
          if (location.hash === wanted) done();
          addEventListener("hashchange", () => setTimeout(done), {{ once: true }});
          location.hash = wanted;
        }})"""
    )


def texts(chromium, selector):
    return chromium.run(
        f"Array.from(document.querySelectorAll({json.dumps(selector)}), e => e.textContent)"
    )


def heading(chromium):
    return chromium.run("document.getElementById('heading').textContent")


def listed(chromium, title):
    """Return the names below a heading of the details."""
    return chromium.run(
        f"""(() => {{
          const head = Array.from(document.querySelectorAll("#details h3"))
            .find(h => h.textContent.startsWith({json.dumps(title)}));
          const list = head.nextElementSibling;
          if (list.tagName !== "UL") return [];
          return Array.from(list.querySelectorAll(".name"), e => e.textContent);
        }})()"""
    )


def drawn_arcs(chromium):
    return chromium.run(
        "Array.from(document.querySelectorAll('#plot [data-arc]'), g => Number(g.dataset.arc))"
    )


def drawn_nodes(chromium, dag):
    found = chromium.run(
        "Array.from(document.querySelectorAll('#plot [data-v]'), g => Number(g.dataset.v))"
    )
    return {dag.names[v] for v in found}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_is_whole_at_every_width(chromium, page, width, dark):
    chromium.open(page, width, dark=dark)
    for fragment in ["", "v=gene_07&r=2", "from=gene_01&to=gene_40", *(f"tab={t}" for t in TABS)]:
        if fragment:
            go(chromium, fragment)
        assert chromium.run("document.documentElement.scrollWidth") <= width, fragment
        assert chromium.run(STICKS_OUT) == [], fragment
        for tag, contrast in chromium.run(CONTRAST).items():
            assert contrast >= 4.5, (fragment, tag)
    assert chromium.complaints() == []


def test_it_begins_with_the_surest_arcs_and_a_search(chromium, page, dag):
    chromium.open(page)
    assert heading(chromium) == f"The 25 surest of {dag.n_arcs} arcs"
    assert drawn_arcs(chromium)[::-1] == list(range(25))  # the surest on top
    assert texts(chromium, "#details h3")[0] == "The surest arcs: probability and weight"
    lines = texts(chromium, "#details li")
    sure = np.sort(dag.arc_data["probability"])[::-1]
    assert len(lines) == 25
    assert f"{100 * sure[0]:.3g} %" in lines[0]
    assert f"{100 * sure[24]:.3g} %" in lines[24]
    facts = texts(chromium, "#facts div")
    assert facts[:2] == [f"variables{dag.n_nodes}", f"arcs{dag.n_arcs}"]


def test_search_completes_and_the_browsers_buttons_go_back_and_forth(chromium, page):
    chromium.open(page)
    chromium.press("/", 191, "/")
    assert chromium.run("document.activeElement.id") == "search"
    chromium.type("NE_1")
    options = texts(chromium, "#search-list [role=option] bdi")
    assert sorted(options) == [f"gene_1{k}" for k in range(10)]
    assert chromium.run("document.getElementById('search').getAttribute('aria-expanded')") == "true"
    chromium.press("ArrowDown", 40)
    chromium.press("ArrowDown", 40)
    marked = chromium.run(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        ".querySelector('bdi').textContent"
    )
    assert marked == options[1]
    chromium.press("Enter", 13, "\r")
    chromium.wait(f"document.getElementById('heading').textContent === '{marked}'")
    chromium.run("document.getElementById('search').value = ''")
    chromium.type("gene_30")
    chromium.press("Enter", 13, "\r")
    chromium.wait("document.getElementById('heading').textContent === 'gene_30'")
    chromium.run("history.back()")
    chromium.wait(f"document.getElementById('heading').textContent === '{marked}'")
    assert chromium.run("document.getElementById('search').value") == marked
    chromium.run("history.back()")
    chromium.wait("document.getElementById('heading').textContent.startsWith('The 25')")
    chromium.run("history.forward()")
    chromium.wait(f"document.getElementById('heading').textContent === '{marked}'")
    chromium.run("document.getElementById('search').focus()")
    chromium.run("document.getElementById('search').value = ''")
    chromium.type("nothing like it")
    assert texts(chromium, "#search-list li") == ["No variable has this in its name."]
    chromium.press("Escape", 27)
    assert chromium.run("document.getElementById('search-list').hidden")
    assert chromium.complaints() == []


def test_a_click_or_a_key_on_a_variable_opens_it(chromium, page, dag):
    chromium.open(page)
    where = chromium.run(
        """(() => { const g = document.querySelector("#plot [data-v]");
        const box = g.getBoundingClientRect();
        return [Number(g.dataset.v), box.left + box.width / 2, box.top + box.height / 2]; })()"""
    )
    chromium.click(*where[1:])
    chromium.wait(f"document.getElementById('heading').textContent === '{dag.names[where[0]]}'")
    other = chromium.run(
        f"""(() => {{ const g = document.querySelector('#plot [data-v]:not([data-v="{where[0]}"])');
        g.focus(); return Number(g.dataset.v); }})()"""
    )
    chromium.press("Enter", 13, "\r")
    chromium.wait(f"document.getElementById('heading').textContent === '{dag.names[other]}'")
    # The drawing is a new one, and who works with keys goes on from the same variable.
    assert chromium.run("document.activeElement.dataset.v") == str(other)
    name = chromium.run(
        """(() => { const b = document.querySelector("#details .name"); b.focus();
        return b.textContent; })()"""
    )
    chromium.press("Enter", 13, "\r")
    chromium.wait(f"document.getElementById('heading').textContent === '{name}'")
    assert chromium.run("document.activeElement.dataset.v") == str(dag.names.index(name))


@pytest.mark.parametrize("v", [0, 7, 23, 41])
def test_a_variables_neighbours_are_those_of_the_graph(chromium, page, dag, v):
    name = dag.names[v]
    chromium.open(page)
    go(chromium, f"v={name}")
    open_ends = dag.reversible
    into = {dag.names[u] for u in open_ends[:, [v]].indices}
    out = {dag.names[u] for u in open_ends[[v]].tocoo().col}
    assert set(listed(chromium, "Causes")) == set(dag.parents(v)) - into
    assert set(listed(chromium, "Effects")) == set(dag.children(v)) - out
    assert set(listed(chromium, "Undirected")) == into | out
    assert set(listed(chromium, "Markov")) == set(dag.markov_blanket(v))
    for radius in (1, 2, 3):
        go(chromium, f"v={name}&r={radius}")
        part = dag.neighbourhood(v, radius)
        if part.n_nodes <= 70:
            assert drawn_nodes(chromium, dag) == set(part.names)
            assert len(drawn_arcs(chromium)) == part.n_arcs
    chromium.run(
        """(() => { const box = document.getElementById("radius"); box.value = "blanket";
        box.dispatchEvent(new Event("change")); })()"""
    )
    chromium.wait("location.hash.includes('r=blanket')")
    assert drawn_nodes(chromium, dag) == {name, *dag.markov_blanket(v)}
    effects = LinearModel(dag)._totals(v)
    reached = {dag.names[u] for u in np.flatnonzero(effects)} - {name}
    assert len(reached) <= 40  # or they would not all be listed at once
    assert set(listed(chromium, "Total effects")) == reached


def test_total_effects_are_those_of_the_model(chromium, page, dag):
    chromium.open(page)
    found = chromium.run(
        "Array.from(bigdag.graph.names.keys(), v => Array.from(bigdag.totalEffects(v).effect))"
    )
    model = LinearModel(dag)
    expected = [model._totals(v) for v in range(dag.n_nodes)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_path_between_two_variables(chromium, page, dag):
    model = LinearModel(dag)
    totals = np.array([model._totals(v) for v in range(dag.n_nodes)]) - np.eye(dag.n_nodes)
    pattern = (dag.weights != 0).toarray()
    far = (pattern.astype(int) @ pattern > 0) & ~pattern & (totals != 0)
    i, j = (int(v) for v in np.argwhere(far)[0])
    chromium.open(page)
    for box, v in (("from", i), ("to", j)):
        chromium.run(f"document.getElementById('{box}').focus()")
        chromium.type(dag.names[v])
    chromium.run("document.querySelector('#path button[type=submit]').click()")
    chromium.wait(f"document.getElementById('heading').textContent.includes('{dag.names[j]}')")
    shown = chromium.run("document.querySelector('.result b').textContent").replace("−", "-")
    assert float(shown.replace(",", "")) == pytest.approx(totals[i, j], rel=1e-3)
    assert "standard deviations of these" in texts(chromium, ".result")[0]  # of ranks
    path = chromium.run(
        f"""bigdag.shortestPath({i}, {j}, false)
          .map(a => [bigdag.graph.source[a], bigdag.graph.target[a]])"""
    )
    assert len(path) == 2
    assert (path[0][0], path[1][1], path[0][1]) == (i, j, path[1][0])
    assert all(pattern[a, b] for a, b in path)
    on_way = set(chromium.run(f"bigdag.between({i}, {j})"))
    reach = np.eye(dag.n_nodes, dtype=bool)
    for _ in range(dag.n_nodes):
        reach |= reach @ pattern
    assert on_way == set(np.flatnonzero(reach[i] & reach[:, j]))
    # The other way round there is none, and the page says so.
    chromium.run(
        """Array.from(document.querySelectorAll("#details button"))
          .find(b => b.textContent === "The other way round").click()"""
    )
    chromium.wait("document.querySelector('.result b').textContent === '0'")
    assert "one the other way round" in texts(chromium, "#lead")[0]
    go(chromium, f"from={dag.names[i]}&to={dag.names[i]}")
    assert "same variable" in texts(chromium, "#lead")[0]
    assert chromium.complaints() == []


def slide(chromium, box, value):
    chromium.run(
        f"""(() => {{ const box = document.getElementById("{box}"); box.value = {value};
        box.dispatchEvent(new Event("input")); box.dispatchEvent(new Event("change")); }})()"""
    )
    chromium.run("new Promise(done => setTimeout(done, 30))")


def kept(chromium):
    text = chromium.run("document.getElementById('kept').value")
    return int(text.removeprefix("all ").split()[0].replace(",", ""))


def test_sliders_leave_the_arcs_that_they_say(chromium, page, dag):
    chromium.open(page)
    assert kept(chromium) == dag.n_arcs
    slide(chromium, "weight", 500)
    least = chromium.run("bigdag.state().w")
    sizes = np.abs(dag.weights.data)
    assert 0.3 < np.mean(sizes < least) < 0.7
    expected = sizes >= least
    assert kept(chromium) == expected.sum()
    slide(chromium, "probability", 0.8)
    expected &= dag.arc_data["adjacency"] >= 0.8
    assert kept(chromium) == expected.sum() > 3
    chromium.run("document.getElementById('directed').click()")
    chromium.wait("location.hash.includes('directed=1')")
    directed = ~(np.asarray(dag._arcs().reversible))
    expected &= directed
    assert kept(chromium) == expected.sum()
    ranked = dag._arcs().pick(expected).strongest_first()
    arcs = sorted(drawn_arcs(chromium))
    ends = chromium.run(f"{arcs}.map(a => [bigdag.graph.source[a], bigdag.graph.target[a]])")
    assert ends == list(map(list, zip(ranked.source[:25].tolist(), ranked.target[:25].tolist())))
    slide(chromium, "top", 3)
    assert kept(chromium) == 3
    assert drawn_arcs(chromium)[::-1] == arcs[:3]
    go(chromium, chromium.run("location.hash.slice(1)") + "&tab=arcs")
    assert (
        chromium.run("document.querySelector('#table table').getAttribute('aria-rowcount')") == "4"
    )
    chromium.run("document.getElementById('reset').click()")
    chromium.wait("!location.hash.includes('k=')")
    assert kept(chromium) == dag.n_arcs
    assert chromium.complaints() == []


def test_moving_a_slider_is_one_step_back(chromium, page, dag):
    chromium.open(page)
    go(chromium, "v=gene_05")
    for value in (100, 300, 600):
        chromium.run(
            f"""(() => {{ const box = document.getElementById("weight"); box.value = {value};
            box.dispatchEvent(new Event("input")); }})()"""
        )
        chromium.run("new Promise(done => setTimeout(done, 30))")
    chromium.run("document.getElementById('weight').dispatchEvent(new Event('change'))")
    assert kept(chromium) < dag.n_arcs
    chromium.run("history.back()")
    chromium.wait("location.hash === '#v=gene_05'")
    chromium.wait(f"document.getElementById('kept').value.startsWith('all {dag.n_arcs}')")


def test_arcs_look_like_what_they_are(chromium, page, dag):
    """Colours of sign, dashes, opacity of probability, no head where open, a mark if required."""
    chromium.open(page)
    looks = chromium.run(
        """Array.from(document.querySelectorAll("#plot [data-arc]"), g => {
          const a = Number(g.dataset.arc), line = g.querySelector("path");
          return [a, getComputedStyle(line).stroke, line.getAttribute("stroke-dasharray"),
            Number(g.getAttribute("opacity")), g.querySelectorAll("polygon").length,
            Number(line.getAttribute("stroke-width"))];
        })"""
    )
    arcs = dag._arcs().strongest_first()
    colours = {True: set(), False: set()}
    for a, colour, dashes, opacity, marks, thick in looks:
        colours[bool(arcs.weight[a] > 0)].add(colour)
        assert (dashes is None) == (arcs.weight[a] > 0)
        assert opacity == pytest.approx(0.2 + 0.7 * arcs.columns["adjacency"][a], abs=0.006)
        assert marks == int(not arcs.reversible[a]) + int(arcs.columns["required"][a])
        assert 1 < thick <= 4
    assert len(colours[True]) == len(colours[False]) == 1
    assert colours[True] != colours[False]
    assert {"no head: direction open", "diamond: required"} <= set(texts(chromium, "#legend span"))


# ---------------------------------------------------------------- the table


def rows(chromium):
    return chromium.run(
        """Array.from(document.querySelectorAll("#table tbody tr:not(.space)"), r =>
          [Number(r.getAttribute("aria-rowindex")), ...Array.from(r.cells, c => c.textContent)])"""
    )


@pytest.fixture(scope="module")
def long_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "dag.html"
    simulate.random_dag(3000, 2, rng=1).to_html(path)
    return path


def test_the_table_holds_only_what_is_in_view(chromium, long_page):
    chromium.open(long_page)
    go(chromium, "tab=arcs")
    assert texts(chromium, "#arcs-said") == ["6,000 arcs"]
    first = rows(chromium)
    assert 15 < len(first) < 80
    assert [row[0] for row in first] == list(range(2, 2 + len(first)))
    chromium.run("document.getElementById('table').scrollTop = 1e9")
    chromium.wait("document.querySelector('#table [aria-rowindex=\"6001\"]')")
    assert len(rows(chromium)) < 80
    chromium.run("document.getElementById('table').scrollTop = 3000 * 30")
    chromium.wait("document.querySelector('#table [aria-rowindex=\"3005\"]')")
    top = chromium.run(
        """(() => { const box = document.getElementById("table").getBoundingClientRect();
        return Number(document.elementFromPoint(box.left + 300, box.top + 100).closest("tr")
          .getAttribute("aria-rowindex")); })()"""
    )
    assert abs(top - 3004) <= 3
    assert chromium.complaints() == []


def test_the_table_sorts_and_filters(chromium, page, dag):
    chromium.open(page)
    go(chromium, "tab=arcs")
    heads = texts(chromium, "#table th")
    assert heads == ["cause", "↔", "effect", "weight", "probability", "adjacency", "required"]

    def press(title):
        chromium.run(
            f"""Array.from(document.querySelectorAll("#table th button"))
              .find(b => b.textContent === {json.dumps(title)}).click()"""
        )
        chromium.run("new Promise(done => setTimeout(done, 30))")
        return chromium.run(
            """Array.from(bigdag.table().rows(), a =>
              [bigdag.graph.names[bigdag.graph.source[a]], bigdag.graph.weight[a],
               bigdag.graph.arcData.adjacency[a]])"""
        )

    by_weight = [abs(row[1]) for row in press("weight")]
    assert by_weight == sorted(by_weight, reverse=True)
    assert len(by_weight) == dag.n_arcs
    assert chromium.run(
        "document.querySelectorAll('#table th')[3].getAttribute('aria-sort')"
    ) == "descending"  # fmt: skip
    rising = [abs(row[1]) for row in press("weight")]
    assert rising == sorted(rising)
    by_name = [row[0] for row in press("cause")]
    assert by_name == sorted(by_name)
    by_pair = [row[2] for row in press("adjacency")]
    assert by_pair == sorted(by_pair, reverse=True)
    chromium.run("document.getElementById('words').focus()")
    chromium.type("GENE_0 gene_5")
    chromium.wait("location.hash.includes('q=')")
    for _, cause, _, effect, *_ in rows(chromium):
        pair = f"{cause} {effect}"
        assert "gene_0" in pair
        assert "gene_5" in pair
    names = {"gene_0", "gene_5"}
    arcs = dag.edges()
    expected = sum(
        all(any(n in end for end in (s, t)) for n in names)
        for s, t in zip(arcs["source"], arcs["target"])
    )
    assert len(chromium.run("Array.from(bigdag.table().rows())")) == expected > 0
    chromium.run("document.querySelector('#table tbody .name').click()")
    chromium.wait("!document.getElementById('graph').hidden")


def test_a_link_leads_to_the_same_view(chromium, page, tmp_path):
    chromium.open(page)
    fragment = "tab=arcs&v=gene_03&r=2&w=0.7&p=0.6&k=20&directed=1&q=gene_1&sort=weight%2B"
    go(chromium, fragment)
    state = chromium.run("bigdag.state()")
    seen = rows(chromium)
    chromium.call("Page.navigate", url="about:blank")
    chromium.call("Page.navigate", url=f"{page.resolve().as_uri()}#{fragment}")
    chromium.run("new Promise(done => document.readyState === 'complete' ? done() :"
                 " addEventListener('load', () => done()))")  # fmt: skip
    assert chromium.run("bigdag.state()") == state
    assert rows(chromium) == seen
    go(chromium, "v=no_such_gene")
    assert "There is no variable “no_such_gene”" in texts(chromium, "#lead")[0]
    for odd in ("v=%E0%A4", "w=NaN&p=-4&k=1e99&r=99&tab=x&sort=x", "&&==%", "from=a&to=b"):
        go(chromium, odd)
    assert chromium.complaints() == []


# ---------------------------------------------------------------- what can be taken away


def saved(chromium, folder, button):
    """Press a button that saves a file, and return its bytes."""
    before = set(folder.iterdir())
    chromium.run(f"document.getElementById('{button}').click()")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        chromium.run("1")  # its events are read
        new = [p for p in folder.iterdir() if p not in before and p.suffix != ".crdownload"]
        if new and new[0].stat().st_size:
            return new[0]
        time.sleep(0.02)
    raise AssertionError(f"{button} saved nothing")


def test_files_of_what_is_shown(chromium, page, dag, tmp_path):
    from xml.etree import ElementTree

    chromium.open(page, dark=True)
    chromium.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    go(chromium, "v=gene_07&r=2")
    picture = saved(chromium, tmp_path, "svg")
    assert picture.name == "gene_07.svg"
    tree = ElementTree.fromstring(picture.read_text("utf-8"))
    words = {e.text for e in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"gene_07"} <= words
    assert "var(" not in picture.read_text("utf-8")
    assert saved(chromium, tmp_path, "png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    part = dag.neighbourhood("gene_07", 2)
    arcs = DAG.load(saved(chromium, tmp_path, "csv")).edges()
    expected = part.edges()
    for table in (arcs, expected):
        table.sort_values(["source", "target"], inplace=True, ignore_index=True)
    assert arcs.equals(expected[arcs.columns])
    go(chromium, "tab=overview")
    chromium.wait("bigdag.overview().isSharp()")
    assert saved(chromium, tmp_path, "overview-png").read_bytes()[:4] == b"\x89PNG"
    whole = ElementTree.fromstring(saved(chromium, tmp_path, "overview-svg").read_text("utf-8"))
    assert len(list(whole.iter("{http://www.w3.org/2000/svg}line"))) == dag.n_arcs
    go(chromium, "tab=arcs")
    assert len(DAG.load(saved(chromium, tmp_path, "table-csv")).edges()) == dag.n_arcs
    chromium.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    chromium.run("document.getElementById('link').click()")
    chromium.wait("document.getElementById('said').textContent === 'The link is copied.'")
    assert chromium.complaints() == []


# ---------------------------------------------------------------- the overview


def test_the_overview_moves_and_opens_what_is_clicked(chromium, page, dag):
    chromium.open(page)
    go(chromium, "tab=overview")
    chromium.wait("bigdag.overview() && bigdag.overview().isSharp()")
    colours = chromium.run(
        """(() => { const c = document.getElementById("canvas");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(d.buffer)).size; })()"""
    )
    assert colours > 50
    before = chromium.run("bigdag.overview().look()")
    chromium.run("document.getElementById('canvas').focus()")
    for key in ("+", "ArrowLeft", "ArrowUp"):
        chromium.press(key, text=key if key == "+" else None)
    after = chromium.run("bigdag.overview().look()")
    assert after["scale"] == pytest.approx(1.3 * before["scale"])
    assert after["x"] < before["x"]
    assert after["y"] < before["y"]
    box = chromium.run(
        """(() => { const b = document.getElementById("canvas").getBoundingClientRect();
        return [b.left, b.top, b.width, b.height]; })()"""
    )
    middle = (box[0] + box[2] / 2, box[1] + box[3] / 2)
    chromium.call("Input.dispatchMouseEvent", type="mouseWheel", x=middle[0], y=middle[1],
                  deltaX=0, deltaY=-240)  # fmt: skip
    chromium.wait(f"bigdag.overview().look().scale > {after['scale']} * 1.2")
    for kind, x in (("mousePressed", 0), ("mouseMoved", 50), ("mouseReleased", 50)):
        chromium.call("Input.dispatchMouseEvent", type=kind, x=middle[0] + x, y=middle[1],
                      button="left", buttons=1, clickCount=1)  # fmt: skip
    moved = chromium.run("bigdag.overview().look()")
    chromium.press("0", 48, "0")
    assert chromium.run("bigdag.overview().look()") == before
    assert moved["x"] != before["x"]
    chromium.wait("bigdag.overview().isSharp()")
    x, y = chromium.run("bigdag.overview().place(7)")
    chromium.click(box[0] + x, box[1] + y)
    chromium.wait("document.getElementById('heading').textContent === 'gene_07'")
    assert chromium.complaints() == []


def test_the_overview_zooms_between_two_fingers_and_is_sharp_on_fine_screens(chromium, page):
    chromium.open(page)
    go(chromium, "tab=overview")
    chromium.wait("bigdag.overview() && bigdag.overview().isSharp()")
    left, top = chromium.run(
        """(() => { const b = document.getElementById("canvas").getBoundingClientRect();
        return [b.left, b.top]; })()"""
    )
    before = chromium.run("bigdag.overview().look().scale")
    chromium.call("Emulation.setTouchEmulationEnabled", enabled=True)
    for kind, wide in (("touchStart", 100), ("touchMove", 160), ("touchMove", 200)):
        points = [
            {"x": left + 300 + side * wide / 2, "y": top + 200, "id": side} for side in (-1, 1)
        ]
        chromium.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    chromium.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    chromium.call("Emulation.setTouchEmulationEnabled", enabled=False)
    chromium.wait(f"bigdag.overview().look().scale > {1.9 * before}")
    width = chromium.run("document.getElementById('canvas').width")
    chromium.call("Emulation.setDeviceMetricsOverride", width=1400, height=900,
                  deviceScaleFactor=2, mobile=False)  # fmt: skip
    chromium.run("dispatchEvent(new Event('resize'))")
    chromium.wait("bigdag.overview().isSharp()")
    assert chromium.run("document.getElementById('canvas').width") == 2 * width
    assert chromium.complaints() == []


def test_a_frame_of_a_large_graph_draws_a_slice_of_it(chromium, long_page):
    """While one moves, no frame waits for all arcs, and the picture is sharp in the end."""
    chromium.open(long_page)
    go(chromium, "tab=overview")
    chromium.wait("bigdag.overview() && bigdag.overview().isSharp()")
    paints = chromium.run(
        """new Promise(done => {
          const map = bigdag.overview(), before = map.frames.paints;
          let k = 0;
          const step = () => {
            if (k++ >= 30) { done(map.frames.paints - before); return; }
            map.zoom(1.02);
            map.pan(3, 2);
            requestAnimationFrame(step);
          };
          step();
        })"""
    )
    assert 28 <= paints <= 32  # one for each, not one for each change
    chromium.wait("bigdag.overview().isSharp()")
    assert chromium.complaints() == []


# ---------------------------------------------------------------- odd graphs and odd names


def test_how_it_was_learnt(chromium, page):
    chromium.open(page)
    go(chromium, "tab=learnt")
    said = chromium.run("document.getElementById('learnt').innerText")
    for words in ("auto", "500", "gamma", "Normal scores of ranks.", "3 columns are skewed.", "2.4",
                  "100 of 100 resamples", "odd thing", "from 9.5 to 7.125"):  # fmt: skip
        assert words in said, words


@pytest.mark.parametrize("kind", ["nothing", "one", "no arcs", "one arc", "plain"])
def test_odd_graphs_have_a_page_without_faults(chromium, tmp_path, kind):
    dag = {
        "nothing": DAG(np.zeros((0, 0))),
        "one": DAG([[0.0]]),
        "no arcs": DAG(np.zeros((5, 5))),
        "one arc": DAG([[0, -1e-12], [0, 0]], reversible=[[0, 1], [0, 0]]),
        "plain": DAG(np.triu(np.ones((4, 4)), 1), arc_data={"probability": [np.nan] * 6}),
    }[kind]
    path = tmp_path / "dag.html"
    dag.to_html(path)
    for width in (400, 1400):
        chromium.open(path, width)
        for tab in TABS[1:]:
            go(chromium, f"tab={tab}&v=x0")
        go(chromium, "v=x0")
        go(chromium, "from=x0&to=x1")
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert chromium.run(STICKS_OUT) == []
        assert chromium.complaints() == []


HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)' autofocus onfocus='alert(3)",
    "<svg onload=alert(4)>",
    "javascript:alert(5)",
    "a\u2028b",
    "\u202eabc\u200f",
    '=HYPERLINK("x")',
    "'quoted",
    "x" * 4000,
    "a&tab=arcs#v=%00",
    "line\nbreak, and comma",
    "",
    " ",
    "עברית",
]


def test_hostile_names_are_text_everywhere(chromium, tmp_path):
    d = len(HOSTILE)
    about = {"method": HOSTILE[0], "findings": HOSTILE, "parameters": {HOSTILE[1]: HOSTILE[0]},
             HOSTILE[3]: HOSTILE[2], "versions": {HOSTILE[1]: HOSTILE[0]}}  # fmt: skip
    weights = sparse.csc_array(np.triu(np.ones((d, d)), 1))
    dag = DAG(weights, names=HOSTILE, about=about)
    path = tmp_path / "dag.html"
    dag.to_html(path, title=HOSTILE[0])
    for width in (400, 1400):
        chromium.open(path, width)
        for tab in TABS:
            go(chromium, f"tab={tab}")
            assert chromium.run("document.documentElement.scrollWidth") <= width
            assert chromium.run(STICKS_OUT) == []
    for v in range(d):
        chromium.run("location.hash = '#x'")
        chromium.run(f"document.getElementById('search').value = bigdag.graph.names[{v}]")
        chromium.run("document.getElementById('search').dispatchEvent(new Event('input'))")
        chromium.run(f"location.hash = '#' + new URLSearchParams({{v: bigdag.graph.names[{v}]}})")
        chromium.wait(f"bigdag.state().v === bigdag.graph.names[{v}]")
        assert len(listed(chromium, "Markov")) == d - 1
    kinds = set(chromium.run("Array.from(document.querySelectorAll('*'), e => e.localName)"))
    assert not {"img", "iframe", "object", "embed", "base"} & kinds
    assert chromium.run("document.scripts.length") == 2
    assert chromium.run(
        """Array.from(document.querySelectorAll("*")).flatMap(e => Array.from(e.attributes))
          .filter(a => a.name.startsWith("on") || a.name === "srcdoc").map(a => a.name)"""
    ) == []  # fmt: skip
    # What turns text around or cannot be seen is shown as an escape.
    go(chromium, "tab=arcs")
    shown = set(texts(chromium, "#table .name"))
    assert HOSTILE[0] in shown
    assert "\\u202eabc\\u200f" in shown
    # Into a picture names go as text, and out of a CSV they come as they are.
    go(chromium, "")
    svg = chromium.run("new XMLSerializer().serializeToString(bigdag.paperPicture())")
    assert "<script" not in svg
    csv = tmp_path / "arcs.csv"
    csv.write_bytes(chromium.run("bigdag.csvOf(Array.from(bigdag.graph.source.keys()))").encode())
    assert b"\n=" not in csv.read_bytes()
    again = DAG.load(csv)
    assert sorted(again.names) == sorted(HOSTILE)
    assert again.n_arcs == dag.n_arcs
    assert chromium.complaints() == []


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
    copy.write_text(written.replace("</header>", f"</header>{inserted}"), "utf-8")
    chromium.open(copy, wait_for_images=False)
    chromium.run("document.querySelector('#bait').click()")
    chromium.run("new Promise(done => setTimeout(done, 100))")
    refused = str(chromium.complaints())
    assert "dialog" not in refused
    for words in ("inline script", "inline event handler", "inline style"):
        assert words in refused.lower(), refused
    assert chromium.run("getComputedStyle(document.querySelector('h1')).color") != "rgb(1, 2, 3)"
    assert chromium.run("bigdag.graph.d") == 60  # its own script has run


def test_it_works_in_a_frame_of_another_page(chromium, page, tmp_path):
    """As in a notebook's cell, or in a site: links stay inside of the frame."""
    from html import escape

    outer = tmp_path / "outer.html"
    outer.write_text(
        f'<iframe srcdoc="{escape(page.read_text("utf-8"))}" width="900" height="700"></iframe>',
        "utf-8",
    )
    chromium.open(outer)
    inner = "document.querySelector('iframe').contentWindow"
    chromium.wait(f"{inner}.bigdag")
    chromium.run(f"{inner}.document.querySelector('#details .name').click()")
    chromium.wait(f"{inner}.bigdag.state().v")
    chromium.run(
        f"""(() => {{ const box = {inner}.document.getElementById("weight");
        for (const at of [400, 401, 402]) {{
          box.value = at;
          box.dispatchEvent(new Event("input"));
        }}
        }})()"""
    )
    chromium.wait(f"{inner}.bigdag.state().w > 0")
    chromium.run(f"{inner}.document.getElementById('tab-overview').click()")
    chromium.wait(f"{inner}.bigdag.overview() && {inner}.bigdag.overview().isSharp()")
    assert chromium.complaints() == []


def test_the_page_can_be_heard_and_used_by_keys(chromium, page):
    chromium.open(page)
    assert chromium.run("document.documentElement.lang") == "en"
    assert chromium.run(
        """Array.from(document.querySelectorAll("input, select"))
          .filter(i => i.labels.length !== 1).map(i => i.id)"""
    ) == []  # fmt: skip
    assert chromium.run(
        """(() => { const ids = Array.from(document.querySelectorAll("[id]"), e => e.id);
          return ids.length === new Set(ids).size; })()"""
    )
    nodes = chromium.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
    ]
    for role, name in named:
        if role in ("button", "tab", "combobox", "searchbox", "slider", "checkbox", "spinbutton"):
            assert name, role
    assert ("tab", "Table of arcs") in named
    assert any(role == "button" and name.startswith("gene_") for role, name in named)
    chromium.run("document.getElementById('tab-graph').focus()")
    chromium.press("ArrowRight", 39)
    chromium.wait("!document.getElementById('overview').hidden")
    assert chromium.run("document.activeElement.id") == "tab-overview"
    chromium.press("End", 35)
    chromium.wait("!document.getElementById('learnt').hidden")


def test_it_prints_dark_on_white(chromium, page, dag):
    """On paper nothing is dark, tools are left out, and how it was learnt is there."""
    chromium.open(page, dark=True)
    go(chromium, "v=gene_07")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    chromium.call("Emulation.setEmulatedMedia", media="print", features=features)
    colours = chromium.run(
        """[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
          getComputedStyle(document.querySelector("#plot rect")).fill]"""
    )
    assert colours[0] in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
    assert colours[1] == "rgb(0, 0, 0)"
    assert colours[2] != "rgb(34, 37, 42)"
    visible = chromium.run(
        """["search", "svg", "plot", "learnt"].map(id => document.getElementById(id)
          .checkVisibility())"""
    )
    assert visible == [False, False, True, True]
    assert len(chromium.call("Page.printToPDF", printBackground=True)["data"]) > 10000
    chromium.call("Emulation.setEmulatedMedia", media="screen", features=features)
    go(chromium, "tab=arcs")
    before = len(rows(chromium))
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert len(rows(chromium)) == dag.n_arcs > before
    chromium.run("dispatchEvent(new Event('afterprint'))")
    assert len(rows(chromium)) == before
    go(chromium, "tab=overview")
    chromium.wait("bigdag.overview() && bigdag.overview().isSharp()")
    corner = """(() => { const copy = new OffscreenCanvas(1, 1).getContext("2d");
      copy.drawImage(document.getElementById("canvas"), 0, 0);
      return Array.from(copy.getImageData(0, 0, 1, 1).data.slice(0, 3)); })()"""
    assert chromium.run(corner) == [22, 22, 22]
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert chromium.run(corner) == [255, 255, 255]
    assert chromium.complaints() == []
