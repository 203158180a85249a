"""Two-way tables of categories: how many small cells a release has exactly as the original, and how many by chance.

A cell of one person, released as one, tells who knows one of the two values the other. Another sample of the population
with the same margins has such a count by chance, too: as a binomial draw of the smaller margin. And a released pair of
rare categories tells that somebody in the original has it, as far as it does so more surely than another sample's: as
far as fewer released pairs are new than another sample would have. How many these are follows from the cells of the
original alone (Good & Toulmin 1956, doi:10.1093/biomet/43.1-2.45), not from the means that cells are drawn by.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy  # `scipy.stats` takes a second to load, in every run

from anonpipe.moments import PairwiseMoments
from anonpipe.types import BoolArray, FloatArray
from anonpipe.verify.expectations import ReleaseView

# Of cells with 1, 2, ... records, how many new cells each stands for: Good and Toulmin's alternating sum, smoothed by
# binomial chances (Efron & Thisted 1976, doi:10.1093/biomet/63.3.435)
_NEW = np.array([(-1.0) ** (m + 1) * sum(comb(8, j) for j in range(m, 9)) / 2**8 for m in range(1, 9)])

STANDARD_ERRORS = 4.0  # Beyond what is expected by chance; one honest release in 30,000 is further off


@dataclass(frozen=True)
class SmallCellCounts:
    """The cells of 1 to k - 1 original records in two-way tables of which one column is masked."""

    cells: int
    exact: int  # Those with the same released count
    expected: float  # How many these would be by chance
    variance: float  # Of their number by chance, cells drawn one by one
    # The same of the cells of 1 to k - 1 released records: how many, of how many the original has records, by chance
    released: int = 0
    occurring: int = 0
    expected_to_occur: float = 0.0
    variance_of_occurring: float = 0.0

    @property
    def excess(self) -> float:
        """Exact, or occurring, cells beyond chance and `STANDARD_ERRORS`, as a share of the cells; the larger share."""
        exact = _beyond(self.exact, self.expected, self.variance, self.cells)
        return max(exact, _beyond(self.occurring, self.expected_to_occur, self.variance_of_occurring, self.released))

    @classmethod
    def of(
        cls,
        original: PairwiseMoments,
        released: PairwiseMoments,
        view: ReleaseView,
        k: int,
        unpublished: Collection[str] = (),
    ) -> SmallCellCounts:
        """Those of a table, without columns that are not published."""
        levels = _Levels.of(view, unpublished)
        before, after = levels.counts(original), levels.counts(released)
        compared = np.triu(levels.apart) & (before > 0) & (before < k)
        counts = before[compared]
        sizes = np.diag(before)
        smaller = np.minimum.outer(sizes, sizes)[compared]
        chance = _binomial(counts, smaller, counts / np.maximum(smaller, 1.0))
        exact = int(np.count_nonzero(counts == after[compared]))
        shown = before[np.triu(levels.apart) & (after > 0) & (after < k)]
        every = before[np.triu(levels.apart)].astype(np.int64)
        of_size = np.bincount(every[every <= len(_NEW)], minlength=len(_NEW) + 1)[1:]
        new = min(max(0.0, float(_NEW @ of_size)), float(len(shown)))
        return cls(
            len(counts),
            exact,
            float(chance.sum()),
            float((chance * (1.0 - chance)).sum()),
            len(shown),
            int(np.count_nonzero(shown)),
            len(shown) - new,
            new + float(_NEW**2 @ of_size),
        )


def _beyond(found: int, expected: float, variance: float, of: int) -> float:
    return max(0.0, found - expected - STANDARD_ERRORS * float(np.sqrt(variance))) / max(1, of)


def _binomial(count: FloatArray, size: FloatArray, share: FloatArray) -> FloatArray:
    """The binomial probability of each count."""
    ways = gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)
    return np.asarray(np.exp(ways + xlogy(count, share) + xlog1py(size - count, -share)))


@dataclass(frozen=True, eq=False)
class _Levels:
    """Categories of a view, and nulls of its numbers, each as a sum of indicators, non-null values and records."""

    value: FloatArray  # Shape (n_levels, n_variables), 0, 1 or -1
    present: FloatArray  # The same
    constant: FloatArray  # Shape (n_levels,)
    columns: FloatArray  # Position of each level's column
    synthesized: BoolArray  # Whether it is masked
    mean: FloatArray  # Of each variable
    sd: FloatArray

    @classmethod
    def of(cls, view: ReleaseView, unpublished: Collection[str]) -> _Levels:
        """Those of a view; a column of one indicator has a second level, and so have nulls."""
        size, rows = len(view.variables), []
        own = [sum(each.position == other.position for other in view.variables) for each in view.variables]
        for at, variable in enumerate(view.variables):
            if variable.own_unit or variable.probability or variable.column in unpublished:
                continue
            unit = np.eye(1, size, at)[0]
            if variable.category is None:
                rows += [(0 * unit, unit, 0.0, variable), (0 * unit, -unit, 1.0, variable)]
            else:
                rows.append((unit, 0 * unit, 0.0, variable))
                rows += [(-unit, 0 * unit, 1.0, variable)] * (own[at] == 1)
        value, present, constant, variables = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(
            np.reshape(value, (len(rows), size)),
            np.reshape(present, (len(rows), size)),
            np.array(constant),
            np.array([each.position for each in variables], dtype=np.float64),
            np.array([each.synthesized for each in variables], dtype=bool),
            np.array([each.mean for each in view.variables]),
            view.sd,
        )

    @property
    def apart(self) -> BoolArray:
        """Pairs of levels of two columns, of which one is masked."""
        different = np.not_equal.outer(self.columns, self.columns)
        return np.asarray(different & np.logical_or.outer(self.synthesized, self.synthesized))

    def counts(self, moments: PairwiseMoments) -> FloatArray:
        """Records of each two levels; on the diagonal those of each; shape (n_levels, n_levels)."""
        n, rows = moments.n.astype(np.float64), float(moments.rows)
        # values of j among the records that have h, and products: of indicators, whose values are never null
        ones = self.sd[:, None] * moments.sums + self.mean[:, None] * n
        both = np.outer(self.sd, self.sd) * moments.cross + self.mean[:, None] * self.sd * moments.sums.T
        both += self.mean * self.sd[:, None] * moments.sums + np.outer(self.mean, self.mean) * n
        v, p, c = self.value, self.present, self.constant
        single = v @ np.diag(ones) + p @ np.diag(n)
        mixed = v @ ones @ p.T
        counts = v @ both @ v.T + mixed + mixed.T + p @ n @ p.T
        counts += np.outer(single, c) + np.outer(c, single) + rows * np.outer(c, c)
        return np.rint(counts)
