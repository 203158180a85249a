"""Extremes of columns that are masked on their own scale, or as logarithms: few that dominate are drawn in.

A mean over k records gives away a value that makes up most of it, and the sum
of few that do. Columns by normal scores are released as means that are made
so that this does not happen (`anonpipe.encoding.quantiles`); of others each
method makes means of its own, so that what would dominate them is drawn in
before any method sees it: in each stratum, and from both ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anonpipe.columns import Column
from anonpipe.encoding.columns import ColumnScan, logarithms, with_moments
from anonpipe.encoding.exact import Sums
from anonpipe.encoding.outermost import Outermost, most_kept
from anonpipe.encoding.quantiles import DOMINANCE, FEWEST
from anonpipe.encoding.scan import Scan
from anonpipe.errors import InputError
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True)
class Extremes:
    """Values that are drawn in."""

    # Of each column of which some are, the lowest and the highest value of each stratum; infinite where nothing is
    # drawn in
    limits: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    # By how much the mean of each of these columns is moved, in its unit
    moved: dict[str, float] = field(default_factory=dict)
    reach: dict[str, float] = field(default_factory=dict)  # How far the furthest was from where it is now

    def apply(self, cells: FloatArray, names: tuple[str, ...], stratum: IntArray) -> None:
        """Draw in values, in place; those of records that are left out (stratum -1) stay."""
        for name, limits in self.limits.items():
            low, high = np.array([*limits, (-np.inf, np.inf)])[stratum].T
            position = names.index(name)
            cells[:, position] = np.minimum(np.maximum(cells[:, position], low), high)


def draw_in(
    scan: Scan, columns: Mapping[str, Column], stratum: IntArray, strata: int, least: int
) -> tuple[Scan, Extremes]:
    """Find what is to be drawn in, and say what the scan looks like then."""
    least = max(least, FEWEST)
    extremes, changed, by_combination = Extremes(), dict(scan.columns), dict(scan.by_combination)
    for name, found in scan.outermost.items():
        if least > most_kept(found.most):
            raise InputError(_TOO_MANY.format(name=name, rows=least, most=most_kept(found.most)))
        limits = _limits(found.moved(stratum, strata), columns[name], strata, least)
        low, high = np.array([*limits, (-np.inf, np.inf)])[stratum[found.places]].T
        drawn = np.clip(found.values, low, high)
        at = np.flatnonzero(drawn != found.values)
        if not len(at):
            continue
        before = scan.columns[name]
        changed[name] = _without(before, columns[name], found.values[at], drawn[at], drawn)
        if name in by_combination:
            by_combination[name] = _moved(by_combination[name], found.places[at], found.values[at], drawn[at])
        extremes.limits[name] = limits
        extremes.moved[name] = float((drawn[at] - found.values[at]).sum() / before.values)
        extremes.reach[name] = float(np.abs(drawn[at] - found.values[at]).max())
    return replace(scan, columns=changed, by_combination=by_combination), extremes


_TOO_MANY = (
    "column {name!r}: {rows:,} rows are needed to be of k units for certain, and of columns on a scale of their own "
    "the {most:,} outermost are looked at, to see whether few dominate; make fewer rows of the units with most, or "
    "give the column transform: normal_scores, or extremes: keep"
)


def _limits(found: Outermost, column: Column, strata: int, least: int) -> list[tuple[float, float]]:
    """The lowest and the highest value of each stratum."""
    limits = []
    for at in range(strata):
        values = found.at(at)
        scales = [values] if column.offset is None else [values, logarithms(values, column)]
        below, above = (max(drawn_to(each, int(found.counts[at]), least) for each in ends) for ends in _ends(scales))
        limits.append((values[below] if below else -np.inf, values[-1 - above] if above else np.inf))
    return limits


def _ends(scales: Sequence[FloatArray]) -> tuple[list[FloatArray], list[FloatArray]]:
    """On each scale the numbers from either end, descending: of logarithms that are averaged values count, too."""
    return [-each for each in scales], [each[::-1] for each in scales]


def drawn_to(values: FloatArray, records: int, least: int) -> int:
    """How many of the first values are drawn in to the next one.

    Two rules, of which each looks at how far the first are beyond a border,
    the value after the outermost `least`, and only at who is further out than
    all others are wide. *Few apart*: fewer than `least` that are ten times as
    far out as the next, and as the `least` below are wide, and beside whom all
    others have together less than a tenth: a mean tells their sum. *p %*: the
    others have less than a tenth beside the first, for the holder of the
    second, who takes his own away; then as many count as one as make it safe.
    Of fewer than three times `least` the first rule alone is asked, and all
    others are what is beside them.

    Examples
    --------
    >>> crowd = np.arange(20.0, 0.0, -1.0)
    >>> [drawn_to(np.append(giants, crowd), 20 + len(giants), 5) for giants in ([], [1e6], [9e5, 5e5], [90])]
    [0, 1, 2, 1]
    """
    roomy = records >= 3 * least
    run = least if roomy else records // 2
    if run < 1:
        return 0
    border = values[run]
    excess, wide = values[:run] - border, border - values[-1 - run if roomy else -1]  # the other end may have some, too
    held, after = np.cumsum(excess), np.append(excess[1:], 0.0)
    length = border - values[2 * run - 1] if roomy else wide
    apart = (DOMINANCE * excess > np.maximum(length, after)) & (held[-1] - held < DOMINANCE * held) & (excess > wide)
    few = int(np.flatnonzero(np.append(True, apart[: least - 1]))[-1])
    if not roomy or excess[0] <= wide:
        return few
    for number in range(max(few, 0) + 1, run - 1):  # so many count as the last of them
        if held[-1] - held[number] >= DOMINANCE * number * excess[number - 1]:
            return 0 if number == 1 else number - 1
    return run


def _without(
    scanned: ColumnScan, column: Column, before: FloatArray, after: FloatArray, every: FloatArray
) -> ColumnScan:
    """The scan of a column of which some values are others; `every` are the outermost as they are then."""
    sums = _replaced(scanned.sums, before, after)
    log_sums = None if scanned.log_sums is None else _replaced(
        scanned.log_sums, logarithms(before, column), logarithms(after, column)
    )  # fmt: skip
    least, most = float(every.min()), float(every.max())
    return with_moments(
        replace(scanned, sums=sums, log_sums=log_sums, least=least, most=most, constant=bool(least == most))
    )


def _replaced(sums: Sums | None, before: FloatArray, after: FloatArray) -> Sums | None:
    if sums is None:
        return None
    gone, come = Sums.of(before), Sums.of(after)
    return Sums(sums.total - gone.total + come.total, sums.squares - gone.squares + come.squares)


def _moved(
    numbers: tuple[FloatArray, FloatArray, FloatArray], places: IntArray, before: FloatArray, after: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Numbers, means and squared deviations of each place, of which some values are others."""
    n, mean, m2 = numbers
    centred = np.square(before - mean[places]), np.square(after - mean[places])
    shift = np.bincount(places, after - before, len(n)) / np.maximum(n, 1.0)
    rest = m2 + np.bincount(places, centred[1] - centred[0], len(n)) - n * np.square(shift)
    return n, mean + shift, np.maximum(rest, 0.0)


def extremes_kept(columns: Mapping[str, Column]) -> Sequence[str]:
    """Columns on a scale of their own whose extremes the job keeps."""
    return [name for name, column in columns.items() if column.extremes == "keep"]
