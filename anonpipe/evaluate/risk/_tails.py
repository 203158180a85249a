"""Attack: the largest and the smallest values of a column, and who is far from everyone, are recognised.

A share over all records hides them: they lie alone, a group takes its own values and no others from near by, and what
stands out before stands out after. So they are counted by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Reason, wilson
from anonpipe.evaluate.risk._measure import AttackData, Measured, RiskMeasure
from anonpipe.types import BoolArray, FloatArray

SHARES = (0.01, 0.05)  # Shares of the records that count as the most extreme, on either side of a column

_SOURCE = "Templ & Meindl (2008), Robust Statistics Meets SDC, Privacy in Statistical Databases (records far out)"


def _figure(what: str, share: float, title: str) -> Figure:
    key, title = f"tails.{what}_{100 * share:g}", title.format(f"{100 * share:g}")
    return Figure(key, title, "share", _SOURCE, Audience.STEWARD, baseline_is="all records looked for")


_IN_ONE = "Correct links among the largest or smallest {} % of a column"
_IN_ALL = "Correct links among the {} % furthest from the middle in all columns"
FIGURES = {share: (_figure("columns", share, _IN_ONE), _figure("together", share, _IN_ALL)) for share in SHARES}


def tail_linkage(values: FloatArray, chances: FloatArray, names: Sequence[str], *, of: int) -> list[Measurement]:
    """Count who is found among the most extreme records of some that were looked for, of each share that has records.

    - `values`: original numbers of the records looked for, NaN for null, shape (n, n_columns).
    - `chances`: with what chance the intruder's link of each is right: 1 where it is led to its own record, 1/n where
      to its own group of n, and 0 elsewhere, shape (n,).
    - `names`: of the columns.
    - `of`: records that there are, of which these are a random sample, or all.

    On each side of a column the most extreme records are those strictly beyond the value that a share p of the known
    ones is at or beyond: with equal values these are fewer, and none where the outermost value is that of many (zeros).
    In all columns together a record is as far from the middle as the sum of the squared normal scores of its ranks says
    (mean ranks for equal values, nulls in the middle).
    """
    far = np.stack([_squared_scores(column) for column in values.T]).sum(axis=0)
    everyone, found = float(chances.mean()), []
    for share in SHARES:
        columns = [_outermost(column, share) | _outermost(-column, share) for column in values.T]
        parts = tuple((name, _mean(chances[which])) for name, which in zip(names, columns, strict=True) if which.any())
        sides = zip(FIGURES[share], (np.any(columns, axis=0), _outermost(far, share)), (parts, ()), strict=True)
        for figure, which, named in sides:
            hits = chances[which]
            if not len(hits):
                continue
            note = (
                f"{len(hits)} such records among {len(chances)} that were looked for by all columns; where a record is "
                f"led to its group of n, it counts 1/n. {100 * (hits > 0).mean():.1f} % of them are led to their own "
                f"group or record, of all records {100 * (chances > 0).mean():.1f} %."
            )
            ends = (None, None) if len(chances) >= of else wilson(math.fsum(hits), len(hits))
            found.append(
                figure.measured(_mean(hits), len(hits), of, interval=ends, baseline=everyone, note=note, parts=named)
            )
    return found


def _mean(chances: FloatArray) -> float:
    return math.fsum(chances) / len(chances)


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
    return tail_linkage(values, chances, names, of=data.rows) or Reason.NO_TAILS


_FIGURES = tuple(figure for figures in FIGURES.values() for figure in figures)
MEASURE = RiskMeasure("tails", "linkage of the most extreme records", _FIGURES, _of_release, counts_units=True)
