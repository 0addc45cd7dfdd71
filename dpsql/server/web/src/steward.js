// For stewards: who spent what and when, and the policy as it is written. Nothing can be changed here.
import { ask } from "./api.js";
import { fill, h } from "./dom.js";
import { amount } from "./format.js";
import { whenThemeChanges } from "./theme.js";

/** Who spent what and when: { element, load() }. */
export function spendingView() {
  const element = h("main", { class: "page", hidden: true });
  let paint = () => {};
  whenThemeChanges(() => paint());
  async function load() {
    const [{ spending }, budget, { drawSpending }] = await Promise.all([
      ask("/v1/spending"),
      ask("/v1/budget"),
      import("./plot.js"),
    ]);
    const days = spending.map((one) => ({
      day: one.time,
      name: one.analyst ?? "nobody named",
      epsilon: one.cost.epsilon,
      releases: one.releases,
    }));
    const plot = h("div", { class: "plot" });
    fill(
      element,
      h(
        "section",
        { class: "card", "aria-labelledby": "spending-title" },
        h("h1", { id: "spending-title" }, "Spending"),
        h("p", { class: "note" }, spent(budget)),
        days.length
          ? [h("h2", "By day"), plot, h("h2", "By analyst"), byAnalyst(days)]
          : h("p", "Nothing was spent yet."),
      ),
    );
    paint = () => days.length && !element.hidden && fill(plot, drawSpending(days, plot.clientWidth || 640));
    paint();
  }
  return { element, load };
}

function spent({ total, remaining, quota, period }) {
  const whole = `ε ${amount(total.epsilon)}${period ? ` for ${period}` : ""}`;
  if (quota !== null) return `The budget is ${whole}; your own quota is ε ${amount(quota)}.`;
  return `ε ${amount(total.epsilon - remaining.epsilon)} of ${whole} is spent.`;
}

function byAnalyst(days) {
  const found = new Map();
  for (const { name, epsilon, releases, day } of days) {
    const one = found.get(name) ?? { name, epsilon: 0, releases: 0, last: day };
    found.set(name, {
      name,
      epsilon: one.epsilon + epsilon,
      releases: one.releases + releases,
      last: day > one.last ? day : one.last,
    });
  }
  const rows = [...found.values()].sort((a, b) => b.epsilon - a.epsilon);
  const most = rows[0].epsilon || 1;
  return h(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "spending by analyst" },
    h(
      "table",
      { class: "data" },
      h(
        "thead",
        h(
          "tr",
          ["Analyst", "ε spent", "Releases", "Last"].map((text, i) =>
            h("th", { scope: "col", class: i === 1 || i === 2 ? "number" : null }, text),
          ),
        ),
      ),
      h(
        "tbody",
        rows.map((one) =>
          h(
            "tr",
            h("th", { scope: "row" }, one.name),
            h(
              "td",
              { class: "number" },
              h("span", { class: "bar", style: `--share: ${one.epsilon / most}` }),
              amount(one.epsilon),
            ),
            h("td", { class: "number" }, one.releases.toLocaleString("en")),
            h("td", one.last),
          ),
        ),
      ),
    ),
  );
}

/** The policy: { element, load() }. */
export function policyView() {
  const element = h("main", { class: "page", hidden: true });
  async function load() {
    const { policy } = await ask("/v1/policy");
    const text = policy ? toml(policy) : "The policy wasn't read from a file.";
    fill(
      element,
      h(
        "section",
        { class: "card", "aria-labelledby": "policy-title" },
        h("h1", { id: "policy-title" }, "Policy"),
        h("p", { class: "note" }, "As it is written. It is changed on the server's host, never from here."),
        h("pre", { class: "policy", tabindex: 0, "aria-label": "the policy" }, text),
      ),
    );
  }
  return { element, load };
}

/** TOML in colours: headings, keys, texts and comments. */
function toml(text) {
  return text.split("\n").map((line) => {
    const [, code, comment] = /^((?:[^"'#]|"[^"]*"|'[^']*')*)(#.*)?$/.exec(line) ?? [null, line, ""];
    const parts = /^\s*\[/.test(code)
      ? [h("b", code)]
      : code.split(/("[^"]*"|'[^']*')/).map((part, i) => (i % 2 ? h("span", { class: "string" }, part) : part));
    return h("span", { class: "line" }, parts, comment && h("span", { class: "comment" }, comment), "\n");
  });
}
