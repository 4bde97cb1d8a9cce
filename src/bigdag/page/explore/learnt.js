// How the graph was learnt: what its file says of the method, the table and the run.

const ORDINARY = {
  method: "method",
  criterion: "criterion",
  search: "search after it",
  assumption: "assumption",
  explanation: "choice",
  status: "status",
  n_iter: "iterations",
  n_rows: "rows of the table",
  n_samples: "samples that they count as",
  lambda1: "lambda1",
  threshold: "threshold",
  penalty: "penalty",
  objective: "equation (1)",
  extended_bic: "extended BIC",
  transform: "transform",
  missing: "missing values",
  standardised: "standardised",
  around: "around",
  adjusted: "adjusted for",
};
const STATUS = {
  converged: "converged",
  max_iter: "stopped at the limit of iterations",
  time_limit: "stopped at the limit of time",
  interrupted: "interrupted; the best graph so far",
  diverged: "diverged; the best graph before that",
};

// In which units effects are, where it is not those of the table.
const UNITS = (() => {
  const scores = told.about.transform === "rank";
  if (told.about.standardised)
    return (
      "The columns were standardised: effects are in standard deviations" +
      (scores ? " of normal scores of ranks." : ".")
    );
  if (scores)
    return "The variables are normal scores of ranks: effects are in standard deviations of these, not in the units of the table.";
  if (told.about.transform === "log1p")
    return "The variables are logarithms, log(1 + x): effects are in their units.";
  return "";
})();

const byBic = String(told.about.criterion).startsWith("extended BIC");

function plain(value) {
  if (value === null || value === undefined) return "none";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "number") return number(value, 6);
  if (typeof value === "string") return visible(value);
  if (Array.isArray(value)) return value.length ? value.map(plain).join(", ") : "none";
  return (
    Object.entries(value)
      .map(([name, part]) => visible(name).replaceAll("_", " ") + ": " + plain(part))
      .join("; ") || "none"
  );
}

function facts(pairs) {
  return element(
    "dl",
    { class: "learnt" },
    ...pairs.map(([name, text]) =>
      element(
        "div",
        {},
        element("dt", {}, name),
        element("dd", {}, element("bdi", {}, clipped(text, 4000))),
      ),
    ),
  );
}

function showLearnt(box) {
  const about = told.about;
  const done = new Set([
    "history",
    "findings",
    "prepared",
    "parameters",
    "bootstrap",
    "versions",
    "bigdag",
    "knowledge",
    "groups",
  ]);
  const part = (title, ...children) => box.append(element("h3", {}, title), ...children);
  if (byBic) done.add("lambda1"); // which the extended BIC does not read
  const own = Object.entries(ORDINARY)
    .filter(([key]) => !done.has(key))
    .filter(([key]) => about[key] !== undefined && about[key] !== null && about[key] !== "")
    .map(([key, title]) => {
      done.add(key);
      return [
        title,
        key === "status" ? STATUS[about[key]] || plain(about[key]) : plain(about[key]),
      ];
    });
  if (about.bootstrap) {
    const { n_resamples: n, wanted, min_prob: least } = about.bootstrap;
    own.push([
      "bootstrap",
      `${n > wanted ? plain(n) : `${plain(n)} of ${plain(wanted)}`} resamples of the rows; pairs joined with a probability of ${plain(100 * least)} % or more are kept`,
    ]);
  }
  if (!Object.keys(about).length) {
    box.append(
      element(
        "p",
        {},
        "The file of this graph does not say how it was learnt. One that bigdag fit writes does.",
      ),
    );
  }
  if (own.length) part("Method", facts(own));
  if (about.parameters) {
    const given = Object.entries(about.parameters);
    part(
      "Options",
      given.length
        ? facts(given.map(([name, value]) => [visible(name), plain(value)]))
        : element("p", {}, "None were given: all are the defaults of this method."),
    );
  }
  const known = about.knowledge
    ? Object.entries(about.knowledge).filter(
        ([, value]) => value !== null && plain(value) !== "none",
      )
    : [];
  if (known.length)
    part(
      "Known beforehand",
      facts(known.map(([name, value]) => [visible(name).replaceAll("_", " "), plain(value)])),
    );
  const list = (texts) =>
    element(
      "ul",
      {},
      ...texts.map((text) => element("li", {}, element("bdi", {}, clipped(plain(text), 1000)))),
    );
  if (Array.isArray(about.prepared)) {
    part(
      "What was done to the table",
      about.prepared.length
        ? list(about.prepared)
        : element("p", {}, "Nothing: it was taken as it is."),
    );
  }
  if (about.groups && Object.keys(about.groups).length) {
    part(
      "Near copies, each one variable",
      list(Object.entries(about.groups).map(([name, rest]) => name + ": with " + plain(rest))),
    );
  }
  if (Array.isArray(about.findings)) {
    part(
      "Check of the table",
      about.findings.length ? list(about.findings) : element("p", {}, "Nothing odd was found."),
    );
  }
  const history = about.history;
  if (history && Array.isArray(history.objective) && history.objective.length > 1) {
    part("History of the score", historyPicture(history));
  }
  const versions = { ...(about.versions || {}) };
  if (about.bigdag) versions.bigdag = about.bigdag;
  if (Object.keys(versions).length)
    part(
      "Versions",
      facts(Object.entries(versions).map(([name, text]) => [visible(name), plain(text)])),
    );
  const rest = Object.entries(about).filter(([key, value]) => !done.has(key) && value !== null);
  if (rest.length)
    part(
      "Also said",
      facts(rest.map(([name, value]) => [visible(name).replaceAll("_", " "), plain(value)])),
    );
  box.append(
    element("p", { class: "pale" }, "This page was made by bigdag " + visible(told.bigdag) + "."),
  );
}

