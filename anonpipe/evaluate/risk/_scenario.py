"""Attack: somebody knows a few columns of a person, such as age, sex and region, and looks the person up by these.

What such a scenario makes of the *original* is the field's risk of key variables: who is single in them, and how likely
a link is right. What it makes of the *release* is that link, tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable
from scipy.special import hyp2f1

from anonpipe.errors import JobError
from anonpipe.evaluate.coding import null_as_code
from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Reason, wilson
from anonpipe.evaluate.risk._measure import AttackData, AttackScenario, Measured, RiskMeasure, require
from anonpipe.evaluate.risk._singling_out import Predicates
from anonpipe.kernels.compiled import kernel
from anonpipe.types import FloatArray, IntArray

ALLOWED = 0.09  # The European Medicines Agency's threshold for what is published (Policy 0070, external guidance, 2018)

_KEYS = "Templ, Meindl & Kowarik, sdcMicro (frequencies of key variables); El Emam & Arbuckle (2013), ch. 2"
_POPULATION = (
    "Benedetti & Franconi (1998); Franconi & Polettini (2004), doi:10.1007/978-3-540-25955-8_20, individual risk"
)
_LINKS = "El Emam et al. (2009), doi:10.1197/jamia.M2716; European Medicines Agency, Policy 0070, external guidance"

_SMALL_CLASS, _TERMS = 8, 200  # Persons of a class up to which scipy is used, and terms that are enough beyond

# Of some columns how far what is known may be off, and how far in parts of the value; 0 where it is exact
Tolerances = Sequence[tuple[float, float]]


def reaches(values: FloatArray, tolerances: Tolerances) -> FloatArray:
    """How far from each value what is known of it may be, 0 for null; shape (n, n_columns)."""
    far, part = np.array(tolerances, dtype=np.float64).T
    return np.asarray(np.nan_to_num(far + part * np.abs(values)) * ~np.isnan(values))


def around(values: FloatArray, places: Sequence[int], tolerances: Tolerances) -> Predicates:
    """Who could be meant by what is known of each: all who are within reach in these columns of cells."""
    far = reaches(values, tolerances) * (1 + 1e-9)  # a value at the very edge must not depend on rounding
    filled = null_as_code(values)
    columns = np.tile(np.asarray(places, dtype=np.int64), (len(values), 1))
    return Predicates(columns, filled - far, filled + far)


_ORIGINAL = Figure("scenarios.*.", "", "share", _KEYS, Audience.STEWARD)
_LIMITED = replace(_ORIGINAL, baseline_is="the European Medicines Agency's threshold")
_JOURNALIST = replace(_LIMITED, source=_POPULATION)
_LINK = replace(_ORIGINAL, source=_LINKS, baseline_is="the original itself, released as it is")


def _named(sort: Figure, name: str, title: str, **other: Any) -> Figure:
    return replace(sort, key=f"{sort.key}{name}", title=title, **other)


# `*` stands for the scenario, `{who}` for its name and `{k}` for the smallest permissible group
_OF_CLASSES = (
    _named(_ORIGINAL, "original_uniques", "Sample uniques {who}"),
    _named(_ORIGINAL, "original_below_3", "Persons in classes of fewer than 3 {who}"),
    _named(_ORIGINAL, "original_below_k", "Persons in classes of fewer than k = {k} {who}"),
    _named(_ORIGINAL, "original_smallest", "Persons of the smallest class {who}", unit="persons", better="higher"),
    _named(_LIMITED, "prosecutor_max", "Prosecutor risk of the original {who}, maximum"),
    _named(_LIMITED, "marketer", "Prosecutor risk of the original {who}, mean (the marketer's risk)"),
)
_UNIQUES = "Sample uniques that are population uniques {who}, expected"
_OF_POPULATION = (
    _named(_JOURNALIST, "journalist_max", "Journalist risk of the original {who}, maximum"),
    _named(_JOURNALIST, "journalist_mean", "Journalist risk of the original {who}, mean"),
    _named(_ORIGINAL, "population_uniques", _UNIQUES, source=_POPULATION),
)
_BY_WEIGHTS = "Individual risk of the original by survey weights {who}"
_OF_WEIGHTS = (
    _named(_JOURNALIST, "individual_max", f"{_BY_WEIGHTS}, maximum"),
    _named(_JOURNALIST, "individual_mean", f"{_BY_WEIGHTS}, mean (the share of persons expected to be found)"),
)
_LINKED = (
    _named(_LINK, "linked", "Persons linked correctly {who}"),
    _named(_LINK, "linked_uniques", "Sample uniques linked correctly {who}"),
)


def individual_risk(sizes: npt.ArrayLike, fraction: npt.ArrayLike) -> FloatArray:
    """How likely a record is the person looked for, whose class has so many records in the sample.

    - `sizes`: records of the class in the sample, 1 or more, shape (n_classes,).
    - `fraction`: of the population that is in the sample, above 0 and up to 1; one for all classes, or for each its
      records over the sum of their survey weights.

    E[1/F | f], where the F persons of the population in a class of f are f plus a negative binomial number with f
    successes of probability `fraction` (Benedetti & Franconi): fraction^f / f · 2F1(f, f; f + 1; 1 - fraction), by
    Euler's transformation fraction / f · 2F1(1, 1; f + 1; 1 - fraction). Its series has positive terms that fall at
    least as 1/j^f: for larger classes it is summed, as scipy's overflows. For f of 1 and 2 it is what sdcMicro's
    `indivRisk` computes; for larger f that approximates it by fraction / (f - 1 + fraction).

    Examples
    --------
    >>> individual_risk([2, 1, 1], [2 / 110, 1 / 17, 1 / 5]).round(3).tolist()
    [0.017, 0.177, 0.402]

    Franconi & Polettini (2004), doi:10.1007/978-3-540-25955-8_20, equation 4.
    """
    given = np.asarray(fraction, dtype=np.float64)
    of_class, which = np.asarray(sizes, dtype=np.float64), None
    if given.ndim == 0:
        of_class, which = np.unique(of_class, return_inverse=True)
    share = np.broadcast_to(given, of_class.shape)
    summed, small = np.ones_like(of_class), of_class <= _SMALL_CLASS
    summed[small] = hyp2f1(1.0, 1.0, of_class[small] + 1.0, 1.0 - share[small])
    large, left = of_class[~small], 1.0 - share[~small]
    total, term = np.ones_like(large), np.ones_like(large)
    for at in range(_TERMS):
        term *= (at + 1) * left / (large + 1.0 + at)
        total += term
    summed[~small] = total
    risks = share / of_class * summed
    return np.asarray(risks if which is None else risks[which.reshape(np.shape(sizes))])


@dataclass(frozen=True, eq=False)
class ScenarioRisk:
    """Risk of the original by its classes, and of the release by links."""

    name: str  # Of the scenario
    k: int  # Smallest permissible group
    given: AttackScenario

    def __post_init__(self) -> None:
        if not len(self.given.sizes):
            raise JobError(f"scenario {self.name}: no class was counted; give one or more, each of a person or more")

    @property
    def each(self) -> IntArray:
        """For how many persons each size counts."""
        return self.given.sizes if self.given.persons is None else self.given.persons

    @property
    def counted(self) -> int:
        """Persons counted: all, or those of a share of the classes."""
        return int(self.each.sum())

    def below(self, size: int) -> float:
        """Share of the persons of the original whose class has fewer than so many."""
        return float(self.each[self.given.sizes < size].sum() / self.counted)

    @property
    def average(self) -> float:
        """Mean of 1 / persons of the class: what the original would give away, and the marketer's risk."""
        return math.fsum(self.each / self.given.sizes) / self.counted

    @property
    def journalist(self) -> tuple[float, ...]:
        """Largest and mean individual risk, and expected share of persons who are single in the population."""
        if self.given.sampling_fraction is None:
            return ()
        singles = float(self.each[self.given.sizes == 1].sum()) * self.given.sampling_fraction / self.counted
        return *self._risks(self.given.sampling_fraction), singles

    @property
    def individual(self) -> tuple[float, ...]:
        """Largest and mean individual risk where survey weights tell how many persons a class has."""
        sizes, weights = self.given.sizes, self.given.weights
        return () if weights is None else self._risks(sizes / np.maximum(sizes, weights))

    def _risks(self, fraction: npt.ArrayLike) -> tuple[float, float]:
        risks = individual_risk(self.given.sizes, fraction)
        return float(risks.max()), math.fsum(risks * self.each) / self.counted

    def measurements(self) -> tuple[Measurement, ...]:
        """Of the original what its classes say; of the release who is linked rightly by these columns."""
        counted, smallest, of = self.counted, int(self.given.sizes.min()), max(self.counted, self.given.of)
        knows = f"The intruder knows {', '.join(map(repr, self.given.knows))} of a person, as they are in the original."
        sample = "Counted in a random share of the classes (or persons), each of them whole."
        note = f"{knows} Of the original, not of the release." + (f" {sample}" if counted < of else "")
        values = (self.below(2), self.below(3), self.below(self.k), smallest, 1.0 / smallest, self.average)
        pairs = [*zip(_OF_CLASSES, values, strict=True), *zip(_OF_POPULATION, self.journalist, strict=False)]
        pairs += zip(_OF_WEIGHTS, self.individual, strict=False)
        found = []
        for figure, value in pairs:
            threshold = ALLOWED if figure.baseline_is else None
            found.append(self._of(figure).measured(value, counted, of, baseline=threshold, note=note))
        chances, own = self.given.chances, self.given.own
        if isinstance(chances, Reason) or own is None:
            return tuple(found)
        note = (
            f"{knows} Of the released records that are nearest in these columns (equal in those that are released "
            f"unchanged) one is drawn; in the person's group of n it counts 1/n. {ALLOWED} is the European Medicines "
            "Agency's threshold for what is published."
        )
        sides = zip(_LINKED, (chances, chances[own == 1]), (self.average, 1.0), strict=True)
        for figure, hits, baseline in sides:
            if count := len(hits):
                share, right = math.fsum(hits) / count, math.fsum(hits)
                ends = (None, None) if len(chances) >= of else wilson(right, count)
                found.append(self._of(figure).measured(share, count, of, interval=ends, baseline=baseline, note=note))
        return tuple(found)

    def _of(self, figure: Figure) -> Figure:
        title = figure.title.format(who=f"in scenario {self.name!r}", k=self.k)
        return replace(figure, key=figure.key.replace("*", self.name), title=title)


