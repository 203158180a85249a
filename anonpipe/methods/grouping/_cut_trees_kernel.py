"""Cutting trees into parts of k and more records.

The vertices of a tree are given as an ascending array. Those under n_rows are
records. Higher ones are Steiner vertices: each stands where a record was that
went to the other part of a cut, holds that record's branches together and
counts for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from anonpipe.kernels.groups import sort_groups
from anonpipe.types import BoolArray, IntArray


class Links(NamedTuple):
    """How vertices hang together, an entry a vertex.

    `root_at` keeps all but `inside`, which tells the two parts of a cut apart.
    `sizes` counts the records in the branch of a vertex, itself included.
    """

    parent: IntArray
    first_child: IntArray
    sibling: IntArray
    sizes: IntArray
    inside: BoolArray


@nb.njit(cache=True, nogil=True)
def cut_trees(parent: IntArray, tree: IntArray, k: int, labels: IntArray) -> int:
    """Write the part of every record to `labels`; the number of parts.

    `parent` and `tree` are those of `grow_forest`. Trees of up to
    max(2k - 1, 3k - 5) records are parts; so are larger ones for which `cut`
    finds nothing.
    """
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
            added = cut(part, records, n, k, links, vertices) if records > most else -1
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
def cut(part: IntArray, records: int, n: int, k: int, links: Links, steiner: int) -> int:
    """Cut the tree of `part` into two of k or more records, told apart by `inside`.

    The four ways are tried in the order of the paper. A Steiner vertex that
    is needed is called `steiner`.
    """
    u = candidate(part, records, n, k, links)
    root_at(part, u, n, links)
    v = largest_child(u, links)
    branch = links.sizes[v]
    links.inside[part] = False
    if branch >= k and records - branch >= k:
        take_branch(v, links)
        links.parent[v] = -1
        return 0
    if records - branch == k - 1 and v < n:
        take_branch(v, links)
        links.inside[v] = False
        return move_children(v, steiner, links, True)
    if branch == k - 1 and u < n:
        take_branch(v, links)
        links.inside[u] = True
        return move_children(u, steiner, links, False)
    return share_branches(u, records, n, k, links, steiner)


@nb.njit(cache=True, nogil=True)
def candidate(part: IntArray, records: int, n: int, k: int, links: Links) -> int:
    """The vertex to cut at: from the highest one on, into the largest branch while too little lies beside it.

    k - 1 records beside the branch are enough where its top vertex is a record
    and can join them.
    """
    u = int(part[-1])
    root_at(part, u, n, links)
    while True:
        v = largest_child(u, links)
        beside = records - links.sizes[v]
        if beside >= k or (beside == k - 1 and v < n):
            return u
        u = v


@nb.njit(cache=True, nogil=True)
def root_at(part: IntArray, root: int, n: int, links: Links) -> None:
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
def largest_child(u: int, links: Links) -> int:
    """The child with the most records in its branch; of equals the lowest."""
    best = links.first_child[u]
    child = links.sibling[best]
    while child >= 0:
        if links.sizes[child] > links.sizes[best]:
            best = child
        child = links.sibling[child]
    return int(best)


@nb.njit(cache=True, nogil=True)
def take_branch(top: int, links: Links) -> None:
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
def move_children(old: int, steiner: int, links: Links, inside: bool) -> int:
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
def share_branches(u: int, records: int, n: int, k: int, links: Links, steiner: int) -> int:
    """Share the small branches of the root `u` out between two parts; `cut` says what comes back.

    Branches join the first part in ascending order until it has k - 1
    records. `u` then goes to a part that has no more than k - 1. A Steiner
    vertex cannot fill a part up: there the first one needs k.
    """
    own = 1 if u < n else 0
    count = 0
    child = links.first_child[u]
    while child >= 0 and count < k - own:
        take_branch(child, links)
        count += links.sizes[child]
        child = links.sibling[child]
    rest = records - own - count
    if rest < k - own:
        return -1
    first = own == 0 or count == k - 1 or rest >= k
    links.inside[u] = first
    return move_children(u, steiner, links, not first)