// Equation (1) by iteration, as a line, and the same in words.
function historyPicture(history) {
  const values = history.objective.map(Number);
  const steps = (history.iteration || values.map((_, k) => k)).map(Number);
  const shown = values.map((value, k) => k).filter((k) => Number.isFinite(values[k]));
  const [wide, high, left, bottom] = [640, 220, 70, 34];
  const low = Math.min(...shown.map((k) => values[k]));
  const top = Math.max(...shown.map((k) => values[k]));
  const last = Math.max(1, ...shown.map((k) => steps[k]));
  const x = (k) => left + (wide - left - 12) * (steps[k] / last);
  const y = (value) => 12 + (high - bottom - 12) * (top > low ? (top - value) / (top - low) : 0.5);
  const line = shown
    .map((k, at) => (at ? "L" : "M") + x(k).toFixed(1) + " " + y(values[k]).toFixed(1))
    .join("");
  const phases = [];
  (history.phase || []).forEach((phase, k) => {
    if (k === 0 || phase !== history.phase[k - 1]) phases.push(plain(phase));
  });
  const [first, end] = [shown[0], shown[shown.length - 1]].map((k) => number(values[k], 6));
  const words =
    `Equation (1)${byBic ? " along a search that lowers the extended BIC" : ", lower is better"}: ` +
    `from ${first} to ${end} ` +
    `in ${counted(last, "iteration")}` +
    (phases.length ? `; phases: ${phases.slice(0, 12).join(", ")}.` : ".");
  const text = (tx, ty, anchor, content) =>
    drawn(
      "text",
      { x: tx, y: ty, "text-anchor": anchor, "font-size": 12, fill: SCREEN.pale },
      content,
    );
  const svg = drawn(
    "svg",
    {
      role: "img",
      "aria-label": words,
      viewBox: `0 0 ${wide} ${high}`,
      width: wide,
      height: high,
      class: "history",
    },
    drawn("path", {
      d: `M${left} 8V${high - bottom}H${wide - 8}`,
      fill: "none",
      stroke: SCREEN.line,
    }),
    drawn("path", { d: line, fill: "none", stroke: SCREEN.positive, "stroke-width": 2 }),
    text(left - 6, y(top) + 4, "end", number(top, 4)),
    text(left - 6, y(low) + 4, "end", top > low ? number(low, 4) : ""),
    text(left, high - 14, "middle", "0"),
    text(wide - 12, high - 14, "end", count(last)),
    text((left + wide) / 2, high - 4, "middle", "iteration"),
  );
  return element("figure", {}, svg, element("figcaption", {}, words));
}
