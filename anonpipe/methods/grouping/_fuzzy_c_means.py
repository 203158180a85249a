"""Microaggregation by fuzzy c-means."""

from __future__ import annotations

import math
from typing import Literal

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.points import gather_columns, sort_groups, squared_distances
from anonpipe.methods.grouping._fill_kernel import fill_small
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class FuzzyCMeansOptions(GroupingOptions):
    """Fuzzy c-means, run with fewer and softer clusters until all have k records."""

    method: Literal["fuzzy_c_means"]
    fuzziness: float = Field(default=1.1, gt=1)
    step: float = Field(default=0.02, gt=0)
    shrink: float = Field(default=0.5, gt=0, lt=1)
    iterations: int = Field(default=20, ge=1)


def fuzzy_c_means(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    fuzziness: float = 1.1,
    step: float = 0.02,
    shrink: float = 0.5,
    iterations: int = 20,
) -> IntArray:
    """Group records by fuzzy c-means with fewer and fewer clusters.

    A set of n >= 2k records is clustered by fuzzy c-means with c = floor(n/k)
    clusters and the exponent m = `fuzziness`, and each record goes to the
    cluster of its largest membership. Where a cluster has from 1 to k - 1
    records, or all are in one, c is lowered to `shrink` · c, m is raised by
    `step`, and it is tried again. The clusters found are divided further in
    the same way, until all have fewer than 2k.

    The published method does not say what happens to a set that cannot be
    divided, as one far outlier can make any: two clusters are the last try,
    and then the smaller one takes the records nearest to its mean out of the
    other until it has k. So it always ends, and groups have k to 2k - 1
    records. Equal records are divided as they come. The method says that c is
    large and m small at first, not how they change: the options do. With many
    columns and a large m all centres fall together, so that m starts low.

    Memory is linear in the rows; memberships are not stored.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Draws the records at which centres start.
    fuzziness
        The exponent m at first, 1.01 or more.
    step
        What is added to m each time, 0 or more.
    shrink
        What c is multiplied by each time, above 0 and below 1; c falls by one
        at least.
    iterations
        Most iterations of one run of fuzzy c-means, 1 or more.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    Raises
    ------
    ValueError
        An option is out of its range.

    References
    ----------
    Domingo-Ferrer and Torra 2003, J. Adv. Comput. Intell. Intell. Inform.
    7(2):153-159, doi:10.20965/jaciii.2003.p0153, as described by Kabir and
    Wang 2010, doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> labels = fuzzy_c_means(features, 2, rng=np.random.default_rng(0))
    >>> np.bincount(labels).min() >= 2
    np.True_
    """
    if not 1.01 <= fuzziness < math.inf:
        raise ValueError(f"fuzziness is {fuzziness}; give 1.01 or more")
    if not 0 <= step < math.inf:
        raise ValueError(f"step is {step}; give 0 or more")
    if not 0 < shrink < 1:
        raise ValueError(f"shrink is {shrink}; give a number above 0 and below 1")
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}; give 1 or more")
    order = rng.permutation(len(features)).astype(np.int64)
    labels = np.empty(len(features), dtype=np.int64)
    fuzzy_recursively(features, k, order, float(fuzziness), float(step), float(shrink), iterations, labels)
    return labels


METHOD = Grouping(
    function=fuzzy_c_means,
    options=FuzzyCMeansOptions,
    published="Microaggregation by fuzzy c-means",
    reference="Domingo-Ferrer and Torra 2003, doi:10.20965/jaciii.2003.p0153",
    cost="time O(iterations·n²·w/k), more with many far records; memory O(n·w)",
    about={
        "fuzziness": "the exponent m at first, 1.1 by default: the nearer to 1, the harder the clusters",
        "step": "what is added to m each time that a cluster has fewer than k records, 0.02 by default",
        "shrink": "what the number of clusters is multiplied by each time, 0.5 by default",
        "iterations": "most iterations of one run of fuzzy c-means, 20 by default",
    },
    sizes="k to 2k-1",
    largest=under_2k,
    draws=True,
)


# --- Fuzzy c-means, repeated with fewer clusters until all are large enough, and inside large clusters again ----------

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
