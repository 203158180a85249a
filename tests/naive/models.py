"""Linear, logistic and Cox models by the textbook, on plain lists."""

from __future__ import annotations

from math import exp, sqrt


def linear(rows, response):
    """Coefficients, standard errors and degrees of freedom of least squares."""
    products = _weighted(rows, [1.0] * len(rows))
    inverse = _inverse(products)
    right = [sum(row[j] * y for row, y in zip(rows, response, strict=True)) for j in range(len(rows[0]))]
    coefficients = _times(inverse, right)
    left = [y - _sum(row, coefficients) for row, y in zip(rows, response, strict=True)]
    degrees = len(rows) - len(coefficients)
    variance = sum(value * value for value in left) / degrees
    return coefficients, [sqrt(variance * inverse[j][j]) for j in range(len(coefficients))], degrees


def logistic(rows, response, steps=30):
    """Coefficients and standard errors at the maximum of the likelihood, by Newton's steps from 0."""
    coefficients = [0.0] * len(rows[0])
    for _ in range(steps):
        chances = [1.0 / (1.0 + exp(-_sum(row, coefficients))) for row in rows]
        score = [
            sum(row[j] * (y - p) for row, y, p in zip(rows, response, chances, strict=True))
            for j in range(len(coefficients))
        ]
        inverse = _inverse(_weighted(rows, [p * (1.0 - p) for p in chances]))
        coefficients = [c + s for c, s in zip(coefficients, _times(inverse, score), strict=True)]
    return coefficients, [sqrt(inverse[j][j]) for j in range(len(coefficients))]


def cox(rows, times, events, steps=30):
    """The same of the partial likelihood with Efron's terms for ties.

    At each time with d events the risk sets are averaged d times: in the l-th
    of them every one of the d counts by 1 - l/d, as if l of them were gone.
    """
    width = len(rows[0])
    coefficients = [0.0] * width
    for _ in range(steps):
        score = [0.0] * width
        information = [[0.0] * width for _ in range(width)]
        risks = [exp(_sum(row, coefficients)) for row in rows]
        for time in sorted({t for t, event in zip(times, events, strict=True) if event}):
            died = [i for i in range(len(rows)) if times[i] == time and events[i]]
            for gone in range(len(died)):
                weights = {i: risks[i] for i in range(len(rows)) if times[i] >= time}
                for i in died:
                    weights[i] *= 1.0 - gone / len(died)
                total = sum(weights.values())
                mean = [sum(weight * rows[i][j] for i, weight in weights.items()) / total for j in range(width)]
                for j in range(width):
                    score[j] += rows[died[gone]][j] - mean[j]
                    for h in range(width):
                        second = sum(weight * rows[i][j] * rows[i][h] for i, weight in weights.items()) / total
                        information[j][h] += second - mean[j] * mean[h]
        inverse = _inverse(information)
        coefficients = [c + s for c, s in zip(coefficients, _times(inverse, score), strict=True)]
    return coefficients, [sqrt(inverse[j][j]) for j in range(width)]


def overlap(first, second):
    """Mean of the parts of two intervals that they share."""
    shared = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
    return (shared / (first[1] - first[0]) + shared / (second[1] - second[0])) / 2


def _sum(row, coefficients):
    return sum(value * coefficient for value, coefficient in zip(row, coefficients, strict=True))


def _times(matrix, vector):
    return [_sum(row, vector) for row in matrix]


def _weighted(rows, weights):
    width = len(rows[0])
    return [
        [sum(w * row[j] * row[h] for row, w in zip(rows, weights, strict=True)) for h in range(width)]
        for j in range(width)
    ]


def _inverse(matrix):
    """Gauss and Jordan, with the largest pivot."""
    width = len(matrix)
    work = [list(row) + [1.0 if i == j else 0.0 for j in range(width)] for i, row in enumerate(matrix)]
    for step in range(width):
        pivot = max(range(step, width), key=lambda i: abs(work[i][step]))
        work[step], work[pivot] = work[pivot], work[step]
        work[step] = [value / work[step][step] for value in work[step]]
        for i in range(width):
            if i != step:
                factor = work[i][step]
                work[i] = [a - factor * b for a, b in zip(work[i], work[step], strict=True)]
    return [row[width:] for row in work]
