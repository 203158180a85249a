"""A grouping under change: who is in which group, and where the groups' means are."""

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from anonpipe.kernels.distance import squared_distance
from anonpipe.types import FloatArray, IntArray


class Groups(NamedTuple):
    """Groups of k to 2k - 1 records; the arrays change in place."""

    k: int  # Smallest size of a group, 2 or more
    x: FloatArray  # Points, shape (n, width)
    home: IntArray  # Group of each record, shape (n,)
    place: IntArray  # Where a record stands among the members of its group, shape (n,)
    # sizes, centroids: of each group, shapes (n_groups,) and (n_groups, width). Size 0 is a group that is no more, or
    # not yet.
    sizes: IntArray
    centroids: FloatArray
    members: IntArray  # Records of group g: `members[g, : sizes[g]]`, shape (n_groups, 2k - 1)
    reach: FloatArray  # Distance of each record to its centroid, shape (n,)
    radius: FloatArray  # Largest reach in each group, shape (n_groups,)


def open_groups(x: FloatArray, home: IntArray, k: int) -> Groups:
    """The groups of `home` (used, not copied), with room for as many as there can be."""
    n, width = x.shape
    count = n // k
    groups = Groups(
        k=k,
        x=x,
        home=home,
        place=np.zeros(n, dtype=np.int64),
        sizes=np.zeros(count, dtype=np.int64),
        centroids=np.zeros((count, width)),
        members=np.zeros((count, 2 * k - 1), dtype=np.int64),
        reach=np.zeros(n),
        radius=np.zeros(count),
    )
    settle(groups)
    return groups


@nb.njit(cache=True, nogil=True)
def settle(groups: Groups) -> None:
    """Set everything from `home`."""
    groups.sizes[:] = 0
    for i in range(groups.home.shape[0]):
        g = groups.home[i]
        groups.place[i] = groups.sizes[g]
        groups.members[g, groups.sizes[g]] = i
        groups.sizes[g] += 1
    for g in range(groups.sizes.shape[0]):
        recentre(groups, g)


@nb.njit(cache=True, nogil=True)
def recentre(groups: Groups, g: int) -> None:
    """Compute a group's centroid and the distances to it afresh."""
    size = groups.sizes[g]
    centroid = groups.centroids[g]
    centroid[:] = 0.0
    for at in range(size):
        point = groups.x[groups.members[g, at]]
        for t in range(centroid.shape[0]):
            centroid[t] += point[t]
    share = 1.0 / max(1, size)
    for t in range(centroid.shape[0]):
        centroid[t] *= share
    radius = 0.0
    for at in range(size):
        i = groups.members[g, at]
        groups.reach[i] = np.sqrt(squared_distance(groups.x[i], centroid))
        radius = max(radius, groups.reach[i])
    groups.radius[g] = radius


@nb.njit(cache=True, nogil=True)
def put(groups: Groups, i: int, b: int) -> None:
    """Take record i out of its group and put it into group b; the centroids stay where they were."""
    a = groups.home[i]
    last = groups.members[a, groups.sizes[a] - 1]
    groups.members[a, groups.place[i]] = last
    groups.place[last] = groups.place[i]
    groups.sizes[a] -= 1
    groups.members[b, groups.sizes[b]] = i
    groups.place[i] = groups.sizes[b]
    groups.sizes[b] += 1
    groups.home[i] = b


@nb.njit(cache=True, nogil=True)
def exchange(groups: Groups, i: int, j: int) -> None:
    """Let records i and j trade groups; the centroids stay where they were."""
    a, b = groups.home[i], groups.home[j]
    groups.members[a, groups.place[i]], groups.members[b, groups.place[j]] = j, i
    groups.place[i], groups.place[j] = groups.place[j], groups.place[i]
    groups.home[i], groups.home[j] = b, a


@nb.njit(cache=True, nogil=True)
def scatter(groups: Groups) -> float:
    """Sum of the squared distances to the centroids."""
    total = 0.0
    for distance in groups.reach:
        total += distance * distance
    return total


@nb.njit(cache=True, nogil=True)
def scatter_of(groups: Groups, g: int) -> float:
    """The part of `scatter` that lies in group g."""
    total = 0.0
    for at in range(groups.sizes[g]):
        distance = groups.reach[groups.members[g, at]]
        total += distance * distance
    return total


@nb.njit(cache=True, nogil=True)
def group_scatter(groups: Groups) -> FloatArray:
    """The part of `scatter` that lies in each group, shape (n_groups,)."""
    parts = np.empty(groups.sizes.shape[0])
    for g in range(parts.shape[0]):
        parts[g] = scatter_of(groups, g)
    return parts
