"""Slow literal twins of the maskers: lists and loops, written from the papers."""

from __future__ import annotations

import math
from statistics import NormalDist

from anonpipe.rng import generator

NORMAL = NormalDist()


def edges_of(parts):
    place, out = 0, []
    for rows in parts:
        out.append((place, place + rows))
        place += rows
    return out


def mean_of(column):
    return math.fsum(column) / len(column)


def columns_of(features):
    return [[row[j] for row in features] for j in range(len(features[0]))]


def covariance_of(features):
    columns, n = columns_of(features), len(features)
    centred = [[v - mean_of(column) for v in column] for column in columns]
    return [[math.fsum(x * y for x, y in zip(a, b, strict=True)) / (n - 1) for b in centred] for a in centred]


def eigen(matrix):
    """Jacobi's rotations: eigenvalues, falling, and their vectors, the largest entry positive."""
    p = len(matrix)
    a = [list(row) for row in matrix]
    v = [[float(i == j) for j in range(p)] for i in range(p)]
    for _ in range(60):
        for r in range(p):
            for s in range(r + 1, p):
                if a[r][s] == 0.0:
                    continue
                angle = math.atan2(2 * a[r][s], a[s][s] - a[r][r]) / 2
                c, d = math.cos(angle), math.sin(angle)
                for i in range(p):
                    a[i][r], a[i][s] = c * a[i][r] - d * a[i][s], d * a[i][r] + c * a[i][s]
                for i in range(p):
                    a[r][i], a[s][i] = c * a[r][i] - d * a[s][i], d * a[r][i] + c * a[s][i]
                for i in range(p):
                    v[i][r], v[i][s] = c * v[i][r] - d * v[i][s], d * v[i][r] + c * v[i][s]
    found = []
    for j in range(p):
        vector = [v[i][j] for i in range(p)]
        largest = max(vector, key=abs)
        found.append((a[j][j], [x if largest > 0 else -x for x in vector]))
    found.sort(key=lambda pair: -pair[0])
    return [value for value, _ in found], [vector for _, vector in found]


def correlation_factor(covariance):
    """L with LL' = covariance by the eigenvectors of the correlation matrix, values rising, without zeros."""
    scale = [math.sqrt(covariance[j][j]) for j in range(len(covariance))]
    correlation = [
        [c / (a * b) for c, b in zip(row, scale, strict=True)] for row, a in zip(covariance, scale, strict=True)
    ]
    values, vectors = eigen(correlation)
    columns = [
        [s * x * math.sqrt(value) for s, x in zip(scale, vector, strict=True)]
        for value, vector in zip(values[::-1], vectors[::-1], strict=True)
        if value > 1e-14
    ]
    return [[column[i] for column in columns] for i in range(len(scale))]


def noise(features, parts, key, amount, centred):
    n, width = len(features), len(features[0])
    mean = [mean_of(column) for column in columns_of(features)]
    covariance = covariance_of(features)
    factor = correlation_factor([[amount * c for c in row] for row in covariance])
    out = []
    for part, (low, high) in enumerate(edges_of(parts)):
        rng = generator(key, "mask 1 add", part)
        for i in range(low, high):
            z = [rng.standard_normal() for _ in factor[0]]
            e = [math.fsum(a * b for a, b in zip(row, z, strict=True)) for row in factor]
            out.append([mean[j] + ((features[i][j] - mean[j]) + e[j]) / math.sqrt(1 + amount) for j in range(width)])
    if centred:
        moved = [mean_of(column) - m for column, m in zip(columns_of(out), mean, strict=True)]
        out = [[v - moved[j] for j, v in enumerate(row)] for row in out]
    assert len(out) == n
    return out


def in_spectral_basis(features, change):
    """T = (X - m) V, each column of T replaced by `change(column, j, variance)`, and back."""
    mean = [mean_of(column) for column in columns_of(features)]
    values, vectors = eigen(covariance_of(features))
    components = [
        [math.fsum((x - m) * v for x, m, v in zip(row, mean, vector, strict=True)) for row in features]
        for vector in vectors
    ]
    changed = [change(column, j, max(values[j], 0.0)) for j, column in enumerate(components)]
    return [
        [mean[j] + math.fsum(changed[c][i] * vectors[c][j] for c in range(len(mean))) for j in range(len(mean))]
        for i in range(len(features))
    ]


