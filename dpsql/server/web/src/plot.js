// Observable Plot draws what chart.js settled; this file is loaded with the first chart.
import * as Plot from "@observablehq/plot";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The chart as an SVG. points: x, y, low, high, arrow, by, tip. */
export function draw(points, { kind, x, y, by, width }) {
  const many = by !== null;
  const domain = [...new Set(points.map((p) => p.by))];
  const series = Array.from({ length: 10 }, (_, i) => colour(`--series-${i + 1}`));
  const fill = many ? "by" : series[0];
  const across = !x.ordered && kind !== "lines" && tooWide(points, width, many);
  const names = [...new Set(points.map((p) => p.x))];
  const options = {
    width,
    style: {
      background: "transparent",
      color: colour("--ink-soft"),
      fontSize: "12px",
      fontFamily: "inherit",
      overflow: "visible",
    },
    ariaLabel: `${y.name} over ${x.name}, with error bars`,
    color: many ? { domain, range: series, legend: true, label: by.name } : undefined,
  };
  const value = {
    label: y.name,
    grid: true,
    nice: true,
    zero: kind === "bars",
    tickFormat: figure,
    ticks: 6,
  };
  const key = { label: x.name, domain: x.ordered ? undefined : names, ...(x.dates ? { type: "utc" } : {}) };
  if (x.ordered && kind === "bars")
    Object.assign(key, {
      type: "band",
      domain: [...names].sort((a, b) => a - b),
      tickFormat: ticks(names, x.dates),
    });
  if (x.ordered && !x.dates && kind !== "bars") Object.assign(key, { tickFormat: (d) => String(d) });
  if (across) {
    const rows = many && kind === "bars" ? names.length * domain.length : names.length;
    return Plot.plot({
      ...options,
      height: 70 + rows * (rows > 30 ? 18 : 26) + (many ? 10 : 0),
      marginLeft: Math.min(190, 24 + 7 * Math.max(...names.map((n) => String(n).length))),
      marginRight: 24,
      marginBottom: 44,
      x: value,
      ...(many && kind === "bars"
        ? { fy: { ...key, padding: 0.15 }, y: { axis: null, domain } }
        : { y: { ...key, label: null } }),
      marks: horizontal(points, kind, fill, many),
    });
  }
  const grouped = many && kind === "bars";
  return Plot.plot({
    ...options,
    height: 300,
    marginTop: 28,
    marginLeft: 56,
    marginBottom: 42,
    y: value,
    ...(grouped ? { fx: { ...key, padding: 0.15 }, x: { axis: null, domain } } : { x: key }),
    marks: vertical(points, kind, fill, grouped),
  });
}

const figure = (value) =>
  value
    .toLocaleString("en", {
      notation: Math.abs(value) >= 1e5 ? "compact" : "standard",
      maximumSignificantDigits: 6,
    })
    .replace("-", "−");

/** Labels that wouldn't fit side by side: then the chart is turned. */
function tooWide(points, width, many) {
  const names = [...new Set(points.map((p) => String(p.x)))];
  return names.reduce((sum, name) => sum + 7 * name.length + 14, 0) > width - 70 || (many && names.length > 12);
}

function ticks(names, dates) {
  const step = Math.ceil(names.length / 14);
  const sorted = [...names].sort((a, b) => a - b);
  return (value) => {
    const at = sorted.findIndex((one) => Number(one) === Number(value));
    if (at % step) return "";
    return dates ? new Date(value).toISOString().slice(0, 10) : String(value);
  };
}

const ink = () => colour("--ink");

function vertical(points, kind, fill, grouped) {
  const at = grouped ? { x: "by", fx: "x" } : { x: "x" };
  const tip = Plot.tip(
    points,
    (grouped ? Plot.pointer : Plot.pointerX)({
      ...at,
      y: "y",
      title: "tip",
      fill: colour("--raised"),
      stroke: colour("--line-strong"),
    }),
  );
  if (kind === "bars") {
    return [
      Plot.barY(points, { ...at, y: "y", fill, fillOpacity: 0.82, rx: 2 }),
      ...errors(points, at, { stroke: ink(), strokeWidth: 1.4 }),
      Plot.ruleY([0], { stroke: colour("--line-strong") }),
      tip,
    ];
  }
  if (kind === "lines") {
    // No area on a side without an end, and a gap in it where nothing is known.
    const known = (end, arrow) => (p) => (p.arrow === null ? NaN : p.arrow === arrow ? p.y : p[end]);
    return [
      Plot.areaY(points, {
        x: "x",
        y1: known("low", "down"),
        y2: known("high", "up"),
        fill,
        z: "by",
        fillOpacity: 0.13,
        sort: "x",
      }),
      ...errors(points, { x: "x" }, { stroke: fill, strokeOpacity: 0.75 }),
      Plot.lineY(points, { x: "x", y: "y", stroke: fill, z: "by", strokeWidth: 2, sort: "x" }),
      Plot.dot(points, { x: "x", y: "y", fill, r: 2.8 }),
      tip,
    ];
  }
  return [
    ...errors(points, at, { stroke: fill, strokeWidth: 1.6 }),
    Plot.dot(points, { ...at, y: "y", fill, r: 4.5 }),
    tip,
  ];
}

