// An answer: what is to be known of it, the chart, the table with its errors, and files of it.
import { chart } from "./chart.js";
import { h, icon, ICONS, fill } from "./dom.js";
import { error, guarantee, number, percent, writer } from "./format.js";

const SHOWN = 200; // rows, until more are asked for

/** The card of an answer. sql: what was asked. replayed: it was looked up, not asked. */
export function answerCard(answer, { sql, replayed = false }) {
  const { receipt, columns, rows } = answer;
  const free = replayed || receipt.reused || !receipt.id || answer.cost.epsilon === 0;
  const why = replayed ? "replayed, free" : receipt.reused ? "free: your stored answer" : free ? "free" : `cost ${guarantee(answer.cost)}`;
  return h("section", { class: "card answer", "aria-labelledby": "answer-title", "data-testid": "answer" },
    h("header", { class: "card-head" },
      h("h2", { id: "answer-title", tabindex: -1 }, "Answer"),
      h("span", { class: `chip ${free ? "good" : ""}` }, why),
      h("span", { class: "note" }, `${rows.length.toLocaleString("en")} row${rows.length === 1 ? "" : "s"}`),
      receipt.id && downloads(receipt.id)),
    warnings(answer),
    chart(answer),
    table(answer),
    remarks(answer, sql));
}

function downloads(id) {
  const link = (format, title) => h("a", { href: `/v1/answers/${encodeURIComponent(id)}?format=${format}`, download: true, class: "download", "aria-label": `download ${title}` }, icon(ICONS.down), title);
  return h("div", { class: "downloads" }, link("csv", "CSV"), link("parquet", "Parquet"), link("receipt", "Receipt"));
}

/** "trips is low by about 4%": what is cut of a column, where that is more than its noise. */
function warnings(answer) {
  const marked = Object.entries(answer.cut ?? {}).filter(([, cut]) => cut.exceeds_noise);
  const notes = [
    ...marked.map(([name, cut]) => [h("strong", name), ` is ${cut.low_by > 0 ? "low" : "high"} by about ${percent(Math.abs(cut.low_by))}: what limits cut is more than its noise.`]),
    ...(answer.receipt.notes ?? []),
    ...(answer.receipt.ranges ?? []).filter((one) => !one.found).map((one) => `No range was found for ${one.column}: it is clipped to fixed bounds, and the answer means little.`),
    ...(answer.receipt.untested ? [`Measured by ${answer.receipt.engine}, which dpsql was not tested with.`] : []),
  ];
  return notes.length > 0 && h("ul", { class: "warnings" }, notes.map((note) => h("li", note)));
}

/** What the answer rests on, for those who open it. */
function remarks({ receipt }, sql) {
  const lines = [
    ...(receipt.limits ?? []).map((one) => `Limited by ${one}.`),
    ...(receipt.ranges ?? []).filter((one) => one.found).map((one) => `${one.column} is clipped to ${one.low} to ${one.high}, its automatic bounds.`),
    ...(receipt.cut ?? []),
    ...(receipt.id ? [`Receipt ${receipt.id}, ${receipt.time}.`] : []),
  ];
  return h("details", { class: "remarks" },
    h("summary", "What this answer rests on"),
    h("ul", lines.map((line) => h("li", line))),
    h("pre", { tabindex: 0, "aria-label": "the SQL that was asked" }, sql));
}

// ---------------------------------------------------------------- the table

function table(answer) {
  const found = answer.columns.map((name, i) => column(answer, name, i));
  let order = null, shown = SHOWN;
  const body = h("tbody");
  const more = h("button", { type: "button", class: "quiet more", onclick: () => { shown = Infinity; draw(); } });
  const heads = found.map((one, i) => h("th", { scope: "col", class: one.numeric ? "number" : null },
    h("button", { type: "button", onclick: () => { order = { by: i, down: order?.by === i ? !order.down : one.numeric }; draw(); } },
      one.name, h("span", { class: "sort", "aria-hidden": "true" }))));

  function draw() {
    const places = answer.rows.map((_, i) => i);
    if (order) places.sort((a, b) => compare(found[order.by].values[a], found[order.by].values[b], order.down));
    heads.forEach((head, i) => {
      if (order?.by === i) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill(body, places.slice(0, shown).map((place) => h("tr", found.map((one) => cell(one, place)))));
    const hidden = answer.rows.length - shown;
    more.hidden = !(hidden > 0);
    more.textContent = `Show ${hidden.toLocaleString("en")} more rows`;
  }

  draw();
  const noisy = found.some((one) => one.ends);
  return h("div", { class: "table-wrap" },
    h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "the answer as a table" },
      h("table", { class: "data" },
        h("caption", { class: "visually-hidden" }, "The answer, with errors behind ± at 95% confidence"),
        h("thead", h("tr", heads)), body)),
    more,
    noisy && h("p", { class: "note" }, "± with 95% confidence; two numbers where the error isn't alike on both sides."));
}

function column(answer, name, i) {
  const values = answer.rows.map((row) => row[i]);
  const once = answer.columns.indexOf(name) === answer.columns.lastIndexOf(name); // intervals go by name
  const ends = once ? answer.intervals[name] : undefined;
  const numeric = Boolean(ends) || values.some((v) => typeof v === "number");
  return { name, values, ends, numeric, write: writer(values, ends) };
}

function cell({ values, ends, numeric, write }, place) {
  const value = values[place];
  const text = write(value);
  if (!ends) return h("td", { class: numeric ? "number" : value === null ? "null" : null }, text);
  return h("td", { class: "number" }, h("span", { class: value === null ? "null" : null }, text), " ", h("span", { class: "error" }, error(value, ends[place], write)));
}

function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null); // NULLs last
  const [x, y] = [number(a) ?? a, number(b) ?? b];
  return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
}
