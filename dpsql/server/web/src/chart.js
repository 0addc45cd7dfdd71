// A chart with error bars. Lines over ordered keys, bars for whole numbers over other keys, else dots.
import { fill, h, segmented } from "./dom.js";
import { moment, number, short } from "./format.js";
import { described, endsOf } from "./intervals.js";

const MOST_BARS = 40,
  MOST_COLOURS = 10,
  MOST_POINTS = 2000,
  REACH = 0.06; // of what a chart spans is how far an arrow goes beyond its value

/** A chart with its controls; null where there is nothing to draw. */
export function chart(answer) {
  const columns = answer.columns.map((name, i) => describe(answer, name, i));
  const drawn = columns.filter((one) => one.noisy);
  const keys = columns.filter((one) => !one.noisy);
  if (!drawn.length || !keys.length || answer.rows.length < 2 || answer.rows.length > MOST_POINTS) return null;

  const x = keys.find((one) => one.ordered) ?? keys[0];
  const others = keys.filter((one) => one !== x);
  const settings = {
    y: drawn[0],
    x,
    by: others.length === 1 && others[0].distinct <= MOST_COLOURS ? others[0] : null,
    kind: "auto",
  };
  const place = h("div", { class: "plot", "data-testid": "chart" });
  const auto = h("span", { class: "note" });

  const redraw = async () => {
    const kind = settings.kind === "auto" ? picked(settings, keys) : settings.kind;
    auto.textContent = settings.kind === "auto" ? kind : "";
    const { draw } = await import("./plot.js");
    const paint = () =>
      fill(place, draw(points(answer, settings, keys), { ...settings, kind, width: place.clientWidth || 640 }));
    paint();
    redraw.paint = paint;
  };
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (Math.abs(now - width) > 8) redraw.paint?.();
    width = now;
  }).observe(place);

  const pick = (label, list, chosen, set, none) =>
    h(
      "label",
      { class: "pick" },
      label,
      h(
        "select",
        {
          "aria-label": label,
          onchange: (event) => {
            set(list[event.target.value] ?? null);
            redraw();
          },
        },
        none && h("option", { value: "", selected: chosen === null }, none),
        list.map((one, i) => h("option", { value: i, selected: one === chosen }, one.name)),
      ),
    );
  const kinds = { auto: "Auto", bars: "Bars", lines: "Lines", dots: "Dots" };
  redraw();
  return h(
    "div",
    { class: "chart" },
    h(
      "div",
      { class: "chart-controls" },
      segmented("kind of chart", kinds, "auto", (kind) => {
        settings.kind = kind;
        redraw();
      }),
      auto,
      drawn.length > 1 &&
        pick("of", drawn, settings.y, (one) => {
          settings.y = one;
        }),
      keys.length > 1 &&
        pick("over", keys, settings.x, (one) => {
          settings.x = one;
          if (settings.by === one) settings.by = null;
        }),
      keys.length > 1 &&
        pick(
          "colour",
          keys,
          settings.by,
          (one) => {
            settings.by = one;
          },
          "none",
        ),
    ),
    place,
  );
}

function describe(answer, name, at) {
  const values = answer.rows.map((row) => row[at]);
  const there = values.filter((v) => v !== null);
  const distinct = new Set(there.map(String)).size;
  const dates = there.length > 0 && there.every((v) => moment(v) !== null);
  const numbers = there.length > 0 && there.every((v) => number(v) !== null);
  const ends = answer.intervals[name];
  return {
    name,
    at,
    dates,
    distinct,
    ends,
    noisy: Boolean(ends) && numbers,
    ordered: distinct > 2 && (dates || (numbers && typeof there[0] === "number")),
    whole: numbers && there.every((v) => Number.isInteger(number(v))),
  };
}

/** The kind of chart that suits the columns. A line has one value at each place: no key is left over. */
function picked({ x, y, by }, keys) {
  if (x.ordered && keys.every((one) => one === x || one === by)) return "lines";
  return y.whole && x.distinct <= MOST_BARS ? "bars" : "dots";
}

const label = (value) =>
  value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);

/** Points with their error bars. Keys that are neither axis nor colour go into the labels. */
function points(answer, { x, y, by }, keys) {
  const extra = x.ordered ? [] : keys.filter((one) => one !== by && one !== x);
  const { hints } = described(
    answer.rows.map((row) => row[y.at]),
    y.ends,
  );
  const found = answer.rows.flatMap((row, i) => {
    const value = number(row[y.at]);
    if (value === null || (x.ordered && row[x.at] === null)) return [];
    const at = x.ordered
      ? x.dates
        ? moment(row[x.at])
        : number(row[x.at])
      : [x, ...extra].map((one) => label(row[one.at])).join(" · ");
    const name = [label(row[x.at]), by && label(row[by.at])].filter(Boolean).join(" · ");
    return [
      {
        x: at,
        y: value,
        ends: endsOf(y.ends[i]),
        by: by ? label(row[by.at]) : "",
        tip: `${name}\n${y.name} ${short(value)}\n95%: ${hints[i]}`,
      },
    ];
  });
  return withBars(found);
}

/** Points with low and high, where their error bars end. One without an end on a side has an arrow, a little longer. */
function withBars(points) {
  const drawn = points.flatMap((p) => [p.y, ...p.ends.filter(Number.isFinite)]);
  const reach = REACH * (Math.max(...drawn, 0) - Math.min(...drawn, 0)) || 1;
  return points.map((point) => {
    const [low, high] = point.ends;
    const [below, above] = point.ends.map(Number.isFinite);
    if (below && above) return { ...point, low, high, arrow: "" };
    if (!below && !above) return { ...point, low: point.y, high: point.y, arrow: null };
    if (below) return { ...point, low, high: Math.max(low, point.y) + reach, arrow: "up" };
    return { ...point, low: Math.min(high, point.y) - reach, high, arrow: "down" };
  });
}
