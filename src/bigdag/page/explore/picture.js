// A drawing of some variables and the arcs among them: layers from causes to effects, as SVG.

const FONT = '13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = FONT;
const BOX = 26; // height of a box
const MOST_WAYPOINTS = 1500; // beyond, long arcs are drawn straight

// Values as near to the wishes as they can be where each is at least a step above the one before.
function apart(wishes, steps) {
  const blocks = [];
  let offset = 0;
  const offsets = wishes.map((_, k) => (k ? (offset += steps[k - 1]) : 0));
  wishes.forEach((wish, k) => {
    blocks.push({ sum: wish - offsets[k], size: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1];
      const before = blocks[blocks.length - 2];
      if (before.sum / before.size <= last.sum / last.size) break;
      before.sum += last.sum;
      before.size += last.size;
      blocks.pop();
    }
  });
  const free = blocks.flatMap((block) => Array(block.size).fill(block.sum / block.size));
  return free.map((value, k) => value + offsets[k]);
}

// Layers: the longest path from a root, and roots moved next to their effects.
function layersOf(nodes, arcs) {
  const sorted = nodes.slice().sort((a, b) => graph.rank[a] - graph.rank[b]);
  const level = new Map(sorted.map((v) => [v, 0]));
  const out = new Map(sorted.map((v) => [v, []]));
  const into = new Map(sorted.map((v) => [v, 0]));
  for (const arc of arcs) {
    out.get(graph.source[arc]).push(graph.target[arc]);
    into.set(graph.target[arc], into.get(graph.target[arc]) + 1);
  }
  for (const u of sorted) {
    for (const v of out.get(u)) level.set(v, Math.max(level.get(v), level.get(u) + 1));
  }
  for (const u of sorted.slice().reverse()) {
    const effects = out.get(u);
    if (effects.length > into.get(u))
      level.set(u, Math.min(...effects.map((v) => level.get(v))) - 1);
  }
  return { sorted, level };
}

