"""Class restricted spanning tree (CREST)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import by_first_row, gather_columns, squared_distance, squared_distances
from anonpipe.methods.grouping._classes import diagonal, jensen_shannon
from anonpipe.methods.grouping._mdav import smallest
from anonpipe.methods.grouping._spanning_tree import cut_by_ratio, drop_outside, shortest_tree
from anonpipe.methods.options import ClassGroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import BoolArray, FloatArray, IntArray

MOST_NEIGHBOURS = 100


def crest(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    classes: IntArray,
    class_shares: FloatArray,
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5,
    neighbours: Annotated[int | None, Field(ge=2)] = None,
) -> IntArray:
    """Group near records so that the classes in a group are spread as in the whole table.

    A spanning tree grows from row 0 by Prim's algorithm: at each step the edge from a record u in the tree to a record
    v outside joins that has the least composite distance alpha·L + (1 - alpha)·JSD. L is the distance of the two as a
    share of the diagonal of the box around all points; JSD is the Jensen-Shannon divergence in base 2 of `class_shares`
    from the class shares among u, v and the first b - 2 records that a breadth-first search from u meets in the tree,
    those of the same degree of separation in order of their distance to u. Then, again and again, the removable edge
    with the least increase in weighted divergence per length is cut (see `crest_partial`). Ties: the lower row.

    It makes groups of one class rare; it does not promise that there are none. `class_disclosure` counts them,
    `constrain_classes` rules them out.

    Where the paper leaves a choice:

    - The divergence of an edge changes while the tree grows around u. It is taken as of the partial tree at each step,
      as definition 3 says. To compute it once, when u joins, would fit the O(b·N²) of the text too, but then it sees
      u's forebears only: on the diabetes data at k = 5 the chi-square of eq. 13 then is 2.31 instead of 1.32, hardly
      less than the 2.46 of `crest_partial`, where table 1 has 1.37 against 2.04.
    - The length is to be normalised to [0, 1] by scaling the columns to [0, 1] and dividing "by the number of
      attributes". The root of that number is the largest distance that can occur, and the diagonal is the same for
      points on any scale. The number itself would make lengths weigh sqrt(width) times less; the effects are alike.

    With `alpha` 1 this is `crest_partial`; with 0 nearly all edges tie, which takes long for thousands of records.
    `neighbours` is b, 2 or more; None takes k, from 2 to 100. Labels are in the order of lowest rows.
    """
    if neighbours is None:
        neighbours = min(max(2, k), MOST_NEIGHBOURS)
    tree = class_tree(features, classes, class_shares, neighbours, float(alpha), diagonal(features))
    return by_first_row(cut_by_ratio(*tree, k, classes, class_shares))


# --- A spanning tree whose edges are short and whose neighbourhoods mix the classes -----------------------------------
# Names are those of Li and Sarkar 2013, section 4:
#
#     u, v      a vertex of the partial tree and one outside, ends of a candidate edge
#     hood      the first b - 2 vertices that a breadth-first search from u meets in the partial tree;
#               with u and v they are the b nearest neighbours B(e) of the edge


class Partial(NamedTuple):
    """The partial tree; the arrays change in place."""

    # features, classes, shares: shapes (n, width), (n,) and (n_classes,)
    features: FloatArray
    classes: IntArray
    shares: FloatArray
    # parent, child, sibling: parent, last child and next older child of the same parent, or -1, (n,)
    parent: IntArray
    child: IntArray
    sibling: IntArray
    # hood, degree, distance: vertices of each hood by degree of separation, squared distance and row, shapes (n,
    # b - 2); the first `filled` (n,) of them are in use
    hood: IntArray
    degree: IntArray
    distance: FloatArray
    filled: IntArray
    counts: FloatArray  # Class counts of each hood and its owner, shape (n, n_classes)
    divergence: FloatArray  # Divergence of B(e) for an edge from u to a record of class c, shape (n, n_classes)


@kernel
def class_tree(
    features: FloatArray, classes: IntArray, shares: FloatArray, b: int, alpha: float, unit: float
) -> tuple[IntArray, FloatArray, IntArray]:
    """Spanning tree by Prim's algorithm with the composite distance (eq. 6): parent, length, joined.

    At each step the candidate edge of least alpha·L/unit + (1 - alpha)·JSD joins, both as the partial tree is then; of
    equals the one to the lowest new row, from the lowest row inside. `length` is Euclidean.

    The key of a record outside is never more than its least composite distance: a hood whose divergence falls lowers
    the keys at once, one whose divergence rises leaves them, and a key is computed again only when it is the smallest
    of all and no longer that of its edge. So every step takes the edge that evaluating all of them would give. Time
    O(b·n²·width), as about b hoods change a step and few keys are computed again; up to O(n³·width) where very many
    keys are equal, as for records that are all the same or alpha = 0. Memory O(n·(width + b + n_classes)).
    """
    n = features.shape[0]
    tree = _empty_tree(features, classes, shares, b)
    length = np.zeros(n)
    joined = np.zeros(n, dtype=np.int64)
    ids = np.arange(1, n)
    outside = gather_columns(features, ids)
    inside = gather_columns(features, joined)
    key = np.full(n - 1, np.inf)
    link = np.full(n - 1, -1)
    room = np.empty(n)
    queue = np.empty((n, 3), dtype=np.int64)
    changed = np.empty(n, dtype=np.int64)
    lower = np.empty(shares.shape[0], dtype=np.bool_)
    _divergences(tree, int(0), lower)
    lower[:] = True
    _offer(tree, int(0), lower, alpha, unit, outside, ids, n - 1, key, link, room)
    for step in range(1, n):
        left = n - step
        at = smallest(key, left, ids)
        while key[at] != _composite(tree, link[at], ids[at], alpha, unit):
            key[at], link[at] = _least_composite(tree, ids[at], inside, joined, step, alpha, unit, room)
            at = smallest(key, left, ids)
        v = ids[at]
        u = link[at]
        joined[step] = v
        length[v] = np.sqrt(squared_distance(features[u], features[v]))
        for j in range(features.shape[1]):
            inside[j, step] = features[v, j]
        left -= 1
        drop_outside(outside, ids, key, link, at, left)
        tree.parent[v], tree.sibling[v], tree.child[u] = u, tree.child[u], v
        count = _meet(tree, v, queue, changed)
        for i in range(count):
            if _divergences(tree, changed[i], lower) and left > 0:
                _offer(tree, changed[i], lower, alpha, unit, outside, ids, left, key, link, room)
    return tree.parent, length, joined


@kernel
def _empty_tree(features: FloatArray, classes: IntArray, shares: FloatArray, b: int) -> Partial:
    """A tree of row 0 alone; every vertex has its own class counted already."""
    n = features.shape[0]
    most = max(0, min(b - 2, n - 1))  # A hood cannot have more vertices than there are others
    counts = np.zeros((n, shares.shape[0]))
    for v in range(n):
        counts[v, classes[v]] = 1.0
    return Partial(
        features,
        classes,
        shares,
        np.full(n, -1),
        np.full(n, -1),
        np.full(n, -1),
        np.empty((n, most), dtype=np.int64),
        np.empty((n, most), dtype=np.int64),
        np.empty((n, most)),
        np.zeros(n, dtype=np.int64),
        counts,
        np.full((n, shares.shape[0]), np.inf),
    )


@kernel
def _composite(tree: Partial, u: int, v: int, alpha: float, unit: float) -> float:
    """Composite distance of the edge from u to v as the tree is now."""
    length = np.sqrt(squared_distance(tree.features[u], tree.features[v])) / unit
    return float(alpha * length + (1.0 - alpha) * tree.divergence[u, tree.classes[v]])


@kernel
def _offer(
    tree: Partial,
    u: int,
    lower: BoolArray,
    alpha: float,
    unit: float,
    outside: FloatArray,
    ids: IntArray,
    left: int,
    key: FloatArray,
    link: IntArray,
    room: FloatArray,
) -> None:
    """Lower the keys of records outside, of classes that are `lower`, to their edges from u."""
    squared_distances(outside, left, tree.features[u], room)
    for i in range(left):
        c = tree.classes[ids[i]]
        if lower[c]:
            value = alpha * (np.sqrt(room[i]) / unit) + (1.0 - alpha) * tree.divergence[u, c]
            if value < key[i] or (value == key[i] and u < link[i]):
                key[i] = value
                link[i] = u


@kernel
def _least_composite(
    tree: Partial, v: int, inside: FloatArray, joined: IntArray, count: int, alpha: float, unit: float, room: FloatArray
) -> tuple[float, int]:
    """Least composite distance of v from the `count` vertices of the tree, and the vertex it comes from."""
    squared_distances(inside, count, tree.features[v], room)
    c = tree.classes[v]
    least = np.inf
    link = -1
    for i in range(count):
        u = joined[i]
        value = alpha * (np.sqrt(room[i]) / unit) + (1.0 - alpha) * tree.divergence[u, c]
        if value < least or (value == least and u < link):
            least = value
            link = u
    return least, link


@kernel
def _divergences(tree: Partial, u: int, lower: BoolArray) -> bool:
    """Compute the divergences of u's candidate edges again; whether any fell, and in `lower` which."""
    total = 2.0 + tree.filled[u]
    counts = tree.counts[u]
    fell = False
    for c in range(counts.shape[0]):
        counts[c] += 1.0
        value = jensen_shannon(counts, total, tree.shares)
        counts[c] -= 1.0
        lower[c] = value < tree.divergence[u, c]
        fell = fell or lower[c]
        tree.divergence[u, c] = value
    return fell


