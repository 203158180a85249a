"""Synthetic dummy columns as categories again.

Lasko & Vinterbo 2010 (DOI 10.1109/TKDE.2009.88), section III: an inverse logit and a normalisation of dummies of -1 and
+1 make a distribution, from which the most probable category is taken or one is drawn. Both distort shares badly:
drawing turns an unmasked 5 % into 29 %. The calibrated ways keep the counts instead, or of probabilities their means.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import largest_group, split_rows
from anonpipe.types import FloatArray, IntArray

_ROUNDS = 1_000
_CLOSE = 1e-9
_LEAST = 1e-30


def probabilities(features: FloatArray) -> FloatArray:
    """Distribution over the categories, one row a record (section III); features (n, q), returns (n, q)."""
    if features.shape[1] == 1:
        return np.asarray(expit(np.concatenate([-features, features], axis=1)))
    logarithms = log_expit(features)
    weights = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights)


def sampled(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """A category drawn from each record's distribution, shape (n,)."""
    edges = np.cumsum(chances, axis=1)[:, :-1]
    return np.asarray((rng.random(len(chances))[:, None] >= edges).sum(axis=1), dtype=np.int64)


def calibrated(scores: FloatArray, order: IntArray, starts: IntArray, targets: IntArray) -> IntArray:
    """Categories such that each group has exactly the wanted count of each; scores (n, q), targets (n_groups, q)."""
    # From the rarest category of all to the commonest, each takes in every group the wanted number of records that fit
    # it best among those left; ties go to the earlier record.
    if (targets < 0).any() or (targets.sum(axis=1) != np.diff(starts)).any():
        raise ValueError("the targets of every group are counts that add up to its size")
    sequence = np.argsort(targets.sum(axis=0), kind="stable")
    whole = np.ascontiguousarray(targets, dtype=np.int64)
    return np.asarray(_assign_by_counts(np.ascontiguousarray(scores), order, starts, whole, sequence))


def calibrated_groups(chances: FloatArray, sizes: IntArray, totals: IntArray) -> IntArray:
    """One category for all records of a group, shape (n_groups,), with total counts as near as possible to the wanted.

    From the rarest category to the commonest, each takes whole groups in falling order of probability, as many as bring
    its count of records nearest to its total. The commonest takes the rest. Shapes: chances (n_groups, q), totals (q,).
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


def calibrated_probabilities(
    chances: FloatArray, shares: FloatArray, sizes: IntArray | FloatArray | None = None
) -> FloatArray:
    """Distributions whose means over the records are the wanted shares; chances (n, q), shares (q,), sizes (n,)."""
    # Every category gets a factor, the same for all records, and the distributions are normalised again: of two
    # categories the logits of all records are shifted by one number. Factors are found by fitting means and sums in
    # turn.
    weights = np.ones(len(chances)) if sizes is None else sizes.astype(np.float64)
    weights /= weights.sum()
    base = np.where(shares > 0.0, np.maximum(chances, _LEAST), 0.0)
    made = base / base.sum(axis=1, keepdims=True)
    factors = np.ones(len(shares))
    for _ in range(_ROUNDS):
        means = weights @ made
        if np.abs(means - shares).max() <= _CLOSE:
            break
        factors *= np.divide(shares, means, out=np.zeros_like(means), where=means > 0.0)
        factors /= factors.max()
        made = base * factors
        made /= made.sum(axis=1, keepdims=True)
    return np.asarray(made)


def rounded(chances: FloatArray, units: int, rng: np.random.Generator) -> IntArray:
    """Distributions in whole units, up or down, such that every record's add up and no mean is shifted."""
    # With a shift u of a record, drawn from 0 to 1, the cumulated units C become the whole part of C + u. Each
    # probability is then rounded to one of its two neighbours, up with the chance that is its remainder. (The largest
    # remainders of each record would always lose a category that is rare in all records.)
    cumulated = np.minimum(np.cumsum(chances, axis=1), 1.0) * units
    cumulated = np.where(cumulated > units - 1e-9, units, cumulated)
    whole = np.floor(cumulated + rng.random(len(chances))[:, None]).astype(np.int64)
    return np.diff(whole, axis=1, prepend=0)


_SORT_FROM = 64


@kernel
def _assign_by_counts(
    scores: FloatArray, order: IntArray, starts: IntArray, targets: IntArray, sequence: IntArray
) -> IntArray:
    """Give exactly targets[g, c] records of group g the category c; scores (n, q), targets (n_groups, q)."""
    chosen = np.empty(len(scores), dtype=np.int64)
    free = np.empty(largest_group(starts), dtype=np.int64)
    for group in range(len(starts) - 1):
        count = starts[group + 1] - starts[group]
        for i in range(count):
            free[i] = order[starts[group] + i]
        for category in sequence:
            wanted = targets[group, category]
            if wanted == 0:
                continue
            if wanted < count:
                _bring_forward(free[:count], scores, category, wanted)
            for i in range(wanted):
                chosen[free[i]] = category
            for i in range(wanted, count):
                free[i - wanted] = free[i]
            count -= wanted
    return chosen


@kernel
def _bring_forward(free: IntArray, scores: FloatArray, category: int, wanted: int) -> None:
    """Move the `wanted` best records of a category to the front; all others keep their order."""
    count = len(free)
    if count < _SORT_FROM:
        for rank in range(wanted):
            best_at = rank
            for i in range(rank + 1, count):
                if scores[free[i], category] > scores[free[best_at], category]:
                    best_at = i
            row = free[best_at]
            for i in range(best_at, rank, -1):
                free[i] = free[i - 1]
            free[rank] = row
        return
    values = np.empty(count, dtype=np.float64)
    for i in range(count):
        values[i] = -scores[free[i], category]
    split_rows(free, values, wanted)
