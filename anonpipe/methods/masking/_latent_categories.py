"""Categories drawn given the numbers, by latent classes: from columns of -1 and +1 to codes and back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anonpipe.errors import InputError
from anonpipe.methods.mixture import (
    ClassConstraints,
    ClassStatistics,
    LatentClasses,
    agglomerate,
    bic,
    class_constraints,
    class_e_step,
    class_m_step,
    classes_over,
    count_categories,
    first_classes,
    fit_classes,
)
from anonpipe.types import FloatArray, IntArray

Columns = tuple[tuple[int, ...], ...]

CLASSES_TRIED = (1, 2, 3, 4, 6, 8, 11, 16)
"""Numbers of classes tried, until two in turn do not raise the BIC."""

TOLERANCE = 1e-5
"""A pass that changes the log-likelihood by less than this part is the last."""

MOST_PASSES = 10
"""Passes over a table larger than its sample, where the estimates of the sample are only sharpened."""


@dataclass(frozen=True, eq=False)
class Categories:
    """Latent classes in the making.

    Attributes
    ----------
    classes, bounds
        The present estimates, and what they keep to.
    log_likelihood, passes, settled
        Of the last pass over the table, how many there were, and whether
        there is no other.
    """

    classes: LatentClasses
    bounds: ClassConstraints
    log_likelihood: float
    passes: int
    settled: bool


def starts_of(columns: Columns) -> IntArray:
    """Where the categories of each attribute begin; one column stands for two categories.

    Examples
    --------
    >>> starts_of(((4,), (5, 6, 7))).tolist()
    [0, 2, 5]
    """
    return np.cumsum([0, *(max(2, len(each)) for each in columns)])


def category_codes(points: FloatArray, columns: Columns) -> IntArray:
    """The category of each record in each attribute, shape (n_rows, n_attributes).

    Raises
    ------
    InputError
        The columns hold other numbers than -1 and +1, or several +1 for one attribute.

    Examples
    --------
    >>> category_codes(np.array([[1.0, -1.0, 1.0]]), ((0,), (1, 2))).tolist()
    [[1, 1]]
    """
    codes = np.empty((len(points), len(columns)), dtype=np.int64)
    for at, each in enumerate(columns):
        part = points[:, each]
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
    *,
    settled: bool,
) -> Categories:
    """Latent classes of a sample, so many or the number of the largest BIC.

    Parameters
    ----------
    scores, codes
        Numbers and categories of the sample.
    starts
        See `starts_of`.
    k, n_rows
        Smallest size of a group, records of the table.
    classes
        How many; None to choose.
    settled
        Whether the sample is the whole table.

    Notes
    -----
    The authors take as many classes as the numbers have components. Then a
    table with one component has categories that are independent given the
    numbers. Here the number has a BIC of its own, and the first groups are of
    numbers and categories together.
    """
    most = max(1, min((n_rows - 1) // k, len(scores)))
    tried = [g for g in CLASSES_TRIED if g <= most] if classes is None else [min(classes, most)]
    levels = agglomerate(np.concatenate([scores, _indicators(codes, starts)], axis=1), tried[-1])
    best: tuple[float, Categories] | None = None
    idle = 0
    for number in tried:
        labels = levels[number - 1]
        groups = int(labels.max()) + 1
        bounds = class_constraints(k, n_rows, groups)
        sizes = np.bincount(labels).astype(np.float64)
        start = first_classes(count_categories(codes, labels, groups, starts), sizes, starts, scores.shape[1], bounds)
        found = fit_classes(classes_over([(scores, codes)]), start, bounds, tolerance=TOLERANCE)
        free = (groups - 1) * (1 + scores.shape[1]) + groups * int((np.diff(starts) - 1).sum())
        criterion = bic(found.log_likelihoods[-1], free, len(scores))
        if best is None or criterion > best[0]:
            best, idle = (criterion, Categories(found.classes, bounds, -math.inf, 0, settled)), 0
        else:
            idle += 1
        if idle == 2:
            break
    assert best is not None
    return best[1]


def _indicators(codes: IntArray, starts: IntArray) -> FloatArray:
    """One column a category, 1 where a record has it."""
    out = np.zeros((len(codes), int(starts[-1])))
    for at, low in enumerate(starts[:-1]):
        out[np.arange(len(codes)), low + codes[:, at]] = 1.0
    return out


def count_classes(scores: FloatArray, codes: IntArray, found: Categories) -> ClassStatistics:
    """The sums of a part that the next estimates are made of; of no records where none are wanted."""
    n = 0 if found.settled else len(scores)
    return class_e_step(scores[:n], codes[:n], found.classes, curvature=False)


def learn_classes(statistics: ClassStatistics, found: Categories) -> Categories:
    """The next estimates.

    The steps are the safe ones: for a whole table second derivatives cost as
    many additions a record as there are pairs of slopes.
    """
    if found.settled:
        return found
    passes, before, now = found.passes + 1, found.log_likelihood, statistics.log_likelihood
    settled = passes == MOST_PASSES or (passes > 1 and abs(now - before) <= TOLERANCE * (1.0 + abs(now)))
    classes = found.classes if settled else class_m_step(statistics, found.classes, found.bounds, newton=False)
    return replace(found, classes=classes, log_likelihood=now, passes=passes, settled=settled)


RECORDS: tuple[type[Any], ...] = (Categories, ClassConstraints, ClassStatistics, LatentClasses)
"""What these steps leave on disk."""