@dataclass(frozen=True, eq=False)
class KeyMatches:
    """What a part of the release has for those who are looked for by a few columns."""

    squared: FloatArray  # Smallest squared distance in these columns; infinity where no unchanged ones are equal
    ties: IntArray  # Released records at that distance
    own: FloatArray  # Sum of what these count as the own ones

    def merge(self, later: Self) -> Self:
        """Of both parts the nearer ones, and all that are equally near."""
        low = np.minimum(self.squared, later.squared)
        first, second = (each.squared <= reach(low) for each in (self, later))
        return type(self)(
            low,
            np.where(first, self.ties, 0) + np.where(second, later.ties, 0),
            np.where(first, self.own, 0.0) + np.where(second, later.own, 0.0),
        )

    @property
    def chances(self) -> FloatArray:
        """With what chance one of them, drawn at random, is the own one."""
        return self.own / np.maximum(self.ties, 1)


def key_matches(
    points: FloatArray,
    blocks: IntArray,
    owners: IntArray,
    queries: FloatArray,
    own_blocks: IntArray,
    own: tuple[IntArray, IntArray, FloatArray],
) -> KeyMatches:
    """Look for records by the columns of a scenario in a part of the release.

    - `points`, `queries`: features of the masked columns known, shapes (n, width) and (m, width).
    - `blocks`, `own_blocks`: a number of what the unchanged columns known hold, equal where these are.
    - `owners`: of each released record: its own number, or one of its group.
    - `own`: starts, places and weights as of `_nearest_of_block`: what counts as the own record of each.
    """
    order = np.argsort(blocks, kind="stable")
    ordered = blocks[order]
    begins, ends = (np.searchsorted(ordered, own_blocks, side=side) for side in ("left", "right"))
    sorted_points = np.ascontiguousarray(points[order], dtype=np.float64)
    asked = np.ascontiguousarray(queries, dtype=np.float64)
    found = _nearest_of_block(sorted_points, owners[order], begins, ends, asked, *own)
    return KeyMatches(*found)


