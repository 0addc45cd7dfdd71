"""An answer as a chart with error bars: lines over dates and numbers, bars over other keys.

What is drawn is settled here; plotext draws it in a terminal, altair and vl-convert as PNG, SVG and HTML (extra: plot).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any, Literal

from dpsql.answer.columns import FULL, Source, sources
from dpsql.answer.interval_text import ends_of, is_moment
from dpsql.answer.render import CONFIDENCE, plain_value, printable
from dpsql.core.errors import text_width
from dpsql.core.extras import extra
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from dpsql.answer.model import Answer

KINDS = ("png", "svg", "html")  # of files with a chart
MOST_BARS = 60  # that a terminal shows
MOST_COLOURS = 10  # values of a second key
MOST_CHARTS = 8  # one for each measure
REACH = 0.06  # of what a chart spans is how far an arrow goes beyond its value
TIPS = {("up", True): "▲", ("down", True): "▼", ("up", False): "▶", ("down", False): "◀"}
SYMBOLS = {
    ("up", True): "triangle-up",
    ("down", True): "triangle-down",
    ("up", False): "triangle-right",
    ("down", False): "triangle-left",
}
"""Of arrows, by where they point and whether values go up the page; in a terminal, and in files."""


class NoChart(ValueError):
    """There is nothing to draw, and why."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its error bar; None where an end isn't known."""

    x: Any
    y: float
    low: float | None
    high: float | None
    group: str
    text: str = ""  # the interval in words


@dataclass(frozen=True, slots=True)
class Bar:
    """An error bar as it is drawn. One that has no end on a side ends in an arrow, a little beyond its value."""

    point: Point
    start: float
    end: float
    arrow: Literal["", "up", "down"]

    @property
    def tip(self) -> float:
        """Where the arrow points to."""
        return self.start if self.arrow == "down" else self.end


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn."""

    x: str
    y: str
    by: str | None
    lines: bool  # over numbers or dates; else a bar for each key
    points: tuple[Point, ...]

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(point.group for point in self.points))

    def bars(self, points: Sequence[Point] | None = None) -> list[Bar]:
        """The error bars of these points, or of all; a point of which neither end is known has none."""
        drawn = (self._bar(point) for point in (self.points if points is None else points))
        return [bar for bar in drawn if bar is not None]

    def _bar(self, point: Point) -> Bar | None:
        if point.low is not None and point.high is not None:
            return Bar(point, point.low, point.high, "")
        if point.low is not None:
            return Bar(point, point.low, max(point.low, point.y) + self._reach, "up")
        if point.high is not None:
            return Bar(point, min(point.high, point.y) - self._reach, point.high, "down")
        return None

    @property
    def _reach(self) -> float:
        """How far arrows go beyond their values: a share of what is drawn, so that they never set the scale."""
        drawn = [v for p in self.points for v in (p.y, p.low, p.high) if v is not None]
        drawn += [] if self.lines else [0.0]
        return REACH * (max(drawn) - min(drawn)) or REACH * abs(drawn[0]) or 1.0

    @property
    def meaning(self) -> str:
        """What the error bars are, in words."""
        arrows = any(bar.arrow for bar in self.bars())
        return f"error bars: {CONFIDENCE:.0%}" + ("; arrow: no bound on that side" if arrows else "")

    @property
    def dated(self) -> bool:
        return self.lines and any(isinstance(point.x, date) for point in self.points)


@dataclass(frozen=True, slots=True)
class Charts:
    """A chart for each measure, and the names of the measures that have none."""

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """Which measures aren't drawn, in words; empty where all are."""
        return f"not drawn: {', '.join(self.left_out)}" if self.left_out else ""


NO_NUMBERS = "a chart needs a column of numbers with noise"
NO_KEY = "a chart needs a key: add a column to GROUP BY"


def charts_of(answer: Answer, x: str | None = None, y: str | None = None, by: str | None = None) -> Charts:
    """What to draw of an answer; NoChart says why there is nothing. The columns are those of Answer.plot."""
    found = sources(answer, None)
    measures = [_named(found, y)] if y else [s for s in found if s.noisy]
    charts, left_out, reasons = list[Chart](), list[str](), list[NoChart]()
    for measure in measures:
        try:
            if not _numbers(measure):
                raise NoChart(NO_NUMBERS)
            chart = _chart(found, measure, x, by)
        except NoChart as reason:
            reasons.append(reason)
            left_out.append(printable(measure.name))
            continue
        if len(charts) < MOST_CHARTS:
            charts.append(chart)
        else:
            left_out.append(chart.y)
    if not charts:
        raise next((r for r in reasons if str(r) != NO_NUMBERS), NoChart(NO_NUMBERS))
    return Charts(tuple(charts), tuple(left_out))


