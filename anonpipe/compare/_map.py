"""The risk-utility map: each setting a point, each method a curve over k."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from anonpipe.compare._figures import Axis, Row, Study

Place = tuple[float, float]

WIDE_RANGE = 30.0  # An axis whose largest value is so many times its smallest is logarithmic
_MARKERS = "osD^vP*X<>ph8d"


def draw_map(study: Study) -> bytes:
    """The map as PNG.

    Filled marks pass all gates in all draws, hollow ones do not. Bars are the
    95 % interval of the risk (or, where the measure has none, two standard
    errors over draws) and two standard errors of the utility loss. A dotted
    line is the mean baseline, dashed lines are the job's limits, the grey
    steps are the Pareto front (of settings that pass all gates, if any does).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    placed = [(row, place) for row in study.rows if (place := study.place(row)) is not None]
    _draw_methods(axes, study, placed)
    _draw_front(axes, study)
    _draw_lines(axes, study, [row for row, _ in placed])
    _draw_choice(axes, study)
    _scales(axes, study, [place for _, place in placed])
    axes.set_xlabel(_wrapped(study.utility.label) + "\nless utility lost is further left")
    axes.set_ylabel(_wrapped(study.risk.label))
    draws = "one draw" if study.draws == 1 else f"{study.draws} draws"
    title = f"{len(placed)} of {len(study.rows)} settings, {draws} each; filled: passes all gates; numbers are k"
    axes.set_title(title, fontsize=10, loc="left")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()


def _wrapped(text: str, width: int = 80) -> str:
    from textwrap import fill

    return fill(text, width)


def _draw_methods(axes: Any, study: Study, placed: Sequence[tuple[Row, Place]]) -> None:
    from matplotlib import colormaps

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    methods = list(dict.fromkeys(row.setting.method for row in study.rows))
    for at, method in enumerate(methods):
        colour, mark = colours[(2 * at + at // 10) % 20], _MARKERS[at % len(_MARKERS)]
        curve = sorted((row.setting.k, place, row) for row, place in placed if row.setting.method == method)
        if not curve:
            axes.plot([], [], mark, color=colour, markerfacecolor="none", label=f"{method}: not on the map")
            continue
        x, y = zip(*(place for _, place, _ in curve), strict=True)
        axes.plot(x, y, "-", marker=mark, markersize=7, color=colour, linewidth=1, alpha=0.6, label=method)
        for k, place, row in curve:
            axes.errorbar(
                *place,
                xerr=_two_errors(row.figures[study.utility.name].error),
                yerr=_bar(study.risk, row, place[1]),
                marker=mark,
                markersize=7,
                color=colour,
                markerfacecolor=colour if row.passes else "white",
                elinewidth=0.8,
                linestyle="none",
                zorder=3,
            )
            axes.annotate(str(k), place, xytext=(4, 4), textcoords="offset points", fontsize=7, color="0.25")


def _two_errors(error: float) -> float:
    return 2.0 * error if math.isfinite(error) else 0.0


def _bar(axis: Axis, row: Row, value: float) -> list[list[float]]:
    """Lengths of the bar below and above the point."""
    figure = row.figures[axis.name]
    if figure.low is None or figure.high is None or axis.better == "near baseline":
        return [[_two_errors(figure.error)]] * 2
    ends = sorted(axis.loss(end) for end in (figure.low, figure.high))
    return [[max(0.0, value - ends[0])], [max(0.0, ends[1] - value)]]


def _draw_front(axes: Any, study: Study) -> None:
    places = [place for row in study.front if (place := study.place(row)) is not None]
    if places:
        x, y = zip(*places, strict=True)
        axes.step(
            x, y, where="post", color="0.6", linewidth=5, alpha=0.35, label=_wrapped(study.front_label, 34), zorder=1
        )


def _draw_lines(axes: Any, study: Study, rows: Iterable[Row]) -> None:
    baselines = [row.figures[study.risk.name].baseline for row in rows]
    known = [one for one in baselines if one is not None]
    if known and study.risk.better == "lower":
        axes.axhline(sum(known) / len(known), color="0.4", linestyle=":", linewidth=1, label="risk: baseline (mean)")
    for name, limit in study.risk.limits:
        axes.axhline(limit, color="tab:red", linestyle="--", linewidth=1, label=f"risk: {name}")
    if math.isfinite(study.utility.enough):
        axes.axvline(study.utility.enough, color="0.4", linestyle=":", linewidth=1, label="utility: another sample")
    for name, limit in study.utility.limits:
        axes.axvline(limit, color="tab:purple", linestyle="--", linewidth=1, label=f"utility: {name}")


def _draw_choice(axes: Any, study: Study) -> None:
    choice = study.choice
    place = None if choice is None else study.place(choice)
    if choice is None or place is None:
        axes.plot([], [], " ", label="no setting passes all gates")
        return
    axes.plot(
        *place,
        "o",
        markersize=17,
        markerfacecolor="none",
        markeredgecolor="black",
        label=f"choice: {choice.setting.method}, k={choice.setting.k}",
        zorder=2,
    )


def _scales(axes: Any, study: Study, places: Sequence[Place]) -> None:
    for at, (axis, which) in enumerate(zip(study.axes, ("x", "y"), strict=True)):
        values = [place[at] for place in places]
        if values and min(values) > 0 and max(values) / min(values) > WIDE_RANGE:
            getattr(axes, f"set_{which}scale")("log")
        elif values and axis.unit == "share" and min(values) >= 0:
            getattr(axes, f"set_{which}lim")(left=0.0) if which == "x" else axes.set_ylim(bottom=0.0)