def _of_release(data: AttackData) -> Measured:
    risks = (ScenarioRisk(name, data.k, one) for name, one in require(data.scenarios).items())
    return [one for risk in risks for one in risk.measurements()]


_FIGURES = (*_OF_CLASSES, *_OF_POPULATION, *_OF_WEIGHTS, *_LINKED)
MEASURE = RiskMeasure("scenarios", "disclosure scenarios on key variables", _FIGURES, _of_release, counts_units=True)


# --- The nearest points of the same block, how many are equally near, and how much of them is one's own ---------------

Squared = TypeVar("Squared", float, FloatArray)

SAME = 1e-9  # Squared distances that differ by no more than this share are equal: their sums are rounded

# So are squared distances that differ by no more than this: coordinates in standard deviations are rounded themselves,
# and where two points lie on the query that would distinguish them
NOUGHT = 1e-24


@register_jitable
def reach(squared: Squared) -> Squared:
    """Up to where squared distances are equal to this smaller one."""
    return squared * (1.0 + SAME) + NOUGHT


@kernel
def _nearest_of_block(
    points: FloatArray,
    owners: IntArray,
    begins: IntArray,
    ends: IntArray,
    queries: FloatArray,
    starts: IntArray,
    places: IntArray,
    weights: FloatArray,
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Search each query's block."""
    m = queries.shape[0]  # Shapes: points (n, width); begins, ends (m,); returns (m,)
    squared, ties, own = np.full(m, np.inf), np.zeros(m, dtype=np.int64), np.zeros(m)
    for q in range(m):
        best = np.inf
        for i in range(begins[q], ends[q]):
            distance = 0.0
            for j in range(queries.shape[1]):
                distance += (points[i, j] - queries[q, j]) ** 2
            if distance > reach(best):
                continue
            if best > reach(distance):
                best, ties[q], own[q] = distance, 0, 0.0
            ties[q] += 1
            for at in range(starts[q], starts[q + 1]):
                if places[at] == owners[i]:
                    own[q] += weights[at]
        squared[q] = best
    return squared, ties, own
