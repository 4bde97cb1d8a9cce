// The graph as arrays, and the questions that can be asked of it. An arc is a number: 0 is the
// strongest. A variable is a number, too: its place in the table.

const told = JSON.parse(document.getElementById("data").textContent);

function unpacked(part) {
  const kinds = { uint8: Uint8Array, int32: Int32Array, float64: Float64Array };
  const text = atob(part.bytes);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new kinds[part.kind](bytes.buffer);
}

function unpackedAll(columns) {
  return Object.fromEntries(Object.entries(columns).map(([name, part]) => [name, unpacked(part)]));
}

// The numbers of the arcs at each variable: those of v are list[begin[v]] to list[begin[v + 1]].
function arcsBy(ends, d) {
  const begin = new Int32Array(d + 1);
  for (const v of ends) begin[v + 1]++;
  for (let v = 0; v < d; v++) begin[v + 1] += begin[v];
  const next = begin.slice(0, d);
  const list = new Int32Array(ends.length);
  ends.forEach((v, arc) => {
    list[next[v]++] = arc;
  });
  return (v) => list.subarray(begin[v], begin[v + 1]);
}

const graph = (() => {
  const names = told.names;
  const d = names.length;
  const source = unpacked(told.source);
  const target = unpacked(told.target);
  const m = source.length;
  const weight = unpacked(told.weight);
  const order = unpacked(told.order);
  const rank = new Int32Array(d);
  order.forEach((v, place) => {
    rank[v] = place;
  });
  const arcData = unpackedAll(told.arc_data);
  const pair = arcData.adjacency || arcData.probability || null;
  return {
    names,
    d,
    m,
    source,
    target,
    weight,
    order,
    rank,
    arcData,
    undirected: told.undirected === null ? null : unpacked(told.undirected),
    required: arcData.required || null,
    probability: pair, // that two variables are joined at all
    nodeData: unpackedAll(told.node_data),
    at: unpacked(told.at),
    into: arcsBy(target, d),
    outOf: arcsBy(source, d),
    rankedBy: told.ranked_by,
  };
})();

const isOpen = (arc) => graph.undirected !== null && graph.undirected[arc] === 1;
const isRequired = (arc) => graph.required !== null && graph.required[arc] === 1;
const otherEnd = (arc, v) => (graph.source[arc] === v ? graph.target[arc] : graph.source[arc]);

let indexOfName = null;
function indexOf(name) {
  if (indexOfName === null) indexOfName = new Map(graph.names.map((text, v) => [text, v]));
  const found = indexOfName.get(name);
  return found === undefined ? -1 : found;
}

// Names in the order in which people sort them.
let placesOfNames = null;
function namePlaces() {
  if (placesOfNames === null) {
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    const sorted = Array.from(graph.names.keys()).sort(
      (a, b) => compare(graph.names[a], graph.names[b]) || a - b,
    );
    placesOfNames = new Int32Array(graph.d);
    sorted.forEach((v, place) => {
      placesOfNames[v] = place;
    });
  }
  return placesOfNames;
}

let lowerNames = null;
function lowered() {
  if (lowerNames === null) lowerNames = graph.names.map((name) => name.toLowerCase());
  return lowerNames;
}

// Names that a text may mean: the name itself, those that begin with it, those that contain it.
function completions(text, most) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return { found: [], total: 0 };
  const same = [];
  const begin = [];
  const inside = [];
  lowered().forEach((name, v) => {
    const at = name.indexOf(wanted);
    if (at < 0) return;
    (name === wanted ? same : at === 0 ? begin : inside).push(v);
  });
  const degree = (v) => graph.into(v).length + graph.outOf(v).length;
  // Those with the most arcs first, where they are few enough to be sorted at every key.
  const best = (list) =>
    list.length > 5000 ? list : list.sort((a, b) => degree(b) - degree(a) || a - b);
  const found = best(same).concat(best(begin), best(inside));
  return { found: found.slice(0, most), total: found.length };
}

// Which arcs a filter leaves (m,): the strongest k of those with enough weight and probability.
function keptArcs(filter) {
  const kept = new Uint8Array(graph.m);
  let count = 0;
  for (let arc = 0; arc < graph.m && count < filter.top; arc++) {
    if (Math.abs(graph.weight[arc]) < filter.weight) continue;
    // Not >=, so that an unknown probability is kept where none is asked for.
    if (filter.probability > 0 && !(graph.probability[arc] >= filter.probability - 1e-12)) continue;
    if (filter.directed && isOpen(arc)) continue;
    kept[arc] = 1;
    count++;
  }
  return { kept, count };
}

