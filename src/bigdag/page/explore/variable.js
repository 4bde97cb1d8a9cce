// One variable with what is around it, the way from one to another, or the strongest arcs: a
// drawing, and the same as lists.

const MOST_DRAWN = 70; // variables in one drawing
const FIRST_ARCS = 25; // drawn where no variable is chosen
const LISTED = 40; // of a list of neighbours, until all are asked for
let shown = { nodes: [], arcs: [], options: {} }; // what the drawing has

function showGraph(kept) {
  const v = state.v === null ? -1 : indexOf(state.v);
  const ends = [state.from, state.to].map((name) => (name === null ? -1 : indexOf(name)));
  byId("around-tools").hidden = true;
  byId("details").replaceChildren();
  const missing = [state.v, state.from, state.to].find(
    (name) => name !== null && indexOf(name) < 0,
  );
  if (missing !== undefined) {
    head(
      "No such variable",
      `There is no variable “${visible(clipped(missing, 60))}” in this graph. Type a part of its name above.`,
    );
    paint([], [], {});
  } else if (ends[0] >= 0 && ends[1] >= 0) showPath(ends[0], ends[1]);
  else if (v >= 0) showVariable(v, kept);
  else showStrongest(kept);
}

function head(text, lead) {
  byId("heading").replaceChildren(element("bdi", {}, text));
  byId("lead").textContent = lead;
}

function showStrongest(kept) {
  const arcs = [];
  for (let arc = 0; arc < graph.m && arcs.length < FIRST_ARCS; arc++) if (kept[arc]) arcs.push(arc);
  const nodes = Array.from(new Set(arcs.flatMap((arc) => [graph.source[arc], graph.target[arc]])));
  const words = { probability: "surest", evidence: "best founded", weight: "strongest" }[
    graph.rankedBy
  ];
  const { count: left } = filter();
  if (!graph.d) head("No variables", "This graph is empty.");
  else if (!graph.m)
    head(
      "No arcs",
      graph.d === 1
        ? "The graph has a single variable."
        : `None of the ${count(graph.d)} variables is joined with another.`,
    );
  else if (!arcs.length)
    head("No arcs", "The filters leave none. Lower them, or press “Show all”.");
  else if (arcs.length === left)
    head(
      left === 1 ? "One arc" : `All ${count(left)} arcs`,
      "Click a variable, or type a name, to see what is around it.",
    );
  else
    head(
      `The ${count(arcs.length)} ${words} of ${counted(left, "arc")}`,
      "Click a variable, or type a name, to see what is around it.",
    );
  paint(nodes, arcs, {});
  const sure = graph.arcData.probability || graph.probability; // which they are ranked by
  const list = arcs.map((arc) => element("li", {}, arcLine(arc), arcNumbers(arc, sure)));
  const title = `The ${words} arcs: ${sure === null ? "weight" : "probability and weight"}`;
  if (arcs.length) byId("details").append(element("h3", {}, title), element("ul", {}, ...list));
}

// How probable an arc is, where that is known (m,), and its weight.
function arcNumbers(arc, probability) {
  const p = probability === null ? "" : number(probability[arc] * 100, 3) + " %  ";
  return element(
    "span",
    {},
    element("small", {}, p),
    element("span", { class: signOf(arc) }, number(graph.weight[arc], 3)),
  );
}

const signOf = (arc) => (graph.weight[arc] < 0 ? "negative" : "positive");

function arcLine(arc) {
  return element(
    "div",
    {},
    nameButton(graph.source[arc], openVariable, 24),
    isOpen(arc) ? " – " : " → ",
    nameButton(graph.target[arc], openVariable, 24),
  );
}

