"""Synthetic dummy columns as categories again.

Lasko & Vinterbo 2010 (DOI 10.1109/TKDE.2009.88), section III: dummies are -1
and +1, an inverse logit and a normalisation make them a distribution over the
categories, from which the most probable one is taken or one is drawn. Both
distort shares badly: drawing turns an unmasked 5 % into 29 %, and the most
probable category of means of five turns it into next to nothing. The
calibrated ways keep the counts instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from anonpipe.kernels.categories import assign_by_counts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def probabilities(points: FloatArray) -> FloatArray:
    """Distribution over the categories, one row a record (section III).

    Parameters
    ----------
    points
        The dummies, shape (n, q); one column alone stands for two categories,
        its high values for the second.

    Returns
    -------
    numpy.ndarray
        Shape (n, q), or (n, 2) for one column; rows add up to 1.

    Examples
    --------
    >>> probabilities(np.array([[-2.5, -1.5, 0.41]])).round(2).tolist()
    [[0.09, 0.21, 0.7]]
    """
    if points.shape[1] == 1:
        return np.asarray(expit(np.concatenate([-points, points], axis=1)))
    logarithms = log_expit(points)
    weights = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights)


def most_probable(chances: FloatArray) -> IntArray:
    """The category of highest probability of each record, the first of equals, shape (n,).

    Examples
    --------
    >>> most_probable(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, 0]
    """
    return np.asarray(chances.argmax(axis=1), dtype=np.int64)


def sampled(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """A category drawn from each record's distribution, shape (n,).

    Examples
    --------
    >>> sampled(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(1)).tolist()
    [1, 0]
    """
    edges = np.cumsum(chances, axis=1)[:, :-1]
    return np.asarray((rng.random(len(chances))[:, None] >= edges).sum(axis=1), dtype=np.int64)


def calibrated(scores: FloatArray, order: IntArray, starts: IntArray, targets: IntArray) -> IntArray:
    """Categories such that each group has exactly the wanted count of each.

    From the rarest category of all to the commonest, each takes in every
    group the wanted number of records that fit it best among those left;
    ties go to the earlier record.

    Parameters
    ----------
    scores
        How well each category fits each record, shape (n, q).
    order, starts
        The groups (`anonpipe.kernels.groups.sort_groups`).
    targets
        Wanted records of each category in each group, shape (n_groups, q).

    Returns
    -------
    numpy.ndarray
        Shape (n,).

    Raises
    ------
    ValueError
        The targets of a group do not add up to its size.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
    >>> calibrated(scores, np.arange(3), np.array([0, 3]), np.array([[2, 1]])).tolist()
    [0, 1, 0]
    """
    if (targets < 0).any() or (targets.sum(axis=1) != np.diff(starts)).any():
        raise ValueError("the targets of every group are counts that add up to its size")
    sequence = np.argsort(targets.sum(axis=0), kind="stable")
    whole = np.ascontiguousarray(targets, dtype=np.int64)
    return np.asarray(assign_by_counts(np.ascontiguousarray(scores), order, starts, whole, sequence))


def calibrated_groups(chances: FloatArray, sizes: IntArray, totals: IntArray) -> IntArray:
    """One category for all records of a group, with counts over all groups as near as possible to the wanted.

    From the rarest category to the commonest, each takes whole groups in
    falling order of probability, as many as bring its count of records
    nearest to its total (of two equally near, the fewer). The commonest takes
    the rest.

    Parameters
    ----------
    chances
        Probability of each category in each group, shape (n_groups, q).
    sizes
        Records of each group, shape (n_groups,).
    totals
        Wanted records of each category, shape (q,).

    Returns
    -------
    numpy.ndarray
        Shape (n_groups,).

    Examples
    --------
    >>> chances = np.array([[0.8, 0.2], [0.6, 0.4], [0.9, 0.1], [0.9, 0.1]])
    >>> calibrated_groups(chances, np.array([5, 5, 5, 5]), np.array([16, 4])).tolist()
    [0, 1, 0, 0]
    """
    sequence = np.argsort(totals, kind="stable")
    chosen = np.full(len(sizes), sequence[-1], dtype=np.int64)
    free = np.arange(len(sizes))
    for category in sequence[:-1]:
        ranked = np.argsort(-chances[free, category], kind="stable")
        reached = np.append(0, np.cumsum(sizes[free[ranked]]))
        taken = ranked[: np.abs(reached - totals[category]).argmin()]
        chosen[free[taken]] = category
        free = np.delete(free, taken)
    return chosen
