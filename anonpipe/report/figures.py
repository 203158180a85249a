"""The pictures of a report as inline SVG: real text, one name each, colours from the page's style sheet.

Every picture is 340 units wide, so that its letters keep their size on a telephone.

Why not matplotlib, which draws the pictures that are files of their own: a report has some seventy pictures of 0.6 kB
each. Its SVG is six to sixteen times as long and takes 22 ms a picture, not 0.3. It writes colours into every element,
which the dark and printed forms cannot change, and gives elements of different pictures the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, timedelta
from itertools import pairwise

from markupsafe import Markup, escape

from anonpipe.errors import printable
from anonpipe.report import content

WIDTH = 340
_LETTER = 6.2  # mean width of a letter of 11 units
MOST_VARIABLES = 24
_MOST_BARS = 16
_EPOCH = date(1970, 1, 1)

Place = Callable[[float], float]


def tag(element: str, content: str = "", **attributes: object) -> Markup:
    """An SVG element; text and attributes are escaped, also what would turn their direction; `class_` is `class`."""
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None)
    # Not by `Markup.format`, which takes six times as long: a page has thousands of elements
    shown = "".join(f' {name}="{escape(printable(_short(value)))}"' for name, value in pairs)
    inside = content if isinstance(content, Markup) else escape(printable(content))
    return Markup(f"<{element}{shown}>{inside}</{element}>")


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _drawing(name: str, height: float, parts: Sequence[Markup]) -> Markup:
    box = f"0 0 {WIDTH} {_short(float(height))}"
    return tag("svg", Markup("").join(parts), viewBox=box, role="img", aria_label=name, focusable="false")


def _text(x: float, y: float, content: str, anchor: str | None = None, class_: str | None = None) -> Markup:
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def fitted(content: str, width: float) -> str:
    """The text without its middle, as long as `width` holds: long names often differ at their end."""
    most = max(4, int(width / _LETTER))
    end = (most - 1) // 2
    return content if len(content) <= most else f"{content[: most - end - 1]}…{content[-end:]}"


def number(value: float | None) -> str:
    """A figure for readers: four digits."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0 or 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(value: float | None) -> str:
    """A share in per cent."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if value == 0 or abs(value) >= 0.001 else f"{100 * value:.2g} %"


def amount(value: float | None, unit: str) -> str:
    """A measured figure with its unit."""
    if unit == "share":
        return percent(value)
    if value is None:
        return "–"
    return number(value) if unit == "probability" else f"{number(value)} {unit}".strip()


def span(low: float | None, high: float | None, unit: str) -> str:
    """An interval with its unit."""
    return f"{percent(low) if unit == 'share' else number(low)} to {amount(high, unit)}"


def place_of(value: float | None, kind: str) -> str:
    """A value on a column's axis: a date for dates."""
    if value is None:
        return ""
    if kind == "date" and abs(value) < 1_000_000:
        with suppress(OverflowError):
            return (_EPOCH + timedelta(days=math.floor(value))).isoformat()
    return number(value)


def bin_names(picture: content.Picture) -> list[str]:
    """What each bin or category of a picture holds, in words."""
    if picture.labels:
        return list(picture.labels)
    names, half = [], _between_integers(picture)
    for low, high in pairwise(picture.edges):
        first = place_of(None if low is None else low + half, picture.kind)
        last = place_of(None if high is None else high - half, picture.kind)
        outer = f"{last} and less" if half and low is None else f"below {last}" if low is None else f"{first} and more"
        names.append("all values" if low is high is None else outer if None in (low, high) else f"{first} to {last}")
    return names


def _between_integers(picture: content.Picture) -> float:
    """How far whole numbers are from the edges of their bins, where all of these lie midway; else 0."""
    inner = [edge for edge in picture.edges if edge is not None]
    return 0.5 if inner and picture.kind == "integer" and all(edge % 1 == 0.5 for edge in inner) else 0.0


def distribution(picture: content.Picture) -> Markup:
    """A column before and after: bins as a filled shape and a line, categories as pairs of bars."""
    name = f"{picture.name}: original and release"
    return _categories(name, picture) if picture.labels else _bins(name, picture)


