// Intervals as text: a half width, a range, or a bound where an end isn't known. As answer/interval_text.py writes them.
import { decimals, number, writer } from "./format.js";

const LOPSIDED = 0.1; // of its width: what the sides of an interval may differ by, and still be shown as one half width
const ROUNDED = 0.2; // of its distance from the value is how far an end may be rounded away from it
const DIGITS = 2; // that an end keeps of its own

/** Both ends; infinite where one isn't known. */
export const endsOf = (ends) => [ends?.[0] ?? -Infinity, ends?.[1] ?? Infinity];

/** The longer side of an interval that is about alike on both sides; null: it isn't. */
function halfWidth(value, ends) {
  const [low, high] = endsOf(ends);
  if (!Number.isFinite(high - low)) return null;
  const below = value - low,
    above = high - value,
    rounding = Number.isInteger(value) ? 1 : 0; // the interval is around the unrounded value
  const alike = Math.abs(below - above) <= LOPSIDED * (high - low) + rounding;
  return alike && Math.min(below, above) >= -rounding ? Math.max(below, above) : null;
}

function kindOf(value, ends) {
  const [low, high] = endsOf(ends).map(Number.isFinite);
  if (value === null) return "none";
  if (low && high) return halfWidth(value, ends) === null ? "range" : "half width";
  return low ? "at least" : high ? "at most" : "unknown";
}

/** How far off the values of a column may be: half of each interval, or the side that is known. */
function margins(values, ends) {
  return values
    .map((value, i) => {
      const [low, high] = endsOf(ends[i]);
      if (value === null) return 0;
      if (Number.isFinite(high - low)) return (high - low) / 2;
      return Number.isFinite(low) !== Number.isFinite(high) ? Math.abs(value - (Number.isFinite(low) ? low : high)) : 0;
    })
    .filter((margin) => margin > 0 && Number.isFinite(margin));
}

/**
 * A column with noise as text, row by row: cells (a value, or the bound that it is), errors behind them, and hints (the
 * intervals in words). ranges: both ends are shown, since one interval is lopsided; else half widths.
 */
export function described(values, ends) {
  const numbers = values.map(number);
  const shown = decimals(values, margins(numbers, ends));
  const write = writer(shown);
  const kinds = numbers.map((value, i) => kindOf(value, ends[i]));
  const ranges = kinds.includes("range");
  const words = numbers.map((value, i) => interval(value, endsOf(ends[i]), shown));
  const oneSided = kinds.map((kind) => kind === "at least" || kind === "at most");
  return {
    ranges,
    cells: values.map((value, i) => (oneSided[i] ? words[i] : write(value))),
    errors: kinds.map((kind, i) => {
      if (kind === "unknown") return "± unknown";
      if (kind !== "half width" && kind !== "range") return "";
      return ranges ? `(${words[i]})` : `± ${roundedUp(halfWidth(numbers[i], ends[i]), write)}`;
    }),
    hints: words.map((text, i) => (oneSided[i] ? `${text} (measured: ${write(values[i])})` : text)),
  };
}

/** "19,600 to 22,100", "at least 19,600", "at most 22,100" or "unknown"; never narrower than it is. */
function interval(value, [low, high], shown) {
  let [below, above] = [slack(value, low), slack(value, high)];
  if (Number.isFinite(low) && Number.isFinite(high)) {
    if (Math.min(below, above) < least(shown)) below = above = 0; // where one end has decimals, both have
    return `${outward(low, below, shown, Math.floor)} to ${outward(high, above, shown, Math.ceil)}`;
  }
  if (Number.isFinite(low)) return `at least ${outward(low, below, shown, Math.floor)}`;
  if (Number.isFinite(high)) return `at most ${outward(high, above, shown, Math.ceil)}`;
  return "unknown";
}

/** An end, rounded outward by no more than the slack where that has digits before the point. */
function outward(end, most, shown, round) {
  const finest = 10 ** -shown;
  const coarse = most > 0 ? power(most) : 0;
  const step = coarse >= Math.max(finest, least(shown)) ? coarse : finest;
  const steps = end / step;
  if (!Number.isFinite(steps)) return writer(shown)(end);
  const rounded = round(Math.abs(steps) < 1e9 ? Math.round(steps * 1e6) / 1e6 : steps) * step + 0; // never -0
  return writer(step >= 1 ? 0 : shown)(Number.isFinite(rounded) ? rounded : end);
}

/** What ends are rounded to at least, if not as values are. */
const least = (shown) => (shown === 0 ? 1 : 10);

/** How far an end may be rounded away from its value: it stays about as near, and keeps digits of its own. */
function slack(value, end) {
  if (value === null || !Number.isFinite(end)) return 0;
  return Math.min(ROUNDED * Math.abs(value - end), end ? power(end) / 10 ** (DIGITS - 1) : Infinity);
}

/** The power of ten of a number's first digit. */
const power = (size) => 10 ** Math.floor(Math.log10(Math.abs(size)));

function roundedUp(width, write) {
  const text = write(width);
  if (Number(text.replaceAll(",", "")) >= width) return text;
  const scale = 10 ** (text.split(".")[1]?.length ?? 0);
  const up = width * scale < 1e9 ? Math.round(width * scale * 1e6) / 1e6 : width * scale;
  return write(Math.ceil(up) / scale);
}
