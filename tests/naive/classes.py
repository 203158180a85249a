"""Slow, literal twins of what minds classes without a spanning tree."""

from __future__ import annotations

import math

from tests.naive.spanning_tree import jensen_shannon, shares_of, squared, steps, total_variation
from tests.naive.two_phase import labels_of, mean


def class_mdav(features, k, classes, shares, alpha):
    box = [max(float(p[j]) for p in features) - min(float(p[j]) for p in features) for j in range(len(features[0]))]
    unit = math.sqrt(sum(side * side for side in box)) or 1.0
    left, groups = list(range(len(features))), []

    def furthest(point):
        return features[min(left, key=lambda i: (-squared(features[i], point), i))]

    def form(seed):
        group = [min(left, key=lambda i: (squared(features[i], seed), i))]
        while len(group) < k:
            rest = [i for i in left if i not in group]

            def composite(i):
                length = math.sqrt(squared(features[i], seed)) / unit
                f = shares_of([*group, i], classes, len(shares))
                # Of records of one class the nearer comes first even where the divergence is all that counts.
                return alpha * length + (1 - alpha) * jensen_shannon(f, shares)

            nearest = [
                min((i for i in rest if classes[i] == c), key=lambda i: (squared(features[i], seed), i))
                for c in sorted({classes[i] for i in rest})
            ]
            group.append(min(nearest, key=lambda i: (composite(i), i)))
        groups.append(group)
        for i in group:
            left.remove(i)

    while len(left) >= 2 * k:
        r = furthest(mean(features, left))
        s = furthest(r)
        pair = len(left) >= 3 * k
        form(r)
        if pair:
            form(s)
    if left:
        groups.append(left)
    return labels_of(groups, len(features))


def kd_tree(features, k, classes=None, shares=None, alpha=1.0):
    groups = []

    def deviation(rows, j):
        centre = sum(float(features[i][j]) for i in rows) / len(rows)
        return math.sqrt(sum((float(features[i][j]) - centre) ** 2 for i in rows) / len(rows))

    def halves(rows, j):
        ranked = sorted(rows, key=lambda i: (features[i][j], i))
        return sorted(ranked[: len(rows) // 2]), sorted(ranked[len(rows) // 2 :])

    def cost(rows, j):
        widest = max(deviation(rows, h) for h in range(len(features[0])))
        value = alpha * (1 - deviation(rows, j) / (widest or 1.0))
        if alpha < 1:
            weighted = sum(
                len(part) * jensen_shannon(shares_of(part, classes, len(shares)), shares) for part in halves(rows, j)
            )
            value += (1 - alpha) * weighted / len(rows)
        return value

    def split(rows):
        if len(rows) < 2 * k:
            groups.append(rows)
            return
        j = min(range(len(features[0])), key=lambda j: (cost(rows, j), j))
        for part in halves(rows, j):
            split(part)

    split(list(range(len(features))))
    return labels_of(groups, len(features))


def entropy(f):
    return -sum(p * math.log(p) for p in f if p > 0)


def ordered_distance(f, g):
    """Earth mover's distance: what has to pass each border between neighbouring classes, over the longest way."""
    return sum(abs(sum(f[: c + 1]) - sum(g[: c + 1])) for c in range(len(f))) / max(1, len(f) - 1)


def constrain(features, labels, classes, shares, short, help_share=0.1):
    """Merge the smallest wrong group with the cheapest that mends it, or one that helps it for far less."""
    groups = [[i for i, label in enumerate(labels) if label == g] for g in sorted(set(labels))]

    def lacks(group):
        return short(shares_of(group, classes, len(shares)))

    def ward(a, b):
        return squared(mean(features, a), mean(features, b)) * len(a) * len(b) / (len(a) + len(b))

    while any(lacks(g) > 0 for g in groups):
        # Groups stand in the order of their lowest label.
        a = min((g for g in range(len(groups)) if lacks(groups[g]) > 0), key=lambda g: (len(groups[g]), g))
        priced = sorted((ward(groups[a], groups[g]), g) for g in range(len(groups)) if g != a)
        after = {g: lacks(groups[a] + groups[g]) for _, g in priced}
        mending = [(cost, g) for cost, g in priced if after[g] == 0]
        helping = [(cost, g) for cost, g in priced if 0 < after[g] < lacks(groups[a])]
        if helping and (not mending or helping[0][0] < help_share * mending[0][0]):
            b = helping[0][1]
        else:
            b = (mending or priced)[0][1]
        groups[min(a, b)] = groups[a] + groups[b]
        del groups[max(a, b)]
    return labels_of(groups, len(labels))


def chi_square(labels, classes):
    """Eq. 13 of Li and Sarkar."""
    groups = sorted(set(labels))
    n = len(labels)
    total = 0.0
    for g in groups:
        rows = [i for i in range(n) if labels[i] == g]
        for c in set(classes):
            expected = len(rows) / n * sum(1 for x in classes if x == c)
            total += (sum(1 for i in rows if classes[i] == c) - expected) ** 2 / expected
    return total / len(groups)


__all__ = [
    "chi_square",
    "class_mdav",
    "constrain",
    "entropy",
    "kd_tree",
    "ordered_distance",
    "steps",
    "total_variation",
]