/** Error bars, from low to high; those without an end on a side point there. */
function errors(points, at, style, across = false) {
  const rule = across ? Plot.ruleY : Plot.ruleX;
  const ends = across ? { x1: "low", x2: "high" } : { y1: "low", y2: "high" };
  const closed = points.filter((p) => p.arrow === ""), // of the others nothing is known
    open = points.filter((p) => p.arrow);
  const marks = closed.length ? [rule(closed, { ...at, ...ends, ...style, marker: "tick" })] : [];
  if (!open.length) return marks;
  const peak = { [across ? "x" : "y"]: (p) => (p.arrow === "up" ? p.high : p.low) };
  const turn = (arrow) => (across ? 90 : 0) + (arrow === "up" ? 0 : 180);
  const heads = ["up", "down"].map((arrow) =>
    Plot.dot(
      open.filter((p) => p.arrow === arrow),
      {
        ...at,
        ...peak,
        fill: style.stroke,
        symbol: "triangle",
        r: 4,
        rotate: turn(arrow),
        ariaLabel: () => (arrow === "up" ? "no bound above" : "no bound below"),
      },
    ),
  );
  return [...marks, rule(open, { ...at, ...ends, ...style }), ...heads];
}

function horizontal(points, kind, fill, many) {
  const at = many && kind === "bars" ? { y: "by", fy: "x" } : { y: "x" };
  const tip = Plot.tip(
    points,
    Plot.pointerY({ ...at, x: "y", title: "tip", fill: colour("--raised"), stroke: colour("--line-strong") }),
  );
  const bars = (stroke) => errors(points, at, { stroke, strokeWidth: 1.4 }, true);
  if (kind === "bars") {
    return [
      Plot.barX(points, { ...at, x: "y", fill, fillOpacity: 0.82, rx: 2 }),
      ...bars(ink()),
      Plot.ruleX([0], { stroke: colour("--line-strong") }),
      tip,
    ];
  }
  return [...bars(fill), Plot.dot(points, { ...at, x: "y", fill, r: 4.5 }), tip];
}

/** What was spent on each day, by analyst, as bars on each other. days: { day, name, epsilon }. */
export function drawSpending(days, width) {
  const names = [...new Set(days.map((d) => d.name))];
  const domain = calendar(days.map((d) => d.day).sort());
  const step = Math.ceil((domain.length * 46) / width);
  return Plot.plot({
    width,
    height: 240,
    marginLeft: 50,
    style: {
      background: "transparent",
      color: colour("--ink-soft"),
      fontSize: "12px",
      fontFamily: "inherit",
    },
    ariaLabel: "ε spent on each day, by analyst",
    color: {
      domain: names,
      range: Array.from({ length: 10 }, (_, i) => colour(`--series-${i + 1}`)),
      legend: true,
    },
    x: {
      type: "band",
      label: null,
      domain,
      tickFormat: (day) => (domain.indexOf(day) % step ? "" : day.slice(5)),
    },
    y: { label: "ε", grid: true },
    marks: [
      Plot.barY(days, { x: "day", y: "epsilon", fill: "name", tip: { fill: colour("--raised") } }),
      Plot.ruleY([0], { stroke: colour("--line-strong") }),
    ],
  });
}

const FEWEST_DAYS = 21;

/** Every day from the first to the last of these, and no fewer than three weeks: a bar is no wider than a day. */
function calendar(days) {
  const DAY = 86400e3,
    last = Date.parse(days.at(-1));
  const first = Math.min(Date.parse(days[0]), last - (FEWEST_DAYS - 1) * DAY);
  return Array.from({ length: Math.round((last - first) / DAY) + 1 }, (_, i) =>
    new Date(first + i * DAY).toISOString().slice(0, 10),
  );
}
