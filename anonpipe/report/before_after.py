"""A picture of every released column before and after, from the steward's report."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

from anonpipe.files import write_atomic
from anonpipe.report.content import Picture, Report, ShareLine
from anonpipe.report.figures import closed

_GREY, _BLUE = "0.75", "tab:blue"


def draw_comparison(report: Report, path: Path) -> None:
    """Draw each column before and after, and the correlations against each other, into a PNG that only its owner reads.

    Numbers are drawn from the report's bins, whose outer ones are open, and
    categories by their shares of all rows; both as far as they were measured.

    Parameters
    ----------
    report
        The steward's, with figures of both tables.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    pictures = {one.name: one for one in report.pictures}
    told = report.compared.shares if report.compared else ()
    shares = {name: [one for one in told if one.column == name] for name in names_of(report)}
    columns = min(4, len(shares) + 1)
    lines = -(-(len(shares) + 1) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.6 * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, (name, found) in zip(axes, shares.items(), strict=False):
        axis.set_title(name)
        axis.set_yticks([])
        _draw_column(axis, found, pictures.get(name))
    _draw_correlations(axes[len(shares)], report)
    for axis in axes[len(shares) + 1 :]:
        axis.set_axis_off()
    handles = [Patch(color=_GREY, label="original"), Patch(color=_BLUE, label="release")]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
    sampled = f"numbers: a sample of {report.pictured:,} records, the outer bins open" if report.pictured else ""
    figure.suptitle(sampled, fontsize=9, ha="right", x=0.99)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=110, format="png")
    write_atomic(path, drawn.getbuffer())


def names_of(report: Report) -> list[str]:
    """The columns that both tables have, in the order of the release."""
    return [column.name for column in report.columns if column.treatment in ("synthetic", "unchanged")]


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
    if picture.kind == "date":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=5)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)  # its numbers are days since 1970-01-01, as ours
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _draw_categories(axis: Any, shares: list[ShareLine]) -> None:
    place = range(len(shares))
    axis.bar([at - 0.2 for at in place], [one.original for one in shares], width=0.4, color=_GREY)
    axis.bar([at + 0.2 for at in place], [one.released for one in shares], width=0.4, color=_BLUE)
    axis.set_xticks(list(place), [one.category for one in shares], rotation=30, ha="right", fontsize=7)


def _draw_correlations(axis: Any, report: Report) -> None:
    pairs = report.compared.pairs if report.compared else ()
    axis.plot([-1, 1], [-1, 1], color="0.7", linewidth=1)
    axis.scatter([one.original for one in pairs], [one.released for one in pairs], s=12, color=_BLUE)
    axis.set(title="correlations", xlabel="original", ylabel="release")