function mean(values) {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

// Parts without an arc between them: {nodes, arcs} each, the largest first.
function partsOf(nodes, arcs) {
  const part = new Map(nodes.map((v) => [v, v]));
  const root = (v) => {
    while (part.get(v) !== v) {
      part.set(v, part.get(part.get(v)));
      v = part.get(v);
    }
    return v;
  };
  for (const arc of arcs) part.set(root(graph.source[arc]), root(graph.target[arc]));
  const found = new Map();
  for (const v of nodes) {
    if (!found.has(root(v))) found.set(root(v), { nodes: [], arcs: [], numbers: [] });
    found.get(root(v)).nodes.push(v);
  }
  arcs.forEach((arc, k) => {
    const own = found.get(root(graph.source[arc]));
    own.arcs.push(arc);
    own.numbers.push(k);
  });
  return Array.from(found.values()).sort((a, b) => b.nodes.length - a.nodes.length);
}

// Each part by itself, and then side by side in rows.
function arranged(nodes, arcs, upright, width) {
  const chains = new Array(arcs.length);
  const places = [];
  let [x, y, tall, wide] = [0, 0, 0, 0];
  const parts = partsOf(nodes, arcs).map((part) => ({
    ...part,
    ...arrangedPart(part.nodes, part.arcs, upright, width),
  }));
  const room = Math.max(width, ...parts.map((part) => part.width));
  for (const part of parts.sort((a, b) => b.height - a.height || b.width - a.width)) {
    if (x > 0 && x + part.width > room) {
      x = 0;
      y += tall;
      tall = 0;
    }
    const moved = new Set(part.places);
    part.chains.forEach((chain, k) => {
      chains[part.numbers[k]] = chain;
      chain.forEach((box) => moved.add(box));
    });
    const shift = upright ? y : x;
    for (const box of moved) {
      box.x += x;
      box.y += y;
      box.from += shift;
      box.to += shift;
    }
    places.push(...part.places);
    x += part.width;
    wide = Math.max(wide, x);
    tall = Math.max(tall, part.height);
  }
  return { chains, places, width: wide, height: y + tall };
}

// Where everything stands. A place is a box {v, w, h, x, y}, or a way-point of a long arc.
function arrangedPart(nodes, arcs, upright, width) {
  const { sorted, level } = layersOf(nodes, arcs);
  const depth = Math.max(0, ...level.values()) + 1;
  const layers = Array.from({ length: depth }, () => []);
  const longest = upright ? 15 : 22;
  const place = new Map();
  for (const v of sorted) {
    const text = clipped(nameOf(v), longest);
    const box = {
      v,
      text,
      w: Math.max(40, ruler.measureText(text).width + 18),
      h: BOX,
      near: [[], []],
    };
    place.set(v, box);
  }
  // Parts that hang together begin next to each other.
  const joined = new Map(sorted.map((v) => [v, []]));
  for (const arc of arcs) {
    joined.get(graph.source[arc]).push(graph.target[arc]);
    joined.get(graph.target[arc]).push(graph.source[arc]);
  }
  const seen = new Set();
  for (const root of sorted) {
    const stack = [root];
    while (stack.length) {
      const v = stack.pop();
      if (seen.has(v)) continue;
      seen.add(v);
      layers[level.get(v)].push(place.get(v));
      stack.push(...joined.get(v).filter((u) => !seen.has(u)));
    }
  }
  let waypoints = 0;
  for (const arc of arcs)
    waypoints += level.get(graph.target[arc]) - level.get(graph.source[arc]) - 1;
  const chains = arcs.map((arc) => {
    const chain = [place.get(graph.source[arc])];
    if (waypoints <= MOST_WAYPOINTS) {
      for (let l = level.get(graph.source[arc]) + 1; l < level.get(graph.target[arc]); l++) {
        const point = { v: -1, w: upright ? 6 : 0, h: upright ? BOX : 4, near: [[], []] };
        layers[l].push(point);
        chain.push(point);
      }
    }
    chain.push(place.get(graph.target[arc]));
    for (let k = 1; k < chain.length; k++) {
      chain[k].near[0].push(chain[k - 1]);
      chain[k - 1].near[1].push(chain[k]);
    }
    return chain;
  });
  const spread = (layer) =>
    layer.forEach((box, k) => {
      box.at = (k + 0.5) / layer.length;
    });
  layers.forEach(spread);
  for (let sweep = 0; sweep < 12; sweep++) {
    const side = sweep % 2;
    for (const layer of side ? layers.slice().reverse() : layers) {
      const wish = new Map(
        layer.map((box) => [
          box,
          box.near[side].length ? mean(box.near[side].map((other) => other.at)) : box.at,
        ]),
      );
      layer.sort((a, b) => wish.get(a) - wish.get(b));
      spread(layer);
    }
  }
  return upright
    ? { ...downwards(layers, width), chains, places: [...place.values()] }
    : { ...sideways(layers), chains, places: [...place.values()] };
}

// Layers as columns, causes on the left.
function sideways(layers) {
  const step = (a, b) => (a.h + b.h) / 2 + (a.v < 0 && b.v < 0 ? 2 : 8);
  let x = 0;
  layers.forEach((layer, l) => {
    const wide = Math.max(10, ...layer.map((box) => box.w));
    const gap = l === 0 ? 0 : 64 + Math.min(120, 3 * layer.length);
    x += gap;
    let y = 0;
    layer.forEach((box, k) => {
      box.x = x + wide / 2;
      box.from = x;
      box.to = x + wide;
      y += k ? step(layer[k - 1], box) : 0;
      box.y = y;
    });
    layer.forEach((box) => {
      box.y -= y / 2;
    });
    x += wide;
  });
  for (let sweep = 0; sweep < 16; sweep++) {
    for (const layer of sweep % 2 ? layers.slice().reverse() : layers) {
      const wishes = layer.map((box) => {
        const near = sweep < 8 ? box.near[sweep % 2] : [...box.near[0], ...box.near[1]];
        return near.length ? mean(near.map((other) => other.y)) : box.y;
      });
      const steps = layer.slice(1).map((box, k) => step(layer[k], box));
      apart(wishes, steps).forEach((y, k) => {
        layer[k].y = y;
      });
    }
  }
  const all = layers.flat();
  const top = Math.min(0, ...all.map((box) => box.y - box.h / 2));
  all.forEach((box) => {
    box.y += 12 - top;
    box.x += 12;
    box.from += 12;
    box.to += 12;
  });
  return { width: x + 24, height: Math.max(0, ...all.map((box) => box.y + box.h / 2)) + 12 };
}

// Layers as rows, causes on top, for narrow screens; a row that is too wide becomes several.
function downwards(layers, room) {
  const gap = 8;
  const widest = Math.max(
    ...layers.map((layer) => layer.reduce((sum, box) => sum + box.w + gap, gap)),
  );
  const width = Math.min(room, widest);
  const fits = layers.map((layer) => layer.reduce((sum, box) => sum + box.w + gap, gap) <= room);
  let y = 8;
  layers.forEach((layer, l) => {
    y += l ? 34 : 0;
    const rows = [[]];
    let used = 0;
    for (const box of layer) {
      const row = rows[rows.length - 1];
      if (row.length && used + box.w + gap > width - gap) {
        rows.push([box]);
        used = box.w + gap;
      } else {
        row.push(box);
        used += box.w + gap;
      }
    }
    for (const [r, boxes] of rows.entries()) {
      const total = boxes.reduce((sum, box) => sum + box.w + gap, -gap);
      let x = (width - total) / 2;
      for (const box of boxes) {
        box.x = x + box.w / 2;
        box.y = y + BOX / 2;
        box.from = y;
        box.to = y + BOX;
        x += box.w + gap;
      }
      y += BOX + (r < rows.length - 1 ? 10 : 0);
    }
  });
  // Rows that fit move below and above their neighbours.
  for (let sweep = 0; sweep < 12; sweep++) {
    layers.forEach((layer, l) => {
      if (!fits[l] || !layer.length) return;
      const steps = layer.slice(1).map((box, k) => (box.w + layer[k].w) / 2 + gap);
      const wishes = layer.map((box) => {
        const near = [...box.near[0], ...box.near[1]];
        return near.length ? mean(near.map((other) => other.x)) : box.x;
      });
      // From both edges inwards, so that nothing leaves the room.
      const found = apart(wishes, steps);
      let least = gap;
      found.forEach((x, k) => {
        found[k] = Math.max(x, least + layer[k].w / 2);
        least = found[k] + layer[k].w / 2 + gap;
      });
      let most = width - gap / 2;
      for (let k = layer.length - 1; k >= 0; k--) {
        found[k] = Math.min(found[k], most - layer[k].w / 2);
        most = found[k] - layer[k].w / 2 - gap;
      }
      found.forEach((x, k) => {
        layer[k].x = x;
      });
    });
  }
  return { width, height: y + 8 };
}

function lineOf(chain, upright, head) {
  const from = chain[0];
  const to = chain[chain.length - 1];
  // Along the layers is `a`, across them `c`: x and y, or y and x where the layers are rows.
  const round = (value) => Math.round(value * 10) / 10;
  const [along, across, size] = upright ? ["y", "x", "h"] : ["x", "y", "w"];
  const point = (a, c) => (upright ? `${round(c)} ${round(a)}` : `${round(a)} ${round(c)}`);
  let a = from[along] + from[size] / 2;
  let c = from[across];
  const mark = upright ? [c, a + 5] : [a + 5, c];
  let line = "M" + point(a, c);
  const curve = (a1, c1) => {
    const bend = Math.max(8, (a1 - a) / 2);
    line += `C${point(a + bend, c)} ${point(a1 - bend, c1)} ${point(a1, c1)}`;
    a = a1;
    c = c1;
  };
  for (const way of chain.slice(1, -1)) {
    curve(way.from, way[across]);
    a = way.to;
    line += "L" + point(a, c);
  }
  const end = to[along] - to[size] / 2;
  curve(end - head, to[across]);
  const tip = [
    point(end, c),
    point(end - head, c - head * 0.45),
    point(end - head, c + head * 0.45),
  ].join(" ");
  return { line, tip, mark };
}

function arcWords(arc) {
  const mark = isOpen(arc) ? " – " : " → ";
  let text =
    shortName(graph.source[arc]) +
    mark +
    shortName(graph.target[arc]) +
    ", weight " +
    number(graph.weight[arc]);
  if (graph.probability !== null) text += ", probability " + number(graph.probability[arc], 3);
  if (isOpen(arc)) text += ", direction open";
  if (isRequired(arc)) text += ", required";
  return text;
}

// The drawing. `marked` are variables to set off, `path` arcs to set off, `go` what a click does.
function picture(
  nodes,
  arcs,
  { marked = [], path = [], go = null, width = 900, colours = SCREEN, label = "", upright = false },
) {
  const placed = arranged(nodes, arcs, upright, width);
  const set = new Set(marked);
  const onPath = new Set(path);
  const largest = arcs.reduce((most, arc) => Math.max(most, Math.abs(graph.weight[arc])), 0) || 1;
  const lines = drawn("g", {});
  const order = arcs
    .map((arc, k) => k)
    .sort((a, b) => onPath.has(arcs[a]) - onPath.has(arcs[b]) || arcs[b] - arcs[a]);
  for (const k of order) {
    const arc = arcs[k];
    const isPath = onPath.has(arc);
    const thick = 1 + (3 * Math.abs(graph.weight[arc])) / largest + (isPath ? 1 : 0);
    const { line, tip, mark } = lineOf(
      placed.chains[k],
      upright,
      isOpen(arc) ? 0 : 6 + thick * 1.6,
    );
    const colour = graph.weight[arc] < 0 ? colours.negative : colours.positive;
    const group = drawn(
      "g",
      { opacity: isPath ? 1 : opacityOf(arc).toFixed(2), "data-arc": arc },
      drawn("title", {}, arcWords(arc)),
    );
    if (isPath)
      group.append(
        drawn("path", {
          d: line,
          fill: "none",
          stroke: colours.mark,
          "stroke-width": (thick + 6).toFixed(1),
          "stroke-linecap": "round",
        }),
      );
    group.append(
      drawn("path", {
        d: line,
        fill: "none",
        stroke: colour,
        "stroke-width": thick.toFixed(1),
        "stroke-dasharray": graph.weight[arc] < 0 ? "7 3" : null,
      }),
    );
    if (!isOpen(arc)) group.append(drawn("polygon", { points: tip, fill: colour }));
    if (isRequired(arc)) {
      const [x, y] = mark;
      group.append(
        drawn("polygon", {
          points: `${x - 4},${y} ${x},${y - 4} ${x + 4},${y} ${x},${y + 4}`,
          fill: colours.ink,
        }),
      );
    }
    lines.append(group);
  }
  const boxes = drawn("g", {});
  for (const { v, text, x, y, w, h } of placed.places) {
    const around =
      counted(graph.into(v).length, "arc") + " in, " + count(graph.outOf(v).length) + " out";
    const group = drawn(
      "g",
      go === null
        ? {}
        : {
            class: "node",
            tabindex: "0",
            role: "button",
            "data-v": v,
            "aria-label": shortName(v, 120) + ", " + around,
            onclick: () => go(v),
            onkeydown: (event) => {
              if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                go(v);
              }
            },
          },
      drawn("title", {}, clipped(nameOf(v), 500)),
    );
    group.append(
      drawn("rect", {
        x: x - w / 2,
        y: y - h / 2,
        width: w,
        height: h,
        rx: 6,
        fill: set.has(v) ? colours.mark : colours.card,
        stroke: set.has(v) ? colours.ink : colours.line,
        "stroke-width": set.has(v) ? 2 : 1,
      }),
    );
    // On the mark, which is light, ink is dark on the screen as well.
    group.append(
      drawn(
        "text",
        {
          x,
          y: y + 4.5,
          "text-anchor": "middle",
          "font-size": 13,
          "font-weight": set.has(v) ? 600 : null,
          "font-family": 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif',
          fill: set.has(v) ? PAPER.ink : colours.ink,
        },
        text,
      ),
    );
    boxes.append(group);
  }
  let height = placed.height;
  const svg = drawn("svg", {
    xmlns: SVG,
    role: go === null ? "img" : "group",
    "aria-label": label,
  });
  if (colours === PAPER) {
    svg.append(drawn("rect", { width: "100%", height: "100%", fill: colours.back }));
    placed.width = Math.max(placed.width, 560);
    svg.append(
      drawn(
        "text",
        { x: 12, y: height + 14, "font-size": 11, fill: colours.pale, "font-family": "sans-serif" },
        legendWords(arcs).join(" · "),
      ),
    );
    height += 24;
  }
  svg.append(lines, boxes);
  svg.setAttribute("width", Math.ceil(placed.width));
  svg.setAttribute("height", Math.ceil(height));
  svg.setAttribute("viewBox", `0 0 ${Math.ceil(placed.width)} ${Math.ceil(height)}`);
  return svg;
}

function legendWords(arcs) {
  const words = [];
  if (arcs.some((arc) => graph.weight[arc] > 0)) words.push("blue: positive weight");
  if (arcs.some((arc) => graph.weight[arc] < 0)) words.push("orange, dashed: negative weight");
  if (graph.probability !== null && arcs.length) words.push("pale: less probable");
  if (arcs.some(isOpen)) words.push("no head: direction open");
  if (arcs.some(isRequired)) words.push("diamond: required");
  return words;
}
