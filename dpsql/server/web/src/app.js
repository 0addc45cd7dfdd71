// The page of somebody who is logged in: editor, price, answer; side bar; a steward's views.
import { ask, idempotencyKey, lane } from "./api.js";
import { answerCard } from "./answer.js";
import { confirmSpending } from "./confirm.js";
import { fill, h, icon, ICONS } from "./dom.js";
import { editor } from "./editor.js";
import { amount } from "./format.js";
import { pricePanel } from "./price.js";
import { sidebar } from "./sidebar.js";
import { stewardViews } from "./steward.js";
import { themeButton, whenThemeChanges } from "./theme.js";

const TYPING = 250; // milliseconds without a key before the price is asked for
const STILL = 450; // and before a refusal is shown in the text: half a word is no mistake
const DRAFT = "dpsql-draft";
const NAMES_EPSILON = /\bepsilon\s*=/i;
const MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Show the page for somebody. onleave: he logs out. */
export function showApp(me, onleave) {
  const free = lane();
  let quote = null, quotedFor = null, asking = 0, budget = null, timer = 0, refusing = 0, shown = null;

  // ---------------------------------------------------------------- its parts

  const price = pricePanel({ onepsilon: () => later(120) });
  const sql = editor({ text: sessionStorage.getItem(DRAFT) ?? "", onchange: typed, onrun: run });
  const side = sidebar({ oninsert: (name) => { sql.insert(name); drawer(false); }, onreplay: replay });
  const runButton = h("button", { type: "button", class: "primary run", onclick: run }, icon(ICONS.play), h("span", "Run"), h("kbd", MAC ? "⌘⏎" : "Ctrl ⏎"));
  const tell = h("p", { class: "trouble", role: "alert" });
  const result = h("div", { class: "result", "aria-live": "polite" }, welcome());
  const meter = h("div", { class: "meter" });
  const query = h("main", { class: "query" },
    h("div", { class: "work" },
      h("section", { class: "card editor", "aria-label": "query" }, sql.element,
        h("div", { class: "editor-foot" }, h("span", { class: "note" }, "Explaining is free. Ctrl Space completes."), runButton)),
      tell),
    price.element, result);
  const views = { Query: { element: query, load: () => {} }, ...(me.role === "steward" ? renamed(stewardViews()) : {}) };
  const menu = h("button", { type: "button", class: "icon-button menu", "aria-label": "tables, history and functions", "aria-expanded": "false", "aria-controls": "sidebar", onclick: () => drawer() }, icon(ICONS.menu));
  const body = h("div", { class: "app" },
    h("header", { class: "top" },
      menu,
      h("span", { class: "brand" }, h("img", { src: "/favicon.svg", alt: "", width: 26, height: 26 }), "dpsql"),
      Object.keys(views).length > 1 && navigation(),
      meter,
      h("span", { class: "who", title: me.role }, me.name),
      themeButton(),
      h("button", { type: "button", class: "icon-button", title: "Log out", "aria-label": "log out", onclick: leave }, icon(ICONS.leave))),
    side.element,
    h("div", { class: "veil", onclick: () => drawer(false) }),
    Object.values(views).map((view) => view.element));
  fill(document.body, body);

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") drawer(false);
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      run();
    }
  });
  whenThemeChanges(() => shown && fill(result, answerCard(...shown)));

  // ---------------------------------------------------------------- while typing

  function typed(text) {
    sessionStorage.setItem(DRAFT, text);
    clearTimeout(refusing);
    quote = null;
    later(TYPING);
  }

  function later(wait) {
    clearTimeout(timer);
    timer = setTimeout(quoteNow, wait);
  }

  function request() {
    const text = sql.text();
    const own = NAMES_EPSILON.test(text);
    price.fix(own);
    const epsilon = price.epsilon();
    return own || epsilon === null ? { sql: text } : { sql: text, epsilon };
  }

  /** Ask for the price of what is written; replies to what was written before are dropped. */
  function quoteNow() {
    clearTimeout(refusing);
    const number = ++asking, body = request();
    if (!body.sql.trim()) {
      sql.refuse(null);
      price.empty();
      return;
    }
    price.pending();
    const current = (call) => (found) => { if (number === asking) call(found); };
    free("explain", {
      path: "/v1/explain", body,
      done: current((found) => {
        quote = { ...found, request: body };
        sql.refuse(null);
        price.quoted(quote);
        if (quotedFor === body.sql) return;
        free("prices", { path: "/v1/prices", body: { sql: body.sql }, done: current((table) => { quotedFor = body.sql; price.priced(table); }), failed: current(() => price.priced(null)) });
      }),
      failed: current((refusal) => {
        quote = null;
        quotedFor = null;
        price.refused(refusal);
        refusing = setTimeout(current(() => sql.refuse(refusal)), STILL);
      }),
    });
  }

  // ---------------------------------------------------------------- running

  async function run() {
    const body = request();
    if (!body.sql.trim() || runButton.disabled) return;
    runButton.disabled = true;
    fill(tell);
    try {
      const same = quote && quote.request.sql === body.sql && quote.request.epsilon === body.epsilon;
      const found = same ? quote : await ask("/v1/explain", body);
      if (!found.stored && found.price.epsilon > 0 && !(await confirmSpending(found, budget.total.epsilon))) return;
      fill(result, waiting());
      show(await ask("/v1/query", body, { "Idempotency-Key": idempotencyKey() }), { sql: body.sql });
    } catch (refusal) {
      if (shown === null || result.querySelector(".waiting")) fill(result, welcome());
      if (refusal.span) sql.refuse(refusal);
      else fill(tell, refusal.message, refusal.hint && h("span", { class: "note" }, ` ${refusal.hint}`));
    } finally {
      runButton.disabled = false;
      refresh();
      later(0);
    }
  }

  function show(answer, about) {
    shown = [answer, about];
    fill(result, answerCard(...shown));
    const title = result.querySelector("h2");
    title.focus({ preventScroll: true });
    if (title.getBoundingClientRect().top > innerHeight * 0.8) result.scrollIntoView({ block: "start", behavior: "smooth" });
  }

  async function replay(entry) {
    drawer(false);
    fill(tell);
    try {
      const found = await ask(`/v1/answers/${encodeURIComponent(entry.id)}`);
      sql.write(entry.sql);
      show(Array.isArray(found) ? found[0] : found, { sql: entry.sql, replayed: true });
    } catch (refusal) {
      fill(tell, refusal.message, refusal.hint && h("span", { class: "note" }, ` ${refusal.hint}`));
    }
  }

  // ---------------------------------------------------------------- around it

  async function refresh() {
    const [found, past] = await Promise.all([ask("/v1/budget"), ask("/v1/history")]).catch(() => [null, null]);
    if (!found) return;
    budget = found;
    price.budget(found);
    side.history(past.history);
    const left = found.remaining.epsilon, total = found.quota ?? found.total.epsilon;
    meter.classList.toggle("low", Boolean(found.warning));
    fill(meter,
      h("span", { class: "meter-text" }, `ε ${amount(left)}`, h("span", { class: "of" }, ` of ${amount(total)} left`)),
      h("meter", { min: 0, max: total, value: left, "aria-label": `ε ${amount(left)} of ${amount(total)} left` }),
      found.warning && h("span", { class: "visually-hidden", role: "status" }, found.warning));
    meter.title = found.warning ?? "What is left of the budget";
  }

  async function start() {
    const [{ tables }, { functions }] = await Promise.all([ask("/v1/schema"), ask("/v1/functions"), refresh()]);
    side.tables(tables);
    side.functions(functions);
    sql.know(tables, functions);
    quoteNow();
    sql.focus();
  }

  function drawer(open = !body.classList.contains("drawer")) {
    body.classList.toggle("drawer", open);
    menu.setAttribute("aria-expanded", open);
  }

  function navigation() {
    const buttons = Object.keys(views).map((name) => h("button", { type: "button", onclick: () => go(name) }, name));
    function go(name) {
      buttons.forEach((one) => (one.textContent === name ? one.setAttribute("aria-current", "page") : one.removeAttribute("aria-current")));
      Object.entries(views).forEach(([other, view]) => { view.element.hidden = other !== name; });
      body.classList.toggle("wide", name !== "Query");
      views[name].load();
    }
    buttons[0].setAttribute("aria-current", "page");
    return h("nav", { "aria-label": "views" }, buttons);
  }

  async function leave() {
    await ask("/v1/logout", {}).catch(() => {});
    sessionStorage.removeItem(DRAFT);
    onleave();
  }

  start().catch((refusal) => fill(tell, refusal.message));
}

const renamed = ({ spending, policy }) => ({ Spending: spending, Policy: policy });

function welcome() {
  return h("section", { class: "card welcome" },
    h("h2", "Ask something"),
    h("p", "Write SQL over the tables on the left: counts, sums, averages, quantiles, by group. The price and the error are shown while you type; nothing is spent until you say so."),
    h("p", { class: "note" }, "An answer that you paid for is yours: it stays in your history, and is free to see again."));
}

function waiting() {
  return h("section", { class: "card waiting", role: "status" }, h("div", { class: "progress" }), h("p", "Measuring. Replies come at a fixed time, so that time tells nothing."));
}
