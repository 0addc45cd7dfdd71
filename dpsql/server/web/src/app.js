// The page of somebody who is logged in: editor, price, answer; side bar; a steward's views.
import { ask, askOnce } from "./api.js";
import { answerCard } from "./answer.js";
import { confirmSpending } from "./confirm.js";
import { fill, h, icon, ICONS } from "./dom.js";
import { editor } from "./editor.js";
import { amount, guarantee } from "./format.js";
import { frame } from "./frame.js";
import { pricePanel } from "./price.js";
import { quoting } from "./quoting.js";
import { sidebar } from "./sidebar.js";
import { policyView, spendingView } from "./steward.js";
import { whenThemeChanges } from "./theme.js";
import { examplesOf, welcome } from "./welcome.js";

const DRAFT = "dpsql-draft";
const MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Show the page for somebody. onleave: he logs out. */
export function showApp(me, onleave) {
  let budget = null;
  let shown = null; // { answers, about }
  let examples = [];

  const price = pricePanel({ onepsilon: () => quotes.slid() });
  const sql = editor({ text: sessionStorage.getItem(DRAFT) ?? "", onchange: typed, onrun: run });
  const quotes = quoting(sql, price);
  const side = sidebar({ oninsert: insert, onreplay: replay });
  const runButton = h(
    "button",
    { type: "button", class: "primary run", onclick: run },
    icon(ICONS.play),
    h("span", "Run"),
    h("kbd", MAC ? "⌘⏎" : "Ctrl ⏎"),
  );
  const trouble = h("p", { class: "trouble", role: "alert" });
  const result = h("div", { class: "result" });
  const help = h("span", { class: "note" }, "Explaining is free. Ctrl Space completes.");
  const foot = h("div", { class: "editor-foot" }, help, runButton);
  const card = h("section", { class: "card editor", "aria-label": "query" }, sql.element, foot);
  const work = h("div", { class: "work" }, card, trouble);
  const query = { element: h("main", { class: "query" }, work, price.element, result), load: async () => {} };
  const views =
    me.role === "steward" ? { Query: query, Spending: spendingView(), Policy: policyView() } : { Query: query };
  const around = frame({ me, views, side: side.element, onleave: leave });

  // ---------------------------------------------------------------- asking

  function typed(text) {
    sessionStorage.setItem(DRAFT, text);
    markOlder();
    quotes.typed();
  }

  function insert(name) {
    sql.insert(name);
    around.drawer(false);
  }

  async function run() {
    const body = quotes.request();
    if (!body.sql.trim() || runButton.disabled) return;
    runButton.disabled = true;
    tell(null);
    try {
      if (!(await agreed(await quotes.quote(body)))) return;
      fill(result, waiting());
      show([await askOnce("/v1/query", body)], { sql: body.sql });
    } catch (refusal) {
      draw();
      if (refusal.span) sql.refuse(refusal);
      else tell(refusal);
    } finally {
      runButton.disabled = false;
      refresh().catch(tell);
      quotes.now(); // what was paid for is free from now on
    }
  }

  /** May this be run? What costs something is asked for, once. */
  async function agreed(quote) {
    if (quote.stored || quote.price.epsilon === 0) return true;
    if (quote.left_after !== null) return confirmSpending(quote, budget.quota ?? budget.total.epsilon);
    const message = `This costs ${guarantee(quote.price)}, and ε ${amount(quote.left.epsilon)} is left.`;
    tell({ message, hint: "Choose a smaller ε." });
    return false;
  }

  async function replay(entry) {
    around.drawer(false);
    tell(null);
    try {
      const found = await ask(`/v1/answers/${encodeURIComponent(entry.id)}`);
      sql.write(entry.sql);
      show(Array.isArray(found) ? found : [found], { sql: entry.sql, replayed: true });
    } catch (refusal) {
      tell(refusal);
    }
  }

  // ---------------------------------------------------------------- showing

  function tell(refusal) {
    fill(trouble, refusal && [refusal.message, refusal.hint && h("span", { class: "note" }, ` ${refusal.hint}`)]);
  }

  function draw() {
    fill(result, shown ? shown.answers.map((one) => answerCard(one, shown.about)) : welcome(examples, sql));
  }

  /** An answer that is still seen while another query is written is no answer to that. */
  function markOlder() {
    result.classList.toggle("older", Boolean(shown) && sql.text() !== shown.about.sql);
  }

  function show(answers, about) {
    shown = { answers, about };
    draw();
    markOlder();
    const title = result.querySelector("h2");
    title.focus({ preventScroll: true });
    const below = title.getBoundingClientRect().top > innerHeight * 0.8;
    if (below) result.scrollIntoView({ block: "start", behavior: "smooth" });
  }

  async function refresh() {
    const [found, past] = await Promise.all([ask("/v1/budget"), ask("/v1/history")]);
    budget = found;
    price.budget(found, me);
    around.budget(found);
    side.history(past.history);
  }

  async function start() {
    const [{ tables }, { functions }] = await Promise.all([ask("/v1/schema"), ask("/v1/functions"), refresh()]);
    examples = examplesOf(tables);
    side.tables(tables);
    side.functions(functions);
    sql.know(tables, functions);
    draw();
    quotes.now();
    sql.focus();
  }

  async function leave() {
    await ask("/v1/logout", {}).catch(tell);
    sessionStorage.removeItem(DRAFT);
    onleave();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") around.drawer(false);
    const runs = event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented;
    if (runs && !document.querySelector("dialog[open]")) run();
  });
  whenThemeChanges(draw);
  fill(document.body, around.element);
  start().catch(tell);
}

function waiting() {
  return h(
    "section",
    { class: "card waiting", role: "status" },
    h("div", { class: "progress" }),
    h("p", "Measuring. Replies come at a fixed time, so that time tells nothing."),
  );
}
