// Numbers as people read them: no more digits than the error leaves.

/** ε and the like: up to four digits, without zeros at the end. */
export function amount(value) {
  return Number(value).toLocaleString("en", { maximumSignificantDigits: 4 });
}

/** An error or another figure in three digits. */
export function short(value) {
  if (value === null || value === undefined) return "?";
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

/** A guarantee or a price: ε, and δ where there is one. */
export function guarantee(cost) {
  return `ε ${amount(cost.epsilon)}${cost.delta ? `, δ ${Number(cost.delta).toExponential(1)}` : ""}`;
}

/** A share: 4%, 0.4%. */
export function percent(share) {
  return `${(share * 100).toFixed(Math.abs(share) >= 0.01 ? 0 : 1)}%`;
}

/** A number that came as one, or as text because it is too long for one; null for everything else. */
export function number(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : null;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const MOMENT = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/;

/** A date or a time as a Date in UTC; null for everything else. */
export function moment(value) {
  if (typeof value !== "string") return null;
  if (DAY.test(value)) return new Date(`${value}T00:00Z`);
  if (!MOMENT.test(value)) return null;
  return new Date(/(Z|[+-]\d{2}:?\d{2})$/.test(value) ? value : `${value.replace(" ", "T")}Z`);
}

/** How the values of a column are written. ends: its intervals, by row, if it has noise. */
export function writer(values, ends) {
  if (!ends) return (value) => (value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value));
  const halves = ends.filter((w) => w && w[1] > w[0]).map((w) => (w[1] - w[0]) / 2);
  const whole = values.every((v) => v === null || Number.isInteger(number(v)));
  const decimals = whole ? 0 : halves.length ? Math.min(Math.max(1 - Math.floor(Math.log10(Math.min(...halves))), 0), 12) : 4;
  return (value) => {
    const figure = number(value);
    if (figure === null) return value === null ? "too few" : String(value);
    return figure.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  };
}

/** The error behind ±, or both ends where they aren't alike; never narrower than it is. */
export function error(value, ends, write) {
  if (!ends) return value === null ? "" : "unknown";
  const [low, high] = ends;
  const figure = number(value);
  if (figure === null || high === null || low === null) return `${write(low)} to ${write(high)}`;
  const below = figure - low, above = high - figure;
  const rounding = Number.isInteger(figure) ? 1 : 1e-6 * (high - low);
  if (Math.abs(below - above) > rounding) return `${write(low)} to ${write(high)}`;
  return `± ${roundedUp(Math.max(below, above), write)}`;
}

function roundedUp(width, write) {
  const text = write(width);
  const shown = Number(text.replaceAll(",", ""));
  if (shown >= width) return text;
  const places = text.split(".")[1]?.length ?? 0;
  return write(Math.ceil(width * 10 ** places) / 10 ** places);
}

/** When something was: "14:05" today, else the day, too. */
export function when(time) {
  const at = new Date(time);
  const clock = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return clock;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })}, ${clock}`;
}
