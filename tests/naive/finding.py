"""Slow, literal twins of the searches and of the measures that rest on them: lists and loops."""

from __future__ import annotations

import math
import statistics


def _squared(a, b):
    """Products, not powers, whose last bit may differ."""
    total = 0.0
    for p, q in zip(a, b, strict=True):
        step = float(p) - float(q)
        total += step * step
    return total


def nearest(features, queries, count, without=None):
    """(squared distances, rows) of the nearest, ties by row, filled up with inf and -1."""
    found = []
    for at, query in enumerate(queries):
        rows = [row for row in range(len(features)) if without is None or row != without[at]]
        rows.sort(key=lambda row: (_squared(features[row], query), row))
        rows = rows[:count]
        distances = [_squared(features[row], query) for row in rows]
        found.append((distances + [math.inf] * (count - len(rows)), rows + [-1] * (count - len(rows))))
    return [distances for distances, _ in found], [rows for _, rows in found]


def rank_share(value, column):
    return sum((other < value) + (other == value) / 2 for other in column) / len(column)


def predictions(features, query, k):
    """Distance, ambiguity and uncertainty of one record (section II.A of Lasko & Vinterbo)."""
    (distances,), (rows,) = nearest(features, [query], k)
    near = [features[row] for row in rows]
    width = len(query)
    ambiguity = math.sqrt(distances[0]) / math.sqrt(distances[-1]) if distances[-1] > 0 else 1.0
    variances = [statistics.pvariance([float(record[j]) for record in near]) for j in range(width)]
    return math.sqrt(distances[0] / width), ambiguity, statistics.fmean(variances)


def excess(values, reference):
    """Largest excess of one cumulative share over the other."""
    return max(
        [0.0]
        + [
            sum(v <= x for v in values) / len(values) - sum(v <= x for v in reference) / len(reference)
            for x in [*values, *reference]
        ]
    )


def conditional_entropy(a, b, k):
    """h(A|B) in nats: Kozachenko & Leonenko in the plane and on the line with the same distances."""
    total = 0.0
    for i in range(len(a)):
        others = [j for j in range(len(a)) if j != i]
        reach = sorted(max(abs(a[i] - a[j]), abs(b[i] - b[j])) for j in others)[k - 1]
        # Nearer by more than rounding.
        inside = sum(abs(b[i] - b[j]) < reach * (1 - 1e-10) for j in others)
        total += math.log(2 * reach) + _digamma(inside + 1) - _digamma(k)
    return total / len(a)


def _digamma(n):
    """Of a whole number."""
    return -0.5772156649015329 + sum(1 / i for i in range(1, n))


def shrunk_covariance(one, other, share):
    """Mean of two tables' covariances (over n), a share taken off all that are not variances."""
    return [
        [
            (1.0 if i == j else 1.0 - share) * sum(_covariance(each, i, j) for each in (one, other)) / 2.0
            for j in range(len(one[0]))
        ]
        for i in range(len(one[0]))
    ]


def _covariance(rows, i, j):
    means = [sum(row[at] for row in rows) / len(rows) for at in (i, j)]
    return sum((row[i] - means[0]) * (row[j] - means[1]) for row in rows) / len(rows)
