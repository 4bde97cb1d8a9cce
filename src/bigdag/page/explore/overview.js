// The whole graph on a canvas. What is seen while one moves is a picture of the arcs, which only is
// shifted and scaled; a sharp one is drawn in slices of a few milliseconds and then takes its
// place. So a frame costs the same for any number of arcs, with or without a graphics card.

const SLICE_MS = 6; // of a frame for drawing arcs
const CHUNK = 250; // arcs between two looks at the clock
const MOST_ARCS = 60000; // drawn at once; the strongest of those in view
const FINE = 1500; // arcs in view up to which lines are thick and dashed, which takes time
const MARGIN = 0.2; // of the view, drawn beyond each of its edges
const NAMED = 400; // variables in view up to which their names are shown

function overviewOf(canvas, { go, told: tell }) {
  const screen = canvas.getContext("2d");
  const x = new Float32Array(graph.d);
  const y = new Float32Array(graph.d);
  for (let v = 0; v < graph.d; v++) {
    x[v] = graph.at[2 * v] / 16;
    y[v] = graph.at[2 * v + 1] / 16;
  }
  const bounds = { left: 0, top: 0, right: 1, bottom: 1 };
  for (let v = 0; v < graph.d; v++) {
    bounds.right = Math.max(bounds.right, x[v]);
    bounds.bottom = Math.max(bounds.bottom, y[v]);
  }
  const cells = grid(x, y, bounds);
  const view = { x: 0, y: 0, scale: 1 }; // the middle of the window, and pixels for a unit
  let size = { width: 0, height: 0, ratio: 1 };
  let shot = null; // the picture of the arcs: {canvas, x, y, scale, width, height}
  let job = null;
  let kept = null;
  let focus = -1;
  let hovered = -1;
  let colours = screenColours();
  let asked = false;
  let fitted = false;
  const frames = { paints: 0, worst: 0 };

  function fit() {
    const wide = bounds.right - bounds.left + 3;
    const high = bounds.bottom - bounds.top + 3;
    view.x = (bounds.left + bounds.right) / 2;
    view.y = (bounds.top + bounds.bottom) / 2;
    view.scale = Math.min(60, size.width / wide, size.height / high);
    fitted = true;
    changed();
  }

  const lowest = () =>
    Math.min(size.width / (bounds.right + 3), size.height / (bounds.bottom + 3), 60) * 0.5;

  function zoom(factor, px = size.width / 2, py = size.height / 2) {
    const scale = Math.min(120, Math.max(lowest(), view.scale * factor));
    view.x += (px - size.width / 2) * (1 / view.scale - 1 / scale);
    view.y += (py - size.height / 2) * (1 / view.scale - 1 / scale);
    view.scale = scale;
    fitted = false;
    changed();
  }

  function pan(dx, dy) {
    view.x = Math.min(bounds.right + 1, Math.max(bounds.left - 1, view.x - dx / view.scale));
    view.y = Math.min(bounds.bottom + 1, Math.max(bounds.top - 1, view.y - dy / view.scale));
    fitted = false;
    changed();
  }

  function changed() {
    if (!asked && size.width) {
      asked = true;
      requestAnimationFrame(frame);
    }
  }

  function frame() {
    asked = false;
    const begin = performance.now();
    if (job === null && !isSharp()) job = newJob();
    if (job !== null) work(SLICE_MS);
    paint();
    frames.paints++;
    frames.worst = Math.max(frames.worst, performance.now() - begin);
    if (job !== null || !isSharp()) changed();
  }

  const isSharp = () =>
    shot !== null &&
    shot.kept === kept &&
    shot.colours === colours &&
    shot.scale === view.scale &&
    shot.x === view.x &&
    shot.y === view.y &&
    shot.ratio === size.ratio &&
    shot.width === size.width &&
    shot.height === size.height;

  function newJob() {
    const wide = Math.round(size.width * (1 + 2 * MARGIN) * size.ratio);
    const high = Math.round(size.height * (1 + 2 * MARGIN) * size.ratio);
    const made = document.createElement("canvas");
    made.width = wide;
    made.height = high;
    const ink = made.getContext("2d", { willReadFrequently: true });
    const next = {
      canvas: made,
      ink,
      x: view.x,
      y: view.y,
      scale: view.scale,
      kept,
      colours,
      ratio: size.ratio,
      width: size.width,
      height: size.height,
      wide,
      high,
      arc: 0,
      node: 0,
      count: 0,
      over: 0,
      faint: 0,
    };
    // The first picture is seen while it grows.
    if (shot === null || shot.kept !== kept || shot.colours !== colours) shot = next;
    return next;
  }

  function work(milliseconds) {
    const { ink } = job;
    const end = performance.now() + milliseconds;
    const zoomed = job.scale * size.ratio;
    const left = job.x - job.wide / 2 / zoomed;
    const top = job.y - job.high / 2 / zoomed;
    const right = left + job.wide / zoomed;
    const bottom = top + job.high / zoomed;
    const { source, target, weight, m } = graph;
    if (job.faint === 0) {
      job.faint = faintness(job.kept, zoomed / size.ratio);
      job.fine = crossing(job.kept, left, top, right, bottom) <= FINE;
    }
    const heads = job.scale > 14;
    ink.lineWidth = Math.max(0.6, Math.min(job.fine ? 1.6 : 1, job.scale / 12)) * size.ratio;
    do {
      // A path for each colour and opacity, with few lines: long paths are slow.
      const paths = new Map();
      let room = CHUNK;
      for (; job.arc < m && room > 0; job.arc++) {
        const arc = job.arc;
        if (!job.kept[arc]) continue;
        const [i, j] = [source[arc], target[arc]];
        const [x0, y0, x1, y1] = [x[i], y[i], x[j], y[j]];
        if (
          (x0 < left && x1 < left) ||
          (x0 > right && x1 > right) ||
          (y0 < top && y1 < top) ||
          (y0 > bottom && y1 > bottom)
        )
          continue;
        if (job.count >= MOST_ARCS) {
          job.over++;
          continue;
        }
        job.count++;
        room--;
        const level = Math.round(opacityOf(arc) * 4);
        const key = (weight[arc] < 0 ? 8 : 0) + level;
        let list = paths.get(key);
        if (list === undefined) paths.set(key, (list = []));
        // Only what is in view, as dashes of what is not take time.
        const span = clip(x0, y0, x1, y1, left, top, right, bottom);
        if (span === null) continue;
        const [p, q] = span;
        list.push(
          (x0 + p * (x1 - x0) - left) * zoomed,
          (y0 + p * (y1 - y0) - top) * zoomed,
          (x0 + q * (x1 - x0) - left) * zoomed,
          (y0 + q * (y1 - y0) - top) * zoomed,
          isOpen(arc) || q < 1 ? 0 : 1,
        );
      }
      for (const [key, list] of paths) {
        ink.globalAlpha = Math.min(1, ((key % 8) / 4) * job.faint);
        ink.strokeStyle = ink.fillStyle = key >= 8 ? job.colours.negative : job.colours.positive;
        ink.setLineDash(key >= 8 && job.fine ? [5 * size.ratio, 3 * size.ratio] : []);
        ink.beginPath();
        for (let k = 0; k < list.length; k += 5) {
          ink.moveTo(list[k], list[k + 1]);
          ink.lineTo(list[k + 2], list[k + 3]);
        }
        ink.stroke();
        if (!heads) continue;
        ink.beginPath();
        for (let k = 0; k < list.length; k += 5) if (list[k + 4]) arrow(ink, list, k, zoomed);
        ink.fill();
      }
      ink.getImageData(0, 0, 1, 1); // or all of it would be drawn later, unseen by the clock
    } while (job.arc < m && performance.now() < end);
    // Then the variables, on top of the arcs.
    const side = Math.max(1, Math.min(9, job.scale * 0.32)) * size.ratio;
    while (job.arc >= m && job.node < graph.d && performance.now() < end) {
      ink.globalAlpha = side < 2 ? 0.5 : 0.85;
      ink.fillStyle = job.colours.ink;
      const stop = Math.min(graph.d, job.node + 8 * CHUNK);
      for (; job.node < stop; job.node++) {
        const [px, py] = [(x[job.node] - left) * zoomed, (y[job.node] - top) * zoomed];
        if (px > -side && py > -side && px < job.wide + side && py < job.high + side)
          ink.fillRect(px - side / 2, py - side / 2, side, side);
      }
      ink.getImageData(0, 0, 1, 1);
    }
    if (job.arc >= m && job.node >= graph.d) {
      shot = job;
      job = null;
      const over = shot.over;
      tell(
        over
          ? `The ${count(shot.count)} strongest of ${count(shot.count + over)} arcs in view are drawn. Zoom in for the others.`
          : "",
      );
    }
  }

  // How opaque lines are drawn: less where they would cover the whole plane, so that one sees where
  // they are many.
  function faintness(arcs, scale) {
    const step = Math.max(1, Math.floor(graph.m / 4000));
    let length = 0;
    let drawnArcs = 0;
    for (let arc = 0; arc < graph.m; arc++) drawnArcs += arcs[arc];
    let seen = 0;
    for (let arc = 0; arc < graph.m; arc += step) {
      if (!arcs[arc]) continue;
      const [i, j] = [graph.source[arc], graph.target[arc]];
      length += Math.hypot(x[i] - x[j], y[i] - y[j]);
      seen++;
    }
    const ink = seen ? (length / seen) * Math.min(drawnArcs, MOST_ARCS) * scale : 0;
    const plane =
      (bounds.right - bounds.left + 1) * (bounds.bottom - bounds.top + 1) * scale * scale;
    return Math.min(1, Math.max(0.06, (0.5 * plane) / Math.max(1, ink)));
  }

  function crossing(arcs, left, top, right, bottom) {
    let found = 0;
    for (let arc = 0; arc < graph.m; arc++) {
      if (!arcs[arc]) continue;
      const [i, j] = [graph.source[arc], graph.target[arc]];
      if (
        Math.max(x[i], x[j]) >= left &&
        Math.min(x[i], x[j]) <= right &&
        Math.max(y[i], y[j]) >= top &&
        Math.min(y[i], y[j]) <= bottom
      )
        found++;
    }
    return found;
  }

  function arrow(ink, list, k, zoomed) {
    const [x0, y0, x1, y1] = [list[k], list[k + 1], list[k + 2], list[k + 3]];
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
    const head = Math.min(9 * size.ratio, zoomed * 0.3);
    const [tx, ty] = [x1 - dx * zoomed * 0.14, y1 - dy * zoomed * 0.14];
    ink.moveTo(tx, ty);
    ink.lineTo(tx - dx * head - dy * head * 0.45, ty - dy * head + dx * head * 0.45);
    ink.lineTo(tx - dx * head + dy * head * 0.45, ty - dy * head - dx * head * 0.45);
  }

  const toX = (v) => (x[v] - view.x) * view.scale + size.width / 2;
  const toY = (v) => (y[v] - view.y) * view.scale + size.height / 2;

  function paint() {
    screen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    screen.fillStyle = colours.back;
    screen.fillRect(0, 0, size.width, size.height);
    if (shot !== null) {
      const factor = view.scale / shot.scale;
      const wide = (shot.wide / shot.ratio) * factor;
      const high = (shot.high / shot.ratio) * factor;
      screen.drawImage(
        shot.canvas,
        size.width / 2 + (shot.x - view.x) * view.scale - wide / 2,
        size.height / 2 + (shot.y - view.y) * view.scale - high / 2,
        wide,
        high,
      );
    }
    if (focus >= 0) paintFocus();
    paintNames();
  }

  function paintFocus() {
    screen.lineWidth = 2.5;
    for (const arc of [...graph.into(focus), ...graph.outOf(focus)]) {
      if (!kept[arc]) continue;
      screen.strokeStyle = graph.weight[arc] < 0 ? colours.negative : colours.positive;
      screen.beginPath();
      screen.moveTo(toX(graph.source[arc]), toY(graph.source[arc]));
      screen.lineTo(toX(graph.target[arc]), toY(graph.target[arc]));
      screen.stroke();
    }
  }

  function paintNames() {
    const reach = { x: size.width / 2 / view.scale, y: size.height / 2 / view.scale };
    if (view.scale > 9) {
      const found = cells.within(
        view.x - reach.x,
        view.y - reach.y,
        view.x + reach.x,
        view.y + reach.y,
        NAMED + 1,
      );
      if (found.length <= NAMED) paintNamesOf(found);
    }
    for (const v of new Set([focus, hovered])) {
      if (v < 0) continue;
      screen.fillStyle = colours.mark;
      screen.strokeStyle = colours.ink;
      screen.lineWidth = 2;
      screen.beginPath();
      screen.arc(toX(v), toY(v), 6, 0, 7);
      screen.fill();
      screen.stroke();
      screen.font = "600 13px system-ui, sans-serif";
      const text = clipped(nameOf(v), 40);
      const half = screen.measureText(text).width / 2 + 6;
      screen.textAlign = "center";
      label(text, Math.min(size.width - half, Math.max(half, toX(v))), Math.max(18, toY(v) - 12));
    }
  }

  // Names that do not lie on each other; those with the most arcs first.
  function paintNamesOf(found) {
    const degree = (v) => graph.into(v).length + graph.outOf(v).length;
    const taken = [];
    screen.font = "12px system-ui, sans-serif";
    screen.textAlign = "center";
    for (const v of found.sort((a, b) => degree(b) - degree(a) || a - b)) {
      const text = clipped(nameOf(v), 18);
      const half = screen.measureText(text).width / 2 + 3;
      const [px, py] = [
        Math.min(size.width - half, Math.max(half, toX(v))),
        Math.max(14, toY(v) - 9),
      ];
      if (
        taken.some((box) => Math.abs(box.py - py) < 15 && Math.abs(box.px - px) < box.half + half)
      )
        continue;
      taken.push({ px, py, half });
      label(text, px, py);
    }
  }

  function label(text, px, py) {
    screen.lineWidth = 4;
    screen.lineJoin = "round";
    screen.strokeStyle = colours.back;
    screen.strokeText(text, px, py);
    screen.fillStyle = colours.ink;
    screen.fillText(text, px, py);
  }

  function nearest(px, py) {
    const at = [
      (px - size.width / 2) / view.scale + view.x,
      (py - size.height / 2) / view.scale + view.y,
    ];
    const reach = Math.min(20, 14 / view.scale);
    let best = -1;
    let least = reach * reach;
    for (const v of cells.within(
      at[0] - reach,
      at[1] - reach,
      at[0] + reach,
      at[1] + reach,
      20000,
    )) {
      const far = (x[v] - at[0]) ** 2 + (y[v] - at[1]) ** 2;
      if (far < least) {
        least = far;
        best = v;
      }
    }
    return best;
  }

  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, spot(event));
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = spot(event);
    const before = fingers.get(event.pointerId);
    if (before === undefined) {
      const v = nearest(...now);
      if (v !== hovered) {
        hovered = v;
        canvas.classList.toggle("over", v >= 0);
        changed();
      }
      return;
    }
    const others = Array.from(fingers.entries()).filter(([id]) => id !== event.pointerId);
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (others.length) {
      const [, other] = others[0];
      const far = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
      zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else {
      pan(now[0] - before[0], now[1] - before[1]);
    }
    fingers.set(event.pointerId, now);
  });
  const lift = (event) => {
    const was = fingers.delete(event.pointerId);
    if (was && event.type === "pointerup" && moved < 5 && !fingers.size) {
      const v = nearest(...spot(event));
      if (v >= 0) go(v);
    }
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => {
    if (hovered >= 0) {
      hovered = -1;
      changed();
    }
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 30 : 1;
      zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) * 0.002), ...spot(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const step = 60;
    const moves = {
      ArrowLeft: [step, 0],
      ArrowRight: [-step, 0],
      ArrowUp: [0, step],
      ArrowDown: [0, -step],
    };
    if (moves[event.key]) pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });

  function resize() {
    const box = canvas.getBoundingClientRect();
    if (!box.width || !box.height) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    if (size.width === box.width && size.height === box.height && size.ratio === ratio) {
      changed();
      return;
    }
    const first = size.width === 0;
    size = { width: box.width, height: box.height, ratio };
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    job = null;
    if (first || fitted) fit();
    changed();
  }
  new ResizeObserver(resize).observe(canvas);
  addEventListener("resize", resize); // also where only the pixels of the screen change

  // All at once, for paper and for files.
  function finish(ink) {
    colours = ink;
    job = newJob();
    while (job !== null) work(1000);
    paint();
  }

  const api = {
    fit,
    zoom,
    pan,
    frames,
    isSharp: () => job === null && isSharp(),
    look: () => ({ ...view }),
    show: (arcs, v) => {
      kept = arcs;
      focus = v;
      changed();
    },
    recolour: () => {
      colours = screenColours();
      changed();
    },
    toPaper: () => {
      if (size.width) finish(PAPER);
    },
    centre: (v) => {
      view.x = x[v];
      view.y = y[v];
      view.scale = Math.max(view.scale, 16);
      fitted = false;
      changed();
    },
    place: (v) => [toX(v), toY(v)],
    inView: () => {
      const [w, h] = [size.width / 2 / view.scale, size.height / 2 / view.scale];
      const seen = (v) => Math.abs(x[v] - view.x) <= w && Math.abs(y[v] - view.y) <= h;
      const arcs = [];
      for (let arc = 0; arc < graph.m && arcs.length < MOST_ARCS; arc++) {
        if (kept[arc] && (seen(graph.source[arc]) || seen(graph.target[arc]))) arcs.push(arc);
      }
      return arcs;
    },
    png: (done) => {
      finish(PAPER);
      canvas.toBlob((blob) => {
        colours = screenColours();
        changed();
        done(blob);
      }, "image/png");
    },
    svg: () => {
      const w = Math.ceil(size.width);
      const h = Math.ceil(size.height);
      const svg = drawn(
        "svg",
        { xmlns: SVG, width: w, height: h, viewBox: `0 0 ${w} ${h}` },
        drawn("rect", { width: w, height: h, fill: PAPER.back }),
      );
      const round = (value) => Math.round(value * 10) / 10;
      const nodes = new Set();
      for (const arc of api.inView().reverse()) {
        const [i, j] = [graph.source[arc], graph.target[arc]];
        nodes.add(i).add(j);
        svg.append(
          drawn("line", {
            x1: round(toX(i)),
            y1: round(toY(i)),
            x2: round(toX(j)),
            y2: round(toY(j)),
            opacity: opacityOf(arc).toFixed(2),
            stroke: graph.weight[arc] < 0 ? PAPER.negative : PAPER.positive,
            "stroke-dasharray": graph.weight[arc] < 0 ? "5 3" : null,
          }),
        );
      }
      const side = Math.max(1, Math.min(9, view.scale * 0.32));
      for (const v of nodes)
        svg.append(
          drawn(
            "circle",
            { cx: round(toX(v)), cy: round(toY(v)), r: round(side / 2), fill: PAPER.ink },
            drawn("title", {}, clipped(nameOf(v), 200)),
          ),
        );
      return svg;
    },
  };
  return api;
}

