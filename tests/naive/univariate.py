"""Slow literal twins: the nearest-next line, the best cut of a line, the best grouping of all."""

from __future__ import annotations

import itertools

from tests.naive.two_phase import furthest, labels_of, mean, squared


def scatter(features, rows):
    middle = mean(features, rows)
    return sum(squared(features[i], middle) for i in rows)


def nearest_next(features, groups):
    """Rows of the walk through `groups`, lists of rows."""
    path = []
    for group in groups:
        left = list(group)
        while left:
            if path:
                row = min(left, key=lambda i: (squared(features[i], features[path[-1]]), i))
            else:
                row = furthest(features, left, mean(features, range(len(features))))
            path.append(row)
            left.remove(row)
    return path


def chained(features, groups):
    """The groups in the order of a walk over their centroids."""
    centroids = [mean(features, group) for group in groups]
    return [groups[g] for g in nearest_next(centroids, [list(range(len(groups)))])]


def cuts(n, k):
    """Every way to write n as a sum of sizes k to 2k - 1."""
    if n == 0:
        yield []
    for size in range(k, min(2 * k - 1, n) + 1):
        for rest in cuts(n - size, k):
            yield [size, *rest]


def cut_path(features, path, k):
    """Labels of the best of all cuts of the line."""
    best = None
    for sizes in cuts(len(path), k):
        ends = list(itertools.accumulate(sizes))
        groups = [path[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        loss = sum(scatter(features, group) for group in groups)
        if best is None or loss < best[0]:
            best = (loss, groups)
    return labels_of(best[1], len(features))


def partitions(rows, k):
    """Every partition of `rows` into sets of k and more."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for size in range(k - 1, len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [i for i in rest if i not in others]
            for parts in partitions(left, k):
                yield [[first, *others], *parts]


def least_scatter(features, k):
    """The least scatter of any grouping with sizes of at least k, by trying all."""
    return min(
        sum(scatter(features, group) for group in groups) for groups in partitions(list(range(len(features))), k)
    )
