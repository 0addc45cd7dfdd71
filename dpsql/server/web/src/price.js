// What the query would cost, how far off its answer would be, and what would be left: while it is written.
import { fill, h } from "./dom.js";
import { amount, delta, guarantee, short } from "./format.js";

const LEAST = 0.01;

/** The panel: { element, epsilon(), quoted(quote), refused(refusal), priced(table), pending(), empty(), budget(b) }. */
export function pricePanel({ onepsilon }) {
  let total = 1,
    most = 1,
    chosen = null,
    fixed = false,
    table = null,
    now = null;

  const slider = h("input", {
    type: "range",
    id: "epsilon-slider",
    min: 0,
    max: 1000,
    step: 1,
    "aria-label": "ε to spend, from little and noisy to much and accurate",
    oninput: () => choose(fromSlider(), slider),
  });
  const field = h("input", {
    type: "text",
    inputmode: "decimal",
    class: "epsilon-field",
    "aria-label": "ε to spend",
    autocomplete: "off",
    onchange: () => (Number(field.value) > 0 ? choose(Number(field.value), field) : show()),
  });
  const figures = h("div", { class: "figures" });
  const errors = h("div", { class: "errors" });
  const prices = h("div", { class: "prices" });
  const accuracy = h(
    "details",
    { class: "price-table", open: innerWidth > 760 },
    h("summary", "What accuracy costs"),
    prices,
  );
  const text = h("pre", { tabindex: 0, "aria-label": "the whole explanation" });
  const whole = h("details", { class: "price-table whole", hidden: true }, h("summary", "How it is measured"), text);
  const inSql = h("p", { class: "note", hidden: true }, "ε is set in the SQL.");
  const status = h("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });

  const element = h(
    "section",
    { class: "card price", "aria-labelledby": "price-title" },
    h("h2", { id: "price-title" }, "Price"),
    figures,
    h(
      "div",
      { class: "slider" },
      h("div", { class: "slider-head" }, h("span", "ε of this query"), field),
      slider,
      h(
        "div",
        { class: "slider-ends", "aria-hidden": "true" },
        h("span", "cheap, noisy"),
        h("span", "dear, accurate"),
      ),
      inSql,
    ),
    errors,
    accuracy,
    whole,
    status,
  );

  function fromSlider() {
    const share = slider.value / 1000;
    return Number((LEAST * (most / LEAST) ** share).toPrecision(2));
  }

  function choose(epsilon, by) {
    chosen = Math.max(epsilon, 1e-6);
    show(by);
    onepsilon(chosen);
  }

  function show(by) {
    if (chosen !== null) {
      if (by !== slider) slider.value = (1000 * Math.log(chosen / LEAST)) / Math.log(most / LEAST);
      if (by !== field || Number(field.value) !== chosen) field.value = amount(chosen).replaceAll(",", "");
      slider.setAttribute("aria-valuetext", `ε ${amount(chosen)}`);
    }
    drawTable();
  }

  function drawTable() {
    if (!table?.length) {
      fill(prices, h("p", { class: "note" }, "A table of ε and error for your query."));
      return;
    }
    const names = Object.keys(table[0].errors);
    const lines = table.filter((line) => !now || Math.abs(line.epsilon - now.epsilon) > 1e-9);
    if (now) lines.push(now); // the ε that is chosen has a line of its own
    lines.sort((a, b) => a.epsilon - b.epsilon);
    fill(
      prices,
      h(
        "table",
        h(
          "thead",
          h(
            "tr",
            h("th", { scope: "col" }, "ε"),
            names.map((n) => h("th", { scope: "col" }, `± ${n}`)),
            h("th", { scope: "col" }, "fits"),
          ),
        ),
        h(
          "tbody",
          lines.map((line) =>
            h(
              "tr",
              {
                class: [line === now && "chosen", line.fits === 0 && "too-dear"].filter(Boolean).join(" ") || null,
                "aria-current": line === now ? "true" : null,
              },
              h(
                "th",
                { scope: "row" },
                h(
                  "button",
                  {
                    type: "button",
                    disabled: fixed,
                    "aria-label": `spend ε ${amount(line.epsilon)}`,
                    onclick: () => choose(line.epsilon),
                  },
                  amount(line.epsilon),
                ),
              ),
              names.map((n) => h("td", short(line.errors[n]))),
              h("td", fits(line.fits)),
            ),
          ),
        ),
      ),
    );
  }

  return {
    element,
    epsilon: () => (fixed ? null : chosen),
    /** What may be spent in all and by one query; the first call also chooses an ε. */
    budget({ total: whole, remaining, quota }, { query_epsilon: usual, max_query_epsilon: largest }) {
      total = quota ?? whole.epsilon;
      most = Math.max(Math.min(largest ?? total, total, 10), 2 * LEAST);
      chosen ??= usual ?? Math.min(0.5, Math.max(remaining.epsilon, LEAST), most);
      show();
    },
    /** Does the SQL say itself what it spends? */
    fix(is) {
      fixed = is;
      slider.disabled = field.disabled = accuracy.hidden = is;
      inSql.hidden = !is;
      show();
    },
    pending: () => element.classList.add("pending"),
    quoted(quote) {
      element.classList.remove("pending");
      const after = quote.left_after;
      if (fixed) field.value = amount(quote.price.epsilon);
      whole.hidden = !quote.text;
      fill(text, quote.text);
      const errorOf = Object.fromEntries((quote.expected ?? []).map((one) => [one.name, one.error]));
      now = {
        epsilon: quote.request.epsilon ?? quote.price.epsilon,
        errors: errorOf,
        fits: quote.fits?.more,
      };
      if (now.epsilon === 0) now = null;
      drawTable();
      fill(
        figures,
        quote.stored
          ? figure("costs", "nothing", "your earlier answer is kept")
          : figure("costs", `ε ${amount(quote.price.epsilon)}`, quote.price.delta > 0 && delta(quote.price)),
        figure(
          "would leave",
          after ? `ε ${amount(after.epsilon)}` : "doesn't fit",
          `of ε ${amount(total)}`,
          after ? null : "bad",
        ),
      );
      fill(errors, expected(quote));
      const said = (quote.expected ?? []).map((one) => `${one.name} plus or minus ${one.text}`).join(", ");
      status.textContent = `costs ${quote.stored ? "nothing" : guarantee(quote.price)}. ${said}`;
    },
    refused(refusal) {
      element.classList.remove("pending");
      fill(
        figures,
        h(
          "div",
          { class: "refused-note" },
          h(
            "strong",
            refusal.kind === "BudgetError"
              ? "Over budget"
              : refusal.status && refusal.status < 500
                ? "Can't be answered as written"
                : "No price",
          ),
          h("p", refusal.message),
          refusal.hint && !refusal.span && h("p", { class: "note hint" }, refusal.hint),
        ),
      ); // else it is under its words
      fill(errors);
      whole.hidden = true;
      status.textContent = `refused: ${refusal.message}. ${refusal.hint ?? ""}`;
      table = now = null;
      drawTable();
    },
    /** The table of prices; null while it isn't known. */
    priced(found) {
      table = found;
      drawTable();
    },
    empty() {
      element.classList.remove("pending");
      fill(
        figures,
        h("p", { class: "note" }, "Write a query: its price and its error are shown before anything is spent."),
      );
      fill(errors);
      whole.hidden = true;
      table = now = null;
      drawTable();
    },
  };
}

function figure(label, value, more, tone) {
  return h(
    "div",
    { class: `figure ${tone ?? ""}` },
    h("span", { class: "figure-label" }, label),
    h("strong", value),
    more && h("span", { class: "note" }, more),
  );
}

function fits(times) {
  if (times === null || times === undefined) return "free";
  return times === 0 ? "no" : times === 1 ? "once" : `${times.toLocaleString("en")}×`;
}

/** The error of each column that has noise, and what limits and ranges are known to cut. */
function expected(quote) {
  const lines = quote.expected ?? [];
  if (!lines.length) return [];
  return [
    h("h3", "Expected error"),
    h(
      "dl",
      lines.map((one) =>
        h(
          "div",
          h("dt", one.name),
          h(
            "dd",
            one.text === "with the answer" ? "known with the answer" : `± ${one.text}`,
            one.rows && h("span", { class: "note" }, ` in groups of ${one.rows.toLocaleString("en")}`),
          ),
        ),
      ),
    ),
    h("p", { class: "note" }, "All cells at once, with 95% confidence."),
    quote.cuts?.length > 0 &&
      h(
        "ul",
        { class: "cuts" },
        quote.cuts.map((cut) => h("li", cut)),
      ),
  ];
}
