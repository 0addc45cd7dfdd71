// Observable Plot draws what chart.js settled; this file is loaded with the first chart.
import * as Plot from "@observablehq/plot";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The chart as an SVG. points: x, y, low, high, by, tip. */
export function draw(points, { kind, x, y, by, width }) {
  const many = by !== null;
  const domain = [...new Set(points.map((p) => p.by))];
  const series = Array.from({ length: 10 }, (_, i) => colour(`--series-${i + 1}`));
  const fill = many ? "by" : series[0];
  const across = !x.ordered && kind !== "lines" && tooWide(points, width, many);
  const names = [...new Set(points.map((p) => p.x))];
  const options = {
    width,
    style: { background: "transparent", color: colour("--ink-soft"), fontSize: "12px", fontFamily: "inherit", overflow: "visible" },
    ariaLabel: `${y.name} over ${x.name}, with error bars`,
    color: many ? { domain, range: series, legend: true, label: by.name } : undefined,
  };
  const value = { label: y.name, grid: true, nice: true, zero: kind === "bars", tickFormat: "~s" };
  const key = { label: x.name, domain: x.ordered ? undefined : names, ...(x.dates ? { type: "utc" } : {}) };
  if (x.ordered && kind === "bars") Object.assign(key, { type: "band", domain: [...names].sort((a, b) => a - b), tickFormat: ticks(names, x.dates) });
  if (x.ordered && !x.dates && kind !== "bars") Object.assign(key, { tickFormat: (d) => String(d) });
  if (across) {
    const rows = many && kind === "bars" ? names.length * domain.length : names.length;
    return Plot.plot({
      ...options,
      height: 50 + rows * (rows > 30 ? 18 : 26) + (many ? 10 : 0),
      marginLeft: Math.min(190, 24 + 7 * Math.max(...names.map((n) => String(n).length))),
      marginRight: 24,
      x: value,
      ...(many && kind === "bars" ? { fy: { ...key, padding: 0.15 }, y: { axis: null, domain } } : { y: { ...key, label: null } }),
      marks: horizontal(points, kind, fill, many),
    });
  }
  const grouped = many && kind === "bars";
  return Plot.plot({
    ...options,
    height: 300,
    marginLeft: 56,
    marginBottom: 42,
    y: value,
    ...(grouped ? { fx: { ...key, padding: 0.15 }, x: { axis: null, domain } } : { x: key }),
    marks: vertical(points, kind, fill, grouped),
  });
}

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
  const tip = Plot.tip(points, (grouped ? Plot.pointer : Plot.pointerX)({ ...at, y: "y", title: "tip", fill: colour("--raised"), stroke: colour("--line-strong") }));
  if (kind === "bars") {
    return [
      Plot.barY(points, { ...at, y: "y", fill, fillOpacity: 0.82, rx: 2 }),
      Plot.ruleX(points, { ...at, y1: "low", y2: "high", stroke: ink(), strokeWidth: 1.4, marker: "tick" }),
      Plot.ruleY([0], { stroke: colour("--line-strong") }),
      tip,
    ];
  }
  if (kind === "lines") {
    return [
      Plot.areaY(points, { x: "x", y1: "low", y2: "high", fill, z: "by", fillOpacity: 0.13, sort: "x" }),
      Plot.ruleX(points, { x: "x", y1: "low", y2: "high", stroke: fill, strokeOpacity: 0.75, marker: "tick" }),
      Plot.lineY(points, { x: "x", y: "y", stroke: fill, z: "by", strokeWidth: 2, sort: "x" }),
      Plot.dot(points, { x: "x", y: "y", fill, r: 2.8 }),
      tip,
    ];
  }
  return [
    Plot.ruleX(points, { ...at, y1: "low", y2: "high", stroke: fill, strokeWidth: 1.6, marker: "tick" }),
    Plot.dot(points, { ...at, y: "y", fill, r: 4.5 }),
    tip,
  ];
}

function horizontal(points, kind, fill, many) {
  const at = many && kind === "bars" ? { y: "by", fy: "x" } : { y: "x" };
  const tip = Plot.tip(points, Plot.pointerY({ ...at, x: "y", title: "tip", fill: colour("--raised"), stroke: colour("--line-strong") }));
  const bar = (stroke) => Plot.ruleY(points, { ...at, x1: "low", x2: "high", stroke, strokeWidth: 1.4, marker: "tick" });
  if (kind === "bars") {
    return [Plot.barX(points, { ...at, x: "y", fill, fillOpacity: 0.82, rx: 2 }), bar(ink()), Plot.ruleX([0], { stroke: colour("--line-strong") }), tip];
  }
  return [bar(fill), Plot.dot(points, { ...at, x: "y", fill, r: 4.5 }), tip];
}

/** What was spent on each day, by analyst, as bars on each other. days: { day, name, epsilon }. */
export function drawSpending(days, width) {
  const names = [...new Set(days.map((d) => d.name))];
  return Plot.plot({
    width,
    height: 240,
    marginLeft: 50,
    style: { background: "transparent", color: colour("--ink-soft"), fontSize: "12px", fontFamily: "inherit" },
    ariaLabel: "ε spent on each day, by analyst",
    color: { domain: names, range: Array.from({ length: 10 }, (_, i) => colour(`--series-${i + 1}`)), legend: true },
    x: { type: "band", label: null, domain: [...new Set(days.map((d) => d.day))].sort() },
    y: { label: "ε", grid: true },
    marks: [
      Plot.barY(days, { x: "day", y: "epsilon", fill: "name", tip: true, rx: 2, maxWidth: 60 }),
      Plot.ruleY([0], { stroke: colour("--line-strong") }),
    ],
  });
}
