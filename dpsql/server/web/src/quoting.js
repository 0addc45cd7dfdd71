// The price of what is written, asked for while it is written: free, one request at a time, and stale replies dropped.
import { lane } from "./api.js";

const TYPING = 250; // milliseconds without a key before the price is asked for
const SLIDING = 120; // and without a move of the slider
const STILL = 450; // and before a refusal is shown in the text: half a word is no mistake
const NAMES_EPSILON = /\bepsilon\s*=/i;

/** What asks for prices: { typed(), slid(), now(), request(), quote() }, over an editor and a price panel. */
export function quoting(sql, price) {
  const free = lane();
  let latest = null; // the last quote, for what is written now
  let pricedFor = null; // the SQL that the table of prices is of
  let asking = 0;
  let timer = 0;
  let refusing = 0;

  function later(wait) {
    clearTimeout(timer);
    clearTimeout(refusing);
    timer = setTimeout(now, wait);
  }

  /** What would be asked: the SQL, and ε unless it says so itself. */
  function request() {
    const text = sql.text();
    const own = NAMES_EPSILON.test(text);
    price.fix(own);
    const epsilon = price.epsilon();
    return own || epsilon === null ? { sql: text } : { sql: text, epsilon };
  }

  /** Ask for the price of what is written. */
  function now() {
    clearTimeout(refusing);
    latest = null;
    const number = ++asking;
    const body = request();
    if (!body.sql.trim()) {
      sql.refuse(null);
      price.empty();
      return;
    }
    price.pending();
    const current = (call) => (found) => number === asking && call(found);
    free("explain", {
      path: "/v1/explain",
      body,
      done: current((found) => {
        latest = { ...found, request: body };
        sql.refuse(null);
        price.quoted(latest);
        if (body.epsilon !== undefined) askPrices(body.sql); // else the SQL has settled it
      }),
      failed: current((refusal) => {
        pricedFor = null;
        price.refused(refusal);
        refusing = setTimeout(
          current(() => sql.refuse(refusal)),
          STILL,
        );
      }),
    });
  }

  /** The table of ε and error: asked for once for a text, whatever ε is chosen. */
  function askPrices(text) {
    if (pricedFor === text) return;
    pricedFor = text;
    const same = (call) => (table) => sql.text() === text && call(table);
    const [done, failed] = [same(price.priced), same(() => price.priced(null))];
    free("prices", { path: "/v1/prices", body: { sql: text }, done, failed });
  }

  return {
    request,
    now,
    slid: () => later(SLIDING),
    typed() {
      latest = pricedFor = null;
      price.priced(null);
      later(TYPING);
    },
    /** The quote for what would be asked now; raises the refusal. */
    quote(body) {
      const same = latest?.request.sql === body.sql && latest.request.epsilon === body.epsilon;
      if (same) return latest;
      return new Promise((done, failed) => free("run", { path: "/v1/explain", body, done, failed }));
    },
  };
}
