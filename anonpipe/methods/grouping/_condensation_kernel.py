"""Groups of near records around given seeds."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.kernels.remaining import nearest_records, remaining_records, take_out, tidied
from anonpipe.methods.grouping._mdav_kernel import join_nearest
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def condense(features: FloatArray, k: int, seeds: IntArray, labels: IntArray) -> None:
    """Write the group of every record to `labels`.

    `seeds` are all rows; one that has a group already is passed over. The
    others in turn, while k records are left, form a group with the k - 1
    nearest ones that have none. Of fewer than k left over, each joins the
    group of the nearest centroid as it is before any of them has joined; of
    equals the group of the lower label.
    """
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
        take_out(tree, int(seed))
        if k > 1:
            nearest_records(tree, features[seed], near, distances)
        for row in near:
            labels[row] = label
            take_out(tree, int(row))
        label += 1
    join_nearest(features, labels)
