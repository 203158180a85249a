"""Loops of mixtures of ellipsoids: densities, posterior probabilities and the sums that estimates need.

Rows go through in tiles stored column by column, several at once. No BLAS: its order follows its threads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.groups import group_mean
from anonpipe.types import BoolArray, FloatArray, IntArray

_TILE = 256  # Rows handled at a time
_TURNS, _SETTLED = 200, 1e-12  # Most turns of `common_shape`, and the change of an axis that ends them

NEGLIGIBLE = -60.0  # Log posterior below which a record counts as no member: 1e-26, far below rounding of any sum


class Ellipsoids(NamedTuple):
    """A mixture as the loops take it."""

    means: FloatArray  # Shape (n_groups, width)
    factors: FloatArray  # Inverse lower Cholesky factors of the covariances, shape (n_groups, width, width)
    constants: FloatArray  # Of the log density, the log weight included, shape (n_groups,)
    degrees: FloatArray  # Of freedom, infinite for a normal component, shape (n_groups,)
    diagonal: bool  # Whether all covariances are diagonal


@kernel
def invert_factors(covariances: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Inverse Cholesky factors of many covariances."""
    groups, width = covariances.shape[0], covariances.shape[1]
    inverses = np.zeros((groups, width, width))
    half_logs = np.zeros(groups)
    bad = np.zeros(groups, dtype=np.int64)
    lower = np.zeros((width, width))
    for g in range(groups):
        for j in range(width):
            for h in range(j + 1):
                total = covariances[g, j, h]
                for m in range(h):
                    total -= lower[j, m] * lower[h, m]
                if h < j:
                    lower[j, h] = total / lower[h, h]
                elif total > 0.0 and total < np.inf:
                    lower[j, j] = math.sqrt(total)
                else:
                    bad[g] = 1
                    lower[j, j] = 1.0
            half_logs[g] += math.log(lower[j, j])
        for j in range(width):
            inverses[g, j, j] = 1.0 / lower[j, j]
            for h in range(j):
                total = 0.0
                for m in range(h, j):
                    total += lower[j, m] * inverses[g, m, h]
                inverses[g, j, h] = -total / lower[j, j]
    return inverses, half_logs, bad


@kernel
def _load(features: FloatArray, low: int, count: int, columns: FloatArray) -> None:
    """Copy `count` rows from `low` on into `columns` (width, TILE)."""
    for i in range(count):
        for j in range(features.shape[1]):
            columns[j, i] = features[low + i, j]


@kernel
def _distances(
    columns: FloatArray,
    count: int,
    mean: FloatArray,
    factor: FloatArray,
    diagonal: bool,
    work: FloatArray,
    out: FloatArray,
) -> None:
    """Write the squared Mahalanobis distances of a tile to `out`; `work` (width + 1, TILE) is scratch."""
    width = columns.shape[0]
    white = work[width]
    out[:count] = 0.0
    for j in range(width):
        row = work[j]
        column = columns[j]
        at = mean[j]
        scale = factor[j, j]
        for i in range(count):
            row[i] = column[i] - at
            white[i] = scale * row[i]
        if not diagonal:
            first = j % 4
            for h in range(first):
                a, f = work[h], factor[j, h]
                for i in range(count):
                    white[i] += f * a[i]
            for h in range(first, j, 4):
                a, b, c, d = work[h], work[h + 1], work[h + 2], work[h + 3]
                e, f, p, q = factor[j, h], factor[j, h + 1], factor[j, h + 2], factor[j, h + 3]
                for i in range(count):
                    white[i] += (e * a[i] + f * b[i]) + (p * c[i] + q * d[i])
        for i in range(count):
            out[i] += white[i] * white[i]


@kernel
def _tile_logs(
    columns: FloatArray, count: int, mixture: Ellipsoids, work: FloatArray, distances: FloatArray, logs: FloatArray
) -> None:
    """Write log(weight · density), shape (n_groups, TILE), and the squared distances of a tile."""
    means, factors, constants, degrees, diagonal = mixture
    width = columns.shape[0]
    for g in range(means.shape[0]):
        _distances(columns, count, means[g], factors[g], diagonal, work, distances[g])
        row, squared, constant = logs[g], distances[g], constants[g]
        if degrees[g] == np.inf:
            for i in range(count):
                row[i] = constant - 0.5 * squared[i]
        else:
            power = 0.5 * (degrees[g] + width)
            for i in range(count):
                row[i] = constant - power * math.log1p(squared[i] / degrees[g])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _posteriors(logs: FloatArray, count: int, top: FloatArray, total: FloatArray) -> float:
    """Turn logs into posteriors in place; the tile's log-likelihood, not finite if a record's density is 0."""
    groups = logs.shape[0]
    for i in range(count):
        top[i] = logs[0, i]
    for g in range(1, groups):
        row = logs[g]
        for i in range(count):
            top[i] = max(top[i], row[i])
    total[:count] = 0.0
    for g in range(groups):
        row = logs[g]
        for i in range(count):
            less = row[i] - top[i]
            if less > NEGLIGIBLE:
                row[i] = math.exp(less)
                total[i] += row[i]
            else:
                row[i] = 0.0
    likelihood = 0.0
    for i in range(count):
        likelihood += top[i] + math.log(total[i])
        total[i] = 1.0 / total[i]
    for g in range(groups):
        row = logs[g]
        for i in range(count):
            row[i] *= total[i]
    return likelihood


