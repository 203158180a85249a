"""Whether the rows in the staging are those that were scanned: counts, nulls, categories, means and variances.

Everything after the scan sees the staging alone. Where a part of it is lost or
another's, originals and release are both made of the damage, and agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.cells import Tally
from anonpipe.types import FloatArray, IntArray
from anonpipe.verify.check import Check, held, worst_entry, worst_of
from anonpipe.verify.expectations import EXACT
from anonpipe.verify.view import View

_EPS = 1e-12  # Of the size of a mean: what sums in another order, and of fixed numbers of digits, may differ by


@dataclass(frozen=True)
class Arrived:
    """What the scan says that the staging holds, and what was found there."""

    table: Tally  # The whole, as the scan has it
    strata: tuple[Tally, ...]  # Each stratum, as the scan has it
    read: tuple[tuple[Tally, ...], ...]  # What was found of each stratum, in each stage that read the rows
    # Of columns carried as codes of which the scan does not tell what records were dropped with small strata, by
    # position, the records of each code with those; empty where none were dropped
    before_drop: dict[int, IntArray]
    filled: tuple[int, ...]  # Positions of columns whose nulls are released as values, being too few
    # Of each column how far the furthest extreme was drawn in; 0 for none. The moments of a stratum without it are a
    # difference, and rounded by parts of what it was.
    reach: FloatArray | float = 0.0

    def checks(self) -> list[Check]:
        """The lines of the verdict; both are mandatory."""
        pairs = [(self.table, _merged(read)) for read in self.read]
        pairs += [pair for read in self.read for pair in zip(self.strata, read, strict=True)]
        lost = max(_miscounted(known, found) for known, found in pairs)
        lost = max([lost, *(_beyond_drop(self.before_drop, _merged(read)) for read in self.read)])
        moments = worst_of([_moments_off(known, found, self.reach) for known, found in pairs])
        return [held("staging.counts", lost, 0), moments]


def _merged(parts: Sequence[Tally]) -> Tally:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole


def _miscounted(known: Tally, found: Tally) -> int:
    """Records by which a count differs most: of rows, of a column's values, or of a category."""
    codes = [found.codes[position] - counts for position, counts in known.codes.items()]
    return _largest(np.array([known.rows - found.rows]), known.n - found.n, *codes)


def _beyond_drop(before: Mapping[int, IntArray], found: Tally) -> int:
    """The same of codes of which dropped records took some: none may have grown, and all together are the rows."""
    grown = [np.maximum(found.codes[position] - counts, 0) for position, counts in before.items()]
    sums = [np.array([found.codes[position].sum() - found.rows]) for position in before]
    return _largest(*grown, *sums)


def _largest(*differences: npt.NDArray[Any]) -> int:
    return max((int(np.max(np.abs(each), initial=0)) for each in differences), default=0)


def _moments_off(known: Tally, found: Tally, reach: FloatArray | float) -> Check:
    """Means, and squared deviations, in the scan's standard deviations; what rounding may be, is allowed.

    A mean is rounded by parts of its size, which may be many standard
    deviations of a column that is far from zero; one of a single value has
    none, and is measured in ten times these parts.
    """
    sd = np.sqrt(np.divide(known.m2, known.n, out=np.zeros_like(known.m2), where=known.n > 0))
    size = np.abs(known.mean) + sd
    scale = np.maximum(sd, 10.0 * _EPS * size)
    scale = np.where(scale > 0, scale, 1.0)
    limit = EXACT + _EPS * (size + reach) / scale
    mean = np.abs(found.mean - known.mean) / scale
    variance = np.abs(found.m2 - known.m2) / np.maximum(known.n, 1.0) / scale**2
    both, limits = (
        np.concatenate([mean, variance]),
        np.concatenate([limit, 2.0 * limit + _EPS * np.square(reach / scale)]),
    )
    compared = int(np.count_nonzero(known.n))
    return worst_entry("staging.moments", both, limits, records=known.rows, compared=compared)


@dataclass(frozen=True, eq=False)
class Scanned:
    """What the scan knows of each variable of the view, on its scale; NaN where it does not."""

    # mean, variance, null_share: shape (n_variables,)
    mean: FloatArray
    variance: FloatArray
    null_share: FloatArray

    @classmethod
    def of(cls, tally: Tally, view: View, filled: Sequence[int]) -> Scanned:
        """Translate a tally; logarithms are not known, as the scan takes them of values inside their bounds."""
        mean, variance, null_share = (np.full(len(view.variables), np.nan) for _ in range(3))
        rows = max(tally.rows, 1)
        numbers = {variable.position for variable in view.variables if variable.category is None}
        for at, variable in enumerate(view.variables):
            position = variable.position
            if variable.category is not None:
                null = variable.category == len(tally.codes.get(position, ())) - 1
                if position in tally.codes and not (null and position in numbers):  # those are NaN, in no category
                    share = tally.codes[position][variable.category] / rows
                    mean[at] = (share - variable.mean) / variable.sd
                    variance[at] = share * (1.0 - share) * rows / max(rows - 1, 1) / variable.sd**2
                    null_share[at] = 0.0
            elif position in tally.codes:
                counts = tally.codes[position][:-1]
                null_share[at] = 1.0 - counts.sum() / rows
                if counts.sum() > 1:
                    codes, there = np.arange(len(counts)), counts.sum()
                    centre = float(codes @ counts / there)
                    mean[at] = (centre - variable.mean) / variable.sd
                    variance[at] = np.square(codes - centre) @ counts / (there - 1) / variable.sd**2
            elif tally.n[position] > 1:
                null_share[at] = 0.0 if position in filled else 1.0 - tally.n[position] / rows
                if not variable.on_other_scale:
                    mean[at] = (tally.mean[position] - variable.mean) / variable.sd
                    variance[at] = tally.m2[position] / (tally.n[position] - 1.0) / variable.sd**2
        return cls(mean, variance, null_share)
