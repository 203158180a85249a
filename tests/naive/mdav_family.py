"""Slow, literal twins of MDAV and its relatives: lists, loops, every mean and distance computed again."""

from __future__ import annotations

from functools import wraps
from itertools import combinations
from math import fsum, sqrt

import numpy as np


def on_floats(twin):
    """Python's own floats: the same bits, and several times as fast as numpy's single numbers."""

    @wraps(twin)
    def run(features, *args, **options):
        return twin(np.asarray(features).tolist(), *args, **options)

    return run


def _squared(a, b):
    total = 0.0
    for p, q in zip(a, b, strict=True):
        total += (p - q) ** 2
    return total


def _mean(features, rows):
    return [fsum(features[i][j] for i in rows) / len(rows) for j in range(len(features[0]))]


def _furthest(features, left, point):
    return min(left, key=lambda i: (-_squared(features[i], point), i))


def _take_nearest(features, left, point, k):
    group = sorted(left, key=lambda i: (_squared(features[i], point), i))[:k]
    for i in group:
        left.remove(i)
    return group


def _labels(features, groups):
    labels = np.full(len(features), -1)
    for g, group in enumerate(groups):
        labels[group] = g
    return labels


def _join_nearest(features, groups, left):
    """Each by itself; the means stay as they were."""
    means = [_mean(features, group) for group in groups]
    for i in left:
        nearest = min(range(len(groups)), key=lambda g: (_squared(features[i], means[g]), g))
        groups[nearest].append(i)


def _pairs(features, k, least):
    left = list(range(len(features)))
    groups = []
    while len(left) >= least:
        r = features[_furthest(features, left, _mean(features, left))]
        s = features[_furthest(features, left, r)]
        groups.append(_take_nearest(features, left, r, k))
        groups.append(_take_nearest(features, left, s, k))
    return groups, left


def _outermost(features, left, k):
    return _take_nearest(features, left, features[_furthest(features, left, _mean(features, left))], k)


def _ended(features, groups, left, k):
    """What is left is a group, or its records join the nearest ones."""
    if len(left) >= k:
        groups.append(left)
    else:
        _join_nearest(features, groups, left)
    return _labels(features, groups)


@on_floats
def mdav(features, k):
    return _ended(features, *_pairs(features, k, 2 * k), k)


@on_floats
def mdav_generic(features, k):
    groups, left = _pairs(features, k, 3 * k)
    if len(left) >= 2 * k:
        groups.append(_outermost(features, left, k))
    groups.append(left)
    return _labels(features, groups)


@on_floats
def mdav_1(features, k):
    groups, left = _pairs(features, k, 2 * k)
    if len(left) >= k:
        groups.append(_outermost(features, left, k))
    _join_nearest(features, groups, left)
    return _labels(features, groups)


@on_floats
def cbfs(features, k):
    left = list(range(len(features)))
    groups = []
    while len(left) >= k:
        groups.append(_outermost(features, left, k))
    _join_nearest(features, groups, left)
    return _labels(features, groups)


def _distant_pairs(features, k):
    left = list(range(len(features)))
    groups = []
    while len(left) >= 2 * k:
        if k == 1 and len(left) == 1:
            break
        a, b = min(combinations(left, 2), key=lambda pair: (-_squared(features[pair[0]], features[pair[1]]), pair))
        mean = _mean(features, left)
        if _squared(features[b], mean) > _squared(features[a], mean):
            a, b = b, a
        groups.append(_take_nearest(features, left, features[a], k))
        groups.append(_take_nearest(features, left, features[b], k))
    return groups, left


@on_floats
def md(features, k):
    groups, left = _distant_pairs(features, k)
    if len(left) >= k:
        groups.append(left)
    elif left:
        mean = _mean(features, left)
        nearest = min(range(len(groups)), key=lambda g: (_squared(_mean(features, groups[g]), mean), g))
        groups[nearest] += left
    return _labels(features, groups)


@on_floats
def diameter_fixed(features, k):
    return _ended(features, *_distant_pairs(features, k), k)


@on_floats
def v_mdav(features, k, gamma=0.2):
    left = list(range(len(features)))
    mean = _mean(features, left)
    groups = []
    while len(left) >= k:
        group = _take_nearest(features, left, features[_furthest(features, left, mean)], k)
        while len(group) < 2 * k - 1 and len(left) >= 2:
            inside, e = min((min(_squared(features[i], features[m]) for m in group), i) for i in left)
            outside = min(_squared(features[i], features[e]) for i in left if i != e)
            if not sqrt(inside) < gamma * sqrt(outside):
                break
            group.append(e)
            left.remove(e)
        groups.append(group)
    _join_nearest(features, groups, left)
    return _labels(features, groups)


@on_floats
def pairwise_systematic(features, k):
    means = np.mean(features, axis=0)
    left = list(range(len(features)))
    groups = []

    def in_order():
        return sorted(left, key=lambda i: (sum(features[i][j] - means[j] for j in range(len(means))), i))

    def grow(seed):
        group = [seed]
        while len(group) < k:
            mean = _mean(features, group)
            group.append(min(left, key=lambda i: (_squared(features[i], mean), i)))
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
    return _labels(features, groups)


def loss_bound(features, k):
    """Percent; every record against every other."""
    total = 0.0
    for i in range(len(features)):
        others = sorted(_squared(features[i], features[j]) for j in range(len(features)) if j != i)
        total += fsum(others[: k - 1]) / (2 * k)
    mean = _mean(features, range(len(features)))
    scatter = fsum(_squared(point, mean) for point in features)
    return 100 * total / scatter if scatter > 0 else 0.0
