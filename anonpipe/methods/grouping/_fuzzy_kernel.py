"""Fuzzy c-means, repeated with fewer clusters until all are large enough, and inside large clusters again."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.distance import gather_columns, squared_distances
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping._fill_kernel import fill_small
from anonpipe.types import FloatArray, IntArray

# Distances of a record to two centres that differ by less than this share are equal: coinciding centres are one
SAME = 1e-9


@nb.njit(cache=True, nogil=True)
def fuzzy_recursively(
    features: FloatArray,
    k: int,
    order: IntArray,
    fuzziness: float,
    step: float,
    shrink: float,
    iterations: int,
    labels: IntArray,
) -> None:
    """Write the group of every record to `labels`; `order`, all rows in random order, changes in place.

    The centres of a set start at the records of it that come first in `order`.
    """
    label = 0
    stack = [(0, order.shape[0])]
    while len(stack) > 0:
        low, high = stack.pop()
        if high - low < 2 * k:
            labels[order[low:high]] = label
            label += 1
            continue
        rows = order[low:high].copy()
        inside, starts = sort_groups(divide(features, rows, k, fuzziness, step, shrink, iterations))
        order[low:high] = rows[inside]
        for g in range(starts.shape[0] - 2, -1, -1):
            if starts[g] < starts[g + 1]:
                stack.append((low + starts[g], low + starts[g + 1]))


@nb.njit(cache=True, nogil=True)
def divide(
    features: FloatArray, rows: IntArray, k: int, fuzziness: float, step: float, shrink: float, iterations: int
) -> IntArray:
    """Cluster of each of `rows` (2k or more); two clusters or more are in use, and each of these has k records.

    Where two clusters are still too many, the smaller one is filled up. Equal
    records, which no centres can tell apart, are divided as they come.
    """
    count = rows.shape[0] // k
    found: IntArray = np.minimum(np.arange(rows.shape[0]) // k, count - 1)
    if all_equal(features, rows):
        return found
    while True:
        centres = gather_columns(features, rows[:count])
        fuzzy_centres(features, rows, centres, fuzziness, iterations)
        assign(features, rows, centres, found)
        sizes = np.zeros(count, dtype=np.int64)
        for c in found:
            sizes[c] += 1
        if (sizes > 0).sum() > 1 and not ((sizes > 0) & (sizes < k)).any():
            return found
        if count == 2:
            fill_small(features, rows, k, found, np.ascontiguousarray(centres.T))
            return found
        count = max(2, min(count - 1, int(count * shrink)))
        fuzziness += step


@nb.njit(cache=True, nogil=True)
def all_equal(features: FloatArray, rows: IntArray) -> bool:
    """Whether `rows` are equal records."""
    for row in rows:
        for j in range(features.shape[1]):
            if features[row, j] != features[rows[0], j]:
                return False
    return True


@nb.njit(cache=True, nogil=True)
def fuzzy_centres(features: FloatArray, rows: IntArray, centres: FloatArray, fuzziness: float, iterations: int) -> None:
    """Move `centres` (width, c) by fuzzy c-means over `rows`, in place.

    The membership of record x in cluster i is 1 / Σ_j (d_i / d_j)^(1/(m-1)),
    d the squared distances to the centres and m `fuzziness`; a centre is the
    mean of the records weighted by their memberships to the power m. Records
    are taken one by one, so that no table of memberships is held. Stops where
    no centre moves by more than a thousandth of the records' spread.
    """
    width, count = centres.shape
    power = 1.0 / (fuzziness - 1.0)
    distances = np.empty(count)
    shares = np.empty(count)
    weights = np.empty(count)
    sums = np.empty((width, count))
    limit = 1e-6 * spread(features, rows)
    for _ in range(iterations):
        weights[:] = 0.0
        sums[:] = 0.0
        for row in rows:
            squared_distances(centres, count, features[row], distances)
            memberships(distances, power, shares)
            for c in range(count):
                if shares[c] > 0.0:
                    weight = shares[c] ** fuzziness
                    weights[c] += weight
                    for j in range(width):
                        sums[j, c] += weight * features[row, j]
        moved = 0.0
        for c in range(count):
            if weights[c] > 0.0:
                step = 0.0
                for j in range(width):
                    value = sums[j, c] / weights[c]
                    step += (value - centres[j, c]) ** 2
                    centres[j, c] = value
                moved = max(moved, step)
        if moved <= limit:
            return


@nb.njit(cache=True, nogil=True)
def spread(features: FloatArray, rows: IntArray) -> float:
    """Mean squared distance of `rows` to their mean."""
    total = 0.0
    for j in range(features.shape[1]):
        mean = 0.0
        for row in rows:
            mean += features[row, j]
        mean /= rows.shape[0]
        for row in rows:
            total += (features[row, j] - mean) ** 2
    return float(total / rows.shape[0])


@nb.njit(cache=True, nogil=True)
def memberships(distances: FloatArray, power: float, shares: FloatArray) -> None:
    """Write the memberships of one record to `shares`, given its squared distances to all centres.

    Those in centres that lie on the record are equal and the others zero. All
    are relative to the nearest centre, so that nothing overflows; memberships
    that add less than 1e-16 are left out.
    """
    least = distances.min()
    total = 0.0
    lowest = 1e-16 ** (1.0 / power)
    for c in range(distances.shape[0]):
        shares[c] = 0.0
        if distances[c] == least:
            shares[c] = 1.0
        elif least > 0.0 and least > lowest * distances[c]:
            shares[c] = (least / distances[c]) ** power
        total += shares[c]
    for c in range(distances.shape[0]):
        shares[c] /= total


@nb.njit(cache=True, nogil=True)
def assign(features: FloatArray, rows: IntArray, centres: FloatArray, found: IntArray) -> None:
    """Write the cluster of largest membership, which is the nearest centre, to `found`; of equals the first."""
    distances = np.empty(centres.shape[1])
    for i in range(rows.shape[0]):
        squared_distances(centres, centres.shape[1], features[rows[i]], distances)
        border = distances.min() * (1.0 + SAME)
        for c in range(centres.shape[1]):
            if distances[c] <= border:
                found[i] = c
                break
