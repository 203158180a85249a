"""Records in a line, and the best way to cut the line into groups."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.errors import InfeasibleError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import sort_groups, squared_distance
from anonpipe.kernels.remaining import FEW, nearest_records, remaining_records, take_rows, tidied
from anonpipe.methods.grouping._md import md
from anonpipe.methods.grouping._mdav import cbfs, mdav
from anonpipe.methods.options import GroupingOptions
from anonpipe.methods.record import Features, Grouping
from anonpipe.types import FloatArray, IntArray


@kernel
def nearest_next(features: FloatArray, order: IntArray, starts: IntArray) -> IntArray:
    """Rows as a walk visits them: group by group, always to the nearest one left, ties to the lower; see `mhm`."""
    path = np.empty(features.shape[0], dtype=np.int64)
    here = _furthest_from_mean(features, order[starts[0] : starts[1]])
    nearest, distance = np.empty(1, dtype=np.int64), np.empty(1)
    for g in range(starts.shape[0] - 1):
        rows = order[starts[g] : starts[g + 1]]
        inside = features[rows]
        tree = remaining_records(inside, np.arange(rows.shape[0]), int(FEW))
        for at in range(starts[g], starts[g + 1]):
            tree = tidied(inside, tree)
            nearest_records(tree, here, nearest, distance)
            take_rows(tree, nearest)
            path[at] = rows[nearest[0]]
            here = inside[nearest[0]]
    return path


@kernel
def _furthest_from_mean(features: FloatArray, rows: IntArray) -> FloatArray:
    """The point among `rows` furthest from the mean of all points; of equals, the first."""
    mean = np.zeros(features.shape[1])
    for i in range(features.shape[0]):
        mean += features[i]
    mean /= features.shape[0]
    furthest, largest = rows[0], -1.0
    for i in rows:
        distance = squared_distance(features[i], mean)
        if distance > largest:
            furthest, largest = i, distance
    found: FloatArray = features[furthest]
    return found


@kernel
def cut_path(features: FloatArray, path: IntArray, k: int) -> IntArray:
    """Labels of the partition of least scatter whose groups are runs of k to 2k - 1 records of `path`.

    The shortest path of Hansen and Mukherjee: `least[j]` is the least scatter of the first j records, reached from
    `before[j]`. Of equals the partition with the shorter last group. The scatter of a run is summed from the
    differences u to its first record, Σ|u|² - |Σu|²/size: as that record is one of the run, the subtraction costs no
    more than the digits of its size, wherever the points lie.
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
    labels = np.zeros(path.shape[0], dtype=np.int64)
    groups = 0
    end = path.shape[0]
    while end > 0:
        labels[path[before[end] : end]] = groups
        groups += 1
        end = before[end]
    return groups - 1 - labels


def optimal_univariate(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group the records of one column with the least scatter that groups of at least k allow.

    Best groups are runs of the sorted records, of k to 2k - 1 each; the best runs are the shortest path through a graph
    that has an edge for each run, with its scatter for length. Equal values are sorted by row. Of equally good
    partitions the one with the shorter last group is taken, and so on towards the first. Labels ascend with the values.
    """
    if features.shape[1] != 1:
        raise InfeasibleError(f"optimal_univariate takes one column, not {features.shape[1]}; use mhm for several")
    return np.asarray(cut_path(features, np.argsort(features[:, 0], kind="stable"), k))


def _of_one_column(options: GroupingOptions, features: Features) -> str | None:
    if features.width == 1:
        return None
    return (
        f"cluster.method optimal_univariate takes one feature column; the masked columns make {features.width}; "
        "take mhm, which cuts an order of the records in the same way"
    )


GROUPED = {"md": md, "mdav": mdav, "cbfs": cbfs}  # Methods whose groups a path may follow; npn goes without


def mhm(
    features: FloatArray, k: int, *, rng: np.random.Generator, order: Literal["npn", "md", "mdav", "cbfs"] = "mdav"
) -> IntArray:
    """Put the records in a line and cut it, with least scatter, into groups of k to 2k - 1.

    For `npn` the line starts at the record furthest from the mean and goes on to the nearest record of all that are not
    in it yet (nearest point next). Otherwise it runs through the groups of MD, MDAV or CBFS: first through the group
    whose centroid is furthest from the mean of the centroids, then always through the group with the nearest centroid
    of those left; inside a group to its nearest record that is left, in the first from the record furthest from the
    mean. The cut is the shortest path of Hansen and Mukherjee, with multivariate scatter for cost. As the groups lie
    one after the other in the line, the information loss is never above that of the method they come from. Labels are
    along the line.

    Kabir and Wang 2010, who quote the figures, do not say how the line runs. In the order in which MDAV forms its
    groups, neighbours in the line are far apart, nothing is gained by cutting elsewhere, and the loss is MDAV's own;
    that gives the printed figures of Tarragona to 0.04 %, but not those of the skewed EIA table. By nearest centroids
    no figure of Tarragona is above the printed one, and on long-tailed tables of few companies with many months the
    loss at k = 5 is about half of MDAV's. The NPN figures cannot be met from any record: a walk over all records turns
    on small differences, and is here for comparison.
    """
    if order == "npn":
        walk, starts = np.arange(len(features)), np.array([0, len(features)])
    else:
        walk, starts = _chained(features, *sort_groups(GROUPED[order](features, k, rng=rng)))
    return np.asarray(cut_path(features, nearest_next(features, walk, starts), k))


def _chained(features: FloatArray, order: IntArray, starts: IntArray) -> tuple[IntArray, IntArray]:
    """The same groups in another order: always on to the nearest centroid that is left."""
    sizes = np.diff(starts)
    centroids = np.add.reduceat(features[order], starts[:-1], axis=0) / sizes[:, None]
    n_groups = len(sizes)
    chain = nearest_next(centroids, np.arange(n_groups), np.array([0, n_groups]))
    place = np.empty(n_groups, dtype=np.int64)
    place[chain] = np.arange(n_groups)
    moved = np.argsort(np.repeat(place, sizes), kind="stable")
    return order[moved], np.concatenate([[0], np.cumsum(sizes[chain])])


METHODS = (
    Grouping(
        function=optimal_univariate,
        summary="Optimal microaggregation of one column.",
        published="Optimal univariate microaggregation, one column only",
        reference="Hansen and Mukherjee 2003, doi:10.1109/TKDE.2003.1209020",
        cost="time O(n·(k + log n)), memory O(n)",
        refuses=_of_one_column,
    ),
    Grouping(
        function=mhm,
        summary="The best cut of the records put in an order by another heuristic.",
        published="Multivariate Hansen-Mukherjee (MDAV-MHM, MD-MHM, CBFS-MHM, NPN-MHM)",
        reference="Domingo-Ferrer et al. 2006, doi:10.1007/s00778-006-0007-0",
        cost="time O(n²·w/k), O(n²·w) for order npn, memory O(n·w)",
        about={
            "order": "what puts the records in a line, 'mdav' by default; 'md', 'cbfs', or 'npn': "
            "the nearest comes next"
        },
    ),
)
