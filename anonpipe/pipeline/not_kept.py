"""Columns whose mean, sum or variance is not the original's, as few records made up much of it."""

from __future__ import annotations

from collections.abc import Iterator

from anonpipe.encoding.dominance import extremes_kept
from anonpipe.encoding.scores import ScoredColumn
from anonpipe.pipeline.fitted import Fitted

MOST_MOVED = 0.1
"""Standard deviations of the release by which a mean, and parts of it by which one may be moved without a warning."""


def moments_not_kept(fitted: Fitted) -> list[str]:
    """Columns that lose much of their mean or standard deviation, or extremes, and by what; names, no value."""
    found = [*_extremes(fitted)]
    for each in () if fitted.scores is None else fitted.scores.columns:
        lost = _lost(fitted, each)
        if "drawn" in lost:
            found.append(
                f"column {each.name!r}: few records make up much of its mean; transform: normal_scores draws them in, "
                "and its mean, sum and variance are not kept: tell the recipients, who must not add it up"
            )
        if "clipped" in lost:
            found.append(
                f"column {each.name!r}: values outside its bounds make up much of its mean, and are released inside: "
                "its mean, sum and variance are not kept; declare other bounds, or tell the recipients"
            )
        if "spread" in lost:
            found.append(
                f"column {each.name!r}: few records make up much of its standard deviation; transform: normal_scores "
                "releases means of k or more in their place, and inside the bounds, so that its standard deviation, "
                "variance and ordinary correlations are not kept: tell the recipients"
            )
        if each.apart and "drawn" not in lost:
            found.append(_drawn_in(each))
    return found


def _drawn_in(column: ScoredColumn) -> str:
    """Few that stand far from all others, though their share of the mean is small."""
    records, are = ("1 record stands", "is") if column.apart == 1 else (f"{column.apart:,} records stand", "are")
    return (
        f"column {column.name!r}: {records} further from all others than these are wide, and {are} released among "
        'them, as so few would be given away; if that value is a code for "unknown", make it a null in the input'
    )


def _extremes(fitted: Fitted) -> Iterator[str]:
    """What became of extremes of columns on a scale of their own."""
    few = f"of fewer than {fitted.least} records" + (" of a stratum" if fitted.job.strata.by else "")
    for name, moved in fitted.extremes.moved.items():
        lost = "they made up much of its mean, and its" if _much(fitted, name, moved) else "its"
        yield (
            f"column {name!r}: values {few} that stand apart are drawn in to the next ones, as a mean of k would give "
            f"them away; {lost} mean, sum and variance are those without: tell the recipients, or keep them by "
            "extremes: keep"
        )
    for name in extremes_kept(fitted.job.columns):
        yield (
            f"column {name!r}: extremes: keep, so that values {few} that stand apart, and sums of them, may be given "
            "away by the means of their groups"
        )


def _much(fitted: Fitted, name: str, moved: float) -> bool:
    """Whether the mean of a column on its own scale is moved that far."""
    return bool(abs(moved) > MOST_MOVED * fitted.scan.columns[name].sd)


def _lost(fitted: Fitted, column: ScoredColumn) -> set[str]:
    """What takes a scored column's mean (extremes drawn in, bounds), or its standard deviation alone."""
    spread, original = column.released_moments[1], fitted.scan.columns[column.name].sd
    drawn, clipped = (abs(moved) > MOST_MOVED * spread for moved in column.moved)
    found = {what for what, much in (("drawn", drawn), ("clipped", clipped)) if much}
    return found or ({"spread"} if abs(spread - original) > MOST_MOVED * original else set())


def not_to_be_added_up(fitted: Fitted) -> tuple[str, ...]:
    """Names of the columns whose mean and sum are lost, for who uses the release.

    None of a register that grows: from one release to the next a name more would tell that one person came.
    """
    if fitted.job.repeat.growing:
        return ()
    scored = () if fitted.scores is None else fitted.scores.columns
    lost = {each.name for each in scored if _lost(fitted, each) & {"drawn", "clipped"}}
    lost |= {name for name, moved in fitted.extremes.moved.items() if _much(fitted, name, moved)}
    return tuple(name for name in fitted.cells.names if name in lost)
