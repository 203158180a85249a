"""Groups of at least k near records: formed by `cluster`, improved by `refine`, judged by `information_loss`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from anonpipe.kernels.points import block_order, checked_features
from anonpipe.methods.grouping import (
    _crest,
    _md,
    _mdav,
    _partitional,
    _spanning_tree,
    _spectral,
    _two_phase,
    _univariate,
)
from anonpipe.methods.grouping._classes import (
    ClassDisclosure,
    checked_classes,
    class_disclosure,
    constrain_classes,
    unreachable,
)
from anonpipe.methods.grouping._loss import (
    CONFIDENCE,
    LossBound,
    bound_from_distances,
    count_groups,
    information_loss,
    information_loss_bound,
    smallest_distances,
)
from anonpipe.methods.grouping._refine import refine
from anonpipe.methods.grouping._units import hold_units, largest_share, unit_points, units_in_groups
from anonpipe.methods.options import GroupingOptions
from anonpipe.methods.record import Grouping, by_name
from anonpipe.types import FloatArray, IntArray

__all__ = [
    "CONFIDENCE", "METHODS", "ClassDisclosure", "GroupingOptions", "LossBound", "bound_from_distances",
    "class_disclosure", "cluster", "constrain_classes", "hold_units", "information_loss", "information_loss_bound",
    "largest_share", "refine", "smallest_distances", "unit_points", "units_in_groups", "unreachable",
]  # fmt: skip

# All of them by name; the file of a new one is named here
METHODS: dict[str, Grouping] = by_name(Grouping, (
    _mdav, _md, _partitional, _spanning_tree, _crest, _spectral, _two_phase, _univariate,
))  # fmt: skip


def cluster(
    features: FloatArray,
    k: int,
    method: str = "mdav",
    *,
    rng: np.random.Generator,
    block_rows: int | None = None,
    classes: IntArray | None = None,
    class_shares: FloatArray | None = None,
    **options: int | float | str | None,
) -> IntArray:
    """Group records by a method of `METHODS`, and count the groups whatever the method promises."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; allowed are {', '.join(METHODS)}")
    entry = METHODS[method]
    entry.check(options)
    features = checked_features(features)
    if features.shape[1] == 0:
        raise ValueError("features has no columns; give one or more")
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise ValueError(f"k has type {type(k).__name__}; give a whole number")
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng has type {type(rng).__name__}; give a numpy.random.Generator, as from default_rng()")
    if not 1 <= k <= len(features):
        raise ValueError(f"k is {k} for {len(features)} records; give 1 to as many as there are records")
    given: dict[str, Any] = dict(options)
    if entry.classes:
        classes, shares = checked_classes(classes, class_shares, len(features), method)
        given["class_shares"] = shares
    elif classes is not None or class_shares is not None:
        raise ValueError(f"{method} does not use classes; leave them out")
    labels = np.empty(len(features), dtype=np.int64)
    label = 0
    for rows in _blocks_of_at_least(features, k, block_rows):
        if classes is not None:
            given["classes"] = classes[rows]
        found = entry.function(features[rows], k, rng=rng, **given)
        sizes = count_groups(found, len(rows), k, method)
        labels[rows] = label + found
        label += len(sizes)
    return labels


def _blocks_of_at_least(features: FloatArray, k: int, block_rows: int | None) -> list[IntArray]:
    """Row numbers of each block; an error where a block is under k."""
    if block_rows is None or block_rows >= len(features):
        return [np.arange(len(features))]
    order, starts = block_order(features, block_rows)
    if np.diff(starts).min() < k:
        raise ValueError(f"block_rows is {block_rows}, which leaves blocks under k={k} records; give at least {2 * k}")
    return [order[low:high] for low, high in pairwise(starts)]