@nb.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _dot(a: FloatArray, b: FloatArray, count: int) -> float:
    """Sum of products, several partial sums at once; the order depends on `count` alone."""
    total = 0.0
    for i in range(count):
        total += a[i] * b[i]
    return total


@kernel
def _add_scatter(rows: FloatArray, weights: FloatArray, count: int, sums: FloatArray, scatter: FloatArray) -> None:
    """Add weighted sums and products of `rows` (width, TILE), the lower triangle or the diagonal alone."""
    width = rows.shape[0]
    diagonal = scatter.shape[0] == 1
    weighted = np.empty(count)
    for j in range(width):
        row = rows[j]
        for i in range(count):
            weighted[i] = weights[i] * row[i]
        sums[j] += _dot(rows[j], weights, count)
        if diagonal:
            scatter[0, j] += _dot(row, weighted, count)
        else:
            for h in range(j + 1):
                scatter[j, h] += _dot(rows[h], weighted, count)


@kernel
def expectation(
    features: FloatArray, mixture: Ellipsoids
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The sums over records that the next estimates need."""
    means, degrees, diagonal = mixture.means, mixture.degrees, mixture.diagonal
    n, width = features.shape
    groups = means.shape[0]
    counts, heavy, tails = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    sums = np.zeros((groups, width))
    scatters = np.zeros((groups, 1 if diagonal else width, width))
    columns, work, members = np.empty((width, _TILE)), np.empty((width + 1, _TILE)), np.empty((width, _TILE))
    logs, distances = np.empty((groups, _TILE)), np.empty((groups, _TILE))
    top, total, weights = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE)
    likelihood = 0.0
    for low in range(0, n, _TILE):
        count = min(_TILE, n - low)
        _load(features, low, count, columns)
        _tile_logs(columns, count, mixture, work, distances, logs)
        likelihood += _posteriors(logs, count, top, total)
        for g in range(groups):
            normal = degrees[g] == np.inf
            inside = int(0)
            here, here_heavy, here_tails = 0.0, 0.0, 0.0
            for i in range(count):
                z = logs[g, i]
                if z > 0.0:
                    u = 1.0 if normal else (degrees[g] + width) / (degrees[g] + distances[g, i])
                    weights[inside] = z * u
                    here += z
                    here_heavy += z * u
                    here_tails += -z if normal else z * (math.log(u) - u)
                    for j in range(width):
                        members[j, inside] = columns[j, i] - means[g, j]
                    inside += 1
            if inside > 0:
                counts[g] += here
                heavy[g] += here_heavy
                tails[g] += here_tails
                _add_scatter(members, weights, inside, sums[g], scatters[g])
    if not diagonal:
        for g in range(groups):
            for j in range(width):
                for h in range(j):
                    scatters[g, h, j] = scatters[g, j, h]
    return likelihood, counts, heavy, tails, sums, scatters


@kernel
def _log_density(
    x: FloatArray, mean: FloatArray, factor: FloatArray, constant: float, degrees: float, diagonal: bool
) -> float:
    """log(weight · density) of one record in one component."""
    squared = 0.0
    for j in range(x.shape[0]):
        white = factor[j, j] * (x[j] - mean[j])
        if not diagonal:
            for h in range(j):
                white += factor[j, h] * (x[h] - mean[h])
        squared += white * white
    if degrees == np.inf:
        return float(constant - 0.5 * squared)
    return float(constant - 0.5 * (degrees + x.shape[0]) * math.log1p(squared / degrees))


@kernel
def move_costs(
    features: FloatArray, rows: IntArray, labels: IntArray, targets: IntArray, mixture: Ellipsoids
) -> FloatArray:
    """log(weight · density) of each of `rows` in its own component less that in each target, (n, n_targets)."""
    means, factors, constants, degrees, diagonal = mixture
    out = np.empty((rows.shape[0], targets.shape[0]))
    for i in range(rows.shape[0]):
        x, g = features[rows[i]], labels[rows[i]]
        own = _log_density(x, means[g], factors[g], constants[g], degrees[g], diagonal)
        for t in range(targets.shape[0]):
            g = targets[t]
            out[i, t] = own - _log_density(x, means[g], factors[g], constants[g], degrees[g], diagonal)
    return out


@kernel
def most_likely(features: FloatArray, mixture: Ellipsoids) -> IntArray:
    """The component of the largest weight · density of every row, the first of equal ones, shape (n_rows,)."""
    n, width = features.shape
    groups = mixture.means.shape[0]
    labels = np.empty(n, dtype=np.int64)
    columns, work = np.empty((width, _TILE)), np.empty((width + 1, _TILE))
    logs, distances = np.empty((groups, _TILE)), np.empty((groups, _TILE))
    for low in range(0, n, _TILE):
        count = min(_TILE, n - low)
        _load(features, low, count, columns)
        _tile_logs(columns, count, mixture, work, distances, logs)
        for i in range(count):
            best = 0
            for g in range(1, groups):
                if logs[g, i] > logs[best, i]:
                    best = g
            labels[low + i] = best
    return labels


@kernel
def common_shape(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Volumes λ_g, shape (n_groups,), and a common shape a, (width,), with Π a_j = 1, by turns."""
    # Each is the most likely one given the other. In numpy the turns were a third of all time of a choice.
    groups, width = values.shape
    shape, volumes, change = np.empty(width), np.empty(groups), np.inf
    shape[:] = 1.0
    for turn in range(_TURNS + 1):
        for g in range(groups):
            total = 0.0
            for j in range(width):
                total += values[g, j] / shape[j]
            volumes[g] = total / (width * counts[g])
        if change < _SETTLED or turn == _TURNS:
            break
        new, logs = np.zeros(width), 0.0
        for j in range(width):
            for g in range(groups):
                new[j] += values[g, j] / volumes[g]
            logs += math.log(new[j])
        new /= math.exp(logs / width)
        change = 0.0
        for j in range(width):
            change = max(change, abs(new[j] / shape[j] - 1.0))
        shape = new
    return volumes, shape


@kernel
def choose_moves(
    records: IntArray, targets: IntArray, donors: IntArray, lacking: IntArray, spare: IntArray
) -> BoolArray:
    """Which moves are made, in order: the target lacks records, the donor can spare some, the record has not moved."""
    moved = np.zeros(records.max() + 1 if records.shape[0] else 0, dtype=np.bool_)
    chosen = np.zeros(records.shape[0], dtype=np.bool_)
    for entry in range(records.shape[0]):
        target, donor = targets[entry], donors[entry]
        if lacking[target] > 0 and spare[donor] > 0 and not moved[records[entry]]:
            chosen[entry] = True
            moved[records[entry]] = True
            lacking[target] -= 1
            spare[donor] -= 1
    return chosen


@kernel
def moments_by_group(features: FloatArray, order: IntArray, starts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean, shape (n_groups, width), and scatter about it, (n_groups, width, width), of each group; 0 for no rows."""
    groups, width = starts.shape[0] - 1, features.shape[1]
    means = np.zeros((groups, width))
    scatters = np.zeros((groups, width, width))
    rows, ones, sums = np.empty((width, _TILE)), np.empty(_TILE), np.zeros(width)
    ones[:] = 1.0
    for g in range(groups):
        if starts[g + 1] == starts[g]:
            continue
        group_mean(features, order[starts[g] : starts[g + 1]], means[g])
        for low in range(starts[g], starts[g + 1], _TILE):
            count = min(_TILE, starts[g + 1] - low)
            for i in range(count):
                for j in range(width):
                    rows[j, i] = features[order[low + i], j] - means[g, j]
            _add_scatter(rows, ones, count, sums, scatters[g])
        for j in range(width):
            for h in range(j):
                scatters[g, h, j] = scatters[g, j, h]
    return means, scatters


@kernel
def map_by_group(
    draws: FloatArray, labels: IntArray, origins: FloatArray, matrices: FloatArray, targets: FloatArray, out: FloatArray
) -> None:
    """Write targets[g] + matrices[g] (draw - origins[g]) of every row to `out`, g the row's group."""
    width = draws.shape[1]
    for i in range(draws.shape[0]):
        g = labels[i]
        for j in range(width):
            out[i, j] = targets[g, j]
        for h in range(width):
            step = draws[i, h] - origins[g, h]
            for j in range(width):
                out[i, j] += matrices[g, j, h] * step
