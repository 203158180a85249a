"""Slow literal twins: k-Ward and the forest method."""

from __future__ import annotations

import math

from tests.naive.mdav_family import on_floats
from tests.naive.two_phase import squared


def mean(features, rows):
    return [math.fsum(float(features[i][j]) for i in rows) / len(rows) for j in range(len(features[0]))]


def furthest_pair(features, rows):
    pairs = [(i, j) for i in rows for j in rows if i < j]
    return min(pairs, key=lambda pair: (-squared(features[pair[0]], features[pair[1]]), pair))


def ward_cost(features, a, b):
    return len(a) * len(b) / (len(a) + len(b)) * squared(mean(features, a), mean(features, b))


@on_floats
def k_ward(features, k, rows=None):
    """Lists of rows. The cheapest allowed pair is sought again before each merge."""
    rows = list(range(len(features))) if rows is None else rows
    if len(rows) < 2 * k:
        return [rows]
    r, s = furthest_pair(features, rows)
    groups = []
    left = [i for i in rows if i not in (r, s)]
    for seed in (r, s):
        near = sorted(left, key=lambda i: (squared(features[i], features[seed]), i))[: k - 1]
        groups.append([seed, *near])
        left = [i for i in left if i not in near]
    groups += [[i] for i in left]
    while any(len(group) < k for group in groups):
        pairs = [
            (ward_cost(features, a, b), p, q)
            for p, a in enumerate(groups)
            for q, b in enumerate(groups)
            if p < q and (len(a) < k or len(b) < k)
        ]
        _, p, q = min(pairs)
        groups[p] = groups[p] + groups.pop(q)
    return [part for group in groups for part in k_ward(features, k, sorted(group))]


@on_floats
def grow_forest(features, k):
    """Links record -> record; passes over the records as `mu_approx` says."""
    rows = range(len(features))
    links = {}

    def tree_of(i):
        found, new = {i}, {i}
        while new:
            new = {b for a, b in links.items() if a in found} | {a for a, b in links.items() if b in found}
            new -= found
            found |= new
        return found

    again = True
    while again:
        again = False
        for u in rows:
            tree = tree_of(u)
            if u not in links and len(tree) < k:
                links[u] = min((j for j in rows if j not in tree), key=lambda j: (squared(features[u], features[j]), j))
                again = True
    return links


class Tree:
    """An undirected graph without circles; vertices from n on are Steiner vertices."""

    def __init__(self, vertices, edges, n):
        self.vertices, self.edges, self.n = set(vertices), set(edges), n

    def records(self):
        return sorted(v for v in self.vertices if v < self.n)

    def neighbours(self, v):
        return sorted({b if a == v else a for a, b in self.edges if v in (a, b)})

    def branch(self, u, v):
        """Vertices that hang on u by v."""
        found, new = {v}, [v]
        while new:
            at = new.pop()
            for w in self.neighbours(at):
                if w not in found and not (at == v and w == u):
                    found.add(w)
                    new.append(w)
        return found

    def part(self, vertices, moved=None):
        """The vertices given and the edges among them; `moved` names edges' ends again."""
        edges = [(a, b) for a, b in self.edges if a in vertices and b in vertices]
        if moved is not None:
            old, new, children = moved
            edges += [(new, child) for child in children]
            vertices = (vertices - {old}) | {new}
        return Tree(vertices, [(a, b) for a, b in edges if a in vertices and b in vertices], self.n)


def cut(tree, k, new):
    """Two trees, or None where no way fits."""
    n, s = tree.n, len(tree.records())

    def size(vertices):
        return len([v for v in vertices if v < n])

    def largest(u):
        return min(tree.neighbours(u), key=lambda w: (-size(tree.branch(u, w)), w))

    u = max(tree.vertices)
    came = None
    while True:
        onward = [w for w in tree.neighbours(u) if w != came]
        v = min(onward, key=lambda w: (-size(tree.branch(u, w)), w))
        beside = s - size(tree.branch(u, v))
        if beside >= k or (beside == k - 1 and v < n):
            break
        u, came = v, u
    v = largest(u)
    branch = tree.branch(u, v)
    b = size(branch)
    if b >= k and s - b >= k:
        return tree.part(branch), tree.part(tree.vertices - branch)
    if s - b == k - 1 and v < n:
        children = [w for w in tree.neighbours(v) if w != u]
        return tree.part(branch, (v, new, children)), tree.part((tree.vertices - branch) | {v})
    if b == k - 1 and u < n:
        children = [w for w in tree.neighbours(u) if w != v]
        return tree.part(branch | {u}), tree.part(tree.vertices - branch, (u, new, children))
    first, children = set(), []
    need = k - 1 if u < n else k
    for w in tree.neighbours(u):
        if size(first) < need:
            first |= tree.branch(u, w)
            children.append(w)
    second = tree.vertices - first - {u}
    others = [w for w in tree.neighbours(u) if w not in children]
    if size(second) < need:
        return None
    if u >= n or size(first) == k - 1 or size(second) != k - 1:
        return tree.part(first | {u}), tree.part(second | {u}, (u, new, others))
    return tree.part(first | {u}, (u, new, children)), tree.part(second | {u})


@on_floats
def mu_approx(features, k):
    """Lists of rows, found in the order of the records' values."""
    rows = sorted(range(len(features)), key=lambda i: tuple(features[i]))
    return [[rows[i] for i in group] for group in _mu_approx([features[i] for i in rows], k)]


def _mu_approx(features, k):
    n = len(features)
    links = grow_forest(features, k)
    left, trees = set(range(n)), []
    whole = Tree(range(n), links.items(), n)
    while left:
        root = min(left)
        vertices = {root}.union(*(whole.branch(root, w) for w in whole.neighbours(root)))
        trees.append(whole.part(vertices))
        left -= vertices
    parts, new = [], n
    while trees:
        tree = trees.pop()
        two = cut(tree, k, new) if len(tree.records()) > max(2 * k - 1, 3 * k - 5) else None
        new += 1
        if two is None:
            parts.append(tree.records())
        else:
            trees += two
    groups = []
    for part in parts:
        while len(part) >= 2 * k:
            centre = mean(features, part)
            u = min(part, key=lambda i: (-squared(features[i], centre), i))
            near = sorted((i for i in part if i != u), key=lambda i: (squared(features[i], features[u]), i))[: k - 1]
            groups.append([u, *near])
            part = [i for i in part if i not in groups[-1]]
        groups.append(part)
    return groups
