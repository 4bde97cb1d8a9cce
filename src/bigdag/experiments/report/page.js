"use strict";
// Each table gets a box that filters its rows, and headings that sort them.
for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  if (rows.length < 2) continue;

  const tools = document.createElement("div");
  tools.className = "tools";
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("output");
  input.type = "search";
  input.id = box.id + "-filter";
  input.placeholder = "words to find";
  label.htmlFor = count.htmlFor = input.id;
  label.textContent = "Filter";
  tools.append(label, input, count);
  box.prepend(tools);

  const texts = rows.map((row) => Array.from(row.cells)
    .map((cell) => cell.textContent.toLowerCase()).join("\n"));
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      if (!row.hidden) shown += 1;
    });
    count.textContent = shown + " of " + rows.length + " rows";
  };
  input.addEventListener("input", filter);
  filter();

  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    const isNumber = heading.classList.contains("n");
    const collate = new Intl.Collator("en", { numeric: true }).compare;
    const value = (row) => {
      const text = row.cells[column].textContent;
      return isNumber ? parseFloat(text.replaceAll(",", "")) : text;
    };
    const isEmpty = (v) => v === "" || Number.isNaN(v);
    button.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of headings) other.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keyed = rows.map((row) => [value(row), row]);
      keyed.sort(([a], [b]) => {
        // What has no value comes last either way.
        if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
        return sign * (isNumber ? a - b : collate(a, b));
      });
      body.append(...keyed.map(([, row]) => row));
    });
  });
}

// The list of contents marks the part that one reads.
const links = new Map(Array.from(document.querySelectorAll("nav a"), (link) =>
  [link.getAttribute("href").slice(1), link]));
const mark = () => {
  let here = null;
  for (const part of document.querySelectorAll("section[id]")) {
    if (part.getBoundingClientRect().top < innerHeight / 3) here = part.id;
  }
  for (const [name, link] of links) {
    if (name === here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  const shown = links.get(here);
  const bar = document.querySelector("nav");
  if (shown && bar.scrollWidth > bar.clientWidth) {
    bar.scrollLeft = shown.offsetLeft - bar.clientWidth / 3;
  }
};
let asked = false;
addEventListener("scroll", () => {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; mark(); });
}, { passive: true });
mark();