def chart_of(answer: Answer, x: str | None = None, y: str | None = None, by: str | None = None) -> Chart:
    """The chart of one measure: of the first that can be drawn, if none is named."""
    return charts_of(answer, x, y, by).charts[0]


def _chart(found: Sequence[Source], drawn: Source, x: str | None, by: str | None) -> Chart:
    keys = [s for s in found if not s.noisy and s is not drawn]
    below = _named(found, x) if x else next(iter(sorted(keys[:2], key=lambda s: not _ordered(s))), None)
    if below is None:
        raise NoChart(NO_KEY)
    others = [s for s in keys if s is not below]
    beside = _named(found, by) if by else others[0] if len(others) == 1 and _few(others[0]) else None
    lines = _ordered(below) and (beside is not None or len(others) == 0)
    texts = drawn.shown(FULL)[-1].hints or [""] * len(drawn.values)
    labels = [beside] if beside else [] if lines else others
    points = tuple(
        Point(
            _place(below.values[i]) if lines else " · ".join(_label(s.values[i]) for s in (below, *labels)),
            float(value),
            *_ends(drawn, i),
            _label(beside.values[i]) if beside else "",
            texts[i],
        )
        for i, value in enumerate(drawn.values)
        if value is not None and isfinite(value) and not (lines and below.values[i] is None)
    )
    if not points:
        raise NoChart("there is no value to draw")
    names = below.name if lines else " · ".join(s.name for s in (below, *labels))
    return Chart(printable(names), printable(drawn.name), printable(beside.name) if beside else None, lines, points)


def _named(found: Sequence[Source], name: str) -> Source:
    for source in found:
        if source.name.lower() == name.lower():
            return source
    raise NoChart(f"there is no column {name}: the answer has {', '.join(s.name for s in found)}")


def _numbers(source: Source) -> bool:
    kinds = {type(v) for v in source.values if v is not None}
    return bool(kinds) and all(issubclass(k, int | float | Decimal) and k is not bool for k in kinds)


def _ordered(source: Source) -> bool:
    """Numbers or dates, three of them at least: a line goes through them."""
    values = {v for v in source.values if v is not None}
    dates = all(isinstance(v, date) for v in values)
    return len(values) > 2 and (dates or _numbers(source))


def _few(source: Source) -> bool:
    return len({_label(v) for v in source.values}) <= MOST_COLOURS


def _place(value: Any) -> Any:
    """Where on an axis a key lies."""
    return value if isinstance(value, date) else float(value)


def _label(value: Any) -> str:
    if isinstance(value, datetime) and value.time() == time(0):
        return value.date().isoformat()
    return "NULL" if value is None else printable(plain_value(value))


def _ends(source: Source, i: int) -> tuple[float | None, float | None]:
    interval = None if source.ends is None else source.ends[i]
    if is_moment(interval):
        return None, None
    low, high = ends_of(interval)
    return float(low) if isfinite(low) else None, float(high) if isfinite(high) else None


# ---------------------------------------------------------------- in a terminal


def plotext() -> Any:
    """The library that draws in terminals."""
    return extra("plotext", "plot", "a chart in the terminal")


def check(kind: str) -> None:
    """Refuse now, with what to install, what couldn't be drawn later. kind: one of KINDS, or "text"."""
    for library in [plotext] if kind == "text" else [altair, vl_convert]:
        library()


def text_charts(charts: Charts, width: int, *, colour: bool = False) -> str:
    """The charts one below the other, and what isn't drawn."""
    texts = [text_chart(chart, width, colour=colour) for chart in charts.charts]
    return "\n".join(texts) + (f"{charts.missing}\n" if charts.missing else "")


def text_chart(chart: Chart, width: int, *, colour: bool = False) -> str:
    """The chart as lines of a terminal that is so wide."""
    plt = plotext()
    plt.clear_figure()
    plt.limit_size(False, False)  # a chart that is longer than the terminal scrolls, and loses no bar
    plt.theme("clear" if not colour else "default")
    if chart.lines:
        _draw_lines(plt, chart, width, colour)
    else:
        _draw_bars(plt, chart, width)
    text = str(plt.build())
    plt.clear_figure()
    lines = [line.rstrip() for line in (text if colour else plt.uncolorize(text)).splitlines()]
    return "\n".join(lines) + f"\n{chart.y}, {chart.meaning}{_left_out(chart)}\n"


def _left_out(chart: Chart) -> str:
    hidden = 0 if chart.lines else len(chart.points) - MOST_BARS
    return f"; {hidden:,} more bars" if hidden > 0 else ""


