"""Spanning trees of points, and cutting them into groups.

A tree is three arrays: `parent` (n,), -1 at the root; `length` (n,), that of the edge to the parent, 0 at the root;
`joined` (n,), the vertices with every parent before its children. The edge of a vertex is the one to its parent.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, NamedTuple

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import ascending, by_first_row, gather_columns, put_first, sort_groups, squared_distances
from anonpipe.methods.grouping._classes import jensen_shannon, rounded, total_variation
from anonpipe.methods.grouping._md import diameter_fixed
from anonpipe.methods.grouping._mdav import outermost_group, smallest
from anonpipe.methods.grouping._two_phase import group_large_again
from anonpipe.methods.options import ClassGroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import BoolArray, FloatArray, IntArray


@kernel
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


@kernel
def drop_outside(outside: FloatArray, ids: IntArray, key: FloatArray, link: IntArray, at: int, last: int) -> None:
    """Overwrite entry `at` of the records outside the tree by entry `last`."""
    ids[at] = ids[last]
    key[at] = key[last]
    link[at] = link[last]
    for j in range(outside.shape[0]):
        outside[j, at] = outside[j, last]


@kernel
def _cut_longest(
    parent: IntArray, length: FloatArray, joined: IntArray, k: int, classes: IntArray, shares: FloatArray, t: float
) -> IntArray:
    """Parts (n,), by their tops, when the longest removable edge is cut again and again; see `mst_t_close`."""
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
    return _tops(parent, joined, cut)


@kernel
def _tops(parent: IntArray, joined: IntArray, cut: BoolArray) -> IntArray:
    """The top of the part that each vertex is in (n,) when the edges of `cut` vertices are gone."""
    top = np.empty(parent.shape[0], dtype=np.int64)
    for v in joined:
        top[v] = v if parent[v] < 0 or cut[v] else top[parent[v]]
    return top


@kernel
def cut_by_ratio(
    parent: IntArray, length: FloatArray, joined: IntArray, k: int, classes: IntArray, shares: FloatArray
) -> IntArray:
    """Parts (n,), by their tops, when the removable edge of least divergence/length ratio is cut again and again."""
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
    return _tops(parent, joined, cut)


@kernel
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


@kernel
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


@kernel
def _part_stretch(parent: IntArray, group: IntArray, top: int, inside: BoolArray) -> int:
    """Move the subtree of `top` to the end of `group`, both parts in their old order; where it begins."""
    inside[group[0]] = False
    for v in group[1:]:
        inside[v] = v == top or inside[parent[v]]
    return put_first(group, ~inside[group])


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
    return by_first_row(_cut_longest(*shortest_tree(features), k, one_class, np.ones(1), 1.0))


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
    return by_first_row(_cut_longest(*shortest_tree(features), k, classes, class_shares, t))


# --- Forests of trees of k or more records (µ-Approx) -----------------------------------------------------------------


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


@kernel
def cut_trees(parent: IntArray, tree: IntArray, k: int, labels: IntArray) -> int:
    """Write the part of every record to `labels`, from the trees of `grow_forest`; the number of parts."""
    n = tree.shape[0]
    above = np.concatenate((parent, np.full(n, -1)))  # Each cut adds a Steiner vertex at most; there are fewer than n
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
            records = 0
            for v in part:
                records += v < n
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


@kernel
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
        return _move_children(v, steiner, links, nb.boolean(True))
    if branch == k - 1 and u < n:
        _take_branch(v, links)
        links.inside[u] = True
        return _move_children(u, steiner, links, nb.boolean(False))
    return _share_branches(u, records, n, k, links, steiner)


@kernel
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


@kernel
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


@kernel
def _largest_child(u: int, links: Links) -> int:
    """The child with the most records in its branch; of equals the lowest."""
    best = links.first_child[u]
    child = links.sibling[best]
    while child >= 0:
        if links.sizes[child] > links.sizes[best]:
            best = child
        child = links.sibling[child]
    return int(best)


@kernel
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


@kernel
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


@kernel
def _share_branches(u: int, records: int, n: int, k: int, links: Links, steiner: int) -> int:
    """Share the small branches of the root `u` out between two parts; `_cut` says what comes back."""
    # Branches join the first part in ascending order until it has k - 1 records. `u` then goes to a part that has no
    # more than k - 1. A Steiner vertex cannot fill a part up: there the first one needs k.
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


@kernel
def grow_forest(features: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Link trees of fewer than k records to others until there is none: parent and root of each record."""
    n = features.shape[0]
    columns = gather_columns(features, np.arange(n))
    distances = np.empty(n)
    parent = np.full(n, -1)
    tree = np.arange(n)
    sizes = np.ones(n, dtype=np.int64)
    following = np.arange(n)  # The records of a tree in a circle, so that two trees join in one step
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
    Grouping(
        function=mu_approx,
        summary="The approximation by forests (µ-Approx).",
        published="Approximation by forests (µ-Approx)",
        reference="Domingo-Ferrer, Sebé and Solanas 2008, doi:10.1016/j.camwa.2007.04.034",
        cost="time O(n²·w), memory O(n·w)",
    ),
)
