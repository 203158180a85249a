"""Records in a line, and the best way to cut the line into groups."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import nearest_records, remaining_records, take_out, tidied
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def nearest_next(features: FloatArray, order: IntArray, starts: IntArray) -> IntArray:
    """Rows in the order in which a walk visits them, group by group and always to the nearest record.

    The walk starts at the record of the first group that is furthest from the
    mean of all records. It goes to the nearest record of the same group that it
    has not visited; from the last one of a group to the nearest of the next
    group. Ties go to the lower row.
    """
    path = np.empty(features.shape[0], dtype=np.int64)
    here = furthest_from_mean(features, order[starts[0] : starts[1]])
    nearest, distance = np.empty(1, dtype=np.int64), np.empty(1)
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        inside = features[rows]
        tree = remaining_records(inside, np.arange(rows.shape[0]))
        for at in range(starts[g], starts[g + 1]):
            tree = tidied(inside, tree)
            nearest_records(tree, here, nearest, distance)
            take_out(tree, nearest[0])
            path[at] = rows[nearest[0]]
            here = inside[nearest[0]]
    return path


@nb.njit(cache=True, nogil=True)
def furthest_from_mean(features: FloatArray, rows: IntArray) -> FloatArray:
    """The point among `rows` furthest from the mean of all points; of equals, the first."""
    n, width = features.shape
    mean = np.zeros(width)
    for i in range(n):
        for j in range(width):
            mean[j] += features[i, j]
    mean /= n
    furthest, largest = rows[0], -1.0
    for i in rows:
        distance = 0.0
        for j in range(width):
            distance += (features[i, j] - mean[j]) ** 2
        if distance > largest:
            furthest, largest = i, distance
    found: FloatArray = features[furthest]
    return found


@nb.njit(cache=True, nogil=True)
def cut_path(features: FloatArray, path: IntArray, k: int) -> IntArray:
    """Labels of the partition of least scatter whose groups are runs of k to 2k - 1 records of `path`.

    The shortest path of Hansen and Mukherjee: `least[j]` is the least scatter
    of the first j records, reached from `before[j]`. Of equals the partition
    with the shorter last group. The scatter of a run is summed from the
    differences u to its first record, Σ|u|² - |Σu|²/size: as that record is one
    of the run, the subtraction costs no more than the digits of its size,
    wherever the points lie.
    """
    n, width = features.shape
    least = np.full(n + 1, np.inf)
    before = np.zeros(n + 1, dtype=np.int64)
    least[0] = 0.0
    offsets = np.empty(width)
    for i in range(n - k + 1):
        if least[i] == np.inf:
            continue
        first = features[path[i]]
        offsets[:] = 0.0
        squares = 0.0
        for size in range(1, min(2 * k - 1, n - i) + 1):
            point = features[path[i + size - 1]]
            length = 0.0
            for j in range(width):
                step = point[j] - first[j]
                squares += step * step
                offsets[j] += step
                length += offsets[j] * offsets[j]
            if size < k:
                continue
            total = least[i] + max(0.0, squares - length / size)
            if total <= least[i + size]:
                least[i + size] = total
                before[i + size] = i
    return label_runs(path, before)


@nb.njit(cache=True, nogil=True)
def label_runs(path: IntArray, before: IntArray) -> IntArray:
    """Labels from 0, along the path, of the runs that end at n, before[n], before[before[n]] ..."""
    labels = np.zeros(path.shape[0], dtype=np.int64)
    groups = 0
    end = path.shape[0]
    while end > 0:
        for at in range(before[end], end):
            labels[path[at]] = groups
        groups += 1
        end = before[end]
    return groups - 1 - labels
