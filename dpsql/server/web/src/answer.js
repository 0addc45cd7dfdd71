// An answer: what is to be known of it, the chart, the table with its errors, and files of it.
import { chart } from "./chart.js";
import { h, icon, ICONS, fill } from "./dom.js";
import { guarantee, number, percent, plain } from "./format.js";
import { described } from "./intervals.js";

const SHOWN = 200; // rows, until more are asked for

/** The card of an answer. sql: what was asked. replayed: it was looked up, not asked. */
export function answerCard(answer, { sql, replayed = false }) {
  const { receipt, columns, rows } = answer;
  const free = replayed || receipt.reused || !receipt.id || answer.cost.epsilon === 0;
  const why = replayed
    ? "replayed, free"
    : receipt.reused
      ? "free: stored"
      : free
        ? "free"
        : `cost ${guarantee(answer.cost)}`;
  return h(
    "section",
    { class: "card answer", "aria-label": "answer", "data-testid": "answer" },
    h(
      "header",
      { class: "card-head" },
      h("h2", { tabindex: -1 }, "Answer"),
      h("span", { class: "chip older-chip" }, "to an earlier query"),
      h("span", { class: `chip ${free ? "good" : ""}` }, why),
      h("span", { class: "note" }, `${rows.length.toLocaleString("en")} row${rows.length === 1 ? "" : "s"}`),
      receipt.id && downloads(receipt.id),
    ),
    warnings(answer),
    rows.length === 1 && figures(answer),
    chart(answer),
    table(answer),
    said(answer),
    remarks(answer, sql),
  );
}

function downloads(id) {
  const link = (format, title) =>
    h(
      "a",
      {
        href: `/v1/answers/${encodeURIComponent(id)}?format=${format}`,
        download: true,
        class: "download",
        "aria-label": `download ${title}`,
      },
      icon(ICONS.down),
      title,
    );
  return h("div", { class: "downloads" }, link("csv", "CSV"), link("parquet", "Parquet"), link("receipt", "Receipt"));
}

/** What a reader should know besides the values, as every way of showing an answer has it; what limits cut is below. */
function warnings({ receipt }) {
  const cut = new Set(receipt.cut ?? []);
  const notes = (receipt.notes ?? []).filter((line) => !cut.has(line));
  return (
    notes.length > 0 &&
    h(
      "ul",
      { class: "warnings" },
      notes.map((note) => h("li", note)),
    )
  );
}

/** What the command line says below an answer, besides what stands above the table. */
function said({ receipt }) {
  const lines = receipt.cut ?? [];
  return (
    lines.length > 0 &&
    h(
      "ul",
      { class: "said note" },
      lines.map((line) => h("li", line)),
    )
  );
}

/** What the answer rests on, for those who open it. */
function remarks({ receipt }, sql) {
  const lines = [
    ...(receipt.limits ?? []).map((one) => `Limited by ${one}.`),
    ...(receipt.id ? [`Receipt ${receipt.id}, ${receipt.time}.`] : []),
  ];
  return h(
    "details",
    { class: "remarks" },
    h("summary", "What this answer rests on"),
    h(
      "ul",
      lines.map((line) => h("li", line)),
    ),
    h("pre", { tabindex: 0, "aria-label": "the SQL that was asked" }, sql),
  );
}

/** A single row, in large. */
function figures(answer) {
  const found = answer.columns.map((name, i) => column(answer, name, i)).filter((one) => one.ends);
  return h(
    "div",
    { class: "large", "aria-hidden": "true" },
    found.map(({ name, cells, errors, ranges }) =>
      h(
        "div",
        h("span", { class: "figure-label" }, name),
        h("strong", cells[0]),
        h("span", { class: "note" }, ranges && errors[0] ? `95%: ${errors[0]}` : errors[0]),
      ),
    ),
  );
}

// ---------------------------------------------------------------- the table

function table(answer) {
  const found = answer.columns.map((name, i) => column(answer, name, i));
  let order = null,
    shown = SHOWN;
  const body = h("tbody");
  const more = h("button", {
    type: "button",
    class: "quiet more",
    onclick: () => {
      shown = Infinity;
      draw();
    },
  });
  const heads = found.map((one, i) =>
    h(
      "th",
      { scope: "col", class: one.numeric ? "number" : null },
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            order = { by: i, down: order?.by === i ? !order.down : one.numeric };
            draw();
          },
        },
        one.name,
        h("span", { class: "sort", "aria-hidden": "true" }),
      ),
      one.errors?.some(Boolean) && h("span", { class: "note kind" }, one.ranges ? "95% interval" : "± 95%"),
    ),
  );

  function draw() {
    const places = answer.rows.map((_, i) => i);
    if (order) places.sort((a, b) => compare(found[order.by].values[a], found[order.by].values[b], order.down));
    heads.forEach((head, i) => {
      if (order?.by === i) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill(
      body,
      places.slice(0, shown).map((place) =>
        h(
          "tr",
          found.map((one) => cell(one, place)),
        ),
      ),
    );
    const hidden = answer.rows.length - shown;
    more.hidden = !(hidden > 0);
    more.textContent = hidden > 0 && `Show ${hidden.toLocaleString("en")} more rows`;
  }

  draw();
  const meanings = [
    found.some((one) => one.errors?.some(Boolean) && !one.ranges) && "± with 95% confidence.",
    found.some((one) => one.ranges) && "In brackets: 95% intervals, where errors aren't alike on both sides.",
    found.some((one) => one.bounds) && "“At least” and “at most”: there is no 95% interval on the other side.",
  ].filter(Boolean);
  return h(
    "div",
    { class: "table-wrap" },
    h(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "the answer as a table" },
      h(
        "table",
        { class: "data" },
        h("caption", { class: "visually-hidden" }, "The answer, with errors behind ± or in brackets at 95% confidence"),
        h("thead", h("tr", heads)),
        body,
      ),
    ),
    more,
    meanings.length > 0 && h("p", { class: "note" }, meanings.join(" ")),
  );
}

function column(answer, name, i) {
  const values = answer.rows.map((row) => row[i]);
  const once = answer.columns.indexOf(name) === answer.columns.lastIndexOf(name); // intervals go by name
  const ends = once ? answer.intervals[name] : undefined;
  const numeric = Boolean(ends) || values.some((v) => typeof v === "number");
  if (!ends) return { name, values, ends, numeric };
  const found = described(values, ends);
  const bounds = found.cells.some((text) => /^at (least|most) /.test(text));
  return { name, values, ends, numeric, bounds, ...found };
}

function cell({ values, ends, numeric, cells, errors, hints }, place) {
  const value = values[place];
  if (!ends) return h("td", { class: numeric ? "number" : value === null ? "null" : null }, plain(value));
  return h(
    "td",
    { class: "number", title: ends[place] && value !== null ? `95%: ${hints[place]}` : null },
    h("span", { class: value === null ? "null" : null }, cells[place]),
    " ",
    h("span", { class: "error" }, errors[place]),
  );
}

function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null); // NULLs last
  const [x, y] = [number(a) ?? a, number(b) ?? b];
  return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
}
