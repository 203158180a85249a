"""Slow, literal twins of the spanning tree methods: every edge is evaluated again at every step."""

from __future__ import annotations

import math

import numpy as np

from tests.naive.mdav_family import diameter_fixed, on_floats


def squared(a, b):
    total = 0.0
    for p, q in zip(a, b, strict=True):
        total += (float(p) - float(q)) * (float(p) - float(q))
    return total


def steps(value):
    """To multiples of 2^-40, so that equal figures are equal whatever the order of their sums."""
    return round(value * 2.0**40) / 2.0**40


def shares_of(members, classes, n_classes):
    return [sum(1 for i in members if classes[i] == c) / len(members) for c in range(n_classes)]


def kullback_leibler(f, g):
    return sum(p * math.log2(p / q) for p, q in zip(f, g, strict=True) if p > 0)


def jensen_shannon(f, g):
    middle = [(p + q) / 2 for p, q in zip(f, g, strict=True)]
    return steps((kullback_leibler(f, middle) + kullback_leibler(g, middle)) / 2)


def total_variation(f, g):
    return steps(sum(abs(p - q) for p, q in zip(f, g, strict=True)) / 2)


@on_floats
def shortest_tree(features):
    """Edges (vertex inside, new vertex) of Prim's algorithm from row 0."""
    inside, edges = [0], []
    while len(inside) < len(features):
        outside = [v for v in range(len(features)) if v not in inside]
        _, v, u = min((squared(features[u], features[v]), v, u) for v in outside for u in inside)
        inside.append(v)
        edges.append((u, v))
    return edges


def hood(edges, features, u, b):
    """u and the first b - 2 vertices of a breadth-first search from it, degrees in order of distance to u."""
    found, level = [u], [u]
    while level and len(found) < b - 1:
        level = [w for x in level for e in edges if x in e for w in e if w not in found and w != x]
        level = sorted(set(level), key=lambda w: (squared(features[u], features[w]), w))
        found += level
    return found[: max(1, b - 1)]


@on_floats
def class_tree(features, classes, shares, b, alpha):
    """Edges by Prim's algorithm with the composite distance, all candidate edges evaluated at every step."""
    box = [max(float(p[j]) for p in features) - min(float(p[j]) for p in features) for j in range(len(features[0]))]
    unit = math.sqrt(sum(side * side for side in box)) or 1.0
    inside, edges = [0], []
    while len(inside) < len(features):
        best = None
        for u in inside:
            near = hood(edges, features, u, b)
            for v in range(len(features)):
                if v not in inside:
                    f = shares_of([*near, v], classes, len(shares))
                    length = math.sqrt(squared(features[u], features[v])) / unit
                    value = (alpha * length + (1 - alpha) * jensen_shannon(f, shares), v, u)
                    best = value if best is None else min(best, value)
        inside.append(best[1])
        edges.append((best[2], best[1]))
    return edges


def parts(edges, n):
    """Sets of vertices that hang together."""
    groups = [{v} for v in range(n)]
    for u, v in edges:
        a = next(g for g in groups if u in g)
        b = next(g for g in groups if v in g)
        groups.remove(b)
        a |= b
    return groups


def cut_apart(edges, n, removable, cost):
    """Cut the removable edge of least cost until there is none; cost(edge, part, part)."""
    edges = list(edges)
    while True:
        candidates = []
        for edge in edges:
            groups = parts([e for e in edges if e != edge], n)
            a = next(g for g in groups if edge[0] in g)
            b = next(g for g in groups if edge[1] in g)
            if removable(a) and removable(b):
                candidates.append((cost(edge, a, b), edge[1], edge))
        if not candidates:
            break
        edges.remove(min(candidates)[2])
    labels = np.empty(n, dtype=np.int64)
    for g, group in enumerate(sorted(parts(edges, n), key=min)):
        labels[list(group)] = g
    return labels


@on_floats
def cut_longest(features, edges, k, classes=None, shares=(), t=1.0):
    def removable(part):
        if len(part) < k:
            return False
        return classes is None or total_variation(shares_of(part, classes, len(shares)), shares) <= steps(t)

    return cut_apart(
        edges, len(features), removable, lambda e, a, b: -math.sqrt(squared(features[e[0]], features[e[1]]))
    )


@on_floats
def cut_by_ratio(features, edges, k, classes, shares):
    def divergence(part):
        return jensen_shannon(shares_of(part, classes, len(shares)), shares)

    def cost(edge, a, b):
        length = math.sqrt(squared(features[edge[0]], features[edge[1]]))
        n = len(a) + len(b)
        weighted = (len(a) * divergence(a) + len(b) * divergence(b)) / n
        increase = steps(max(0.0, weighted - divergence(a | b)))
        return (increase / length if length > 0 else math.inf, -length)

    return cut_apart(edges, len(features), lambda part: len(part) >= k, cost)


def mst(features, k):
    return cut_longest(features, shortest_tree(features), k)


def mst_d(features, k):
    labels = mst(features, k)
    out, label = np.empty(len(features), dtype=np.int64), 0
    for g in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == g)
        part = diameter_fixed(features[rows], k) if len(rows) >= 2 * k else np.zeros(len(rows), dtype=np.int64)
        out[rows] = label + part
        label += int(part.max()) + 1
    return out


def mst_t_close(features, k, classes, shares, t):
    return cut_longest(features, shortest_tree(features), k, classes, shares, t)


def crest(features, k, classes, shares, alpha, b):
    return cut_by_ratio(features, class_tree(features, classes, shares, b, alpha), k, classes, shares)


def crest_partial(features, k, classes, shares):
    return cut_by_ratio(features, shortest_tree(features), k, classes, shares)