def _draw_lines(plt: Any, chart: Chart, width: int, colour: bool) -> None:
    plt.plot_size(width, max(min(width // 4, 24), 12))
    places = {p.x: _position(p.x) for p in chart.points}
    for number, group in enumerate(chart.groups):
        points = sorted((p for p in chart.points if p.group == group), key=lambda p: places[p.x])
        x, y = [places[p.x] for p in points], [p.y for p in points]
        marker = "braille" if colour or len(chart.groups) == 1 else chr(ord("a") + number)
        plt.plot(x, y, marker=marker, label=group or None)
        if (bars := chart.bars(points)) and len(points) <= width // 3:
            middles = [(bar.start + bar.end) / 2 for bar in bars]
            at = [places[bar.point.x] for bar in bars]
            plt.error(at, middles, yerr=[bar.end - bar.start for bar in bars])
            for place, bar in zip(at, bars, strict=True):
                if bar.arrow:
                    plt.scatter([place], [bar.tip], marker=TIPS[bar.arrow, True])
    shown = _spread(sorted(places, key=lambda x: places[x]), max(width // 14, 2))
    plt.xticks([places[x] for x in shown], [_tick(x) for x in shown])
    drawn = [p.y for p in chart.points] + [v for bar in chart.bars() for v in (bar.start, bar.end)]
    _ticks(plt.yticks, drawn, 6)
    plt.xlabel(chart.x)


def _draw_bars(plt: Any, chart: Chart, width: int) -> None:
    points = list(reversed(chart.points[:MOST_BARS]))  # the first on top
    longest = max(width // 3, 8)
    labels = [p.x if text_width(p.x) <= longest else f"{p.x[: longest - 1]}…" for p in points]
    places = list(range(1, len(points) + 1))
    plt.plot_size(width, len(points) + 3)  # a line for each, the frame and the ticks
    plt.ylim(1, len(points) if len(points) > 1 else 2)
    plt.bar(places, [p.y for p in points], orientation="h", width=0.1, marker="▇")
    bars = [(place, bar) for place, p in zip(places, points, strict=True) for bar in chart.bars([p])]
    if bars:
        middles = [(bar.start + bar.end) / 2 for _, bar in bars]
        plt.error(middles, [place for place, _ in bars], xerr=[bar.end - bar.start for _, bar in bars])
    for place, bar in bars:
        if bar.arrow:
            plt.scatter([bar.tip], [place], marker=TIPS[bar.arrow, False])
    plt.yticks(places, labels)
    _ticks(plt.xticks, [0.0, *(p.y for p in points), *(bar.end for _, bar in bars)], max(width // 16, 2))


def _ticks(set_ticks: Any, values: Sequence[float], count: int) -> None:
    """About so many round numbers along an axis."""
    low, high = min(values), max(values)
    if high <= low:
        return
    step = _step((high - low) / count)
    places = [i * step for i in range(ceil(low / step), floor(high / step) + 1)]
    decimals = max(0, -floor(log10(step)))
    set_ticks(places, [f"{place:,.{decimals}f}" for place in places])


def _step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    power = 10.0 ** floor(log10(least))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least)


def _position(x: Any) -> float:
    if isinstance(x, datetime):
        return x.toordinal() + (x.hour * 3600 + x.minute * 60 + x.second) / 86400
    return float(x.toordinal()) if isinstance(x, date) else float(x)


def _tick(x: Any) -> str:
    return _label(x) if isinstance(x, date) else f"{x:g}"


def _spread(values: Sequence[Any], count: int) -> list[Any]:
    """At most so many of them, evenly."""
    every = max(ceil(len(values) / count), 1)
    return list(values[::every])


# ---------------------------------------------------------------- in a file or a notebook


def altair() -> Any:
    """The library that draws charts for files and notebooks."""
    return extra("altair", "plot", "a chart")


def vl_convert() -> Any:
    """The library that turns charts into pictures."""
    return extra("vl_convert", "plot", "a picture of a chart")


def drawn_all(charts: Charts) -> Any:
    """The charts as one of altair's, one below the other; its title says what isn't drawn."""
    alt = altair()
    pictures = [drawn(chart) for chart in charts.charts]
    if len(pictures) == 1:
        whole = pictures[0]
    else:
        whole = type("Charts", (alt.VConcatChart,), {"_repr_mimebundle_": _bundle})(vconcat=pictures)
    return whole.properties(title=charts.missing) if charts.missing else whole


def drawn(chart: Chart) -> Any:
    """The chart as one of altair's."""
    alt = altair()
    base = alt.Chart(alt.Data(values=[_row(point, chart) for point in chart.points]))
    value = {"title": f"{chart.y} ({chart.meaning})"}
    kind = "temporal" if chart.dated else "quantitative" if chart.lines else "nominal"
    tooltip = [
        alt.Tooltip("x", type="temporal" if chart.dated else "nominal", title=chart.x),
        alt.Tooltip("y:Q", title=chart.y, format=","),
        alt.Tooltip("interval:N", title=f"{CONFIDENCE:.0%}"),
    ]
    if chart.lines:
        colour = {} if chart.by is None else {"color": alt.Color("group:N", title=chart.by)}
        below = {"x": alt.X("x", type=kind, title=chart.x, scale=alt.Scale(zero=False)), **colour}
        y = alt.Y("y:Q", scale=alt.Scale(zero=False), **value)
        line = base.mark_line(point=True).encode(y=y, tooltip=tooltip, **below)
        error = base.mark_errorbar(ticks=True).encode(y=alt.Y("low:Q", **value), y2="high:Q", **below)
        return _layered(error, *_arrows(chart, below, value), line).properties(width=600, height=320)
    below = {"y": alt.Y("x:N", sort=None, title=chart.x)}
    bar = base.mark_bar(opacity=0.75).encode(x=alt.X("y:Q", **value), tooltip=tooltip, **below)
    error = base.mark_errorbar(ticks=True, color="black").encode(x=alt.X("low:Q", **value), x2="high:Q", **below)
    return _layered(bar, error, *_arrows(chart, below, value)).properties(width=500)


def _arrows(chart: Chart, below: dict[str, Any], value: dict[str, Any]) -> list[Any]:
    """The error bars that have no end on a side, and their tips; none where all have both."""
    alt = altair()
    along, end = (alt.Y, "y2") if chart.lines else (alt.X, "x2")
    rows = [
        _row(bar.point, chart) | {"start": bar.start, "end": bar.end, "tip": bar.tip}
        | {"arrow": SYMBOLS[bar.arrow, chart.lines]}
        for bar in chart.bars()
        if bar.arrow
    ]  # fmt: skip
    if not rows:
        return []
    base = alt.Chart(alt.Data(values=rows))
    black = {} if chart.lines else {"color": "black"}
    rule = base.mark_rule(**black).encode(**{along.__name__.lower(): along("start:Q", **value), end: "end:Q"}, **below)
    shape = alt.Shape("arrow:N", scale=None, legend=None)
    tip = base.mark_point(filled=True, opacity=1, size=70, **black)
    return [rule, tip.encode(**{along.__name__.lower(): along("tip:Q", **value)}, shape=shape, **below)]


def _layered(*charts: Any) -> Any:
    """One over the other, in a chart of altair's that notebooks show without loading anything from another site."""
    alt = altair()
    return type("Chart", (alt.LayerChart,), {"_repr_mimebundle_": _bundle})(layer=list(charts))


def _bundle(chart: Any, include: object = None, exclude: object = None) -> dict[str, Any]:
    """What a notebook may show: the specification, if it can draw that by itself, else a picture."""
    spec = chart.to_dict()
    version = altair().SCHEMA_VERSION.split(".")[0]
    picture = str(vl_convert().vegalite_to_svg(chart.to_json()))
    return {f"application/vnd.vegalite.{version}+json": spec, "image/svg+xml": picture}


def _row(point: Point, chart: Chart) -> dict[str, Any]:
    x = _moment(point.x).isoformat() if isinstance(point.x, date) else point.x
    both = point.low is not None and point.high is not None
    ends = {"low": point.low, "high": point.high} if both else {}
    said = {"interval": point.text or "unknown", **({"group": point.group} if chart.by else {})}
    return {"x": x, "y": point.y, **ends, **said}


def _moment(x: date) -> datetime:
    """With a time: charts take a day alone for midnight in Greenwich, and would show the day before elsewhere."""
    if isinstance(x, datetime):
        return x.replace(tzinfo=None)
    return datetime.combine(x, time(0))


class _InHtml(json.JSONEncoder):
    """JSON that can't end the script it stands in, whatever a key says."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")


def encode_chart(chart: Chart | Charts, kind: str) -> bytes:
    """Charts as the bytes of a file of one of KINDS; HTML has all that it needs in itself."""
    picture = drawn_all(chart if isinstance(chart, Charts) else Charts((chart,)))
    converter = vl_convert()
    match kind:
        case "png":
            return bytes(converter.vegalite_to_png(picture.to_json(), scale=2))
        case "svg":
            return str(converter.vegalite_to_svg(picture.to_json())).encode()
        case "html":
            return str(picture.to_html(inline=True, json_kwds={"cls": _InHtml})).encode()
        case _:
            raise ValueError(f"unknown kind of chart {kind}")
