"""Slow literal twins: fuzzy c-means with fewer and fewer clusters, and condensation."""

from __future__ import annotations

import numpy as np

from tests.naive.cluster import fill_small
from tests.naive.hierarchical import mean, squared


def memberships(point, centres, m):
    distances = [squared(point, centre) for centre in centres]
    if 0.0 in distances:
        on = distances.count(0.0)
        return [1.0 / on if d == 0.0 else 0.0 for d in distances]
    # 1 / sum((d / other) ** power) for each d, with both divided by the least so that no power overflows.
    powers = [(min(distances) / d) ** (1.0 / (m - 1.0)) for d in distances]
    return [p / sum(powers) for p in powers]


def fuzzy_centres(features, rows, centres, m, iterations):
    middle = mean(features, rows)
    limit = 1e-6 * sum(squared(features[i], middle) for i in rows) / len(rows)
    for _ in range(iterations):
        table = [memberships(features[i], centres, m) for i in rows]
        new = []
        for c, centre in enumerate(centres):
            weights = [shares[c] ** m for shares in table]
            if sum(weights) == 0.0:
                new.append(centre)
                continue
            sums = [
                sum(w * float(features[i][j]) for w, i in zip(weights, rows, strict=True)) for j in range(len(centre))
            ]
            new.append([value / sum(weights) for value in sums])
        moved = max(squared(a, b) for a, b in zip(centres, new, strict=True))
        centres = new
        if moved <= limit:
            break
    return centres


def fuzzy_c_means(features, k, rows, m, step, shrink, iterations):
    """Lists of rows; `rows` in the order in which records become first centres."""
    if len(rows) < 2 * k:
        return [rows]
    count = len(rows) // k
    if all(squared(features[i], features[rows[0]]) == 0.0 for i in rows):
        return [rows[c * k : (c + 1) * k if c < count - 1 else None] for c in range(count)]
    exponent = m
    while True:
        centres = [[float(v) for v in features[i]] for i in rows[:count]]
        centres = fuzzy_centres(features, rows, centres, exponent, iterations)
        found = []
        for i in rows:
            shares = [squared(features[i], centre) for centre in centres]
            found.append(next(c for c, d in enumerate(shares) if d <= min(shares) * (1 + 1e-9)))
        sizes = [found.count(c) for c in range(count)]
        if len([s for s in sizes if s]) > 1 and all(s == 0 or s >= k for s in sizes):
            break
        if count == 2:
            ranked = sorted(range(len(rows)), key=lambda at: rows[at])
            filled = fill_small([features[rows[at]] for at in ranked], k, [found[at] for at in ranked], centres)
            for at, cluster in zip(ranked, filled, strict=True):
                found[at] = cluster
            break
        count = max(2, min(count - 1, int(count * shrink)))
        exponent += step
    parts = [[i for i, f in zip(rows, found, strict=True) if f == c] for c in range(count)]
    return [g for part in parts if part for g in fuzzy_c_means(features, k, part, m, step, shrink, iterations)]


def condensation(features, k, seeds):
    left = list(range(len(features)))
    groups = []
    for seed in seeds:
        if len(left) < k:
            break
        if seed not in left:
            continue
        left.remove(seed)
        group = [seed, *sorted(left, key=lambda i: (squared(features[i], features[seed]), i))[: k - 1]]
        left = [i for i in left if i not in group]
        groups.append(group)
    centres = [mean(features, group) for group in groups]
    for i in left:
        groups[min(range(len(groups)), key=lambda g: (squared(features[i], centres[g]), g))].append(i)
    labels = np.full(len(features), -1)
    for g, group in enumerate(groups):
        labels[group] = g
    return labels
