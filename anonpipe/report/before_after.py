"""A picture of every released column before and after, from the steward's report."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from anonpipe.report.content import Panel, Picture, Report, ShareLine, SurvivalPart
from anonpipe.report.figures import closed, fitted

_GREY, _BLUE = "0.75", "tab:blue"
_LABEL, _TITLE = 100, 180  # Widths of a category below an axis, and of a title


def draw(report: Report, dpi: int = 110) -> bytes:
    """A PNG of each column before and after, survival curves, and correlations, as far as the report holds them."""
    # Numbers are drawn from the report's bins, whose outer ones are open, categories by their shares of all rows, and
    # survival curves of all records and by the column that tells most of survival.
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn, made = io.BytesIO(), figure(report)
    made.set_dpi(dpi)
    FigureCanvasAgg(made).print_png(drawn)  # type: ignore[no-untyped-call]  # `savefig` draws twice
    return drawn.getvalue()


def figure(report: Report) -> Any:
    """The same as a figure of matplotlib, which notebooks show with or without pyplot."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # a dollar in a name is a dollar
        made = _page(report)
    made._repr_png_ = lambda: draw(report)
    return made


def _page(report: Report) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    pictures = {one.name: one for one in report.pictures}
    found = report.compared.shares if report.compared else _shares_of_pictures(report)
    both = [column.name for column in report.columns if column.treatment in ("synthetic", "unchanged", "recoded")]
    shares = {name: [one for one in found if one.column == name] for name in both}
    curves = [curve for part in report.survival for curve in _curves(part)]
    count = len(shares) + len(curves) + (report.compared is not None)
    columns = max(1, min(4, count))
    lines = max(1, -(-count // columns))
    page = Figure(figsize=(3.4 * columns, 2.6 * lines + 0.5), layout="constrained")
    axes = page.subplots(lines, columns, squeeze=False).ravel()
    for axis, (name, of_column) in zip(axes, shares.items(), strict=False):
        axis.set_title(fitted(name, _TITLE))
        axis.set_yticks([])
        _draw_column(axis, of_column, pictures.get(name))
    for axis, (title, panels) in zip(axes[len(shares) :], curves, strict=False):
        axis.set_title(fitted(title, _TITLE))
        _draw_survival(axis, panels)
    if report.compared is not None:
        axis, pairs = axes[count - 1], report.compared.pairs
        axis.plot([-1, 1], [-1, 1], color="0.7", linewidth=1)
        axis.scatter([one.original for one in pairs], [one.released for one in pairs], s=12, color=_BLUE)
        axis.set(title="correlations", xlabel="original", ylabel="release")
    for axis in axes[count:]:
        axis.set_axis_off()
    handles = [Patch(color=_GREY, label="original"), Patch(color=_BLUE, label="release")]
    page.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
    sampled = f"numbers: of {report.pictured:,} records, the outer bins open" if report.pictured else ""
    page.suptitle(sampled, fontsize=9, ha="right", x=0.99)
    return page


def _shares_of_pictures(report: Report) -> list[ShareLine]:
    """Shares of categories as recipients may know them."""
    return [
        ShareLine(column=one.name, category=label, original=original, released=released)
        for one in report.pictures
        for label, original, released in zip(one.labels, one.original, one.released, strict=False)
    ]


def _draw_column(axis: Any, shares: list[ShareLine], picture: Picture | None) -> None:
    if shares:
        _draw_categories(axis, shares)
    elif picture is not None and picture.edges:
        _draw_numbers(axis, picture)
    else:
        why = picture.note if picture is not None else "no sample was measured"
        axis.text(0.5, 0.5, why, ha="center", transform=axis.transAxes)


def _draw_numbers(axis: Any, picture: Picture) -> None:
    edges = closed(picture.edges)
    for shares, colour, filled in ((picture.original, _GREY, True), (picture.released, _BLUE, False)):
        density = [share / (high - low) for share, (low, high) in zip(shares, pairwise(edges), strict=True)]
        axis.stairs(density, edges, fill=filled, color=colour, linewidth=1.5)
    axis.locator_params(axis="x", nbins=5)
    if picture.kind == "date":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)  # its numbers are days since 1970-01-01, as ours
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _draw_categories(axis: Any, shares: list[ShareLine]) -> None:
    place = range(len(shares))
    axis.bar([at - 0.2 for at in place], [one.original for one in shares], width=0.4, color=_GREY)
    axis.bar([at + 0.2 for at in place], [one.released for one in shares], width=0.4, color=_BLUE)
    labels = [fitted(one.category, _LABEL) for one in shares]
    turned = {"rotation": 30, "ha": "right"} if sum(map(len, labels)) > 40 else {}
    axis.set_xticks(list(place), labels, fontsize=7, **turned)


def _curves(part: SurvivalPart) -> Iterator[tuple[str, list[Panel]]]:
    """All records; the groups of the column whose curves lie furthest apart, where there is one with several."""
    whose = "cumulative incidence" if part.competing else "survival"
    whose += f" ({part.name})" if part.name else ""
    grouped = {panel.column: [one for one in part.panels if one.column == panel.column] for panel in part.panels}
    if "" in grouped:
        yield f"{whose}: all", grouped.pop("")
    several = {name: panels for name, panels in grouped.items() if len(panels) > 1}
    if several:
        name = max(several, key=lambda one: _apart(several[one]))
        yield f"{whose} by {name}", several[name]


def _apart(panels: Sequence[Panel]) -> float:
    """How far the original's curves lie apart where the shortest of them ends."""
    end = min(panel.times[-1] for panel in panels)
    levels = [float(np.interp(end, panel.times, panel.original)) for panel in panels]
    return max(levels) - min(levels)


def _draw_survival(axis: Any, panels: Sequence[Panel]) -> None:
    for panel in panels:
        axis.plot(panel.times, panel.original, color=_GREY, linewidth=4)
        axis.plot(panel.times, panel.released, color=_BLUE, linewidth=1.5)
        axis.annotate(
            panel.group, (panel.times[-1], panel.original[-1]), xytext=(0, 7), textcoords="offset points",
            ha="right", fontsize=7,
        )  # fmt: skip
    axis.set(ylim=(0, 1.03), yticks=[0, 0.5, 1], yticklabels=["0 %", "50 %", "100 %"])  # as in the report
    axis.set_xlim(left=0)
