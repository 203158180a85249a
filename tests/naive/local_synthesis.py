"""Groups and draws of the local synthesis, record by record and group by group, from what the paper says."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import sqrtm


def log_density(record, weight, mean, covariance):
    """Of weight times the normal density at a record."""
    off = [a - b for a, b in zip(record, mean, strict=True)]
    solved = np.linalg.solve(np.array(covariance), np.array(off))
    square = sum(a * b for a, b in zip(off, solved, strict=True))
    return math.log(weight) - 0.5 * (square + math.log(np.linalg.det(covariance)) + len(off) * math.log(2 * math.pi))


def groups_of(records, mixture, k):
    """The most likely component of each record; then, one by one, the cheapest move into a component that lacks some.

    Components without records are dropped, and the others numbered in their order.
    """
    parts = range(len(mixture.weights))
    logs = [
        [log_density(r, mixture.weights[g], mixture.means[g], mixture.covariances[g]) for g in parts] for r in records
    ]
    label = [max(parts, key=lambda g, row=row: (row[g], -g)) for row in logs]
    count = [label.count(g) for g in parts]
    lacking = [k - c if 0 < c < k else 0 for c in count]
    spare = [max(c - k, 0) for c in count]
    first = list(label)
    while sum(lacking):
        offers = [
            (logs[i][first[i]] - logs[i][g], g, i)
            for i in range(len(records))
            for g in parts
            if lacking[g] and spare[first[i]] and label[i] == first[i]
        ]
        _, target, record = min(offers)
        label[record] = target
        lacking[target] -= 1
        spare[first[record]] -= 1
    kept = [g for g in parts if count[g]]
    return [kept.index(g) for g in label]


def corrected(records, draws, labels):
    """Each group's draws less their mean, times D R Λ^½ M^-½ Λ^-½ R' D⁻¹, plus the mean of its records."""
    out = np.zeros((len(draws), len(draws[0])))
    for group in sorted(set(labels)):
        rows = [i for i, label in enumerate(labels) if label == group]
        old, new = np.array([records[i] for i in rows]), np.array([draws[i] for i in rows])
        varies = [j for j in range(old.shape[1]) if old[:, j].std() > 0]
        target = old[:, varies] - old[:, varies].mean(axis=0)
        deviation = np.sqrt((target**2).sum(axis=0))
        centred = (new - new.mean(axis=0))[:, varies] / deviation
        values, vectors = np.linalg.eigh(target.T @ target / np.outer(deviation, deviation))
        keep = [m for m, value in enumerate(values) if value > 1e-11 * len(values)]
        axes, lengths = vectors[:, keep], np.sqrt(values[keep])
        along = centred @ axes / lengths
        root = np.real(sqrtm(np.linalg.inv(along.T @ along)))
        for at, i in enumerate(rows):
            out[i] = old.mean(axis=0)
            for place, j in enumerate(varies):
                out[i, j] += deviation[place] * ((along[at] @ root) * lengths @ axes[place])
    return out
