"""The approximation by forests (µ-Approx)."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numba as nb
import numpy as np

from anonpipe.kernels.points import gather_columns, sort_groups, squared_distances
from anonpipe.methods.grouping._mdav import outermost_group
from anonpipe.methods.record import Grouping
from anonpipe.types import BoolArray, FloatArray, IntArray


def mu_approx(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by growing a forest and cutting its trees, as Aggarwal et al. 2005 do (J. Privacy Technology).

    1. Every record is a tree. While a tree has fewer than k records, its root (the one record without a link of its
    own) is linked to the nearest record of another tree. 2. A tree of s > max(2k - 1, 3k - 5) records is cut in two of
    k or more. From a candidate vertex u let v be the top of the largest branch, of b records. If s - b < k - 1, v
    becomes the candidate. Otherwise the cut is between u and v if b >= k and s - b >= k; if s - b = k - 1, v goes with
    the smaller part; if b = k - 1, u goes with the branch of v; and else branches of u are put together until they have
    k - 1 records, and u goes where one is missing. A Steiner vertex takes the place of a vertex whose branches would
    fall apart. 3. Of a part of 2k or more, the record furthest from its centroid and its k - 1 nearest are a group, and
    the rest is another.

    The paper says "any tree" and "any vertex", and the loss depends on the choice. Here records are passed in the order
    of their values (by the first column, of equals by the second, ...), again and again, and each that is the root of a
    small tree is linked on its turn; the candidate is the vertex that came last into the tree's part: the latest
    Steiner vertex, else the last record in that order. So the groups are the same in whatever order the rows come, but
    for equal records. On the Tarragona table the loss is within 1.5 % of the published one, and random orders of the
    trees differ by far more.

    The paper's counts also assume that u and v are records. A Steiner vertex counts for nothing: where v is one and s -
    b = k - 1, it becomes the candidate; where u is one, no vertex can fill a part up, and a tree for which nothing fits
    goes to step 3 as it is, which is then repeated.
    """
    by_value = np.lexsort(features.T[::-1])
    ordered = np.ascontiguousarray(features[by_value])
    parent, tree = grow_forest(ordered, k)
    found = np.empty(len(features), dtype=np.int64)
    cut_trees(parent, tree, k, found)
    order, starts = sort_groups(found)
    label = len(starts) - 1
    for g, (low, high) in enumerate(pairwise(starts)):
        rows = order[low:high].copy()
        while len(rows) >= 2 * k:
            found[outermost_group(ordered, rows, k)] = label
            label += 1
            rows = rows[found[rows] == g]
    labels = np.empty_like(found)
    labels[by_value] = found
    return labels


METHOD = Grouping(
    function=mu_approx,
    summary="The approximation by forests (µ-Approx).",
    published="Approximation by forests (µ-Approx)",
    reference="Domingo-Ferrer, Sebé and Solanas 2008, doi:10.1016/j.camwa.2007.04.034",
    cost="time O(n²·w), memory O(n·w)",
)


# --- Cutting trees into parts of k and more records -------------------------------------------------------------------
# The vertices of a tree are given as an ascending array. Those under n_rows are records. Higher ones are Steiner
# vertices: each stands where a record was that went to the other part of a cut, holds that record's branches together
# and counts for nothing.


class Links(NamedTuple):
    """How vertices hang together, an entry a vertex.

    `_root_at` keeps all but `inside`, which distinguishes the two parts of a cut. `sizes` counts the records in the
    branch of a vertex, itself included.
    """

    parent: IntArray
    first_child: IntArray
    sibling: IntArray
    sizes: IntArray
    inside: BoolArray


@nb.njit(cache=True, nogil=True)
def cut_trees(parent: IntArray, tree: IntArray, k: int, labels: IntArray) -> int:
    """Write the part of every record to `labels`, from the trees of `grow_forest`; the number of parts."""
    n = tree.shape[0]
    # Each cut adds one Steiner vertex at most, and there are fewer cuts than records.
    above = np.full(2 * n, -1)
    above[:n] = parent
    child = np.full(2 * n, -1)
    links = Links(above, child, child.copy(), np.zeros(2 * n, dtype=np.int64), np.zeros(2 * n, dtype=np.bool_))
    order, starts = sort_groups(tree)
    most = max(2 * k - 1, 3 * k - 5)
    vertices = n
    label = 0
    for g in range(starts.shape[0] - 1):
        stack = [order[starts[g] : starts[g + 1]]]
        while len(stack) > 0:
            part = stack.pop()
            records = int(np.searchsorted(part, n))
            added = _cut(part, records, n, k, links, vertices) if records > most else -1
            if added < 0:
                labels[part[:records]] = label
                label += records > 0
                continue
            part = np.concatenate((part, np.arange(vertices, vertices + added)))
            vertices += added
            stack.append(part[links.inside[part]])
            stack.append(part[~links.inside[part]])
    return label