// The part of a line, from 0 to 1 along it, that is in a rectangle; null where none is.
function clip(x0, y0, x1, y1, left, top, right, bottom) {
  let [p, q] = [0, 1];
  const cut = (step, room) => {
    if (step === 0) {
      if (room < 0) q = -1;
      return;
    }
    const share = room / step;
    if (step < 0) p = Math.max(p, share);
    else q = Math.min(q, share);
  };
  cut(x0 - x1, x0 - left);
  cut(x1 - x0, right - x0);
  cut(y0 - y1, y0 - top);
  cut(y1 - y0, bottom - y0);
  return p < q ? [p, q] : null;
}

// Variables by the square of the plane that they are in.
function grid(x, y, bounds) {
  const side = 4;
  const wide = Math.floor(bounds.right / side) + 1;
  const high = Math.floor(bounds.bottom / side) + 1;
  const cell = new Int32Array(graph.d);
  for (let v = 0; v < graph.d; v++)
    cell[v] = Math.floor(y[v] / side) * wide + Math.floor(x[v] / side);
  const list = arcsBy(cell, wide * high);
  return {
    // Those in a rectangle, `most` at the most.
    within(left, top, right, bottom, most) {
      const found = [];
      const clamp = (value, end) => Math.max(0, Math.min(end, Math.floor(value / side)));
      const [c0, c1] = [clamp(left, wide - 1), clamp(right, wide - 1)];
      const [r0, r1] = [clamp(top, high - 1), clamp(bottom, high - 1)];
      for (let r = r0; r <= r1; r++) {
        for (let c = c0; c <= c1; c++) {
          for (const v of list(r * wide + c)) {
            if (x[v] < left || x[v] > right || y[v] < top || y[v] > bottom) continue;
            found.push(v);
            if (found.length >= most) return found;
          }
        }
      }
      return found;
    },
  };
}