def spectral_swap(features, key):
    def permuted(column, j, _):
        places = generator(key, "mask 2 permute", j).permutation(len(column))
        return [column[i] for i in places]

    return in_spectral_basis(features, permuted)


def normal_synthesis(features, key):
    def drawn(column, j, variance):
        rng = generator(key, "mask 2 draw", j)
        return [rng.standard_normal() * math.sqrt(variance) for _ in column]

    return in_spectral_basis(features, drawn)


def suppression(features, share, outside):
    values, _ = eigen(covariance_of(features))
    small, total = set(), 0.0
    for j in sorted(range(len(values)), key=lambda j: (values[j], -j)):
        total += max(values[j], 0.0)
        if total <= share * sum(values):
            small.add(j)

    def left(column, j, variance):
        limit = math.inf if outside is None else outside * math.sqrt(variance)
        return [0.0 if j in small or abs(v) > limit else v for v in column]

    return in_spectral_basis(features, left)


def midranks(column):
    return [sum(u < v for u in column) + (sum(u == v for u in column) + 1) / 2 for v in column]


def correlation_of(a, b):
    p, q = mean_of(a), mean_of(b)
    across = math.fsum((x - p) * (y - q) for x, y in zip(a, b, strict=True))
    own = math.fsum((x - p) ** 2 for x in a) * math.fsum((y - q) ** 2 for y in b)
    return across / math.sqrt(own) if own > 0 else 0.0


def shuffled_order(features, parts, key, kept):
    """Draws of the shuffled column of a table with two columns, the first kept or not, from Spearman's coefficient."""
    a, b = columns_of(features)
    n = len(a)
    rho = 2 * math.sin(math.pi / 6 * correlation_of(midranks(a), midranks(b)))
    scores = [NORMAL.inv_cdf((r - 0.5) / n) for r in midranks(a)]
    spread = math.sqrt(mean_of([(s - mean_of(scores)) ** 2 for s in scores]))
    scores = [(s - mean_of(scores)) / spread if spread else 0.0 for s in scores]
    rho = rho if spread else 0.0
    out = []
    for part, (low, high) in enumerate(edges_of(parts)):
        rng = generator(key, "mask 3 draw", part)
        for i in range(low, high):
            out.append(rho * scores[i] + math.sqrt(1 - rho * rho) * rng.standard_normal())
    return out


