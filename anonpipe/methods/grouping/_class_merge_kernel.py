"""Merging groups until every one holds enough classes in the right shares."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from anonpipe.kernels.points import squared_distances
from anonpipe.methods.grouping._divergence_kernel import entropy, ordered_distance, rounded, total_variation
from anonpipe.types import BoolArray, FloatArray, IntArray

HELP = 0.1  # A merger that only helps is taken where it costs less than this share of the cheapest that mends


class Limits(NamedTuple):
    """What a group must fulfil."""

    distinct: float  # Fewest classes that occur; 1 asks for no more
    entropy: float  # Least entropy in natural units; 0 asks for none
    t: float  # Largest distance from `shares`; 1 allows any
    ordered: bool  # Whether the distance is the ordered one, else total variation
    shares: FloatArray  # Share of each class in the whole table, shape (n_classes,)


@nb.njit(cache=True, nogil=True)
def shortfall(counts: FloatArray, total: float, limits: Limits) -> float:
    """By how much class counts of `total` records break the limits, added up; 0 where they keep them."""
    short = 0.0
    if limits.distinct > 1.0:
        found = 0.0
        for c in range(counts.shape[0]):
            if counts[c] > 0.0:
                found += 1.0
        short += max(0.0, limits.distinct - found)
    if limits.entropy > 0.0:
        short += max(0.0, rounded(limits.entropy) - entropy(counts, total))
    if limits.t < 1.0 and limits.ordered:
        short += max(0.0, ordered_distance(counts, total, limits.shares) - rounded(limits.t))
    elif limits.t < 1.0:
        short += max(0.0, total_variation(counts, total, limits.shares) - rounded(limits.t))
    return short


@nb.njit(cache=True, nogil=True)
def fulfils(counts: FloatArray, total: float, limits: Limits) -> bool:
    """Whether class counts of `total` records keep the limits."""
    return bool(shortfall(counts, total, limits) <= 0.0)


@nb.njit(cache=True, nogil=True)
def merge_groups(means: FloatArray, sizes: FloatArray, counts: FloatArray, limits: Limits) -> IntArray:
    """For each group the lowest number among those it is merged with, shape (n_groups,).

    `means` (width, n_groups), `sizes` (n_groups,) and `counts`
    (n_groups, n_classes) are overwritten. The smallest group that breaks the
    limits, of equals the one of lowest number, is merged with another until
    none is left; `partner` says with which.
    """
    n_groups = sizes.shape[0]
    ids = np.arange(n_groups)
    into = np.arange(n_groups)
    costs = np.empty(n_groups)
    union = np.empty(counts.shape[1])
    wrong = np.empty(n_groups, dtype=np.bool_)
    for g in range(n_groups):
        wrong[g] = not fulfils(counts[g], sizes[g], limits)
    left = n_groups
    a = smallest_wrong(wrong, sizes, ids, left)
    while a >= 0 and left > 1:
        b = partner(means, sizes, counts, ids, left, a, limits, costs, union)
        if ids[b] < ids[a]:
            a, b = b, a
        into[ids[b]] = ids[a]
        take_in(means, sizes, counts, a, b)
        wrong[a] = not fulfils(counts[a], sizes[a], limits)
        left -= 1
        ids[b], sizes[b], wrong[b] = ids[left], sizes[left], wrong[left]
        counts[b] = counts[left]
        means[:, b] = means[:, left]
        a = smallest_wrong(wrong, sizes, ids, left)
    for g in range(n_groups):
        into[g] = into[into[g]]
    return into


@nb.njit(cache=True, nogil=True)
def smallest_wrong(wrong: BoolArray, sizes: FloatArray, ids: IntArray, left: int) -> int:
    """Place of the smallest of the groups that break the limits, or -1."""
    at = -1
    for g in range(left):
        if wrong[g] and (at < 0 or sizes[g] < sizes[at] or (sizes[g] == sizes[at] and ids[g] < ids[at])):
            at = g
    return at


@nb.njit(cache=True, nogil=True)
def partner(
    means: FloatArray,
    sizes: FloatArray,
    counts: FloatArray,
    ids: IntArray,
    left: int,
    a: int,
    limits: Limits,
    costs: FloatArray,
    union: FloatArray,
) -> int:
    """Place of the group that raises the within-group scatter least when group a takes it in.

    Groups that mend a come first, but for a group that brings it nearer to
    the limits for less than `HELP` of the scatter: without these, one large
    group in the right shares would take in all the others one by one. Where
    there is neither, any group will do; of equals the lowest number.
    """
    squared_distances(means, left, means[:, a].copy(), costs)
    for g in range(left):
        costs[g] *= sizes[a] * sizes[g] / (sizes[a] + sizes[g])
    short = shortfall(counts[a], sizes[a], limits)
    mending, helping, other = -1, -1, -1
    for g in range(left):
        if g == a:
            continue
        for c in range(union.shape[0]):
            union[c] = counts[a, c] + counts[g, c]
        after = shortfall(union, sizes[a] + sizes[g], limits)
        if after <= 0.0:
            mending = cheaper(mending, g, costs, ids)
        elif after < short:
            helping = cheaper(helping, g, costs, ids)
        else:
            other = cheaper(other, g, costs, ids)
    if helping >= 0 and (mending < 0 or costs[helping] < HELP * costs[mending]):
        return helping
    return mending if mending >= 0 else other


@nb.njit(cache=True, nogil=True)
def cheaper(best: int, g: int, costs: FloatArray, ids: IntArray) -> int:
    """The one of lower cost, of equals the one of lower number; g where there is no best yet."""
    if best < 0 or costs[g] < costs[best] or (costs[g] == costs[best] and ids[g] < ids[best]):
        return g
    return best


@nb.njit(cache=True, nogil=True)
def take_in(means: FloatArray, sizes: FloatArray, counts: FloatArray, a: int, b: int) -> None:
    """Give group a the records of group b."""
    total = sizes[a] + sizes[b]
    for j in range(means.shape[0]):
        means[j, a] = (sizes[a] * means[j, a] + sizes[b] * means[j, b]) / total
    sizes[a] = total
    for c in range(counts.shape[1]):
        counts[a, c] += counts[b, c]
