"""MDAV that minds the classes of a group."""

from __future__ import annotations

from typing import Literal

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.points import gather_columns, squared_distances
from anonpipe.methods.grouping._classes import checked_alpha, diagonal, jensen_shannon
from anonpipe.methods.grouping._options import ClassGroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class ClassMdavOptions(ClassGroupingOptions):
    """MDAV whose groups weigh distance and class divergence by `alpha`."""

    method: Literal["class_mdav"]
    alpha: float = Field(default=0.5, ge=0, le=1)


def class_mdav(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    alpha: float = 0.5,
) -> IntArray:
    """Group records by MDAV whose groups are filled by distance and classes.

    Groups form as in `mdav_generic`: around the record r furthest from the
    mean and around s furthest from r while 3k records are left, then one
    around r, and the rest. But only a group's first record is the nearest.
    Each of the k - 1 others is the record of least alpha·L + (1 - alpha)·JSD,
    with L its distance to r (or s) as a share of the diagonal of the box
    around all points and JSD the Jensen-Shannon divergence (base 2) of
    `class_shares` from the group with it. Ties go to the lower row number.

    The last group takes what is left: records of the class that the others
    had no use for, from wherever they are. It is the one that may hold one
    class only.

    With `alpha` 1 the groups are those of `mdav_generic`.

    References
    ----------
    Li and Sarkar 2013, Management Science 59(4), doi:10.1287/mnsc.1120.1584,
    section 8 proposes to carry their eq. 6 over to other methods; the rule
    here is this project's.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> classes = np.array([0, 0, 1, 1, 1, 0])
    >>> options = {"class_shares": np.array([0.5, 0.5]), "rng": np.random.default_rng(0)}
    >>> class_mdav(features, 2, classes=classes, **options).tolist()
    [0, 2, 0, 2, 1, 1]
    """
    alpha = checked_alpha(alpha)
    labels: IntArray = mixed_groups(features, k, classes, class_shares, alpha, diagonal(features))
    return labels


METHOD = Grouping(
    function=class_mdav,
    options=ClassMdavOptions,
    published="MDAV with the composite distance of CREST",
    reference="after Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8",
    cost="time O(n²·w/k + n²), memory O(n·w)",
    about={
        "alpha": "weight of the distance against the divergence of the classes, 0.5 by default; 1 is mdav_generic",
    },
    sizes="k, and k to 2k-1 for the last group",
    largest=under_2k,
    classes=True,
)


# --- MDAV over one block, with members chosen by distance and by the classes of the group -----------------------------


@nb.njit(cache=True, nogil=True)
def mixed_groups(
    features: FloatArray, k: int, classes: IntArray, shares: FloatArray, alpha: float, unit: float
) -> IntArray:
    """Group of each record, shape (n,); `anonpipe.methods.grouping.METHODS["class_mdav"]` says by which rule.

    The records still to be grouped are the first `left` of `columns`; one that
    leaves is overwritten by the last. Ties are broken by row number.
    """
    n = features.shape[0]
    ids = np.arange(n)
    columns = gather_columns(features, ids)
    labels = np.empty(n, dtype=np.int64)
    distances = np.empty(n)
    front = np.empty(shares.shape[0], dtype=np.int64)
    counts = np.empty(shares.shape[0])
    places = np.empty(k, dtype=np.int64)
    left = n
    label = 0
    while left >= 2 * k:
        squared_distances(columns, left, mean_of(columns, left), distances)
        r = columns[:, furthest_place(distances, left, ids)].copy()
        squared_distances(columns, left, r, distances)
        s = columns[:, furthest_place(distances, left, ids)].copy()
        pair = left >= 3 * k
        choose_mixed(distances, left, ids, classes, shares, alpha, unit, front, counts, places)
        left = take_places(columns, ids, left, places, labels, label)
        label += 1
        if pair:
            squared_distances(columns, left, s, distances)
            choose_mixed(distances, left, ids, classes, shares, alpha, unit, front, counts, places)
            left = take_places(columns, ids, left, places, labels, label)
            label += 1
    for i in range(left):
        labels[ids[i]] = label
    return labels


@nb.njit(cache=True, nogil=True)
def mean_of(columns: FloatArray, left: int) -> FloatArray:
    """Mean of the first `left` records, shape (width,)."""
    mean = np.empty(columns.shape[0])
    for j in range(columns.shape[0]):
        total = 0.0
        for i in range(left):
            total += columns[j, i]
        mean[j] = total / left
    return mean


@nb.njit(cache=True, nogil=True)
def furthest_place(distances: FloatArray, left: int, ids: IntArray) -> int:
    """Place of the largest distance; of equals, of the lowest row."""
    at = 0
    for i in range(1, left):
        if distances[i] > distances[at] or (distances[i] == distances[at] and ids[i] < ids[at]):
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def choose_mixed(
    distances: FloatArray,
    left: int,
    ids: IntArray,
    classes: IntArray,
    shares: FloatArray,
    alpha: float,
    unit: float,
    front: IntArray,
    counts: FloatArray,
    places: IntArray,
) -> None:
    """Write the places of a group's records to `places`, in descending order; `distances` become infinite there.

    The first is the nearest of all. The next is always the nearest of its
    class, so that one candidate a class is compared.
    """
    counts[:] = 0.0
    for c in range(front.shape[0]):
        front[c] = -1
    for i in range(left):
        c = classes[ids[i]]
        if front[c] < 0 or before(distances, ids, i, front[c]):
            front[c] = i
    for m in range(places.shape[0]):
        best = -1
        least = np.inf
        for c in range(front.shape[0]):
            at = front[c]
            if at < 0:
                continue
            value = distances[at]
            if m > 0:
                counts[c] += 1.0
                value = alpha * (np.sqrt(value) / unit) + (1.0 - alpha) * jensen_shannon(counts, m + 1.0, shares)
                counts[c] -= 1.0
            if best < 0 or value < least or (value == least and ids[at] < ids[best]):
                best = at
                least = value
        places[m] = best
        distances[best] = np.inf
        c = classes[ids[best]]
        counts[c] += 1.0
        front[c] = next_of_class(distances, left, ids, classes, c)
    places[:] = np.sort(places)[::-1]


@nb.njit(cache=True, nogil=True)
def before(distances: FloatArray, ids: IntArray, a: int, b: int) -> bool:
    """Whether place `a` comes before place `b` by (distance, row)."""
    return bool(distances[a] < distances[b] or (distances[a] == distances[b] and ids[a] < ids[b]))


@nb.njit(cache=True, nogil=True)
def next_of_class(distances: FloatArray, left: int, ids: IntArray, classes: IntArray, c: int) -> int:
    """Place of the nearest record of class c that is not taken, or -1."""
    at = -1
    for i in range(left):
        if classes[ids[i]] == c and distances[i] < np.inf and (at < 0 or before(distances, ids, i, at)):
            at = i
    return at


@nb.njit(cache=True, nogil=True)
def take_places(columns: FloatArray, ids: IntArray, left: int, places: IntArray, labels: IntArray, label: int) -> int:
    """Give the records at `places` (descending) their label and remove them; how many are left."""
    for place in places:
        left -= 1
        labels[ids[place]] = label
        ids[place] = ids[left]
        for j in range(columns.shape[0]):
            columns[j, place] = columns[j, left]
    return left
