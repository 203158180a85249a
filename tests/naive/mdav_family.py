"""Slow, literal twins of MDAV and its relatives: lists, loops, every mean and distance computed anew."""

from __future__ import annotations

from itertools import combinations
from math import fsum, sqrt

import numpy as np


def _squared(a, b):
    total = 0.0
    for p, q in zip(a, b, strict=True):
        total += float(p - q) ** 2
    return total


def _mean(points, rows):
    return [fsum(float(points[i][j]) for i in rows) / len(rows) for j in range(len(points[0]))]


def _furthest(points, left, point):
    return min(left, key=lambda i: (-_squared(points[i], point), i))


def _take_nearest(points, left, point, k):
    group = sorted(left, key=lambda i: (_squared(points[i], point), i))[:k]
    for i in group:
        left.remove(i)
    return group


def _labels(points, groups):
    labels = np.full(len(points), -1)
    for g, group in enumerate(groups):
        labels[group] = g
    return labels


def _join_nearest(points, groups, left):
    """Each by itself; the means stay as they were."""
    means = [_mean(points, group) for group in groups]
    for i in left:
        nearest = min(range(len(groups)), key=lambda g: (_squared(points[i], means[g]), g))
        groups[nearest].append(i)


def _pairs(points, k, least):
    left = list(range(len(points)))
    groups = []
    while len(left) >= least:
        r = points[_furthest(points, left, _mean(points, left))]
        s = points[_furthest(points, left, r)]
        groups.append(_take_nearest(points, left, r, k))
        groups.append(_take_nearest(points, left, s, k))
    return groups, left


def _outermost(points, left, k):
    return _take_nearest(points, left, points[_furthest(points, left, _mean(points, left))], k)


def mdav(points, k):
    groups, left = _pairs(points, k, 2 * k)
    if len(left) >= k:
        groups.append(left)
    else:
        _join_nearest(points, groups, left)
    return _labels(points, groups)


def mdav_generic(points, k):
    groups, left = _pairs(points, k, 3 * k)
    if len(left) >= 2 * k:
        groups.append(_outermost(points, left, k))
    groups.append(left)
    return _labels(points, groups)


def mdav_1(points, k):
    groups, left = _pairs(points, k, 2 * k)
    if len(left) >= k:
        groups.append(_outermost(points, left, k))
    _join_nearest(points, groups, left)
    return _labels(points, groups)


def cbfs(points, k):
    left = list(range(len(points)))
    groups = []
    while len(left) >= k:
        groups.append(_outermost(points, left, k))
    _join_nearest(points, groups, left)
    return _labels(points, groups)


def _distant_pairs(points, k):
    left = list(range(len(points)))
    groups = []
    while len(left) >= 2 * k:
        if k == 1 and len(left) == 1:
            break
        a, b = min(combinations(left, 2), key=lambda pair: (-_squared(points[pair[0]], points[pair[1]]), pair))
        mean = _mean(points, left)
        if _squared(points[b], mean) > _squared(points[a], mean):
            a, b = b, a
        groups.append(_take_nearest(points, left, points[a], k))
        groups.append(_take_nearest(points, left, points[b], k))
    return groups, left


def md(points, k):
    groups, left = _distant_pairs(points, k)
    if len(left) >= k:
        groups.append(left)
    elif left:
        mean = _mean(points, left)
        nearest = min(range(len(groups)), key=lambda g: (_squared(_mean(points, groups[g]), mean), g))
        groups[nearest] += left
    return _labels(points, groups)


def diameter_fixed(points, k):
    groups, left = _distant_pairs(points, k)
    if len(left) >= k:
        groups.append(left)
    else:
        _join_nearest(points, groups, left)
    return _labels(points, groups)


def v_mdav(points, k, gamma=0.2):
    left = list(range(len(points)))
    mean = _mean(points, left)
    groups = []
    while len(left) >= k:
        group = _take_nearest(points, left, points[_furthest(points, left, mean)], k)
        while len(group) < 2 * k - 1 and len(left) >= 2:
            inside, e = min((min(_squared(points[i], points[m]) for m in group), i) for i in left)
            outside = min(_squared(points[i], points[e]) for i in left if i != e)
            if not sqrt(inside) < gamma * sqrt(outside):
                break
            group.append(e)
            left.remove(e)
        groups.append(group)
    _join_nearest(points, groups, left)
    return _labels(points, groups)


def pairwise_systematic(points, k):
    means = points.mean(axis=0)
    left = list(range(len(points)))
    groups = []

    def in_order():
        return sorted(left, key=lambda i: (sum(points[i][j] - means[j] for j in range(len(means))), i))

    def grow(seed):
        group = [seed]
        while len(group) < k:
            mean = _mean(points, group)
            group.append(min(left, key=lambda i: (_squared(points[i], mean), i)))
            left.remove(group[-1])
        groups.append(group)

    while len(left) >= 3 * k:
        first, last = in_order()[0], in_order()[-1]
        left.remove(first)
        left.remove(last)
        grow(first)
        grow(last)
    if len(left) >= 2 * k:
        first = in_order()[0]
        left.remove(first)
        grow(first)
    groups.append(left)
    return _labels(points, groups)


def loss_bound(points, k):
    """Percent; every record against every other."""
    total = 0.0
    for i in range(len(points)):
        others = sorted(_squared(points[i], points[j]) for j in range(len(points)) if j != i)
        total += fsum(others[: k - 1]) / (2 * k)
    mean = _mean(points, range(len(points)))
    scatter = fsum(_squared(point, mean) for point in points)
    return 100 * total / scatter if scatter > 0 else 0.0
