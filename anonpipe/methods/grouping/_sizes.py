"""Counting group sizes, whatever a method promises."""

from __future__ import annotations

import numpy as np

from anonpipe.errors import AnonpipeError
from anonpipe.types import IntArray


def count_groups(labels: IntArray, n_rows: int, k: int, source: str) -> IntArray:
    """Size of every group, shape (n_groups,), if the grouping keeps its promise.

    Examples
    --------
    >>> count_groups(np.array([0, 1, 1, 0]), 4, 2, "example").tolist()
    [2, 2]
    """
    if labels.shape != (n_rows,) or labels.dtype != np.int64:
        raise AnonpipeError(
            f"{source} gave labels of shape {labels.shape} and type {labels.dtype} for {n_rows} records; "
            f"a label int64 for each is needed. Nothing is used of it"
        )
    if n_rows and labels.min() < 0:
        raise AnonpipeError(f"{source} left {int((labels < 0).sum())} records without a group. Nothing is used of it")
    if n_rows and labels.max() >= n_rows:
        raise AnonpipeError(f"{source} gave labels beyond the number of records. Nothing is used of it")
    sizes = np.bincount(labels)
    small = int((sizes < k).sum())
    if small:
        raise AnonpipeError(f"{source} left {small} of {len(sizes)} groups under k={k} records. Nothing is used of it")
    return sizes