// The arcs at a variable by what they make of the other end; the strongest first.
function around(v, kept) {
  const causes = [];
  const effects = [];
  const undirected = [];
  for (const arc of graph.into(v)) if (kept[arc]) (isOpen(arc) ? undirected : causes).push(arc);
  for (const arc of graph.outOf(v)) if (kept[arc]) (isOpen(arc) ? undirected : effects).push(arc);
  undirected.sort((a, b) => a - b);
  return { causes, effects, undirected };
}

// Parents, children and the children's other parents, as the DAG has them.
function blanketOf(v, kept) {
  const found = new Set();
  for (const arc of graph.into(v)) if (kept[arc]) found.add(graph.source[arc]);
  for (const arc of graph.outOf(v)) {
    if (!kept[arc]) continue;
    const child = graph.target[arc];
    found.add(child);
    for (const other of graph.into(child)) if (kept[other]) found.add(graph.source[other]);
  }
  found.delete(v);
  return Array.from(found);
}

// The variables within so many arcs of one, the nearest and then the strongest first.
function within(v, radius, kept) {
  const seen = new Set([v]);
  let ring = [v];
  const found = [v];
  for (let step = 0; step < radius && ring.length; step++) {
    const arcs = [];
    for (const u of ring) {
      for (const arc of graph.into(u)) if (kept[arc]) arcs.push(arc);
      for (const arc of graph.outOf(u)) if (kept[arc]) arcs.push(arc);
    }
    arcs.sort((a, b) => a - b);
    ring = [];
    for (const arc of arcs) {
      for (const u of [graph.source[arc], graph.target[arc]]) {
        if (!seen.has(u)) {
          seen.add(u);
          ring.push(u);
          found.push(u);
        }
      }
    }
  }
  return found;
}

// The arcs among some variables.
function arcsAmong(nodes, kept) {
  const inside = new Set(nodes);
  const found = [];
  for (const v of nodes) {
    for (const arc of graph.into(v))
      if (kept[arc] && inside.has(graph.source[arc])) found.push(arc);
  }
  return found.sort((a, b) => a - b);
}

// What raising one variable by one does to all others, along all directed paths (d,).
function totalEffects(cause) {
  const effect = new Float64Array(graph.d);
  const reached = new Uint8Array(graph.d);
  effect[cause] = 1;
  reached[cause] = 1;
  for (let place = graph.rank[cause] + 1; place < graph.d; place++) {
    const v = graph.order[place];
    for (const arc of graph.into(v)) {
      const u = graph.source[arc];
      if (reached[u]) {
        reached[v] = 1;
        effect[v] += effect[u] * graph.weight[arc];
      }
    }
  }
  return { effect, reached };
}

// The variables on directed paths from one to another, all of them; empty where there is none.
function between(from, to) {
  const { reached } = totalEffects(from);
  if (!reached[to]) return [];
  const onWay = new Set([to]);
  const waiting = [to];
  while (waiting.length) {
    for (const arc of graph.into(waiting.pop())) {
      const u = graph.source[arc];
      if (reached[u] && !onWay.has(u)) {
        onWay.add(u);
        waiting.push(u);
      }
    }
  }
  return Array.from(onWay);
}

// A path with the fewest arcs: the arcs in sequence, or null. Either way where `any` is true.
function shortestPath(from, to, any) {
  const came = new Map([[from, -1]]);
  let ring = [from];
  while (ring.length && !came.has(to)) {
    const next = [];
    for (const u of ring) {
      const arcs = any ? [...graph.outOf(u), ...graph.into(u)] : graph.outOf(u);
      for (const arc of arcs) {
        const v = otherEnd(arc, u);
        if (!came.has(v)) {
          came.set(v, arc);
          next.push(v);
        }
      }
    }
    ring = next;
  }
  if (!came.has(to)) return null;
  const path = [];
  for (let v = to; v !== from;) {
    const arc = came.get(v);
    path.push(arc);
    v = otherEnd(arc, v);
  }
  return path.reverse();
}
