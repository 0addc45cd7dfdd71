// The server's API: one function that asks, and a lane for what is free, in which one request is under way at a time.

/** What the server refused, or that it couldn't be reached: kind, code, message, hint, span, status. */
export class Refusal extends Error {
  constructor(told) {
    super(told.message);
    Object.assign(this, { kind: "ServerError", code: "", hint: null, span: null, status: 0, ...told });
  }
}

let onLoggedOut = () => {};

/** Call this when the server no longer knows who asks. */
export function whenLoggedOut(call) {
  onLoggedOut = call;
}

/**
 * A path's reply as JSON; with a body it is a POST. Raises Refusal.
 *
 * Errors come inside of replies that succeed: browsers log every other status, and a refusal of half a query that is
 * still being typed is no mishap.
 */
export async function ask(path, body, headers = {}) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
  let reply;
  try {
    reply = await fetch(`${path}?errors=inside`, { ...options, credentials: "same-origin" });
  } catch {
    throw new Refusal({ code: "unreachable", message: "the server can't be reached", hint: "is it still running?" });
  }
  if (reply.status === 204) return null;
  const found = await reply.json().catch(() => ({ message: `the server replied ${reply.status}` }));
  if (reply.ok && !found.error) return found;
  const told = { status: reply.status, ...(found.error ?? found) };
  if (told.status === 401 && path !== "/v1/login") onLoggedOut();
  throw new Refusal(told);
}

const BUSY = new Set([429, 503]);
const PATIENCE = [300, 900, 2500]; // milliseconds before asking once more

async function patiently(path, body) {
  for (const wait of PATIENCE) {
    try {
      return await ask(path, body);
    } catch (error) {
      if (!BUSY.has(error.status)) throw error;
      await new Promise((go) => setTimeout(go, wait));
    }
  }
  return ask(path, body);
}

/** A lane: one request at a time, and of those that wait with the same name only the last. Others are never sent. */
export function lane() {
  const waiting = new Map();
  let running = false;
  async function next() {
    const [first] = waiting;
    running = first !== undefined;
    if (!running) return;
    const [name, { path, body, done, failed }] = first;
    waiting.delete(name);
    await patiently(path, body).then(done, failed).catch(console.error);
    next();
  }
  return (name, request) => {
    waiting.set(name, request);
    if (!running) next();
  };
}

/** A key by which a lost reply is found again: random, also where the page came without TLS. */
export function idempotencyKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
