"""Slow, literal twins of the mixture: equations in lists and loops, nothing merged, nothing in logarithms."""

from __future__ import annotations

import math

import numpy as np


def inverse_and_determinant(matrix):
    """By Gauss and Jordan, pivots on the diagonal."""
    size = len(matrix)
    rows = [[float(v) for v in matrix[i]] + [1.0 if i == j else 0.0 for j in range(size)] for i in range(size)]
    determinant = 1.0
    for j in range(size):
        pivot = rows[j][j]
        determinant *= pivot
        rows[j] = [v / pivot for v in rows[j]]
        for i in range(size):
            if i != j:
                factor = rows[i][j]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[j], strict=True)]
    return [row[size:] for row in rows], determinant


def squared_distance(x, mean, covariance):
    inverse, _ = inverse_and_determinant(covariance)
    step = [float(a - b) for a, b in zip(x, mean, strict=True)]
    return sum(step[j] * inverse[j][h] * step[h] for j in range(len(x)) for h in range(len(x)))


def density(x, mean, covariance, degrees):
    """Of the normal, or of the t distribution."""
    d = len(x)
    _, determinant = inverse_and_determinant(covariance)
    distance = squared_distance(x, mean, covariance)
    if math.isinf(degrees):
        return math.exp(-distance / 2) / math.sqrt((2 * math.pi) ** d * determinant)
    constant = math.gamma((degrees + d) / 2) / (
        math.gamma(degrees / 2) * (degrees * math.pi) ** (d / 2) * math.sqrt(determinant)
    )
    return constant * (1 + distance / degrees) ** (-(degrees + d) / 2)


def log_density(x, mean, covariance, degrees):
    """The same in logarithms, for records far out."""
    d = len(x)
    distance = squared_distance(x, mean, covariance)
    at_mean = math.log(density(mean, mean, covariance, degrees))
    return at_mean - (distance / 2 if math.isinf(degrees) else (degrees + d) / 2 * math.log(1 + distance / degrees))


def posteriors(features, weights, means, covariances, degrees):
    """Eq. 2, and the log-likelihood."""
    z, likelihood = [], 0.0
    for x in features:
        parts = [w * density(x, *c) for w, *c in zip(weights, means, covariances, degrees, strict=True)]
        z.append([part / sum(parts) for part in parts])
        likelihood += math.log(sum(parts))
    return z, likelihood


def bounded(weights, k, n):
    """Eq. 3 and 4."""
    g = len(weights)
    smallest = min(weights)
    delta = 0.0 if all(w >= k / n for w in weights) else (k / n - smallest) / (1 - k / n * g)
    return [(w + delta) / sum(v + delta for v in weights) for w in weights]


def em_iteration(features, weights, means, covariances, degrees, k, shape, prior_rows, variances):
    """One iteration with the published bound; spherical, diagonal, tied and full covariances."""
    n, d, groups = len(features), len(features[0]), len(weights)
    z, likelihood = posteriors(features, weights, means, covariances, degrees)
    u = [
        [
            1.0 if math.isinf(v) else (v + d) / (v + squared_distance(x, m, c))
            for m, c, v in zip(means, covariances, degrees, strict=True)
        ]
        for x in features
    ]
    new_weights = bounded([sum(row[g] for row in z) / n for g in range(groups)], k, n)
    new_means, scatters, counts = [], [], []
    for g in range(groups):
        heavy = sum(z[i][g] * u[i][g] for i in range(n))
        mean = [sum(z[i][g] * u[i][g] * features[i][j] for i in range(n)) / heavy for j in range(d)]
        scatter = [
            [
                sum(z[i][g] * u[i][g] * (x[j] - mean[j]) * (x[h] - mean[h]) for i, x in enumerate(features))
                for h in range(d)
            ]
            for j in range(d)
        ]
        for j in range(d):
            scatter[j][j] += prior_rows * variances[j]
        new_means.append(mean)
        scatters.append(np.array(scatter))
        counts.append(sum(row[g] for row in z) + prior_rows)
    if shape == "spherical":
        new = [np.eye(d) * sum(np.trace(s) for s in scatters) / (d * sum(counts))] * groups
    elif shape == "diagonal":
        new = [np.diag(np.diag(s)) / c for s, c in zip(scatters, counts, strict=True)]
    elif shape == "tied":
        new = [sum(scatters) / sum(counts)] * groups
    else:
        new = [s / c for s, c in zip(scatters, counts, strict=True)]
    return new_weights, new_means, new, likelihood


def repair(logs, labels, k):
    """All moves of all records into groups under k, cheapest first; ties to the lower group, then the lower row."""
    labels = [int(g) for g in labels]
    sizes = [labels.count(g) for g in range(len(logs[0]))]
    lacking = [max(k - s, 0) if s else 0 for s in sizes]
    spare = [max(s - k, 0) for s in sizes]
    possible = [
        (logs[i][labels[i]] - logs[i][g], g, i)
        for i in range(len(labels))
        for g in range(len(sizes))
        if lacking[g] and spare[labels[i]]
    ]
    moved = set()
    for _, g, i in sorted(possible):
        if i not in moved and lacking[g] and spare[labels[i]]:
            spare[labels[i]] -= 1
            lacking[g] -= 1
            labels[i] = g
            moved.add(i)
    return labels


def class_posteriors(features, codes, slopes, shares, starts):
    """Posteriors, priors and log-likelihood of latent class regression (eq. 12)."""
    z, p, likelihood = [], [], 0.0
    for x, row in zip(features, codes, strict=True):
        odds = [math.exp(b[0] + sum(s * v for s, v in zip(b[1:], x, strict=True))) for b in slopes]
        prior = [o / sum(odds) for o in odds]
        joint = list(prior)
        for g in range(len(slopes)):
            for j, code in enumerate(row):
                joint[g] *= shares[g][starts[j] + code]
        z.append([v / sum(joint) for v in joint])
        p.append(prior)
        likelihood += math.log(sum(joint))
    return z, p, likelihood
