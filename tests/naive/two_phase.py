"""Slow literal twins of TFRP, DBA and MDAV-2: lists of rows, scatters as exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def squared(a, b):
    total = 0.0
    for p, q in zip(a, b, strict=True):
        total += float(p - q) ** 2
    return total


def mean(points, rows):
    return [sum(float(points[i][j]) for i in rows) / len(rows) for j in range(len(points[0]))]


def scatter(points, rows):
    total = Fraction(0)
    for j in range(len(points[0])):
        values = [Fraction(float(points[i][j])) for i in rows]
        middle = sum(values) / len(values)
        total += sum((value - middle) ** 2 for value in values)
    return total


def labels_of(groups, n):
    labels = np.full(n, -1)
    for g, group in enumerate(groups):
        labels[group] = g
    return labels


def nearest(points, left, centre, k):
    return sorted(left, key=lambda i: (squared(points[i], centre), i))[:k]


def furthest(points, left, centre):
    return min(left, key=lambda i: (-squared(points[i], centre), i))


def join_nearest(points, groups, left):
    means = [mean(points, group) for group in groups]
    for i in left:
        groups[min(range(len(groups)), key=lambda g: squared(points[i], means[g]))].append(i)
    return groups


def tfrp_1(points, k, rows=None):
    left = list(range(len(points))) if rows is None else list(rows)
    values = [float(points[i][j]) for i in left for j in range(len(points[0]))]
    references = [[min(values)] * len(points[0]), [max(values)] * len(points[0])]
    groups = []
    while len(left) >= k:
        seed = furthest(points, left, references[len(groups) % 2])
        groups.append(nearest(points, left, points[seed], k))
        left = [i for i in left if i not in groups[-1]]
    return join_nearest(points, groups, left)


def mdav_1(points, k, rows=None):
    left = list(range(len(points))) if rows is None else list(rows)
    groups = []
    while len(left) >= k:
        r = furthest(points, left, mean(points, left))
        seeds = [r, furthest(points, left, points[r])] if len(left) >= 2 * k else [r]
        for seed in seeds:
            groups.append(nearest(points, left, points[seed], k))
            left = [i for i in left if i not in groups[-1]]
    return join_nearest(points, groups, left)


def dba_1(points, k):
    left = list(range(len(points)))
    groups = []
    while len(left) >= k:
        around = {i: nearest(points, left, points[i], k) for i in left}
        densest = min(left, key=lambda i: (scatter(points, around[i]), i))
        groups.append(around[densest])
        left = [i for i in left if i not in around[densest]]
    return join_nearest(points, groups, left)


def decompose(points, groups, turn, most):
    """`groups` are lists of rows; those that are given up are taken out at the end."""
    groups = [sorted(group) for group in groups]
    least = scatter(points, range(len(points))) / len(points) / 10**12
    for g in turn:
        others = [h for h in range(len(groups)) if h != g and groups[h]]
        means = {h: mean(points, groups[h]) for h in others}
        joined = {h: [] for h in others}
        for i in groups[g]:
            room = [h for h in others if len(groups[h]) + len(joined[h]) < most]
            if room:
                joined[min(room, key=lambda h: (squared(points[i], means[h]), h))].append(i)
        if sum(len(rows) for rows in joined.values()) < len(groups[g]):
            continue
        before = sum(scatter(points, groups[h]) for h in others if joined[h])
        after = sum(scatter(points, groups[h] + joined[h]) for h in others if joined[h])
        if after - before < scatter(points, groups[g]) - least:
            for h in others:
                groups[h] += joined[h]
            groups[g] = []
    return [group for group in groups if group]


def by_falling_scatter(points, groups):
    return sorted(range(len(groups)), key=lambda g: (-scatter(points, groups[g]), g))


def split_large(points, groups, k, method):
    parts = []
    for group in groups:
        parts += method(points, k, sorted(group)) if len(group) >= 2 * k else [group]
    return parts


def tfrp_2(points, k):
    groups = tfrp_1(points, k)
    groups = decompose(points, groups, by_falling_scatter(points, groups), 4 * k - 1)
    return split_large(points, groups, k, tfrp_1)


def dba_2(points, k):
    groups = dba_1(points, k)
    groups = decompose(points, groups, range(len(groups) - 1, -1, -1), len(points))
    return split_large(points, groups, k, mdav_1)


def mdav_2(points, k):
    groups = mdav_1(points, k)
    groups = decompose(points, groups, by_falling_scatter(points, groups), len(points))
    return split_large(points, groups, k, mdav_1)
