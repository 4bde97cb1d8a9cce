// The table of arcs: sorted and filtered, with only the rows in view in the document.

const ROW = 30; // pixels
const MOST_PIXELS = 8e6; // browsers do not scroll further; beyond, scrolling jumps rows
const PRINTED = 1000; // rows on paper, at the most
const SPARE = 6; // rows beyond each edge

const MEANING = {
  source: "the cause; of an undirected arc, one of its ends",
  target: "the effect; of an undirected arc, the other end",
  direction: "→ directed, – the data cannot tell the direction",
  weight: "what raising the cause by one adds to the effect; sorted by its size",
  probability: "how sure this arc is, in this direction",
  adjacency: "how sure it is that the two are joined, either way",
  frequency: "the share of the resamples with this arc in this direction",
  weight_se: "the standard error of the weight, over the resamples",
  evidence: "what the extended BIC loses without the arc",
  required: "known beforehand to be there",
};

function tableOf(box, { go, changed }) {
  const columns = [
    {
      name: "source",
      title: "cause",
      value: (arc) => namePlaces()[graph.source[arc]],
      node: (arc) => graph.source[arc],
    },
  ];
  if (graph.undirected !== null) {
    columns.push({
      name: "direction",
      title: "",
      value: (arc) => (isOpen(arc) ? 1 : 0),
      text: (arc) => (isOpen(arc) ? "–" : "→"),
      label: "direction",
      mark: true,
    });
  }
  columns.push({
    name: "target",
    title: "effect",
    value: (arc) => namePlaces()[graph.target[arc]],
    node: (arc) => graph.target[arc],
  });
  columns.push({
    name: "weight",
    title: "weight",
    value: (arc) => graph.weight[arc],
    size: true,
    text: (arc) => number(graph.weight[arc]),
  });
  for (const [name, values] of Object.entries(graph.arcData)) {
    const isFlag = values instanceof Uint8Array;
    columns.push({
      name,
      title: name.replaceAll("_", " "),
      value: (arc) => values[arc],
      text: (arc) => (isFlag ? (values[arc] ? "yes" : "") : number(values[arc])),
    });
  }
  let rows = new Int32Array(0);
  let sort = { name: "", falling: true };
  const body = element("tbody");
  const table = element("table", { "aria-rowcount": 0 });
  const heads = columns.map((column) => {
    const button = element(
      "button",
      { type: "button", onclick: () => sortBy(column.name) },
      column.title || "↔",
    );
    if (column.label) button.setAttribute("aria-label", column.label);
    if (Object.hasOwn(MEANING, column.name)) button.title = MEANING[column.name];
    return element(
      "th",
      { scope: "col", "aria-sort": "none", class: column.node ? "" : column.mark ? "m" : "n" },
      button,
    );
  });
  table.append(
    element("caption", { class: "away" }, "All arcs that the filters leave, one a row"),
    element("thead", {}, element("tr", { "aria-rowindex": 1 }, ...heads)),
    body,
  );
  box.append(table);

  function sortBy(name) {
    const same = sort.name === name;
    const first = ["source", "target", "direction"].includes(name) ? false : true; // numbers begin with the largest
    if (same && sort.falling !== first) sort = { name: "", falling: true };
    else sort = { name, falling: same ? !sort.falling : first };
    changed(sort);
  }

  // Arcs that are kept and whose names have all words.
  function fill(kept, words, wanted) {
    sort = wanted;
    const has = words.map((word) => {
      const mask = new Uint8Array(graph.d);
      lowered().forEach((name, v) => {
        if (name.includes(word)) mask[v] = 1;
      });
      return mask;
    });
    const found = [];
    for (let arc = 0; arc < graph.m; arc++) {
      if (kept[arc] && has.every((mask) => mask[graph.source[arc]] || mask[graph.target[arc]]))
        found.push(arc);
    }
    rows = Int32Array.from(found);
    const column = columns.find((one) => one.name === sort.name);
    if (column) {
      const values = new Float64Array(graph.m);
      for (const arc of rows) {
        const value = column.value(arc);
        values[arc] = column.size ? Math.abs(value) : value;
      }
      const sign = sort.falling ? -1 : 1;
      rows.sort((a, b) => {
        const [p, q] = [values[a], values[b]];
        // What has no value comes last either way.
        if (p !== p || q !== q) return (p !== p) - (q !== q) || a - b;
        return sign * (p - q) || a - b;
      });
    }
    heads.forEach((head, k) => {
      head.setAttribute(
        "aria-sort",
        columns[k].name !== sort.name ? "none" : sort.falling ? "descending" : "ascending",
      );
    });
    table.setAttribute("aria-rowcount", rows.length + 1);
    box.scrollTop = 0;
    drawnFrom = -1;
    draw();
  }

  let drawnFrom = -1;
  let drawnTo = -1;
  function draw() {
    const height = box.clientHeight;
    if (!height) return;
    const all = Math.min(rows.length * ROW, MOST_PIXELS);
    const fits = Math.ceil(height / ROW);
    const share = all > height ? Math.min(1, box.scrollTop / (all - height + ROW)) : 0;
    const scaled = rows.length * ROW > MOST_PIXELS;
    const first = scaled
      ? Math.round(share * Math.max(0, rows.length - fits + 1))
      : Math.floor(box.scrollTop / ROW);
    const from = Math.max(0, Math.min(rows.length, first - SPARE));
    const to = Math.min(rows.length, first + fits + SPARE);
    if (from === drawnFrom && to === drawnTo) return;
    drawnFrom = from;
    drawnTo = to;
    const above = scaled ? Math.max(0, box.scrollTop - (first - from) * ROW) : from * ROW;
    const below = Math.max(0, all - above - (to - from) * ROW);
    const made = [spacer(above)];
    for (let k = from; k < to; k++) made.push(row(k));
    made.push(spacer(below));
    body.replaceChildren(...made);
  }

  function spacer(height) {
    const cell = element("td", { colspan: columns.length });
    cell.style.height = height + "px";
    return element("tr", { class: "space", "aria-hidden": "true" }, cell);
  }

  function row(k) {
    const arc = rows[k];
    return element(
      "tr",
      { "aria-rowindex": k + 2, "data-arc": arc, class: isRequired(arc) ? "required" : "" },
      ...columns.map((column) => {
        if (column.node) return element("td", {}, nameButton(column.node(arc), go, 34));
        const sign =
          column.name === "weight" ? (graph.weight[arc] < 0 ? " negative" : " positive") : "";
        return element("td", { class: (column.mark ? "m" : "n") + sign }, column.text(arc));
      }),
    );
  }

  box.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(box);
  return {
    fill,
    // On paper there is no scrolling: the first rows, whatever is in view.
    toPaper: () => {
      body.replaceChildren(...Array.from(rows.subarray(0, PRINTED), (_, k) => row(k)));
    },
    fromPaper: () => {
      drawnFrom = -1;
      draw();
    },
    rows: () => rows,
    sort: () => sort,
    names: () => columns.map((column) => column.name),
  };
}
