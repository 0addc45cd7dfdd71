// For stewards: who spent what and when, and the policy as it is written. Nothing can be changed here.
import { ask } from "./api.js";
import { fill, h } from "./dom.js";
import { amount } from "./format.js";
import { whenThemeChanges } from "./theme.js";

/** The two views: { spending, policy }, each { element, load() }. */
export function stewardViews() {
  return { spending: spendingView(), policy: policyView() };
}

function spendingView() {
  const element = h("main", { class: "page", hidden: true });
  let paint = () => {};
  whenThemeChanges(() => paint());
  async function load() {
    const [{ spending }, budget, { drawSpending }] = await Promise.all([ask("/v1/spending"), ask("/v1/budget"), import("./plot.js")]);
    const days = spending.map((one) => ({ day: one.time, name: one.analyst ?? "nobody named", epsilon: one.cost.epsilon, releases: one.releases }));
    const plot = h("div", { class: "plot" });
    fill(element,
      h("section", { class: "card", "aria-labelledby": "spending-title" },
        h("h1", { id: "spending-title" }, "Spending"),
        h("p", { class: "note" }, `ε ${amount(budget.account?.spent?.epsilon ?? budget.total.epsilon - budget.remaining.epsilon)} of ${amount(budget.total.epsilon)} is spent${budget.period ? ` (${budget.period})` : ""}.`),
        days.length ? [h("h2", "By day"), plot, h("h2", "By analyst"), byAnalyst(days)] : h("p", "Nothing was spent yet.")));
    paint = () => days.length && !element.hidden && fill(plot, drawSpending(days, plot.clientWidth || 640));
    paint();
  }
  return { element, load };
}

function byAnalyst(days) {
  const found = new Map();
  for (const { name, epsilon, releases, day } of days) {
    const one = found.get(name) ?? { name, epsilon: 0, releases: 0, last: day };
    found.set(name, { name, epsilon: one.epsilon + epsilon, releases: one.releases + releases, last: day > one.last ? day : one.last });
  }
  const rows = [...found.values()].sort((a, b) => b.epsilon - a.epsilon);
  const most = rows[0].epsilon || 1;
  return h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "spending by analyst" }, h("table", { class: "data" },
    h("thead", h("tr", ["Analyst", "ε spent", "Releases", "Last"].map((text, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "number" : null }, text)))),
    h("tbody", rows.map((one) => h("tr", h("th", { scope: "row" }, one.name),
      h("td", { class: "number" }, h("span", { class: "bar", style: `--share: ${one.epsilon / most}` }), amount(one.epsilon)),
      h("td", { class: "number" }, one.releases.toLocaleString("en")), h("td", one.last))))));
}

function policyView() {
  const text = h("pre", { class: "policy", tabindex: 0, "aria-label": "the policy" });
  const element = h("main", { class: "page", hidden: true },
    h("section", { class: "card", "aria-labelledby": "policy-title" },
      h("h1", { id: "policy-title" }, "Policy"),
      h("p", { class: "note" }, "As it is written. It is changed on the server's host, never from here."),
      text));
  return { element, load: async () => fill(text, toml((await ask("/v1/policy")).policy || "The policy wasn't read from a file.")) };
}

/** TOML in colours: headings, keys, texts and comments. */
function toml(text) {
  return text.split("\n").map((line) => {
    const [, code, comment] = /^((?:[^"'#]|"[^"]*"|'[^']*')*)(#.*)?$/.exec(line) ?? [null, line, ""];
    const parts = /^\s*\[/.test(code) ? [h("b", code)] : code.split(/("[^"]*"|'[^']*')/).map((part, i) => (i % 2 ? h("span", { class: "string" }, part) : part));
    return h("span", { class: "line" }, parts, comment && h("span", { class: "comment" }, comment), "\n");
  });
}
