"""Columns whose mean, sum or variance is not the original's, as few records made up much of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anonpipe.encoding.dominance import extremes_kept
from anonpipe.encoding.scores import ScoredColumn
from anonpipe.pipeline.fitted import Fitted

# Standard deviations of the release by which a mean, and parts of it by which one may be moved without a warning
MOST_MOVED = 0.1


def moments_not_kept(fitted: Fitted) -> list[str]:
    """Columns that lose much of their mean or standard deviation, or extremes, and by what; names, no value."""
    scored = () if fitted.scores is None else fitted.scores.columns
    lost = {each.name: _lost(fitted, each) for each in scored}
    found = [*_extremes(fitted)]
    for what, (told, most) in _LOST.items():
        if names := [name for name, each in lost.items() if what in each]:
            found.append(f"{_named(names, most)}: {told}")
    return [*found, *_drawn_in([each for each in scored if each.apart and "drawn" not in lost[each.name]])]


# Columns that one line names where each of many has the same: wide tables of ordinary long tails have dozens
MOST_NAMED = 5

# What is said of a column that lost something, and how many are named; None for all, as nobody may add them up
_LOST = {
    "drawn": (
        "few records make up much of its mean; transform: normal_scores draws them in, and its mean, sum and variance "
        "are not kept: tell the recipients, who must not add it up",
        None,
    ),
    "clipped": (
        "values outside its bounds make up much of its mean, and are released inside: its mean, sum and variance are "
        "not kept; declare other bounds, or tell the recipients",
        None,
    ),
    "spread": (
        "few records make up much of its standard deviation; transform: normal_scores releases means of k or more in "
        "their place, and inside the bounds, so that its standard deviation, variance and ordinary correlations are "
        "not kept: tell the recipients",
        MOST_NAMED,
    ),
}


def _named(names: Sequence[str], most: int | None = MOST_NAMED) -> str:
    """The columns that a line is of.

    Examples
    --------
    >>> _named(["a"]), _named(["a", "b"]), _named(["a", "b", "c", "d"], 2)
    ("column 'a'", "each of the columns 'a', 'b'", "each of the columns 'a', 'b' and 2 more")
    """
    if len(names) == 1:
        return f"column {names[0]!r}"
    more = "" if most is None or len(names) <= most else f" and {len(names) - most:,} more"
    return f"each of the columns {', '.join(map(repr, names[:most]))}{more}"


def _drawn_in(columns: Sequence[ScoredColumn]) -> Iterator[str]:
    """Few that stand far from all others, though their share of the mean is small."""
    if not columns:
        return
    most = max(each.apart for each in columns)
    records, are = ("1 record stands", "is") if most == 1 else (f"{most:,} records stand", "are")
    up_to = "up to " if len({each.apart for each in columns}) > 1 else ""
    yield (
        f"{_named([each.name for each in columns])}: {up_to}{records} further from all others than these are wide, and "
        f'{are} released among them, as so few would be given away; if that value is a code for "unknown", make it a '
        "null in the input"
    )


def _extremes(fitted: Fitted) -> Iterator[str]:
    """What became of extremes of columns on a scale of their own."""
    few = f"of fewer than {fitted.least} records" + (" of a stratum" if fitted.job.strata.by else "")
    moved = fitted.extremes.moved
    for much, most in ((True, None), (False, MOST_NAMED)):
        if names := [name for name in moved if _much(fitted, name, moved[name]) == much]:
            lost = "they made up much of its mean, and its" if much else "its"
            yield (
                f"{_named(names, most)}: values {few} that stand apart are drawn in to the next ones, as a mean of k "
                f"would give them away; {lost} mean, sum and variance are those without: tell the recipients, or keep "
                "them by extremes: keep"
            )
    if kept := extremes_kept(fitted.job.columns):
        yield (
            f"{_named(kept)}: extremes: keep, so that values {few} that stand apart, and sums of them, may be given "
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
