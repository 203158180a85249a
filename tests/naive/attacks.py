"""Slow, literal twins of the attacks: loops over persons, groups and columns."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np


def members(labels, g):
    return [i for i, label in enumerate(labels) if label == g]


def closest_guess(released, rows, known, value):
    """Record of the group nearest in one column; the lower row of equally near ones."""
    return min(rows, key=lambda i: (abs(released[i][known] - value), i))


def share_by_closest(original, released, labels, tolerance):
    hits = trials = 0
    for i, victim in enumerate(original):
        rows = members(labels, labels[i])
        for known in range(len(victim)):
            guess = released[closest_guess(released, rows, known, victim[known])]
            for j in range(len(victim)):
                if j != known:
                    trials += 1
                    hits += abs(guess[j] - victim[j]) <= tolerance
    return hits / trials


def guess_by_moments(group, known, value):
    """Candidates for the record of a group with these moments and this value in one column, by angles in the plane."""
    rows = np.array(group, dtype=float)
    mean = rows.mean(axis=0)
    scatter = sum(np.outer(row - mean, row - mean) for row in rows)
    sizes, axes = np.linalg.eigh(scatter)
    used = [r for r in range(len(sizes)) if sizes[r] > 1e-14 * max(sizes.max(), 1e-300)]
    lengths = {r: math.sqrt(sizes[r]) for r in used}
    a = [lengths[r] * axes[known, r] for r in used]
    size = math.hypot(*a) if a else 0.0
    if len(group) == 3 and len(used) == 2 and size > 0:
        # Each member lies on a circle; the known value fixes the angle to the direction of the known column.
        radius = math.sqrt(2 / 3)
        towards = math.atan2(a[1], a[0])
        cosine = (value - mean[known]) / (size * radius)
        turn = math.acos(max(-1.0, min(1.0, cosine)))
        along = (value - mean[known]) / size
        across = radius * math.sin(turn)
        ways = [(along, across), (along, -across)]
        places = [
            [x * math.cos(towards) - y * math.sin(towards), x * math.sin(towards) + y * math.cos(towards)]
            for x, y in ways
        ]
    else:
        places = [[x * (value - mean[known]) / size**2 if size > 0 else 0.0 for x in a]]
    return [
        mean + sum((u * lengths[r] * axes[:, r] for u, r in zip(place, used, strict=True)), np.zeros(len(mean)))
        for place in places
    ]


def share_by_moments(original, released, labels, tolerance):
    hits = trials = 0
    for i, victim in enumerate(original):
        group = [released[row] for row in members(labels, labels[i])]
        for known in range(len(victim)):
            candidates = guess_by_moments(group, known, victim[known])
            guess = min(candidates, key=lambda c: sum((x - y) ** 2 for x, y in zip(c, victim, strict=True)))
            for j in range(len(victim)):
                if j != known:
                    trials += 1
                    hits += abs(guess[j] - victim[j]) <= tolerance
    return hits / trials


def share_by_collusion(original, released, labels, tolerance):
    """Share recovered by all others of a group, and by one who takes the released mean."""
    hits = alone = trials = 0
    for i, victim in enumerate(original):
        rows = members(labels, labels[i])
        for j in range(len(victim)):
            total = sum(released[row][j] for row in rows)
            guess = total - sum(original[row][j] for row in rows if row != i)
            hits += abs(guess - victim[j]) <= tolerance
            alone += abs(total / len(rows) - victim[j]) <= tolerance
            trials += 1
    return hits / trials, alone / trials


def random_groups(sizes, classes):
    """Mean homogeneous share, single share and chi-square over all ways to deal the classes to the groups."""
    n = len(classes)
    found = []
    for dealt in set(itertools.permutations(classes)):
        at, homogeneous, single, chi = 0, 0, 0, 0.0
        for size in sizes:
            group = dealt[at : at + size]
            at += size
            homogeneous += size * (len(set(group)) == 1)
            for c in set(classes):
                count, expected = group.count(c), size * classes.count(c) / n
                single += count == 1
                chi += (count - expected) ** 2 / expected
        found.append((homogeneous / n, single / n, chi / len(sizes)))
    return [statistics.fmean(column) for column in zip(*found, strict=True)]


def fewest_alike(labels, cells):
    alike = {}
    for label, row in zip(labels, cells, strict=True):
        key = (label, *("null" if math.isnan(x) else x for x in row))
        alike[key] = alike.get(key, 0) + 1
    return min(alike.values())


def attribute_guesses(released, asked, secret, categories):
    """Value of the closest released record in all other columns, for tables without nulls."""
    columns = [j for j in range(len(released[0])) if j != secret]
    scale = {}
    for j in columns:
        values = [row[j] for row in released]
        if j in categories:
            scale[j] = 1 - sum((values.count(c) / len(values)) ** 2 for c in set(values)) or 1.0
        else:
            scale[j] = statistics.stdev(values) or 1.0

    def squared(row, query):
        total = 0.0
        for j in columns:
            if j in categories:
                total += 2 * (row[j] != query[j]) / scale[j]
            else:
                total += ((row[j] - query[j]) / scale[j]) ** 2
        return total

    rows = [min(range(len(released)), key=lambda i: (round(squared(released[i], q), 9), i)) for q in asked]
    return [released[i][secret] for i in rows]