@kernel
def _meet(tree: Partial, v: int, queue: IntArray, changed: IntArray) -> int:
    """Enter the new vertex v into the hoods around it, and their owners into its own."""
    # A breadth-first search from v that stops where neither side can take vertices so far away. Writes v and the
    # vertices whose class counts changed to `changed`; how many they are.
    most = tree.hood.shape[1]
    changed[0] = v
    count = 1
    if most == 0:
        return count
    # Vertex, the one it was reached from, and the degree of separation from v.
    queue[0, 0] = tree.parent[v]
    queue[0, 1] = v
    queue[0, 2] = 1
    head = 0
    tail = 1
    while head < tail:
        u, before, degree = queue[head, 0], queue[head, 1], queue[head, 2]
        head += 1
        # Beyond u, hoods already hold all vertices of u's hood that are nearer to u than v is.
        closed = tree.filled[u] == most and tree.degree[u, most - 1] < degree
        distance = squared_distance(tree.features[u], tree.features[v])
        if _enter(tree, u, v, degree, distance):
            changed[count] = u
            count += 1
        _enter(tree, v, u, degree, distance)
        sated = tree.filled[v] == most and tree.degree[v, most - 1] <= degree
        if closed and sated:
            continue
        w = tree.parent[u]
        if w >= 0 and w != before:
            queue[tail, 0], queue[tail, 1], queue[tail, 2] = w, u, degree + 1
            tail += 1
        w = tree.child[u]
        while w >= 0:
            if w != before:
                queue[tail, 0], queue[tail, 1], queue[tail, 2] = w, u, degree + 1
                tail += 1
            w = tree.sibling[w]
    return count