@nb.njit(cache=True, nogil=True)
def _cut(part: IntArray, records: int, n: int, k: int, links: Links, steiner: int) -> int:
    """Cut the tree of `part` into two of k or more records, marked by `inside`, in the order of the paper."""
    u = _candidate(part, records, n, k, links)
    _root_at(part, u, n, links)
    v = _largest_child(u, links)
    branch = links.sizes[v]
    links.inside[part] = False
    if branch >= k and records - branch >= k:
        _take_branch(v, links)
        links.parent[v] = -1
        return 0
    if records - branch == k - 1 and v < n:
        _take_branch(v, links)
        links.inside[v] = False
        return _move_children(v, steiner, links, True)
    if branch == k - 1 and u < n:
        _take_branch(v, links)
        links.inside[u] = True
        return _move_children(u, steiner, links, False)
    return _share_branches(u, records, n, k, links, steiner)


@nb.njit(cache=True, nogil=True)
def _candidate(part: IntArray, records: int, n: int, k: int, links: Links) -> int:
    """The vertex to cut at: from the highest one on, into the largest branch while too little lies outside it."""
    u = int(part[-1])
    _root_at(part, u, n, links)
    while True:
        v = _largest_child(u, links)
        outside = records - links.sizes[v]
        if outside >= k or (outside == k - 1 and v < n):
            return u
        u = v


@nb.njit(cache=True, nogil=True)
def _root_at(part: IntArray, root: int, n: int, links: Links) -> None:
    """Turn the tree so that it hangs from `root`, children in ascending order."""
    below, at = -1, root
    while at >= 0:
        above = links.parent[at]
        links.parent[at] = below
        below, at = at, above
    for vertex in part:
        links.first_child[vertex] = -1
        links.sizes[vertex] = 1 if vertex < n else 0
    for vertex in part[::-1]:
        above = links.parent[vertex]
        if above >= 0:
            links.sibling[vertex] = links.first_child[above]
            links.first_child[above] = vertex
    order = np.empty(part.shape[0], dtype=np.int64)
    order[0] = root
    count = 1
    for vertex in order:
        child = links.first_child[vertex]
        while child >= 0:
            order[count] = child
            count += 1
            child = links.sibling[child]
    for vertex in order[:0:-1]:
        links.sizes[links.parent[vertex]] += links.sizes[vertex]


@nb.njit(cache=True, nogil=True)
def _largest_child(u: int, links: Links) -> int:
    """The child with the most records in its branch; of equals the lowest."""
    best = links.first_child[u]
    child = links.sibling[best]
    while child >= 0:
        if links.sizes[child] > links.sizes[best]:
            best = child
        child = links.sibling[child]
    return int(best)


@nb.njit(cache=True, nogil=True)
def _take_branch(top: int, links: Links) -> None:
    """Set `inside` for `top` and all below it."""
    stack = [top]
    while len(stack) > 0:
        vertex = stack.pop()
        links.inside[vertex] = True
        child = links.first_child[vertex]
        while child >= 0:
            stack.append(child)
            child = links.sibling[child]


@nb.njit(cache=True, nogil=True)
def _move_children(old: int, steiner: int, links: Links, inside: bool) -> int:
    """Hang the children of `old` that lie in the part `inside` on the new root `steiner`; how many it is: one."""
    links.parent[steiner] = -1
    links.inside[steiner] = inside
    child = links.first_child[old]
    while child >= 0:
        if links.inside[child] == inside:
            links.parent[child] = steiner
        child = links.sibling[child]
    return 1


@nb.njit(cache=True, nogil=True)
def _share_branches(u: int, records: int, n: int, k: int, links: Links, steiner: int) -> int:
    """Share the small branches of the root `u` out between two parts; `_cut` says what comes back.

    Branches join the first part in ascending order until it has k - 1 records. `u` then goes to a part that has no more
    than k - 1. A Steiner vertex cannot fill a part up: there the first one needs k.
    """
    own = 1 if u < n else 0
    count = 0
    child = links.first_child[u]
    while child >= 0 and count < k - own:
        _take_branch(child, links)
        count += links.sizes[child]
        child = links.sibling[child]
    rest = records - own - count
    if rest < k - own:
        return -1
    first = own == 0 or count == k - 1 or rest >= k
    links.inside[u] = first
    return _move_children(u, steiner, links, not first)


@nb.njit(cache=True, nogil=True)
def grow_forest(features: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Link trees of fewer than k records to others until there is none: parent and root of each record."""
    n = features.shape[0]
    columns = gather_columns(features, np.arange(n))
    distances = np.empty(n)
    parent = np.full(n, -1)
    tree = np.arange(n)
    sizes = np.ones(n, dtype=np.int64)
    # The records of a tree in a circle, so that two trees join in one step.
    following = np.arange(n)
    linked = True
    while linked:
        linked = False
        for u in range(n):
            if parent[u] >= 0 or sizes[u] >= k:
                continue
            squared_distances(columns, n, features[u], distances)
            member = u
            for _ in range(sizes[u]):
                distances[member] = np.inf
                member = following[member]
            v = np.argmin(distances)
            parent[u] = v
            root = tree[v]
            sizes[root] += sizes[u]
            for _ in range(sizes[u]):
                tree[member] = root
                member = following[member]
            following[u], following[v] = following[v], following[u]
            linked = True
    return parent, tree
