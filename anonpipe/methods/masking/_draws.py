"""A random sample of a table in parts, the same however the parts are worked on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from anonpipe.errors import InputError
from anonpipe.kernels.points import places
from anonpipe.methods import latent_classes as latent
from anonpipe.methods import mixture as mixtures
from anonpipe.types import FloatArray, IntArray

_KEYS = 2**62


@dataclass(frozen=True, eq=False)
class DrawnSample:
    """Of records with random keys the `size` with the smallest ones, in the order of the keys."""

    size: int  # Most records
    keys: IntArray  # Shape (n_rows,)
    # scores, codes: what is known of each record, shapes (n_rows, width) and (n_rows, n_attributes)
    scores: FloatArray
    codes: IntArray

    def merge(self, other: Self) -> Self:
        """Of both samples the records with the smallest keys."""
        both = (np.concatenate([getattr(part, name) for part in (self, other)]) for name in ("keys", "scores", "codes"))
        return self._first(self.size, *both)

    @classmethod
    def of(cls, scores: FloatArray, codes: IntArray, size: int, rows: int, rng: np.random.Generator) -> Self:
        """The records of a part that may be in the sample of a table of so many `rows`."""
        # Keys are uniform: above the sample's share, and six standard deviations of it, they need not leave their part.
        keys = rng.integers(_KEYS, size=len(scores))
        share = min(1.0, (size + 6 * math.sqrt(size)) / rows)
        near = keys <= int(share * _KEYS)
        return cls._first(size, keys[near], scores[near], codes[near])

    def first(self, rows: int) -> Self:
        """The smaller sample of so many."""
        return type(self)(min(rows, self.size), self.keys[:rows], self.scores[:rows], self.codes[:rows])

    @classmethod
    def _first(cls, size: int, keys: IntArray, scores: FloatArray, codes: IntArray) -> Self:
        chosen = np.argsort(keys, kind="stable")[:size]
        return cls(size, keys[chosen], scores[chosen], codes[chosen])


# --- Averages of neighbouring order statistics: what a column may hand on without handing on values of single persons -


def averaged_by_rank(column: FloatArray, k: int) -> FloatArray:
    """The values of a column in ascending order, none of which fewer than k records hold, shape (n,)."""
    # A value that k or more records hold stays. Between two such values the others are averaged over blocks of k to
    # 2k - 1 neighbours, which keeps their mean. Fewer than k together become the nearer of the two: an average with
    # copies of a known value would give them away, as (0, 0, 0, 0, x)/5 gives x.
    ordered = np.sort(column)
    if k <= 1 or not len(ordered):
        return ordered
    ties = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    common = np.diff(np.append(ties, len(ordered))) >= k
    # runs of distinct values that are all common, each alone, or all rare, together
    begins = np.flatnonzero(np.append(True, common[1:] | common[:-1]))
    starts, rare = ties[begins], ~common[begins]
    sizes = np.diff(np.append(starts, len(ordered)))
    if len(starts) == 1 and sizes[0] < k:
        return np.full(len(ordered), ordered.mean())
    starts, sizes = _blocks(starts, np.where(rare, np.maximum(1, sizes // k), 1), sizes)
    # of a value that many hold exactly itself: a mean of equal numbers is rounded
    means = np.add.reduceat(ordered, starts) / sizes
    value = np.where(ordered[starts] == ordered[starts + sizes - 1], ordered[starts], means)
    few = np.flatnonzero(sizes < k)
    value[few] = _nearer(value, few)
    return np.repeat(value, sizes)


def _blocks(starts: IntArray, parts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Runs cut into parts whose sizes differ by one at most: where each begins, and its size."""
    whole, place = places(parts)
    begins = starts[whole] + place * sizes[whole] // parts[whole]
    return begins, np.diff(np.append(begins, starts[-1] + sizes[-1]))


def _nearer(value: FloatArray, few: IntArray) -> FloatArray:
    """Of each of some blocks the value of the nearer neighbour: small blocks stand between common values."""
    below = np.where(few > 0, value[np.maximum(few - 1, 0)], -np.inf)
    above = np.where(few + 1 < len(value), value[np.minimum(few + 1, len(value) - 1)], np.inf)
    return np.where(value[few] - below <= above - value[few], below, above)


# --- Categories drawn given the numbers, by latent classes: from columns of -1 and +1 to codes and back ---------------

Categories = tuple[tuple[int, ...], ...]  # The columns, in -1 and +1, of each categorical attribute

# Numbers of classes tried, until two in turn do not raise the BIC of their short runs
_CLASSES_TRIED = (1, 2, 3, 4, 6, 8, 11, 16)
_IDLE = 2  # So many; and so many in turn of those that go on to their end and are not the best end the choice