function showVariable(v, kept) {
  byId("around-tools").hidden = false;
  const near = around(v, kept);
  const blanket = blanketOf(v, kept);
  const all = state.r === "blanket" ? [v, ...blanket] : within(v, Number(state.r), kept);
  const nodes = all.slice(0, MOST_DRAWN);
  const arcs = arcsAmong(nodes, kept);
  const parts = [counted(near.causes.length, "cause"), counted(near.effects.length, "effect")];
  if (graph.undirected !== null)
    parts.push(counted(near.undirected.length, "undirected neighbour"));
  parts.push(`${counted(blanket.length, "variable")} in its Markov blanket`);
  let lead = parts.join(", ") + ".";
  if (all.length > nodes.length)
    lead += ` The ${count(nodes.length)} nearest and strongest of ${count(all.length)} variables are drawn.`;
  head(shortName(v, 200), lead);
  paint(nodes, arcs, { marked: [v] });
  const box = byId("details");
  const own = Object.entries(graph.nodeData).map(([name, values]) => {
    if (name === "noise_variance")
      return ["noise, standard deviation", number(Math.sqrt(values[v]))];
    if (values instanceof Uint8Array) return [name.replaceAll("_", " "), values[v] ? "yes" : "no"];
    // Of centred values, the mean is what rounding leaves of zero.
    const isRounding = name === "mean" && Math.abs(values[v]) < 1e-12;
    return [name.replaceAll("_", " "), number(isRounding ? 0 : values[v])];
  });
  if (own.length) box.append(facts(own));
  box.append(...arcList("Causes", near.causes, v), ...arcList("Effects", near.effects, v));
  if (graph.undirected !== null)
    box.append(...arcList("Undirected neighbours", near.undirected, v));
  box.append(
    ...listed("Markov blanket", blanket, (u) => element("li", {}, nameButton(u, openVariable, 40))),
  );
  const { effect, reached } = totalEffects(v);
  const far = [];
  for (let u = 0; u < graph.d; u++) if (u !== v && reached[u]) far.push(u);
  far.sort((a, b) => Math.abs(effect[b]) - Math.abs(effect[a]) || a - b);
  box.append(
    ...listed("Total effects on", far, (u) =>
      element(
        "li",
        {},
        nameButton(u, (to) => openPath(v, to), 40),
        element("span", { class: effect[u] < 0 ? "negative" : "positive" }, number(effect[u], 3)),
      ),
    ),
  );
}

function arcList(title, arcs, v) {
  return listed(title, arcs, (arc) => {
    const numbers = arcNumbers(arc, graph.probability);
    if (isRequired(arc)) numbers.append(" ◆");
    return element(
      "li",
      { title: arcWords(arc) },
      nameButton(otherEnd(arc, v), openVariable, 40),
      numbers,
    );
  });
}

function listed(title, items, line) {
  const list = element("ul", {}, ...items.slice(0, LISTED).map(line));
  const made = [
    element("h3", {}, `${title} (${count(items.length)})`),
    items.length ? list : element("p", { class: "pale" }, "none"),
  ];
  if (items.length > LISTED) {
    const more = element(
      "button",
      {
        type: "button",
        onclick: () => {
          list.append(...items.slice(LISTED, 5000).map(line));
          more.remove();
        },
      },
      `Show all ${count(items.length)}`,
    );
    made.push(more);
  }
  return made;
}

function openPath(from, to) {
  go({ tab: "graph", v: graph.names[from], from: graph.names[from], to: graph.names[to] });
}

// Of the whole graph, whatever the filters: an effect runs along all arcs.
function showPath(from, to) {
  const box = byId("details");
  const full = new Uint8Array(graph.m).fill(1);
  const [a, b] = [shortName(from, 40), shortName(to, 40)];
  if (from === to) {
    head(a, "Both ends are the same variable. Choose two.");
    paint([from], [], { marked: [from] });
    return;
  }
  let way = between(from, to);
  const direct = way.length > 0;
  const back = direct ? [] : between(to, from);
  let path = direct
    ? shortestPath(from, to, false)
    : back.length
      ? shortestPath(to, from, false)
      : shortestPath(from, to, true);
  const effect = direct ? totalEffects(from).effect[to] : 0;
  head(`From ${a} to ${b}`, "");
  const result = element(
    "div",
    { class: "result" },
    element("div", {}, "Total effect"),
    element("b", {}, number(effect)),
  );
  if (direct) {
    byId("lead").textContent =
      `The shortest directed path has ${counted(path.length, "arc")}; ${counted(way.length, "variable")} ` +
      "lie on directed paths between them. All arcs count here, whatever the filters.";
    result.append(
      element(
        "p",
        {},
        `Raising ${a} by one changes ${b} by this much on average, along all directed paths.`,
      ),
    );
    if (UNITS) result.append(element("p", {}, UNITS));
    const inside = arcsAmong(way, full);
    const open = inside.filter(isOpen).length;
    if (open)
      result.append(
        element(
          "p",
          {},
          `${counted(open, "arc")} on these paths ${open === 1 ? "has" : "have"} no certain direction: other effects are possible. bigdag effect shows their range.`,
        ),
      );
  } else if (back.length) {
    byId("lead").textContent =
      `There is no directed path from ${a} to ${b}, but one the other way round, with ${counted(path.length, "arc")}. All arcs count here.`;
    way = back;
    result.append(
      element(
        "p",
        {},
        `${a} does not affect ${b}. The total effect of ${b} on ${a} is ${number(totalEffects(to).effect[from])}.`,
      ),
    );
  } else if (path !== null) {
    byId("lead").textContent =
      `There is no directed path between them. The shortest way over arcs of any direction has ${counted(path.length, "arc")}.`;
    way = [from, ...path.flatMap((arc) => [graph.source[arc], graph.target[arc]])];
    result.append(element("p", {}, "Neither affects the other in this graph."));
  } else {
    byId("lead").textContent =
      "Nothing joins these two: they lie in parts of the graph without an arc between them.";
    way = [from, to];
    path = [];
    result.append(element("p", {}, "Neither affects the other in this graph."));
  }
  // The path first, then those next to it in the order.
  const on = new Set([from, to, ...path.flatMap((arc) => [graph.source[arc], graph.target[arc]])]);
  for (const v of way) {
    if (on.size >= MOST_DRAWN) break;
    on.add(v);
  }
  if (way.length > on.size) byId("lead").textContent += ` ${count(on.size)} of them are drawn.`;
  const nodes = Array.from(on);
  paint(nodes, arcsAmong(nodes, full), { marked: [from, to], path });
  box.append(result);
  if (path.length)
    box.append(
      element("h3", {}, "Along the path"),
      element(
        "ul",
        {},
        ...path.map((arc) =>
          element(
            "li",
            {},
            arcLine(arc),
            element("span", { class: signOf(arc) }, number(graph.weight[arc], 3)),
          ),
        ),
      ),
    );
  const swap = element(
    "button",
    { type: "button", onclick: () => openPath(to, from) },
    "The other way round",
  );
  box.append(element("p", {}, swap));
}

