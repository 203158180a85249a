"""Condensation: random seeds and their nearest records."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import nearest_records, remaining_records, take_rows, tidied
from anonpipe.methods.grouping._mdav import join_nearest
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


def condensation(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records around seeds drawn at random.

    While k records are left, one of them is drawn and forms a group with the k - 1 nearest to it; ties go to the lower
    row number. Each of the last, fewer than k, joins the nearest group, measured to its centroid as it is before any of
    them has joined: the paper names no measure, and this one does not depend on their order.

    The paper's loop from 0 to s = floor(n/k) would form one group too many; s are formed, as its text says. Labels are
    in the order of formation.
    """
    # The first free record of a random order is any free one with the same chance.
    seeds = rng.permutation(len(features)).astype(np.int64)
    labels = np.empty(len(features), dtype=np.int64)
    condense(features, k, seeds, labels)
    return labels


METHOD = Grouping(
    function=condensation,
    summary="Condensation: random seeds and their nearest records.",
    published="Condensation, static",
    reference="Aggarwal and Yu 2004, doi:10.1007/978-3-540-24741-8_12; Gal et al. 2014, Algorithm 1, steps 1 to 4",
    cost="time O(n²·w/k), memory O(n·w)",
    sizes="k, and up to 2k-1 for groups that leftovers join",
    draws=True,
)


@nb.njit(cache=True, nogil=True)
def condense(features: FloatArray, k: int, seeds: IntArray, labels: IntArray) -> None:
    """Write the group of every record to `labels`; `seeds` are all rows, in the order in which they are drawn."""
    n = features.shape[0]
    tree = remaining_records(features, np.arange(n))
    near, distances = np.empty(k - 1, dtype=np.int64), np.empty(k - 1)
    labels[:] = -1
    label = 0
    for seed in seeds:
        if label == n // k:
            break
        if labels[seed] >= 0:
            continue
        tree = tidied(features, tree)
        labels[seed] = label
        take_rows(tree, np.array([seed]))
        if k > 1:
            nearest_records(tree, features[seed], near, distances)
            take_rows(tree, near)
            labels[near] = label
        label += 1
    join_nearest(features, labels)