_MOST_PASSES = 20  # Passes over the larger sample, where estimates are only sharpened


def starts_of(columns: Categories) -> IntArray:
    """Where the categories of each attribute begin; one column stands for two categories."""
    return np.cumsum([0, *(max(2, len(each)) for each in columns)])


def category_codes(features: FloatArray, columns: Categories) -> IntArray:
    """The category of each record in each attribute, shape (n_rows, n_attributes)."""
    codes = np.empty((len(features), len(columns)), dtype=np.int64)
    for at, each in enumerate(columns):
        part = features[:, each]
        if not (np.abs(part) == 1.0).all() or (len(each) > 1 and ((part > 0).sum(axis=1) != 1).any()):
            raise InputError(
                "columns of a category are not coded: they hold other numbers than -1 and +1, or not one +1 a record; "
                "code each category of an attribute in a column of its own, or two in one column"
            )
        codes[:, at] = part[:, 0] > 0 if len(each) == 1 else part.argmax(axis=1)
    return codes


def dummies(codes: IntArray, columns: Categories, out: FloatArray) -> None:
    """Write the columns of -1 and +1 of the codes into their places."""
    rows = np.arange(len(codes))
    for at, each in enumerate(columns):
        if len(each) == 1:
            out[:, each[0]] = 2.0 * codes[:, at] - 1.0
        else:
            out[:, each] = -1.0
            out[rows, np.array(each)[codes[:, at]]] = 1.0


def fit_categories(
    few: DrawnSample, sample: DrawnSample, starts: IntArray, k: int, n_rows: int, classes: int | None
) -> latent.LatentClasses:
    """Latent classes, so many or the number of the largest BIC of a few records, fitted on to the larger sample."""
    # The authors take as many classes as the numbers have components. With one component the categories would be
    # independent given the numbers, so here the number has a BIC of its own, and first groups see both.
    scores, codes = few.scores, few.codes
    most = max(1, min((n_rows - 1) // k, len(scores)))
    tried = [g for g in _CLASSES_TRIED if g <= most] if classes is None else [min(classes, most)]
    rows = mixtures.evenly_spaced(len(scores), max(mixtures.TREE_ROWS, tried[-1]))
    indicators = [codes[rows, at, None] == np.arange(size) for at, size in enumerate(np.diff(starts))]
    seen = np.concatenate([scores[rows], *indicators], axis=1)
    levels = mixtures.agglomerate(seen, tried[-1])[0]
    short: list[_CategoryRun] = []
    for number in tried:
        labels = levels[number - 1]
        groups = int(labels.max()) + 1
        least = mixtures.least_weight(k, n_rows, groups, "classes")
        tables = latent.count_categories(codes[rows], labels, groups, starts)
        start = latent.first_classes(tables, np.bincount(labels).astype(np.float64), starts, scores.shape[1])
        found = latent.fit_classes(
            scores, codes, start, least, tolerance=mixtures.TOLERANCE, iterations=mixtures.SHORT_PASSES
        )
        short.append(_CategoryRun(found, least, len(scores)))
        criteria = [run.bic for run in short]
        if len(short) - 1 - int(np.argmax(criteria)) == _IDLE:
            break
    best = max(
        mixtures.race(short, lambda run: run.bic, lambda run: run.ended(scores, codes), _IDLE), key=lambda run: run.bic
    )
    chosen = best.fit.classes
    if len(sample.keys) > len(few.keys):
        begun = sample.scores, sample.codes, chosen, best.least_weight
        chosen = latent.fit_classes(*begun, tolerance=mixtures.TOLERANCE, iterations=_MOST_PASSES).classes
    return chosen


@dataclass(frozen=True, eq=False)
class _CategoryRun:
    """The fit of a number of classes so far."""

    fit: latent.ClassFit
    least_weight: float  # No class's weight falls below it
    rows: int

    @property
    def bic(self) -> float:
        slopes, starts = self.fit.classes.slopes, self.fit.classes.starts
        free = (len(slopes) - 1) * slopes.shape[1] + len(slopes) * int((np.diff(starts) - 1).sum())
        return mixtures.bic(self.fit.log_likelihoods[-1], free, self.rows)

    def ended(self, scores: FloatArray, codes: IntArray) -> _CategoryRun:
        """The same, fitted to its end."""
        if self.fit.converged:
            return self
        left, begun = mixtures.LONG_PASSES - mixtures.SHORT_PASSES + 1, (self.fit.classes, self.least_weight)
        found = latent.fit_classes(scores, codes, *begun, tolerance=mixtures.TOLERANCE, iterations=left)
        return replace(self, fit=found)
