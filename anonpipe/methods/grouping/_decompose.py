"""The second phase of TFRP-2, DBA-2 and MDAV-2: groups whose records fit better into others are given up."""

from __future__ import annotations

import numpy as np

from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping._decompose_kernel import decompose_groups
from anonpipe.methods.grouping._scatter_kernel import group_scatters
from anonpipe.types import FloatArray, IntArray


def decompose(features: FloatArray, labels: IntArray, turn: IntArray, *, most: int) -> IntArray:
    """Give up every group, in `turn`, whose records add less scatter to other groups than their own has.

    Each record of the group in turn is assigned to the other group whose mean
    is nearest and that has fewer than `most` records, counting those assigned
    before it. The means are those before any record of the group moves. If
    the scatter of the groups that would grow, after all joins, exceeds their
    present scatter by less than the scatter of the group in turn, the records
    move; otherwise all stay. A group that has grown is treated as any
    other on its turn. A gain under 1e-12 of the mean squared distance to the
    mean of all records is taken for rounding. The last group is never given
    up.

    Shapes: features (n_rows, width).

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [1.5], [8.5], [9.0], [10.0]])
    >>> decompose(features, np.array([0, 0, 1, 1, 2, 2]), np.array([1, 0, 2]), most=6).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    order, starts = sort_groups(labels)
    labels = decompose_groups(features, order, starts, turn, most)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def by_falling_scatter(features: FloatArray, labels: IntArray) -> IntArray:
    """Numbers of the groups from the largest sum of squared distances to the mean down, ties by number."""
    return np.argsort(-group_scatters(features, *sort_groups(labels)), kind="stable")
