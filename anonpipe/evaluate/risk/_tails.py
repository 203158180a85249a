"""Attack: the largest and the smallest values of a column, and who is far from everyone, are recognised.

A share over all records hides them: they lie alone, a group takes its own values and no others from
near by, and what stands out before stands out after. So they are counted by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._groups import records_of
from anonpipe.evaluate.risk._interval import wilson
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Measurement
from anonpipe.types import BoolArray, FloatArray

SHARES = (0.01, 0.05)
"""Shares of the records that count as the most extreme, on either side of a column."""

_SOURCE = "Templ & Meindl (2008), Robust Statistics Meets SDC, Privacy in Statistical Databases (records far out)"


@dataclass(frozen=True)
class Tail:
    """How many of the most extreme records are led to.

    Attributes
    ----------
    share
        Share of the records that count as the most extreme of a column, on either side.
    columns
        Of each column how many of them were led to, and how many there are, both sides together.
    any_column
        The same of records that are among the most extreme in one column or more.
    together
        The same of that share of the records that is furthest from the middle in all columns together.
    """

    share: float
    columns: tuple[tuple[str, int, int], ...]
    any_column: tuple[int, int]
    together: tuple[int, int]


@dataclass(frozen=True)
class TailLinkage:
    """How many of the most extreme records are led to their own group, or own released record.

    Attributes
    ----------
    tails
        Of each share in `SHARES`.
    everyone
        Share of all records looked for that are led to theirs.
    whose
        What they are led to: "group" or "record".
    records, of
        Records looked for, and that there are.
    """

    tails: tuple[Tail, ...]
    everyone: float
    whose: str
    records: int
    of: int

    def measurements(self) -> tuple[Measurement, ...]:
        """Of each share that has records: in one column or more, and in all columns together."""
        found = []
        for tail in self.tails:
            percent = f"{100 * tail.share:g}"
            side = f"the largest or smallest {percent} % of a column"
            title = f"Records among {side} that are led to their own {self.whose}"
            if tail.any_column[1]:
                found.append(self._measured(f"tails.columns_{percent}", title, tail.any_column, tail.columns))
            title = (
                f"Of the {percent} % of the records that are furthest from the middle in all columns, led to their own "
                f"{self.whose}"
            )
            if tail.together[1]:
                found.append(self._measured(f"tails.together_{percent}", title, tail.together, ()))
        return tuple(found)

    def _measured(
        self, name: str, title: str, counts: tuple[int, int], columns: Sequence[tuple[str, int, int]]
    ) -> Measurement:
        hits, count = counts
        low, high = (None, None) if self.records >= self.of else wilson(hits, count)
        return Measurement(
            name=name,
            title=title,
            value=hits / count,
            unit="share",
            better="lower",
            source=_SOURCE,
            records=count,
            of=self.of,
            audience=Audience.STEWARD,
            low=low,
            high=high,
            baseline=self.everyone,
            baseline_is="all records looked for",
            note=f"{count} such records among {self.records} that were looked for by all their columns.",
            parts=tuple((name, own / each) for name, own, each in columns if each),
        )


def tail_linkage(
    values: npt.ArrayLike, linked: npt.ArrayLike, names: Sequence[str], *, whose: str = "group", of: int | None = None
) -> TailLinkage:
    """Count who is led to among the most extreme records of some that were looked for.

    Parameters
    ----------
    values
        Original numbers of the records looked for, NaN for null, shape (n, n_columns).
    linked
        Whether each was led to its own group or record, shape (n,).
    names
        Of the columns.
    whose
        What they were led to.
    of
        Records that there are, of which these are a random sample; None for all.

    Notes
    -----
    On each side of a column the most extreme records are those strictly beyond the value that a share p
    of the known ones is at or beyond: with equal values these are fewer, and none where the outermost value is
    that of many (zeros). In all columns together a record is as far from the middle as the sum of the squared
    normal scores of its ranks says (mean ranks for equal values, nulls in the middle).

    Raises
    ------
    JobError
        Shapes that do not belong together, or nothing to count.

    Examples
    --------
    >>> values = np.arange(100.0)[:, None]
    >>> found = tail_linkage(values, values[:, 0] > 97, ["income"])
    >>> found.tails[0].any_column, found.tails[1].any_column, found.everyone
    ((1, 2), (2, 10), 0.02)
    """
    told, hits = np.asarray(values, dtype=np.float64), np.asarray(linked, dtype=np.bool_)
    if told.ndim != 2 or not told.size or hits.shape != (len(told),) or len(names) != told.shape[1]:
        raise JobError(
            f"values of shape {told.shape} for {hits.shape[0] if hits.ndim else 0} records and {len(names)} names; "
            "give one row a record and one column a name"
        )
    far = np.stack([_squared_scores(column) for column in told.T]).sum(axis=0)
    tails = []
    for share in SHARES:
        outer = np.stack([_outermost(column, share) | _outermost(-column, share) for column in told.T])
        each = tuple((name, *_counted(hits, which)) for name, which in zip(names, outer, strict=True))
        together = _counted(hits, _outermost(far, share))
        tails.append(Tail(share, each, _counted(hits, np.asarray(outer.any(axis=0))), together))
    return TailLinkage(tuple(tails), float(hits.mean()), whose, len(told), records_of(of, len(told), "records"))


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


def _counted(hits: BoolArray, which: BoolArray) -> tuple[int, int]:
    return int(hits[which].sum()), int(which.sum())


def _of_release(known: Known) -> Measured | Reason:
    if known.own_row is None and known.own_group is None:
        return known.unlinked
    names, values = known.numbers
    if not names:
        return Reason.NO_TAILS
    if known.own_group is not None and known.released.groups is not None:
        linked, whose = known.released.groups[:, 0] == known.own_group, "group"
    else:
        linked, whose = known.released.nearest.rows[:, 0] == known.own_row, "record"
    return tail_linkage(values, linked, names, whose=whose, of=known.rows).measurements() or Reason.NO_TAILS


MEASURE = Measure(
    key="tails",
    title="linkage of the most extreme records",
    figures=("tails.columns_*", "tails.together_*"),
    function=_of_release,
    counts_units=True,
)