@kernel
def _enter(tree: Partial, owner: int, v: int, degree: int, distance: float) -> bool:
    """Put v in its place in the hood of `owner`, if it has one; whether class counts changed by it."""
    most = tree.hood.shape[1]
    filled = tree.filled[owner]
    hood, degrees, distances = tree.hood[owner], tree.degree[owner], tree.distance[owner]
    place = filled
    while place > 0 and (degree, distance, v) < (degrees[place - 1], distances[place - 1], hood[place - 1]):
        place -= 1
    if place == most:
        return False
    counts = tree.counts[owner]
    change = True
    counts[tree.classes[v]] += 1.0
    if filled == most:
        lost = hood[most - 1]
        counts[tree.classes[lost]] -= 1.0
        change = tree.classes[lost] != tree.classes[v]
    else:
        tree.filled[owner] = filled + 1
    for i in range(min(filled, most - 1), place, -1):
        hood[i], degrees[i], distances[i] = hood[i - 1], degrees[i - 1], distances[i - 1]
    hood[place], degrees[place], distances[place] = v, degree, distance
    return change


def crest_partial(
    features: FloatArray, k: int, *, rng: np.random.Generator, classes: IntArray, class_shares: FloatArray
) -> IntArray:
    """Group records by a plain minimum spanning tree, cut with regard to the classes.

    Again and again the removable edge of least ratio is cut: the increase in weighted Jensen-Shannon divergence from
    the class shares of the whole table (base 2) when its group falls in two, divided by its length. An edge is
    removable where both parts have k records. Cheaper than `crest`, which minds the classes in the tree as well.

    Where no class is lost or won many ratios are 0: of equal ratios the longer edge, then the one to the lower row
    number is cut first. An edge of length 0 is cut only where no other is removable. Labels are in the order of lowest
    rows. The paper calls this "partial CAMP-CREST" (eq. 7 and 9).
    """
    return by_first_row(cut_by_ratio(*shortest_tree(features), k, classes, class_shares))


METHODS = (
    Grouping(
        function=crest,
        base=ClassGroupingOptions,
        summary="Class-restricted spanning tree (Li & Sarkar 2013): distance and class divergence weighed by `alpha`.",
        published="Class restricted spanning tree (CREST)",
        reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 4",
        cost="time O(b·n²·w), memory O(n·(w + b + classes)), b neighbours",
        about={
            "alpha": "weight of the distance against the divergence of the classes, 0.5 by default; 1 is crest_partial",
            "neighbours": "nearest records that one can be joined with; by default k, but 2 at least and 100 at most",
        },
        sizes="k or more, without an upper limit",
        largest=None,
        classes=True,
    ),
    Grouping(
        function=crest_partial,
        base=ClassGroupingOptions,
        summary="A plain spanning tree, cut where class divergence rises least for the length (their alpha of 1).",
        published="Partial CREST: minimum spanning tree cut by divergence and length",
        reference="Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, sections 4 and 6",
        cost="time O(n²·w), memory O(n·(w + classes))",
        sizes="k or more, without an upper limit",
        largest=None,
        classes=True,
    ),
)
