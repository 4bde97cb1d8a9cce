// The page: what is shown is a state, which the address holds after its #; controls change the
// address, and the address is shown. So the browser's back and forward lead through the views.

const TABS = ["graph", "overview", "arcs", "learnt"];
const everything = {
  tab: "graph",
  v: null, // a name, which may be empty
  r: "1",
  from: null,
  to: null,
  w: 0,
  p: 0,
  k: 0,
  directed: false,
  q: "",
  sort: "",
};
let state = { ...everything };
let filtered = null; // {kept, count} of the filter in `filteredBy`
let filteredBy = "";
let overview = null;

const magnitudes = Float64Array.from(graph.weight, Math.abs).sort();

function stateOf(address) {
  const given = new URLSearchParams(address.replace(/^#/, ""));
  const text = (name) => given.get(name) ?? everything[name];
  const positive = (name) => {
    const value = Number(given.get(name));
    return Number.isFinite(value) && value > 0 ? value : 0;
  };
  const tab = TABS.includes(given.get("tab")) ? given.get("tab") : "graph";
  const r = ["1", "2", "3", "4", "blanket"].includes(given.get("r")) ? given.get("r") : "1";
  const p = graph.probability === null ? 0 : Math.min(1, positive("p"));
  return {
    tab,
    v: text("v"),
    r,
    from: text("from"),
    to: text("to"),
    w: positive("w"),
    p,
    k: Math.floor(positive("k")),
    directed: given.get("directed") === "1" && graph.undirected !== null,
    q: text("q"),
    sort: text("sort"),
  };
}

function addressOf(wanted) {
  const given = new URLSearchParams();
  for (const [name, usual] of Object.entries(everything)) {
    const value = wanted[name];
    if (value !== usual) given.set(name, value === true ? "1" : String(value));
  }
  return "#" + given.toString();
}

// Go to another view; a new entry of the history, unless one is only moving a slider.
function go(change, replaces = false) {
  const address = addressOf({ ...state, ...change });
  if (address === addressOf(state)) return;
  // From the address itself: in a frame of a notebook, "#..." alone would mean the notebook's.
  if (replaces) location.replace(location.href.replace(/#.*$/s, "") + address);
  else location.hash = address;
}

const openVariable = (v) => {
  byId("search").value = graph.names[v];
  go({ tab: "graph", v: graph.names[v], from: null, to: null });
};

function filter() {
  const key = [state.w, state.p, state.k, state.directed].join();
  if (filtered === null || key !== filteredBy) {
    filtered = keptArcs({
      weight: state.w,
      probability: state.p,
      top: state.k || Infinity,
      directed: state.directed,
    });
    filteredBy = key;
  }
  return filtered;
}

function show() {
  const before = state;
  // What had the focus may be drawn anew: then it goes to the variable that was opened.
  const wasInside = ["plot", "details", "table"].some(
    (id) => byId(id) !== document.activeElement && byId(id).contains(document.activeElement),
  );
  state = stateOf(location.hash);
  const { kept, count: left } = filter();
  for (const tab of TABS) {
    const isOn = tab === state.tab;
    byId(tab).hidden = !isOn;
    byId("tab-" + tab).setAttribute("aria-selected", String(isOn));
    byId("tab-" + tab).tabIndex = isOn ? 0 : -1;
  }
  byId("weight").value = String(positionOf(state.w));
  byId("weight-said").value = state.w ? number(state.w, 3) : "any";
  byId("weight").setAttribute("aria-valuetext", byId("weight-said").value);
  byId("probability").value = String(state.p);
  byId("probability-said").value = state.p ? number(state.p, 2) : "any";
  if (document.activeElement !== byId("top")) byId("top").value = state.k || "";
  byId("directed").checked = state.directed;
  byId("kept").value =
    left === graph.m
      ? "all " + counted(graph.m, "arc")
      : count(left) + " of " + counted(graph.m, "arc");
  byId("reset").hidden = left === graph.m && !state.w && !state.p && !state.k && !state.directed;
  if (document.activeElement !== byId("words")) byId("words").value = state.q;
  byId("radius").value = state.r;
  if (state.v !== before.v) byId("search").value = state.v ?? "";
  byId("from").value = state.from ?? byId("from").value;
  byId("to").value = state.to ?? byId("to").value;
  if (state.tab === "graph") showGraph(kept);
  if (state.tab === "overview") showOverview(kept, state.v !== before.v);
  if (state.tab === "arcs") showTable(kept);
  if (wasInside && document.activeElement === document.body) {
    const drawnNow = document.querySelector(`#plot [data-v="${indexOf(state.v ?? "")}"]`);
    (state.tab === "graph" && drawnNow ? drawnNow : byId("tab-" + state.tab)).focus();
  }
  document.title = (state.v === null ? "" : visible(clipped(state.v, 60)) + " · ") + title;
}

// ---------------------------------------------------------------- overview and table

function showOverview(kept, isNew) {
  if (overview === null) {
    overview = overviewOf(byId("canvas"), {
      go: openVariable,
      told: (text) => {
        byId("overview-said").textContent = text;
      },
    });
    byId("canvas").setAttribute(
      "aria-label",
      `Overview of ${counted(graph.d, "variable")} and ${counted(graph.m, "arc")}, in layers from causes to effects. The table of arcs has the same in words.`,
    );
  }
  const v = state.v === null ? -1 : indexOf(state.v);
  overview.show(kept, v);
  if (isNew && v >= 0 && overview.look().scale > 15) overview.centre(v);
}

let table = null;
function showTable(kept) {
  if (table === null) {
    table = tableOf(byId("table"), {
      go: openVariable,
      changed: (sort) => go({ sort: sort.name ? sort.name + (sort.falling ? "-" : "+") : "" }),
    });
  }
  const found = state.sort.match(/^(.*)([+-])$/);
  const sort =
    found && table.names().includes(found[1])
      ? { name: found[1], falling: found[2] === "-" }
      : { name: "", falling: true };
  table.fill(kept, state.q.toLowerCase().split(/\s+/).filter(Boolean), sort);
  byId("arcs-said").value = counted(table.rows().length, "arc");
}

// ---------------------------------------------------------------- controls

// The slider runs over the arcs, from the weakest to the strongest, so that each step counts.
function weightAt(position) {
  if (position <= 0 || !graph.m) return 0;
  return Number(
    magnitudes[Math.min(graph.m - 1, Math.round((position / 1000) * (graph.m - 1)))].toPrecision(6),
  );
}

function positionOf(weight) {
  if (!weight || !graph.m) return 0;
  let [low, high] = [0, graph.m];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (magnitudes[middle] < weight * (1 - 1e-5)) low = middle + 1;
    else high = middle;
  }
  return graph.m > 1 ? Math.round((low / (graph.m - 1)) * 1000) : 1000;
}

const title = document.title;

function wire() {
  const said = [
    [graph.d === 1 ? "variable" : "variables", count(graph.d)],
    [graph.m === 1 ? "arc" : "arcs", count(graph.m)],
  ];
  if (graph.undirected !== null)
    said.push(["undirected", count(graph.undirected.reduce((sum, flag) => sum + flag, 0))]);
  const rows = told.about.n_rows || told.about.n_samples; // missing values make these fewer
  if (rows) said.push(["samples", count(rows)]);
  if (told.about.method) said.push(["method", visible(clipped(String(told.about.method), 40))]);
  byId("facts").append(
    ...said.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value)),
    ),
  );
  byId("filter-box").hidden = graph.m < 2; // nothing to leave out
  byId("filter-box").open = innerWidth >= 640;
  byId("path").hidden = byId("home").hidden = graph.d < 2;
  byId("probability-box").hidden = graph.probability === null;
  byId("directed-box").hidden = graph.undirected === null;
  showLearnt(byId("learnt"));

  combobox(byId("search"), byId("search-list"), openVariable);
  const both = () => {
    const [from, to] = ["from", "to"].map((id) => indexOf(byId(id).value));
    if (from >= 0 && to >= 0) openPath(from, to);
  };
  combobox(byId("from"), byId("from-list"), both);
  combobox(byId("to"), byId("to-list"), both);
  byId("path").addEventListener("submit", (event) => {
    event.preventDefault();
    const [from, to] = ["from", "to"].map((id) => byId(id).value);
    const missing = [from, to].find((name) => indexOf(name) < 0);
    if (missing === undefined) both();
    else
      say(
        missing === ""
          ? "Choose two variables."
          : `There is no variable “${visible(clipped(missing, 60))}”.`,
      );
  });
  byId("home").addEventListener("click", () => go({ tab: "graph", v: null, from: null, to: null }));
  byId("link").addEventListener("click", () => copy(location.href, "The link"));
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });

  const slide = (id, change) => {
    // Only one address for a whole movement, or back would go through all of it.
    let isMoving = false;
    byId(id).addEventListener("input", () => {
      go(change(), isMoving);
      isMoving = true;
    });
    byId(id).addEventListener("change", () => {
      isMoving = false;
    });
  };
  slide("weight", () => ({ w: weightAt(Number(byId("weight").value)) }));
  slide("probability", () => ({ p: Number(byId("probability").value) }));
  byId("top").addEventListener("input", () =>
    go({ k: Math.max(0, Math.floor(Number(byId("top").value) || 0)) }, true),
  );
  byId("directed").addEventListener("change", () => go({ directed: byId("directed").checked }));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("reset").addEventListener("click", () => {
    byId("top").value = "";
    go({ w: 0, p: 0, k: 0, directed: false });
  });
  byId("words").addEventListener("input", () => go({ q: byId("words").value }, true));
  byId("radius").addEventListener("change", () => go({ r: byId("radius").value }));

  const tabs = TABS.map((tab) => byId("tab-" + tab));
  tabs.forEach((button, k) => {
    button.addEventListener("click", () => go({ tab: TABS[k] }));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -k, End: TABS.length - 1 - k }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = (k + step + TABS.length) % TABS.length;
      tabs[next].focus();
      go({ tab: TABS[next] });
    });
  });

  byId("svg").addEventListener("click", () =>
    download(fileName(".svg"), svgText(paperPicture()), "image/svg+xml"),
  );
  byId("png").addEventListener("click", () => savePng(paperPicture(), fileName(".png")));
  byId("csv").addEventListener("click", () =>
    download(fileName(".csv"), csvOf(shown.arcs), "text/csv"),
  );
  byId("copy").addEventListener("click", () => copy(csvOf(shown.arcs), "The list of arcs"));
  byId("table-csv").addEventListener("click", () =>
    download(fileName(".csv"), csvOf(table.rows()), "text/csv"),
  );
  byId("table-copy").addEventListener("click", () => copy(csvOf(table.rows()), "The table"));
  byId("zoom-in").addEventListener("click", () => overview.zoom(1.4));
  byId("zoom-out").addEventListener("click", () => overview.zoom(1 / 1.4));
  byId("fit").addEventListener("click", () => overview.fit());
  byId("overview-png").addEventListener("click", () =>
    overview.png((blob) => download(fileName(".png"), blob)),
  );
  byId("overview-svg").addEventListener("click", () =>
    download(fileName(".svg"), svgText(overview.svg()), "image/svg+xml"),
  );
  byId("overview-csv").addEventListener("click", () =>
    download(fileName(".csv"), csvOf(overview.inView()), "text/csv"),
  );

  document.addEventListener("keydown", (event) => {
    if (
      event.key !== "/" ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
    )
      return;
    event.preventDefault();
    byId("search").focus();
    byId("search").select();
  });
  let hush = 0;
  new MutationObserver(() => {
    clearTimeout(hush);
    if (byId("said").textContent) hush = setTimeout(() => say(""), 6000);
  }).observe(byId("said"), { childList: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (overview) overview.recolour();
  });
  addEventListener("beforeprint", () => {
    if (overview && state.tab === "overview") overview.toPaper();
    if (table && state.tab === "arcs") table.toPaper();
  });
  addEventListener("afterprint", () => {
    if (overview) overview.recolour();
    if (table && state.tab === "arcs") table.fromPaper();
  });
  addEventListener("hashchange", show);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width && state.tab === "graph") {
      width = innerWidth;
      show();
    }
  });
}

wire();
show();
// For tests and benchmarks.
globalThis.bigdag = {
  graph,
  totalEffects,
  between,
  shortestPath,
  blanketOf,
  keptArcs,
  csvOf,
  overview: () => overview,
  table: () => table,
  paperPicture,
  state: () => state,
};
performance.mark("bigdag-shown");
