"""Attack: the largest and the smallest values of a column, and who is far from everyone, are recognised.

A share over all records hides them: they lie alone, a group takes its own values and no others from near by, and what
stands out before stands out after. So they are counted by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Reason, wilson
from anonpipe.evaluate.risk._measure import AttackData, Measured, RiskMeasure, records_of
from anonpipe.types import BoolArray, FloatArray

SHARES = (0.01, 0.05)  # Shares of the records that count as the most extreme, on either side of a column

_SOURCE = "Templ & Meindl (2008), Robust Statistics Meets SDC, Privacy in Statistical Databases (records far out)"


def _figure(what: str, share: float, title: str) -> Figure:
    key, title = f"tails.{what}_{100 * share:g}", title.format(f"{100 * share:g}")
    return Figure(key, title, "share", _SOURCE, Audience.STEWARD, baseline_is="all records looked for")


_IN_ONE = "Correct links among the largest or smallest {} % of a column"
_IN_ALL = "Correct links among the {} % furthest from the middle in all columns"
FIGURES = {share: (_figure("columns", share, _IN_ONE), _figure("together", share, _IN_ALL)) for share in SHARES}


@dataclass(frozen=True)
class Tail:
    """How many of the most extreme records are linked rightly."""

    share: float  # Share of the records that count as the most extreme of a column, on either side
    # Of each column the expected links, and how many such records there are, both sides together
    columns: tuple[tuple[str, float, int], ...]
    any_column: tuple[float, int]  # The same of records that are among the most extreme in one column or more
    # The same of that share of the records that is furthest from the middle in all columns together
    together: tuple[float, int]
    # Share of `any_column` and of `together` that are led to their own group or record; NaN without such records
    led: tuple[float, float]


@dataclass(frozen=True)
class TailLinkage:
    """How many of the most extreme records are linked to their own released record, or to one of their group."""

    tails: tuple[Tail, ...]  # Of each share in `SHARES`
    everyone: float  # The same share of all records looked for
    led: float  # Share of these that are led to their own group or record
    # records, of: records looked for, and that there are
    records: int
    of: int

    def measurements(self) -> tuple[Measurement, ...]:
        """Of each share that has records: in one column or more, and in all columns together."""
        found = []
        for tail in self.tails:
            parts = tuple((name, hits / count) for name, hits, count in tail.columns if count)
            sides = zip(FIGURES[tail.share], (tail.any_column, tail.together), tail.led, (parts, ()), strict=True)
            for figure, (hits, count), led, named in sides:
                if not count:
                    continue
                note = (
                    f"{count} such records among {self.records} that were looked for by all columns; where a record is "
                    f"led to its group of n, it counts 1/n. {100 * led:.1f} % of them are led to their own group or "
                    f"record, of all records {100 * self.led:.1f} %."
                )
                interval = (None, None) if self.records >= self.of else wilson(hits, count)
                share, baseline = hits / count, self.everyone
                found.append(
                    figure.measured(share, count, self.of, interval=interval, baseline=baseline, note=note, parts=named)
                )
        return tuple(found)


def tail_linkage(
    values: npt.ArrayLike, chances: npt.ArrayLike, names: Sequence[str], *, of: int | None = None
) -> TailLinkage:
    """Count who is found among the most extreme records of some that were looked for.

    - `values`: original numbers of the records looked for, NaN for null, shape (n, n_columns).
    - `chances`: with what chance the intruder's link of each is right: 1 where it is led to its own record, 1/n where
      to its own group of n, and 0 elsewhere, shape (n,).
    - `names`: of the columns.
    - `of`: records that there are, of which these are a random sample; None for all.

    On each side of a column the most extreme records are those strictly beyond the value that a share p of the known
    ones is at or beyond: with equal values these are fewer, and none where the outermost value is that of many (zeros).
    In all columns together a record is as far from the middle as the sum of the squared normal scores of its ranks says
    (mean ranks for equal values, nulls in the middle).
    """
    numbers, hits = np.asarray(values, dtype=np.float64), np.asarray(chances, dtype=np.float64)
    if numbers.ndim != 2 or not numbers.size or hits.shape != (len(numbers),) or len(names) != numbers.shape[1]:
        raise JobError(
            f"values of shape {numbers.shape} for {hits.shape[0] if hits.ndim else 0} records and {len(names)} names; "
            "give one row a record and one column a name"
        )
    far = np.stack([_squared_scores(column) for column in numbers.T]).sum(axis=0)
    tails = []
    for share in SHARES:
        outer = np.stack([_outermost(column, share) | _outermost(-column, share) for column in numbers.T])
        each = tuple((name, *_counted(hits, which)) for name, which in zip(names, outer, strict=True))
        both = np.asarray(outer.any(axis=0)), _outermost(far, share)
        any_column, together = (_counted(hits, which) for which in both)
        led = tuple(float((hits[which] > 0).mean()) if which.any() else math.nan for which in both)
        tails.append(Tail(share, each, any_column, together, (led[0], led[1])))
    everyone, found = float(hits.mean()), float((hits > 0).mean())
    return TailLinkage(tuple(tails), everyone, found, len(numbers), records_of(of, len(numbers), "records"))


def _outermost(values: FloatArray, share: float) -> BoolArray:
    """The records with the largest values: at most that share, and all or none of those that are equal."""
    known = np.sort(values[~np.isnan(values)])
    room = int(share * len(known))
    if room == 0:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(values > known[-room - 1])


def _squared_scores(values: FloatArray) -> FloatArray:
    """Squared normal scores of the ranks; 0 for nulls, which are in the middle."""
    known = ~np.isnan(values)
    _, places, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    middle = (counts.cumsum() - counts / 2) / max(1, known.sum())
    squares = np.zeros(len(values))
    squares[known] = ndtri(middle)[places] ** 2
    return squares


def _counted(hits: FloatArray, which: BoolArray) -> tuple[float, int]:
    return math.fsum(hits[which]), int(which.sum())


def _of_release(data: AttackData) -> Measured | Reason:
    if data.own_row is None and data.own_group is None:
        return data.unlinked
    names, values = data.numbers
    if not names:
        return Reason.NO_TAILS
    if data.own_group is not None and data.released.groups is not None:
        chances = (data.released.groups[:, 0] == data.own_group) / np.maximum(data.own_size, 1)
    else:
        chances = (data.released.nearest.rows[:, 0] == data.own_row).astype(np.float64)
    return tail_linkage(values, chances, names, of=data.rows).measurements() or Reason.NO_TAILS


MEASURE = RiskMeasure(
    key="tails",
    title="linkage of the most extreme records",
    figures=tuple(figure.key for figures in FIGURES.values() for figure in figures),
    function=_of_release,
    counts_units=True,
)
