"""Spanning trees of points, and cutting them into groups.

A tree is three arrays: `parent` (n,), -1 at the root; `length` (n,), that of the edge to the parent, 0 at the root;
`joined` (n,), the vertices with every parent before its children. The edge of a vertex is the one to its parent.
"""

from __future__ import annotations

from typing import Annotated

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.points import ascending, gather_columns, squared_distances
from anonpipe.methods.grouping._classes import jensen_shannon, rounded, total_variation
from anonpipe.methods.grouping._md import diameter_fixed
from anonpipe.methods.grouping._two_phase import group_large_again
from anonpipe.methods.options import ClassGroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import BoolArray, FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def shortest_tree(features: FloatArray) -> tuple[IntArray, FloatArray, IntArray]:
    """Minimum spanning tree by Prim's algorithm from row 0, ties to the lowest rows: parent, length, joined."""
    n = features.shape[0]
    parent = np.full(n, -1)
    length = np.zeros(n)
    joined = np.zeros(n, dtype=np.int64)
    ids = np.arange(1, n)
    outside = gather_columns(features, ids)
    key = np.full(n - 1, np.inf)
    link = np.full(n - 1, -1)
    distances = np.empty(n - 1)
    for step in range(1, n):
        left = n - step
        u = joined[step - 1]
        squared_distances(outside, left, features[u], distances)
        for i in range(left):
            if distances[i] < key[i] or (distances[i] == key[i] and u < link[i]):
                key[i] = distances[i]
                link[i] = u
        at = smallest(key, left, ids)
        v = ids[at]
        joined[step] = v
        parent[v] = link[at]
        length[v] = np.sqrt(key[at])
        drop_outside(outside, ids, key, link, at, left - 1)
    return parent, length, joined


@nb.njit(cache=True, nogil=True)
def smallest(key: FloatArray, count: int, ids: IntArray) -> int:
    """Place of the smallest of the first `count` keys; of equals, of the lowest id."""
    at = 0
    least = key[0]
    for i in range(1, count):
        if key[i] <= least and (key[i] < least or ids[i] < ids[at]):
            at = i
            least = key[i]
    return at


@nb.njit(cache=True, nogil=True)
def drop_outside(outside: FloatArray, ids: IntArray, key: FloatArray, link: IntArray, at: int, last: int) -> None:
    """Overwrite entry `at` of the records outside the tree by entry `last`."""
    ids[at] = ids[last]
    key[at] = key[last]
    link[at] = link[last]
    for j in range(outside.shape[0]):
        outside[j, at] = outside[j, last]


@nb.njit(cache=True, nogil=True)
def _cut_longest(
    parent: IntArray, length: FloatArray, joined: IntArray, k: int, classes: IntArray, shares: FloatArray, t: float
) -> IntArray:
    """Labels (n,) of the parts when the longest removable edge is cut again and again; see `mst_t_close`."""
    # Sizes and class counts are held for the part of each vertex's subtree that still hangs together. A cut walks up to
    # the root of its group, which never takes more than building the tree.
    below, size = np.zeros((parent.shape[0], shares.shape[0])), np.zeros(parent.shape[0])
    _count_stretch(parent, joined, classes, below, size)
    t = rounded(t)
    cut = np.zeros(parent.shape[0], dtype=np.bool_)
    above = np.empty(shares.shape[0])
    # A stable sort leaves equal lengths in row order.
    for v in ascending(-length):
        if parent[v] < 0 or size[v] < k:
            continue
        root = parent[v]
        while parent[root] >= 0 and not cut[root]:
            root = parent[root]
        rest = size[root] - size[v]
        if rest < k or total_variation(below[v], size[v], shares) > t:
            continue
        for c in range(above.shape[0]):
            above[c] = below[root, c] - below[v, c]
        if total_variation(above, rest, shares) > t:
            continue
        cut[v] = True
        u = v
        while u != root:
            u = parent[u]
            size[u] -= size[v]
            for c in range(above.shape[0]):
                below[u, c] -= below[v, c]
    return _label_parts(parent, joined, cut)


@nb.njit(cache=True, nogil=True)
def _label_parts(parent: IntArray, joined: IntArray, cut: BoolArray) -> IntArray:
    """Labels of the parts that stay when the edges of `cut` vertices are gone, in the order of their lowest rows."""
    top = np.empty(parent.shape[0], dtype=np.int64)
    for v in joined:
        top[v] = v if parent[v] < 0 or cut[v] else top[parent[v]]
    names = np.full(parent.shape[0], -1)
    labels = np.empty(parent.shape[0], dtype=np.int64)
    groups = 0
    for v in range(parent.shape[0]):
        if names[top[v]] < 0:
            names[top[v]] = groups
            groups += 1
        labels[v] = names[top[v]]
    return labels


@nb.njit(cache=True, nogil=True)
def cut_by_ratio(
    parent: IntArray, length: FloatArray, joined: IntArray, k: int, classes: IntArray, shares: FloatArray
) -> IntArray:
    """Labels (n,) of the parts when the removable edge of least divergence/length ratio is cut again and again."""
    # The ratio of an edge depends on its own group only, so that groups are cut one by one, each from a stretch of
    # `members` where parents come before their children. An edge that is not removable never becomes so again.
    n = parent.shape[0]
    below = np.zeros((n, shares.shape[0]))
    size = np.zeros(n)
    inside = np.zeros(n, dtype=np.bool_)
    cut = np.zeros(n, dtype=np.bool_)
    members = joined.copy()
    stretches = [(0, n)]
    while len(stretches) > 0:
        low, high = stretches.pop()
        if high - low < 2 * k:
            continue
        group = members[low:high]
        _count_stretch(parent, group, classes, below, size)
        best = _least_ratio(length, group, k, shares, below, size)
        if best < 0:
            continue
        cut[best] = True
        middle = low + _part_stretch(parent, group, best, inside)
        stretches.append((low, middle))
        stretches.append((middle, high))
    return _label_parts(parent, joined, cut)