def closed(edges: Sequence[float | None]) -> list[float]:
    """Ends for open bins, as wide as the bins within; only for drawing."""
    inner = [edge for edge in edges if edge is not None]
    if len(inner) < 2:
        middle = inner[0] if inner else 0.0
        return [middle - 1.0, *inner, middle + 1.0][: len(edges)]
    widths = sorted(high - low for low, high in pairwise(inner))
    usual = widths[len(widths) // 2]
    first = [inner[0] - usual] if edges[0] is None else []
    last = [inner[-1] + usual] if edges[-1] is None else []
    return [*first, *inner, *last]


def _bins(name: str, picture: content.Picture) -> Markup:
    edges, top, bottom = closed(picture.edges), 8.0, 104.0
    widths = [max(high - low, 1e-300) for low, high in pairwise(edges)]
    before, after = (
        [share / width for share, width in zip(shares, widths, strict=True)]
        for shares in (picture.original, picture.released)
    )
    x = _scale(edges[0], edges[-1], 6.0, WIDTH - 6.0)
    y = _scale(0.0, max([*before, *after, 1e-300]), bottom, top)
    parts = [
        tag("path", d=_steps(edges, before, x, y) + "Z", class_="original"),
        tag("path", d=_steps(edges, after, x, y), class_="released"),
        tag("path", d=f"M6 {bottom}H{WIDTH - 6}", class_="axis"),
    ]
    half = _between_integers(picture)
    inner = [edge + half for edge in picture.edges if edge is not None]
    marks = [inner[0], inner[len(inner) // 2], inner[-1]] if len(inner) > 4 else [inner[0], inner[-1]] if inner else []
    if not marks:
        parts.append(_text(WIDTH / 2, bottom + 16, "all values", "middle"))
    for at, mark in enumerate(dict.fromkeys(marks)):
        anchor = "start" if at == 0 else "end" if mark == inner[-1] else "middle"
        parts.append(tag("path", d=f"M{x(mark):.1f} {bottom}v4", class_="axis"))
        parts.append(_text(x(mark), bottom + 16, place_of(mark, picture.kind), anchor))
    return _drawing(name, bottom + 22, parts)


def _scale(low: float, high: float, first: float, last: float) -> Place:
    """From values to places; a single value goes to the middle."""
    width = high - low
    return lambda value: (first + last) / 2 if width <= 0 else first + (value - low) / width * (last - first)


def _steps(edges: Sequence[float], heights: Sequence[float], x: Place, y: Place) -> str:
    path = [f"M{x(edges[0]):.1f} {y(0.0):.1f}"]
    for edge, height in zip(edges[1:], heights, strict=True):
        path.append(f"V{y(height):.1f}H{x(edge):.1f}")
    return "".join(path) + f"V{y(0.0):.1f}"


def _categories(name: str, picture: content.Picture) -> Markup:
    known = list(zip(picture.labels, picture.original, picture.released, strict=True))
    shown, more = known[:_MOST_BARS], len(known) - _MOST_BARS
    largest = max([1e-300, *(share for _, *shares in shown for share in shares)])
    width = _scale(0.0, largest, 0.0, 114.0)
    parts = []
    for at, (label, before, after) in enumerate(shown):
        y = 4.0 + 24.0 * at
        parts += [
            _text(104, y + 12, fitted(label, 88), "end"),
            tag("rect", x=110, y=y, width=width(before), height=8, class_="original"),
            tag("rect", x=110, y=y + 9, width=width(after), height=8, class_="bar"),
            _text(116 + max(width(before), width(after)), y + 12, f"{percent(before)} → {percent(after)}"),
        ]
    if more > 0:
        parts.append(_text(110, 16.0 + 24.0 * len(shown), f"{more} more in numbers"))
    return _drawing(name, 6.0 + 24.0 * (len(shown) + (more > 0)), parts)


def changes(correlations: content.Correlations) -> list[tuple[str, str, float, float]]:
    """Pairs of variables with both correlations, the largest change first; none without the original."""
    found = []
    for row, first in enumerate(correlations.names):
        for column in range(row):
            before = correlations.original[row][column] if correlations.original else None
            after = correlations.released[row][column]
            if before is not None and after is not None:
                found.append((correlations.names[column], first, before, after))
    return sorted(found, key=lambda pair: -abs(pair[3] - pair[2]))


def heat_map(correlations: content.Correlations) -> Markup:
    """Changes of correlations; without the original, the correlations of the release."""
    names, values, title = correlations.names, correlations.released, "correlations in the release"
    if correlations.original is not None:
        title = "changes of correlations, release minus original"
        values = tuple(
            tuple(None if a is None or b is None else a - b for a, b in zip(after, before, strict=True))
            for after, before in zip(correlations.released, correlations.original, strict=True)
        )
    shown = _strongest(values)
    largest = 1.0
    if correlations.original is not None:
        largest = max([abs(values[r][c] or 0.0) for r in shown for c in shown if r != c], default=0.0) or 1.0
    cell = min(22.0, (WIDTH - 132.0) / max(1, len(shown)))
    tall = max(13.0, cell)
    parts, size = [], "small" if cell < 12 else None
    for at, row in enumerate(shown):
        y = 16.0 + tall * at
        parts.append(_text(126, y + tall / 2 + 4, f"{fitted(names[row], 104)} {at + 1}", "end"))
        if cell >= 12 or at % 2 == 0:
            parts.append(_text(130 + cell * (at + 0.5), 11, str(at + 1), "middle", size))
        for side, column in enumerate(shown):
            value = values[row][column]
            if row != column and value is not None:
                colour = "positive" if value > 0 else "negative"
                left, wide, opacity = 130 + cell * side, cell - 1, f"{min(1.0, abs(value) / largest):.2f}"
                square = tag("rect", x=left, y=y, width=wide, height=tall - 1, class_=colour, fill_opacity=opacity)
                parts.append(square)
    y = 16.0 + tall * len(shown) + 8
    for at, (value, colour) in enumerate(((-largest, "negative"), (largest, "positive"))):
        parts.append(tag("rect", x=130 + 100 * at, y=y, width=12, height=12, class_=colour))
        parts.append(_text(147 + 100 * at, y + 10, f"{value:+.2g}"))
    return _drawing(title, y + 16, parts)


def _strongest(values: Sequence[Sequence[float | None]]) -> list[int]:
    """The variables that are drawn, in their order: those with the largest entries."""
    largest = [max([abs(v or 0.0) for c, v in enumerate(row) if c != r], default=0.0) for r, row in enumerate(values)]
    order = sorted(range(len(values)), key=lambda at: -largest[at])
    return sorted(order[:MOST_VARIABLES])


def curve(line: content.CurveLine) -> Markup:
    """A curve and its reference."""
    points = []
    for style, side in (("released", line.y), ("baseline", line.baseline)):
        if side:
            pairs = zip(line.x, side, strict=True)
            points.append((style, [(a, b) for a, b in pairs if a is not None and b is not None]))
    everything = [point for _, each in points for point in each]
    if not everything:
        return _drawing(line.title, 24, [_text(6, 16, "no points")])
    xs, ys = [point[0] for point in everything], [point[1] for point in everything]
    x = _scale(min(xs), max(xs), 40.0, WIDTH - 8.0)
    y = _scale(min(0.0, *ys), max(ys), 130.0, 8.0)
    parts = [tag("path", d=f"M40 8V130H{WIDTH - 8}", class_="axis frame")]
    for style, each in points:
        path = "M" + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in each)
        parts.append(tag("path", d=path, class_=style))
    parts += [
        _text(36, 14, f"{max(ys):.2g}", "end"),
        _text(36, 130, f"{min(0.0, *ys):.2g}", "end"),
        _text(40, 145, f"{min(xs):.2g}", "start"),
        _text(WIDTH - 8, 145, f"{max(xs):.3g}", "end"),
    ]
    return _drawing(f"{line.title}: {line.y_title} by {line.x_title}", 150, parts)


def survival(panel: content.Panel, curve: str) -> Markup:
    """A survival curve, before as a filled shape, after as a line, by points that k events lie between."""
    x, y = _scale(0.0, panel.times[-1], 40.0, WIDTH - 12.0), _scale(0.0, 1.0, 130.0, 8.0)
    before, after = (
        "L".join(f"{x(time):.1f} {y(share):.1f}" for time, share in zip(panel.times, shares, strict=True))
        for shares in (panel.original, panel.released)
    )
    points = [
        tag("circle", cx=x(time), cy=y(share), r=1.8, class_="dot")
        for time, share in zip(panel.times, panel.released, strict=True)
    ]
    parts = [
        tag("path", d=f"M{x(0.0):.1f} 130L{before}V130Z", class_="original"),
        tag("path", d=f"M{after}", class_="released"),
        *points,
        tag("path", d=f"M40 8V130H{WIDTH - 12}", class_="axis frame"),
        _text(36, 14, "100 %", "end"),
        _text(36, 73, "50 %", "end"),
        _text(36, 130, "0 %", "end"),
        _text(40, 145, "0"),
        _text(WIDTH - 12, 145, number(panel.times[-1]), "end"),
    ]
    whose = f"{panel.column} {panel.group}" if panel.column else "all records"
    return _drawing(f"{curve} of {whose}: original and release", 150, parts)


def gauge(figure: content.MeasureLine) -> Markup:
    """A figure with its interval, and its baseline."""
    known = [v for v in (figure.value, figure.low, figure.high, figure.baseline) if v is not None]
    low, high = _axis(known, figure.better == "near baseline")
    x = _scale(low, high, 8.0, WIDTH - 8.0)
    parts = [tag("path", d=f"M8 20H{WIDTH - 8}", class_="axis")]
    if figure.low is not None and figure.high is not None:
        parts.append(tag("path", d=f"M{x(figure.low):.1f} 12H{x(figure.high):.1f}", class_="released"))
    if figure.baseline is not None:
        parts.append(tag("path", d=f"M{x(figure.baseline):.1f} 2V22", class_="baseline"))
    if figure.value is not None:
        parts.append(tag("circle", cx=x(figure.value), cy=12, r=4, class_="dot"))
    parts += [_text(8, 34, amount(low, figure.unit)), _text(WIDTH - 8, 34, amount(high, figure.unit), "end")]
    compared = f", baseline {amount(figure.baseline, figure.unit)}" if figure.baseline is not None else ""
    return _drawing(f"{figure.title}: {amount(figure.value, figure.unit)}{compared}", 40, parts)


def dial(shown: content.Dial) -> Markup:
    """A half circle: the estimate, the upper end of its interval, and the limit."""
    floor = 0.5 if shown.key.endswith("auc") else 0.0  # guessing
    most = 1.0 if shown.limit is None and floor else 2.0 * ((shown.limit or 1.0) - floor) + floor
    angle = _scale(floor, most, math.pi, 0.0)

    def point(value: float, radius: float) -> str:
        at = angle(min(max(value, floor), most))
        return f"{100 + radius * math.cos(at):.1f} {96 - radius * math.sin(at):.1f}"

    def arc(first: float, last: float, class_: str) -> Markup:
        return tag("path", d=f"M{point(first, 80)}A80 80 0 0 1 {point(last, 80)}", class_=class_)

    limit = most if shown.limit is None else shown.limit
    parts = [arc(floor, limit, "dial open" if shown.limit is None else "dial")]
    parts += [arc(limit, most, "dial beyond")] if limit < most else []
    text = f"{shown.title}: {shown.shown}"
    if shown.estimate is not None:
        if shown.upper is not None:
            parts.append(arc(shown.estimate, max(shown.estimate, shown.upper), "dial reach"))
        parts.append(tag("path", d=f"M100 96L{point(shown.estimate, 66)}", class_="needle"))
    parts.append(tag("circle", cx=100, cy=96, r=5, class_="hub"))
    if shown.limit is not None:
        parts.append(tag("path", d=f"M{point(limit, 70)}L{point(limit, 92)}", class_="axis"))
        text += f", limit {number(shown.limit)}"
    return tag("svg", Markup("").join(parts), viewBox="0 0 200 104", role="img", aria_label=text, focusable="false")


def _axis(known: Sequence[float], near: bool) -> tuple[float, float]:
    """Round ends that hold all figures: from zero, or about them where they are to be near each other."""
    low, high = min([*known, 0.0]), max([*known, 0.0])
    if near and len(known) > 1:
        low, high = min(known), max(known)
        low, high = low - 0.5 * (high - low), high + 0.5 * (high - low)
    if high <= low:
        return low, low + 1.0
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    return math.floor(low / step) * step, math.ceil(high / step) * step


def forest(analysis: content.AnalysisPart) -> Markup:
    """Coefficients with their intervals; each row has its own scale, in which the short line is zero."""
    parts = []
    for at, coefficient in enumerate(analysis.coefficients):
        y = 14.0 + 40.0 * at
        parts.append(_text(6, y, fitted(coefficient.name, WIDTH - 12)))
        parts += _intervals(coefficient, y + 6)
    both = any(coefficient.original is not None for coefficient in analysis.coefficients)
    what = "original and release" if both else "the release"
    return _drawing(f"coefficients of {analysis.name}: {what}", 6.0 + 40.0 * len(analysis.coefficients), parts)


def _intervals(coefficient: content.Coefficient, y: float) -> list[Markup]:
    sides = [("original", coefficient.original, 4.0), ("released", coefficient.released, 13.0)]
    ends = [v for _, one, _ in sides if one for v in (one.low, one.high, one.value) if v is not None]
    x = _scale(min([*ends, 0.0]), max([*ends, 0.0]), 12.0, WIDTH - 12.0)
    parts = [tag("path", d=f"M{x(0.0):.1f} {y}v18", class_="axis")]
    for style, one, down in sides:
        if one is None or one.value is None:
            continue
        if one.low is not None and one.high is not None:
            parts.append(tag("path", d=f"M{x(one.low):.1f} {y + down}H{x(one.high):.1f}", class_=f"interval {style}"))
        parts.append(tag("circle", cx=x(one.value), cy=y + down, r=3.5, class_=f"dot {style}"))
    if coefficient.released is None:
        parts.append(_text(12, y + 17, "not determined by the release", None, "small"))
    return parts
