"""Categories drawn given the numbers, by latent classes: from columns of -1 and +1 to codes and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from anonpipe.errors import InputError
from anonpipe.methods.mixture import (
    TREE_ROWS,
    ClassConstraints,
    ClassFit,
    ClassStatistics,
    LatentClasses,
    agglomerate,
    bic,
    class_constraints,
    classes_over,
    count_categories,
    evenly_spaced,
    first_classes,
    fit_classes,
    race,
)
from anonpipe.types import FloatArray, IntArray

Columns = tuple[tuple[int, ...], ...]

# Numbers of classes tried, until two in turn do not raise the BIC of their short runs
CLASSES_TRIED = (1, 2, 3, 4, 6, 8, 11, 16)

IDLE = 2  # So many; and so many in turn of those that go on to their end and are not the best end the choice

SHORT_PASSES = 25  # Of a short run

LONG_PASSES = 200  # The most that a run takes in all

TOLERANCE = 1e-5  # A pass that changes the log-likelihood by less than this part is the last

MOST_PASSES = 20  # Passes over the larger sample, where estimates are only sharpened


def starts_of(columns: Columns) -> IntArray:
    """Where the categories of each attribute begin; one column stands for two categories.

    Examples
    --------
    >>> starts_of(((4,), (5, 6, 7))).tolist()
    [0, 2, 5]
    """
    return np.cumsum([0, *(max(2, len(each)) for each in columns)])


def category_codes(features: FloatArray, columns: Columns) -> IntArray:
    """The category of each record in each attribute, shape (n_rows, n_attributes).

    Examples
    --------
    >>> category_codes(np.array([[1.0, -1.0, 1.0]]), ((0,), (1, 2))).tolist()
    [[1, 1]]
    """
    codes = np.empty((len(features), len(columns)), dtype=np.int64)
    for at, each in enumerate(columns):
        part = features[:, each]
        if not (np.abs(part) == 1.0).all() or (len(each) > 1 and ((part > 0).sum(axis=1) != 1).any()):
            raise InputError(
                "columns of a category hold other numbers than -1 and +1, or not one +1 a record; "
                "code each category of an attribute in a column of its own, or two in one column"
            )
        codes[:, at] = part[:, 0] > 0 if len(each) == 1 else part.argmax(axis=1)
    return codes


def dummies(codes: IntArray, columns: Columns, out: FloatArray) -> None:
    """Write the columns of -1 and +1 of the codes into their places."""
    rows = np.arange(len(codes))
    for at, each in enumerate(columns):
        if len(each) == 1:
            out[:, each[0]] = 2.0 * codes[:, at] - 1.0
        else:
            out[:, each] = -1.0
            out[rows, np.array(each)[codes[:, at]]] = 1.0


def choose_categories(
    scores: FloatArray,
    codes: IntArray,
    starts: IntArray,
    k: int,
    n_rows: int,
    classes: int | None,
) -> tuple[LatentClasses, ClassConstraints]:
    """Latent classes of a sample, so many or the number of the largest BIC.

    Notes
    -----
    The authors take as many classes as the numbers have components. Then a
    table with one component has categories that are independent given the
    numbers. Here the number has a BIC of its own, and the first groups are of
    numbers and categories together.
    """
    most = max(1, min((n_rows - 1) // k, len(scores)))
    tried = [g for g in CLASSES_TRIED if g <= most] if classes is None else [min(classes, most)]
    few = evenly_spaced(len(scores), max(TREE_ROWS, tried[-1]))
    seen = np.concatenate([scores[few], _indicators(codes[few], starts)], axis=1)
    levels = agglomerate(seen, tried[-1])[0]
    expect = classes_over([(scores, codes)])
    short: list[_Run] = []
    for number in tried:
        labels = levels[number - 1]
        groups = int(labels.max()) + 1
        bounds = class_constraints(k, n_rows, groups)
        tables = count_categories(codes[few], labels, groups, starts)
        start = first_classes(tables, np.bincount(labels).astype(np.float64), starts, scores.shape[1], bounds)
        found = fit_classes(expect, start, bounds, tolerance=TOLERANCE, iterations=SHORT_PASSES)
        short.append(_Run(found, bounds, len(scores)))
        criteria = [run.bic for run in short]
        if len(short) - 1 - int(np.argmax(criteria)) == IDLE:
            break
    best = max(race(short, lambda run: run.bic, lambda run: run.ended(expect), IDLE), key=lambda run: run.bic)
    return best.fit.classes, best.bounds


@dataclass(frozen=True, eq=False)
class _Run:
    """The fit of a number of classes so far."""

    fit: ClassFit
    bounds: ClassConstraints
    rows: int

    @property
    def bic(self) -> float:
        slopes, starts = self.fit.classes.slopes, self.fit.classes.starts
        free = (len(slopes) - 1) * slopes.shape[1] + len(slopes) * int((np.diff(starts) - 1).sum())
        return bic(self.fit.log_likelihoods[-1], free, self.rows)

    def ended(self, expect: Callable[[LatentClasses], ClassStatistics]) -> _Run:
        """The same, fitted to its end."""
        if self.fit.converged:
            return self
        left = LONG_PASSES - SHORT_PASSES + 1
        found = fit_classes(expect, self.fit.classes, self.bounds, tolerance=TOLERANCE, iterations=left)
        return replace(self, fit=found)


def sharpened(scores: FloatArray, codes: IntArray, found: LatentClasses, bounds: ClassConstraints) -> LatentClasses:
    """The classes fitted on, to a larger sample."""
    expect = classes_over([(scores, codes)])
    return fit_classes(expect, found, bounds, tolerance=TOLERANCE, iterations=MOST_PASSES).classes


def _indicators(codes: IntArray, starts: IntArray) -> FloatArray:
    """One column a category, 1 where a record has it."""
    out = np.zeros((len(codes), int(starts[-1])))
    for at, low in enumerate(starts[:-1]):
        out[np.arange(len(codes)), low + codes[:, at]] = 1.0
    return out