@nb.njit(cache=True, nogil=True)
def _count_stretch(parent: IntArray, group: IntArray, classes: IntArray, below: FloatArray, size: FloatArray) -> None:
    """Write class counts and sizes of the subtrees inside one group, parents before their children."""
    for v in group:
        size[v] = 1.0
        below[v] = 0.0
        below[v, classes[v]] = 1.0
    for i in range(group.shape[0] - 1, 0, -1):
        v = group[i]
        u = parent[v]
        size[u] += size[v]
        for c in range(below.shape[1]):
            below[u, c] += below[v, c]


@nb.njit(cache=True, nogil=True)
def _least_ratio(
    length: FloatArray, group: IntArray, k: int, shares: FloatArray, below: FloatArray, size: FloatArray
) -> int:
    """Removable vertex of least weighted divergence / edge length (eq. 7 and 9), or -1; ties: longer edge, low row."""
    root = group[0]
    total = size[root]
    whole, above = jensen_shannon(below[root], total, shares), np.empty(shares.shape[0])
    best = -1
    least = np.inf
    for i in range(1, group.shape[0]):
        v = group[i]
        rest = total - size[v]
        if size[v] < k or rest < k:
            continue
        for c in range(above.shape[0]):
            above[c] = below[root, c] - below[v, c]
        parts = size[v] * jensen_shannon(below[v], size[v], shares) + rest * jensen_shannon(above, rest, shares)
        increase = rounded(max(0.0, parts / total - whole))
        ratio = increase / length[v] if length[v] > 0.0 else np.inf
        if best < 0 or (ratio, -length[v], v) < (least, -length[best], best):
            best = v
            least = ratio
    return best


@nb.njit(cache=True, nogil=True)
def _part_stretch(parent: IntArray, group: IntArray, top: int, inside: BoolArray) -> int:
    """Move the subtree of `top` to the end of `group`, both parts in their old order; where it begins."""
    inside[group[0]] = False
    for v in group[1:]:
        inside[v] = v == top or inside[parent[v]]
    front, behind = group[~inside[group]], group[inside[group]]
    group[: front.shape[0]] = front
    group[front.shape[0] :] = behind
    return int(front.shape[0])


def mst(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by cutting the longest removable edges of their minimum spanning tree.

    An edge is removable where both parts that it joins have k records. The edges are tried in descending length, each
    once: parts only shrink, so that an edge that is not removable never becomes so. Of equal lengths the edge to the
    record of lower row number is cut first.

    Groups have no upper limit. A chain or a star of records that hangs together may not be divisible at all: on few
    columns groups of many k occur. The authors also split groups of 2k or more by fixed-size methods afterwards
    (`mst_d`). Labels are in the order of lowest rows.
    """
    one_class = np.zeros(len(features), dtype=np.int64)
    return np.asarray(_cut_longest(*shortest_tree(features), k, one_class, np.ones(1), 1.0))


def mst_d(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by `mst`, then every group of 2k records or more by `diameter_fixed`.

    The tables of later papers call this method M-d; Kabir and Wang compare it with maximum distance, which it is not.
    """
    return group_large_again(features, mst(features, k, rng=rng), k, diameter_fixed, rng)


def mst_t_close(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    t: Annotated[float, Field(ge=0, le=1)] = 0.25,
) -> IntArray:
    """Group records like `mst`, cutting only where both parts are t-close.

    A part is t-close (Li, Li and Venkatasubramanian 2007, doi:10.1109/ICDE.2007.367856) where its class shares lie no
    further than t from those of the whole table, by total variation. The classes have no say in the tree. Each edge is
    tried once here too: were a part that is not t-close to become so by losing a t-close piece, both its pieces would
    be t-close and so would have been their mixture, since the distance is convex.

    For the same reason nothing is cut where all records together are not t-close, as in one block of a table: they stay
    one group and not t-close. `constrain_classes` mends that, or refuses.

    The authors change t from table to table; 1 allows any. Shares in a group of k records come in steps of 1/k and name
    k classes at most: a t much under 1/k, or few records for many classes, makes groups far larger than k.
    """
    return np.asarray(_cut_longest(*shortest_tree(features), k, classes, class_shares, t))


METHODS = (
    Grouping(
        function=mst,
        summary="Cutting the longest edges of a minimum spanning tree.",
        published="Minimum spanning tree partitioning",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w), memory O(n·w)",
        sizes="k or more, without an upper limit",
        largest=None,
    ),
    Grouping(
        function=mst_d,
        summary="Minimum spanning tree partitioning with large parts split by maximum distance (M-d).",
        published="M-d: minimum spanning tree, large parts split by maximum distance",
        reference="Laszlo and Mukherjee 2005, doi:10.1109/TKDE.2005.112",
        cost="time O(n²·w), memory O(n·w)",
    ),
    Grouping(
        function=mst_t_close,
        base=ClassGroupingOptions,
        summary="Minimum spanning tree, cut only where both parts stay `t`-close to the table's classes.",
        published="Minimum spanning tree partitioning with t-closeness (benchmark of CREST)",
        reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 6",
        cost="time O(n²·w), memory O(n·(w + classes))",
        about={
            "t": "largest distance of a group's classes from the table's, 0.25 by default; below 1/k groups grow large"
        },
        sizes="k or more, without an upper limit",
        largest=None,
        classes=True,
    ),
)