function paint(nodes, arcs, options) {
  const box = byId("plot");
  box.hidden = !nodes.length;
  const room = box.clientWidth || 900;
  const upright = room < 560;
  shown = { nodes, arcs, options };
  for (const id of ["svg", "png", "csv", "copy"]) byId(id).hidden = !nodes.length;
  legend(arcs);
  if (!nodes.length) {
    box.replaceChildren();
    return;
  }
  const label = `${counted(nodes.length, "variable")} and ${counted(arcs.length, "arc")}, causes ${upright ? "above" : "left of"} their effects`;
  const svg = picture(nodes, arcs, {
    ...options,
    go: openVariable,
    width: Math.floor(room) - 2,
    label,
    upright,
  });
  svg.classList.toggle("shrunk", Number(svg.getAttribute("width")) < room * 1.35);
  box.replaceChildren(svg);
  const centre = svg.querySelector(`[data-v="${(options.marked || [])[0]}"]`);
  if (centre) {
    const [outer, inner] = [box.getBoundingClientRect(), centre.getBoundingClientRect()];
    box.scrollTop += inner.top - outer.top - (box.clientHeight - inner.height) / 2;
    box.scrollLeft += inner.left - outer.left - (box.clientWidth - inner.width) / 2;
  }
}

function legend(arcs) {
  const sample = (...marks) =>
    drawn("svg", { width: 30, height: 10, "aria-hidden": "true" }, ...marks);
  const line = (attributes) =>
    drawn("line", {
      x1: 0,
      y1: 5,
      x2: 24,
      y2: 5,
      "stroke-width": 2.5,
      stroke: SCREEN.positive,
      ...attributes,
    });
  const entries = [];
  const add = (text, ...marks) => entries.push(element("span", {}, sample(...marks), text));
  const tip = (colour) => drawn("polygon", { points: "30,5 22,1 22,9", fill: colour });
  if (arcs.some((arc) => graph.weight[arc] > 0))
    add("positive weight", line({}), tip(SCREEN.positive));
  if (arcs.some((arc) => graph.weight[arc] < 0))
    add(
      "negative weight",
      line({ stroke: SCREEN.negative, "stroke-dasharray": "7 3" }),
      tip(SCREEN.negative),
    );
  if (graph.probability !== null && arcs.length) add("pale: less probable", line({ opacity: 0.3 }));
  if (arcs.some(isOpen)) add("no head: direction open", line({ x2: 30, stroke: SCREEN.line }));
  if (arcs.some(isRequired))
    add("diamond: required", drawn("polygon", { points: "11,5 15,1 19,5 15,9", fill: SCREEN.ink }));
  byId("legend").replaceChildren(...entries);
}

const paperPicture = () =>
  picture(shown.nodes, shown.arcs, {
    ...shown.options,
    width: 1000,
    colours: PAPER,
    label: byId("heading").textContent,
  });

const fileName = (suffix) => {
  const base =
    state.tab === "graph"
      ? state.from !== null && state.to !== null
        ? state.from + "-" + state.to
        : (state.v ?? "strongest")
      : state.tab;
  return (
    (base
      .replace(/[^\p{L}\p{N}._-]+/gu, "_")
      .replace(/^[._]+/, "")
      .slice(0, 60) || "graph") + suffix
  );
};
