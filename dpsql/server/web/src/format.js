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

/** The δ of a price, in two digits. */
export function delta(cost) {
  return `δ ${Number(cost.delta).toExponential(1)}`;
}

/** A guarantee or a price: ε, and δ where there is one. */
export function guarantee(cost) {
  return `ε ${amount(cost.epsilon)}${cost.delta ? `, ${delta(cost)}` : ""}`;
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

/** A value without noise, as it is. */
export function plain(value) {
  return value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** How many decimals of a column with noise are shown. halves: how far off its values may be. */
export function decimals(values, halves) {
  if (values.every((v) => v === null || Number.isInteger(number(v)))) return 0;
  return halves.length ? Math.min(Math.max(1 - Math.floor(Math.log10(Math.min(...halves))), 0), 12) : 4;
}

/** How the values of a column with noise are written, with so many decimals. */
export function writer(places) {
  return (value) => {
    const figure = number(value);
    if (figure === null) return value === null ? "too few" : String(value);
    return figure
      .toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places })
      .replace("-", "−");
  };
}

/** When something was: "14:05" today, else the day, too. */
export function when(time) {
  const at = new Date(time);
  const clock = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return clock;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })}, ${clock}`;
}
