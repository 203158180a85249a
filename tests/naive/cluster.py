"""Slow, literal twins of the clustering algorithms: lists, loops, nothing incremental."""

from __future__ import annotations

import numpy as np

from tests.naive.two_phase import mean, squared


def fill_small(features, k, assigned, centres):
    """Clusters in ascending size take the nearest records of clusters above k, one by one."""
    assigned = list(assigned)
    clusters = range(len(centres))
    sizes = [assigned.count(c) for c in clusters]
    means = [
        mean(features, [i for i, a in enumerate(assigned) if a == c]) if sizes[c] else list(centres[c])
        for c in clusters
    ]
    for c in sorted(clusters, key=lambda c: (sizes[c], c)):
        while assigned.count(c) < k:
            spare = [i for i, a in enumerate(assigned) if assigned.count(a) > k]
            assigned[min(spare, key=lambda i: (squared(features[i], means[c]), i))] = c
    return np.array(assigned)


def within_scatter(features, labels):
    """Sum of squared distances to the group means."""
    total = 0.0
    for g in set(labels.tolist()):
        rows = [i for i, label in enumerate(labels) if label == g]
        centre = mean(features, rows)
        total += sum(squared(features[i], centre) for i in rows)
    return total


def route(tree, features, keys):
    """Walk the tree with Python numbers."""
    leaves = []
    for point, key in zip(features, keys, strict=True):
        node = 0 if len(tree.thresholds) else -1
        while node >= 0:
            value = 0.0
            for p, d in zip(point, tree.directions[node], strict=True):
                value += float(p) * float(d)
            here = (value, int(key))
            border = (float(tree.thresholds[node]), int(tree.key_thresholds[node]))
            node = int(tree.children[node][0 if here < border else 1])
        leaves.append(-1 - node)
    return np.array(leaves)
