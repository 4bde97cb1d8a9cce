// Making elements, texts and files. Names only ever become text: nothing here takes markup.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function drawn(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// What cannot be seen, or turns text around, is shown as an escape, as in a terminal.
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
function visible(text) {
  const shown = text.replace(
    UNSEEN,
    (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"),
  );
  return shown.trim() === "" ? "“" + shown + "”" : shown;
}

function clipped(text, longest) {
  const signs = Array.from(text);
  if (signs.length <= longest) return text;
  const tail = Math.floor(longest / 3); // numbered names differ at their ends
  return signs.slice(0, longest - tail - 1).join("") + "…" + signs.slice(-tail).join("");
}

const nameOf = (v) => visible(graph.names[v]);
const shortName = (v, longest = 60) => clipped(nameOf(v), longest);

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9))
    return value.toExponential(digits - 1).replace("-", "−");
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  let text = value.toLocaleString("en", { maximumFractionDigits: Math.min(decimals, 12) });
  return text.replace("-", "−");
}

const count = (n) => n.toLocaleString("en");
const counted = (n, what) => count(n) + " " + what + (n === 1 ? "" : "s");

// A button with the name of a variable, which leads to it.
function nameButton(v, go, longest = 60) {
  const full = nameOf(v);
  const made = element(
    "button",
    { type: "button", class: "name", onclick: () => go(v) },
    element("bdi", {}, clipped(full, longest)),
  );
  if (full.length > longest) made.title = clipped(full, 1000);
  return made;
}

function say(text) {
  byId("said").textContent = text;
}

function download(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = element("a", { download: name });
  link.href = URL.createObjectURL(blob);
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  say("Saved as " + name + ".");
}

async function copy(text, what) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const box = element("textarea", { "aria-hidden": "true", class: "away" });
    box.value = text;
    document.body.append(box);
    box.select();
    try {
      done = document.execCommand("copy");
    } catch {
      done = false;
    }
    box.remove();
  }
  say(
    done
      ? what + " is copied."
      : "The browser does not allow to copy. " + what + " can be saved instead.",
  );
}

// CSV as DAG.load reads it back. Names that a spreadsheet would compute have an apostrophe before
// them, which the quotes about "weight" tell the reader.
function csvName(name) {
  const text = /^[=+\-@\t\r\n']/.test(name) ? "'" + name : name;
  return /^[^\s",]([^\r\n",]*[^\s",])?$/.test(text) ? text : '"' + text.replaceAll('"', '""') + '"';
}

function csvOf(arcs) {
  const extra = Object.entries(graph.arcData);
  const heads = ["source", "target", '"weight"'];
  if (graph.undirected !== null) heads.push("direction");
  const lines = [heads.concat(extra.map(([name]) => name)).join(",")];
  for (const arc of arcs) {
    const cells = [
      csvName(graph.names[graph.source[arc]]),
      csvName(graph.names[graph.target[arc]]),
      String(graph.weight[arc]),
    ];
    if (graph.undirected !== null) cells.push(isOpen(arc) ? "--" : "->");
    for (const [, values] of extra) {
      cells.push(
        values instanceof Uint8Array ? (values[arc] ? "true" : "false") : String(values[arc]),
      );
    }
    lines.push(cells.join(","));
  }
  return lines.join("\n") + "\n";
}

// An SVG document as text, and as a picture of it.
function svgText(svg) {
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(svg);
}

function savePng(svg, name) {
  const width = Number(svg.getAttribute("width"));
  const height = Number(svg.getAttribute("height"));
  const scale = Math.max(0.1, Math.min(2, 8000 / Math.max(width, height)));
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(width * scale);
    canvas.height = Math.ceil(height * scale);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => download(name, blob), "image/png");
  };
  image.onerror = () => say("The picture could not be drawn. Save it as SVG instead.");
  image.src = url;
}

// Colours of Okabe and Ito, told apart by colour-blind readers; dashes serve grey print. On the
// screen they are those of the style sheet; in files those of paper.
const PAPER = {
  ink: "#1a1a1a",
  pale: "#595959",
  back: "#ffffff",
  card: "#ffffff",
  line: "#8a8f98",
  positive: "#0072b2",
  negative: "#b84700",
  mark: "#f7e96b",
  path: "#7a3f93",
};
const SCREEN = Object.fromEntries(Object.keys(PAPER).map((name) => [name, "var(--" + name + ")"]));

function screenColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    Object.keys(PAPER).map((name) => [
      name,
      style.getPropertyValue("--" + name).trim() || PAPER[name],
    ]),
  );
}

const opacityOf = (arc) => {
  if (graph.probability === null) return 0.85;
  const p = graph.probability[arc];
  return 0.2 + 0.7 * Math.min(1, Math.max(0, Number.isNaN(p) ? 0 : p));
};

// Two lists of variables to choose from as one types: a combobox as screen readers know it.
function combobox(input, list, choose) {
  let found = [];
  let active = -1;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const mark = (place) => {
    active = place;
    Array.from(list.querySelectorAll("[role=option]")).forEach((option, k) => {
      option.setAttribute("aria-selected", String(k === place));
      if (k === place) {
        input.setAttribute("aria-activedescendant", option.id);
        option.scrollIntoView({ block: "nearest" });
      }
    });
  };
  const take = (v) => {
    close();
    input.value = graph.names[v];
    choose(v);
  };
  const open = () => {
    const answer = completions(input.value, 50);
    found = answer.found;
    list.replaceChildren(
      ...found.map((v, k) => {
        const near = graph.into(v).length + graph.outOf(v).length;
        const option = element(
          "li",
          { role: "option", id: list.id + "-" + k, "aria-selected": "false" },
          element("bdi", {}, shortName(v, 80)),
          element("small", {}, " " + counted(near, "arc")),
        );
        // Before the box loses the focus, which would close the list.
        option.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          take(v);
        });
        return option;
      }),
    );
    const more = answer.total - found.length;
    if (more > 0)
      list.append(
        element(
          "li",
          { class: "more", role: "presentation" },
          "and " + count(more) + " more: type on",
        ),
      );
    if (input.value.trim() !== "" && !found.length) {
      list.append(
        element("li", { class: "more", role: "presentation" }, "No variable has this in its name."),
      );
    }
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    active = -1;
  };
  input.addEventListener("input", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open();
      if (!found.length) return;
      mark(
        (active + (event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1) + found.length) %
          found.length,
      );
    } else if (event.key === "Enter") {
      event.preventDefault();
      const exact = indexOf(input.value);
      if (active >= 0) take(found[active]);
      else if (exact >= 0) take(exact);
      else {
        const first = completions(input.value, 1).found;
        if (first.length) take(first[0]);
        else say("No variable has this in its name.");
      }
    } else if (event.key === "Escape") {
      if (!list.hidden) event.stopPropagation();
      close();
    }
  });
}
