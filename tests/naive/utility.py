"""Slow, literal twins of the measures of single columns and pairs of columns: lists and loops, None for nulls."""

from __future__ import annotations

import itertools
import math
import statistics

from tests.naive.measure import correlation


def ks_distance(original, released):
    """Largest difference of the shares of values up to any place."""
    return max(
        abs(sum(x <= place for x in original) / len(original) - sum(y <= place for y in released) / len(released))
        for place in [*original, *released]
    )


def wasserstein_distance(original, released):
    """Copies of both to equal length, matched in order."""
    old = sorted(x for x in original for _ in released)
    new = sorted(y for y in released for _ in original)
    return statistics.fmean(abs(x - y) for x, y in zip(old, new, strict=True)) / statistics.pstdev(original)


def hellinger_distance(original, released):
    levels = set(original) | set(released)
    overlap = sum(
        math.sqrt(original.count(level) / len(original) * released.count(level) / len(released)) for level in levels
    )
    return math.sqrt(max(0.0, 1 - overlap))


def total_variation(original, released):
    levels = {*original, *released}
    shares = [{level: side.count(level) / len(side) for level in levels} for side in (original, released)]
    return sum(abs(shares[0][level] - shares[1][level]) for level in levels) / 2


def known_pairs(x, y):
    return [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]


def pairwise_correlation(x, y):
    """None where a column is constant in the records of the pair."""
    pairs = known_pairs(x, y)
    if len(pairs) < 2 or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return None
    return correlation(*zip(*pairs, strict=True))


def correlation_ratio(categories, numbers):
    pairs = known_pairs(categories, numbers)
    if len({b for _, b in pairs}) < 2:
        return None
    middle = statistics.fmean(b for _, b in pairs)
    between = sum((statistics.fmean(d for c, d in pairs if c == a) - middle) ** 2 for a, _ in pairs)
    return math.sqrt(between / sum((b - middle) ** 2 for _, b in pairs))


def contingency_distance(original, released):
    return total_variation(*([pair for pair in table if None not in pair] for table in (original, released)))


def il1s(original, released):
    """Of one column without nulls."""
    moved = [abs(b - a) for a, b in zip(original, released, strict=True)]
    return sum(m / (math.sqrt(2) * statistics.stdev(original)) for m in moved) / len(moved)


def auc(positives, negatives):
    return statistics.fmean(
        1.0 if high > low else 0.5 if high == low else 0.0 for high, low in itertools.product(positives, negatives)
    )


def delong_variance(positives, negatives):
    """Variances of the structural components of either group, over their numbers."""
    total = 0.0
    for group, of in (
        (positives, lambda high: auc([high], negatives)),
        (negatives, lambda low: auc(positives, [low])),
    ):
        total += statistics.variance([of(score) for score in group]) / len(group)
    return total


def subgroup_changes(original, released, least):
    """By category with enough records: (change in deviations, change in standard errors)."""
    old, new = known_pairs(*original), known_pairs(*released)
    whole = statistics.stdev([b for _, b in old])
    found = {}
    for level in sorted({a for a, _ in old}):
        before, after = ([b for a, b in side if a == level] for side in (old, new))
        if len(before) < least:
            continue
        change = abs(statistics.fmean(after) - statistics.fmean(before)) if after else math.inf
        error = statistics.stdev(before) / math.sqrt(len(before)) if len(set(before)) > 1 else 0.0
        found[level] = (change / whole, change / error if error else math.nan)
    return found


def tree_pmse(leaves, ones):
    """From the leaf of every record."""
    share = sum(ones) / len(ones)
    total = 0.0
    for leaf in leaves:
        inside = [one for other, one in zip(leaves, ones, strict=True) if other == leaf]
        total += (sum(inside) / len(inside) - share) ** 2
    return total / len(ones)
