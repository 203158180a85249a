"""Slow literal twins of TFRP, DBA and MDAV-2: lists of rows, scatters as exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.naive.mdav_family import on_floats


def squared(a, b):
    total = 0.0
    for p, q in zip(a, b, strict=True):
        total += float(p - q) ** 2
    return total


def mean(features, rows):
    return [sum(float(features[i][j]) for i in rows) / len(rows) for j in range(len(features[0]))]


def scatter(features, rows):
    total = Fraction(0)
    for j in range(len(features[0])):
        values = [Fraction(float(features[i][j])) for i in rows]
        middle = sum(values) / len(values)
        total += sum((value - middle) ** 2 for value in values)
    return total


def labels_of(groups, n):
    labels = np.full(n, -1)
    for g, group in enumerate(groups):
        labels[group] = g
    return labels


def nearest(features, left, centre, k):
    return sorted(left, key=lambda i: (squared(features[i], centre), i))[:k]


def furthest(features, left, centre):
    return min(left, key=lambda i: (-squared(features[i], centre), i))


def join_nearest(features, groups, left):
    means = [mean(features, group) for group in groups]
    for i in left:
        groups[min(range(len(groups)), key=lambda g: squared(features[i], means[g]))].append(i)
    return groups


@on_floats
def tfrp_1(features, k, rows=None):
    left = list(range(len(features))) if rows is None else list(rows)
    values = [float(features[i][j]) for i in left for j in range(len(features[0]))]
    references = [[min(values)] * len(features[0]), [max(values)] * len(features[0])]
    groups = []
    while len(left) >= k:
        seed = furthest(features, left, references[len(groups) % 2])
        groups.append(nearest(features, left, features[seed], k))
        left = [i for i in left if i not in groups[-1]]
    return join_nearest(features, groups, left)


@on_floats
def mdav_1(features, k, rows=None):
    left = list(range(len(features))) if rows is None else list(rows)
    groups = []
    while len(left) >= k:
        r = furthest(features, left, mean(features, left))
        seeds = [r, furthest(features, left, features[r])] if len(left) >= 2 * k else [r]
        for seed in seeds:
            groups.append(nearest(features, left, features[seed], k))
            left = [i for i in left if i not in groups[-1]]
    return join_nearest(features, groups, left)


@on_floats
def dba_1(features, k):
    left = list(range(len(features)))
    groups = []
    while len(left) >= k:
        around = {i: nearest(features, left, features[i], k) for i in left}
        densest = min(left, key=lambda i: (scatter(features, around[i]), i))
        groups.append(around[densest])
        left = [i for i in left if i not in around[densest]]
    return join_nearest(features, groups, left)


@on_floats
def decompose(features, groups, turn, most):
    """`groups` are lists of rows; those that are given up are taken out at the end."""
    groups = [sorted(group) for group in groups]
    least = scatter(features, range(len(features))) / len(features) / 10**12
    for g in turn:
        others = [h for h in range(len(groups)) if h != g and groups[h]]
        means = {h: mean(features, groups[h]) for h in others}
        joined = {h: [] for h in others}
        for i in groups[g]:
            room = [h for h in others if len(groups[h]) + len(joined[h]) < most]
            if room:
                joined[min(room, key=lambda h: (squared(features[i], means[h]), h))].append(i)
        if sum(len(rows) for rows in joined.values()) < len(groups[g]):
            continue
        before = sum(scatter(features, groups[h]) for h in others if joined[h])
        after = sum(scatter(features, groups[h] + joined[h]) for h in others if joined[h])
        if after - before < scatter(features, groups[g]) - least:
            for h in others:
                groups[h] += joined[h]
            groups[g] = []
    return [group for group in groups if group]


def by_falling_scatter(features, groups):
    return sorted(range(len(groups)), key=lambda g: (-scatter(features, groups[g]), g))


def split_large(features, groups, k, method):
    parts = []
    for group in groups:
        parts += method(features, k, sorted(group)) if len(group) >= 2 * k else [group]
    return parts


@on_floats
def tfrp_2(features, k):
    groups = tfrp_1(features, k)
    groups = decompose(features, groups, by_falling_scatter(features, groups), 4 * k - 1)
    return split_large(features, groups, k, tfrp_1)


@on_floats
def dba_2(features, k):
    groups = dba_1(features, k)
    groups = decompose(features, groups, range(len(groups) - 1, -1, -1), len(features))
    return split_large(features, groups, k, mdav_1)


@on_floats
def mdav_2(features, k):
    groups = mdav_1(features, k)
    groups = decompose(features, groups, by_falling_scatter(features, groups), len(features))
    return split_large(features, groups, k, mdav_1)