def mondrian(features, k, strict):
    """Groups of row numbers, by the recursive algorithm of the paper."""
    width = len(features[0])
    ranges = [max(column) - min(column) for column in columns_of(features)]

    def split(rows, column):
        ordered = sorted(rows, key=lambda i: (features[i][column], i))
        if not strict:
            return ordered[: len(rows) // 2], ordered[len(rows) // 2 :]
        median = features[ordered[(len(rows) - 1) // 2]][column]
        return [i for i in ordered if features[i][column] <= median], [
            i for i in ordered if features[i][column] > median
        ]

    def anonymize(rows):
        spans = []
        for j in range(width):
            values = [features[i][j] for i in rows]
            spans.append((max(values) - min(values)) / ranges[j] if ranges[j] > 0 else 0.0)
        for j in sorted(range(width), key=lambda j: (-spans[j], j)):
            left, right = split(rows, j)
            if spans[j] > 0 and len(left) >= k and len(right) >= k:
                return anonymize(left) + anonymize(right)
        return [sorted(rows)]

    return anonymize(list(range(len(features))))


def solve(matrix, right):
    """Gauss with pivots."""
    n = len(matrix)
    a = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    for c in range(n):
        pivot = max(range(c, n), key=lambda i: abs(a[i][c]))
        a[c], a[pivot] = a[pivot], a[c]
        for i in range(n):
            if i != c:
                factor = a[i][c] / a[c][c]
                a[i] = [x - factor * y for x, y in zip(a[i], a[c], strict=True)]
    return [a[i][n] / a[i][i] for i in range(n)]


def least_squares(design, wanted):
    """Coefficients, intercept first, and the residual sum of squares."""
    rows = [[1.0, *row] for row in design]
    p = len(rows[0])
    normal = [[math.fsum(r[a] * r[b] for r in rows) for b in range(p)] for a in range(p)]
    right = [math.fsum(r[a] * y for r, y in zip(rows, wanted, strict=True)) for a in range(p)]
    beta = solve(normal, right)
    rest = [y - math.fsum(b * x for b, x in zip(beta, r, strict=True)) for r, y in zip(rows, wanted, strict=True)]
    return beta, math.fsum(e * e for e in rest)


def logistic(design, codes, categories, penalty):
    """Multinomial logistic regression by plain gradient ascent with ever finer steps, intercepts first.

    Returns coefficients[category - 1][0 is the intercept].
    """
    rows = [[1.0, *row] for row in design]
    p, m = len(rows[0]), categories - 1
    beta = [[0.0] * p for _ in range(m)]

    def chances(row, beta):
        logits = [0.0] + [math.fsum(b * x for b, x in zip(one, row, strict=True)) for one in beta]
        top = max(logits)
        weights = [math.exp(v - top) for v in logits]
        return [w / sum(weights) for w in weights]

    step = 4.0 / len(rows)
    for _ in range(6_000):
        gradient = [[-penalty * b if j else 0.0 for j, b in enumerate(one)] for one in beta]
        for row, code in zip(rows, codes, strict=True):
            found = chances(row, beta)
            for c in range(m):
                missed = float(code == c + 1) - found[c + 1]
                for j in range(p):
                    gradient[c][j] += missed * row[j]
        beta = [
            [b + step * g for b, g in zip(one, slope, strict=True)] for one, slope in zip(beta, gradient, strict=True)
        ]
        if max(abs(g) for slope in gradient for g in slope) < 1e-8 * len(rows):
            break
    return beta


def sequential_regression(features, parts, key, binary, penalty):
    """One round; `binary` are the columns of -1 and +1. Numbers and one draw at a time in order of the columns."""
    n, width = len(features), len(features[0])
    columns = columns_of(features)
    mean = [mean_of(c) for c in columns]
    spread = [math.sqrt(math.fsum((v - m) ** 2 for v in c) / (n - 1)) for c, m in zip(columns, mean, strict=True)]
    scores = [[(row[j] - mean[j]) / spread[j] for j in range(width)] for row in features]
    fits = []
    for j in range(width):
        design = [row[:j] for row in scores]
        if j in binary:
            fits.append(logistic(design, [int(row[j] > 0) for row in features], 2, penalty)[0])
        else:
            beta, rest = least_squares(design, columns[j])
            fits.append((beta, math.sqrt(rest / (n - 1))))
    out = []
    number = 2 if binary else 1
    for part, (low, high) in enumerate(edges_of(parts)):
        rng = generator(key, f"mask {number} draw", part)
        made = [[] for _ in range(low, high)]
        for j in range(width):
            drawn = []
            for row in made:
                x = [1.0] + [(v - m) / s for v, m, s in zip(row, mean, spread, strict=False)]
                if j in binary:
                    logit = math.fsum(b * v for b, v in zip(fits[j], x, strict=True))
                    drawn.append(1.0 if rng.random() >= 1 / (1 + math.exp(logit)) else -1.0)
                else:
                    beta, deviation = fits[j]
                    centre = math.fsum(b * v for b, v in zip(beta, x, strict=True))
                    drawn.append(centre + deviation * rng.standard_normal())
            for row, value in zip(made, drawn, strict=True):
                row.append(value)
        out.extend(made)
    return out


def swap_partners(draws, reach):
    """Moore's rank-based proximity swap: from the lowest rank up, with one of the next that are still unswapped.

    Those form a list, in which the last one takes the place of one that leaves: only so are draws used alike.
    """
    partner, pool = list(range(len(draws))), []

    def leaves(rank):
        pool[pool.index(rank)] = pool[-1]
        pool.pop()

    for rank in range(len(draws)):
        pool += [ahead for ahead in range(len(draws)) if ahead == rank + reach or (rank == 0 and 0 < ahead < reach)]
        if rank in pool:
            leaves(rank)
        if partner[rank] == rank and pool:
            other = pool[int(draws[rank] * len(pool))]
            leaves(other)
            partner[rank], partner[other] = other, rank
    return partner
