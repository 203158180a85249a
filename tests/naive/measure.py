"""Slow, literal twins of the measures of utility: equations in lists and loops."""

from __future__ import annotations

import itertools
import math
import statistics

from tests.naive.mixture import inverse_and_determinant


def columns_of(table):
    return [[float(row[j]) for row in table] for j in range(len(table[0]))]


def correlation(x, y):
    mx, my = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return products / math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))


def ranks(x):
    """1 to n; equal values share the mean of their ranks."""
    return [sum(other < value for other in x) + (sum(other == value for other in x) + 1) / 2 for value in x]


def percents(original, released):
    return [100 * abs(b - a) / abs(a) for a, b in zip(original, released, strict=True)]


def abim(original, released):
    """Eq. 14 of Li & Sarkar, in per cent."""
    changes = percents(*([statistics.fmean(c) for c in columns_of(t)] for t in (original, released)))
    return sum(changes) / len(changes)


def abisd(original, released):
    """Eq. 15."""
    changes = percents(*([statistics.stdev(c) for c in columns_of(t)] for t in (original, released)))
    return sum(changes) / len(changes)


def abico(original, released):
    """Eq. 16."""
    pairs = [[correlation(x, y) for x, y in itertools.combinations(columns_of(t), 2)] for t in (original, released)]
    return sum(percents(*pairs)) / len(pairs[0])


def lasko_table(original, released):
    """The four medians."""
    old, new = columns_of(original), columns_of(released)
    both = list(zip(old, new, strict=True))
    means = [abs(statistics.fmean(b) - statistics.fmean(a)) / statistics.stdev(a) for a, b in both]
    variances = [abs(statistics.variance(b) - statistics.variance(a)) / statistics.variance(a) for a, b in both]
    found = [statistics.median(means), statistics.median(variances)]
    for made in (lambda column: column, ranks):
        differences = [
            abs(correlation(made(new[j]), made(new[h])) - correlation(made(old[j]), made(old[h])))
            for j, h in itertools.combinations(range(len(old)), 2)
        ]
        found.append(statistics.median(differences))
    return found


def moment(table, columns, central):
    """Mean over the records of the product of their values in `columns`."""
    means = [statistics.fmean(c) if central else 0.0 for c in columns_of(table)]
    total = 0.0
    for row in table:
        value = 1.0
        for j in columns:
            value *= float(row[j]) - means[j]
        total += value
    return total / len(table)


def moment_changes(original, released, order, central):
    """Changes in per cent of all moments of one order."""
    changes = []
    for columns in itertools.product(range(len(original[0])), repeat=order):
        if list(columns) == sorted(columns):
            changes += percents([moment(original, columns, central)], [moment(released, columns, central)])
    return changes


def regression(table, place):
    """Slopes and their standard errors of one column on all others and a constant."""
    rows = [[1.0] + [float(v) for j, v in enumerate(row) if j != place] for row in table]
    outcome = [float(row[place]) for row in table]
    size = len(rows[0])
    products = [[sum(row[a] * row[b] for row in rows) for b in range(size)] for a in range(size)]
    across = [sum(row[a] * y for row, y in zip(rows, outcome, strict=True)) for a in range(size)]
    inverse, _ = inverse_and_determinant(products)
    slopes = [sum(inverse[a][b] * across[b] for b in range(size)) for a in range(size)]
    left = [y - sum(s * v for s, v in zip(slopes, row, strict=True)) for row, y in zip(rows, outcome, strict=True)]
    variance = sum(e * e for e in left) / (len(rows) - size)
    return slopes[1:], [math.sqrt(variance * inverse[a][a]) for a in range(1, size)]


def coefficient_changes(original, released):
    """Mean changes in per cent of slopes and of standard errors."""
    slopes, errors = [], []
    for place in range(len(original[0])):
        (old, old_errors), (new, new_errors) = regression(original, place), regression(released, place)
        slopes += percents(old, new)
        errors += percents(old_errors, new_errors)
    return sum(slopes) / len(slopes), sum(errors) / len(errors)


def terms_of(width, order, powers):
    """Choices of up to `order` columns in order, with or without repetition."""
    found = []
    for size in range(1, order + 1):
        for columns in itertools.product(range(width), repeat=size):
            ordered = list(columns) == sorted(columns)
            if ordered and (powers or len(set(columns)) == size):
                found.append(columns)
    return found


def propensity(original, released, terms, passes=40):
    """U_p, eq. 11 with the share of released records: Newton's method from 0 on the products as they are."""
    rows = []
    for row in [*original, *released]:
        values = [1.0]
        for term in terms:
            value = 1.0
            for j in term:
                value *= float(row[j])
            values.append(value)
        rows.append(values)
    t = [0.0] * len(original) + [1.0] * len(released)
    size = len(rows[0])
    beta = [0.0] * size
    for _ in range(passes):
        p = [1 / (1 + math.exp(-sum(b * v for b, v in zip(beta, row, strict=True)))) for row in rows]
        gradient = [sum((t[i] - p[i]) * rows[i][a] for i in range(len(rows))) for a in range(size)]
        curvature = [
            [sum(p[i] * (1 - p[i]) * rows[i][a] * rows[i][b] for i in range(len(rows))) for b in range(size)]
            for a in range(size)
        ]
        inverse, _ = inverse_and_determinant(curvature)
        beta = [beta[a] + sum(inverse[a][b] * gradient[b] for b in range(size)) for a in range(size)]
    share = len(released) / len(rows)
    return sum((value - share) ** 2 for value in p) / len(rows)
