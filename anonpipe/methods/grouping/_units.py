"""Groups of k rows become groups of k units: persons, households, enterprises."""

from __future__ import annotations

import numpy as np

from anonpipe.errors import InfeasibleError
from anonpipe.kernels.features import checked_features
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping._units_kernel import cut_merged, merge_until
from anonpipe.types import FloatArray, IntArray


def hold_units(features: FloatArray, labels: IntArray, units: IntArray, k: int) -> IntArray:
    """Change any grouping until every group has records of k units or more.

    A unit (a person, say) may have several records, and those of one unit are
    near each other: a method that forms groups of near records forms groups of
    one unit. First such groups are merged: the one of fewest units takes in the group
    that raises the within-group scatter least (Ward's criterion) among those
    that have a unit which it lacks. Then each group that came of this is cut again,
    into as many groups as its units allow, in the manner of MDAV, but with one record of each of k units in a group:
    the record furthest from the mean of the rest, and the nearest records of the
    k - 1 units nearest to it. Records that are left join, in their order, the group
    with fewest of their unit, of these the nearest, so that few groups are mostly of one unit. Groups that had k units
    stay as they are, unless another one needs them.

    Merging alone would leave groups of all rows of k units: of 259 firms with 16 months, 80 rows in place of 5.

    Time O(wrong groups · groups · width) and, of n records in a group that is
    cut again, O(n² / k · width); memory O(n_rows + groups · width).

    Shapes: features (n_rows, width); labels (n_rows,); units (n_rows,).

    References
    ----------
    Domingo-Ferrer & Torra 2005, doi:10.1007/s10618-005-0007-5 (MDAV); Ward
    1963, doi:10.1080/01621459.1963.10500845; of units with several records
    Hundepool et al. 2012, section 3.2 (households).

    Examples
    --------
    >>> features = np.array([[0.0], [0.2], [1.0], [1.2], [9.0], [9.2], [9.4], [9.6]])
    >>> units = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    >>> hold_units(features, np.array([0, 0, 1, 1, 2, 2, 3, 3]), units, 2).tolist()
    [0, 1, 0, 1, 2, 3, 2, 3]
    """
    features = checked_features(features)
    labels, units = (unit_codes(each, name, len(features)) for each, name in ((labels, "labels"), (units, "units")))
    found = int(units.max()) + 1
    if found < k:
        raise InfeasibleError(
            f"{len(features):,} records are of {found:,} units, fewer than k={k}, and make no group; lower k, take "
            "fewer strata, or join strata (strata.small: merge)"
        )
    order, starts = sort_groups(labels)
    into = merge_until(features, order, starts, units, k)
    joined, kept = into[labels], np.flatnonzero(into == np.arange(len(into)))
    merged = np.bincount(into, minlength=len(into))[kept] > 1
    return np.asarray(cut_merged(features, *sort_groups(np.searchsorted(kept, joined)), units, merged, k))


def units_in_groups(labels: IntArray, units: IntArray) -> IntArray:
    """How many units each group has records of, shape (n_groups,).

    Shapes: labels (n_rows,); units (n_rows,).

    Examples
    --------
    >>> units_in_groups(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 3])).tolist()
    [1, 2]
    """
    return np.bincount(_pairs(labels, units)[0])


def largest_share(labels: IntArray, units: IntArray) -> float:
    """Of the rows of a group, the largest share that one unit has.

    Examples
    --------
    >>> largest_share(np.array([0, 0, 0, 0, 1, 1]), np.array([7, 7, 7, 3, 1, 2]))
    0.75
    """
    groups, rows = _pairs(labels, units)
    return float((rows / np.bincount(labels)[groups]).max())


def _pairs(labels: IntArray, units: IntArray) -> tuple[IntArray, IntArray]:
    """The group of each pair of a group and a unit that has rows in it, and how many."""
    pairs, rows = np.unique(labels * (int(units.max(initial=0)) + 1) + units, return_counts=True)
    return pairs // (int(units.max(initial=0)) + 1), rows


def unit_codes(values: IntArray, name: str, rows: int) -> IntArray:
    """The values as numbers from 0 without gaps."""
    values = np.asarray(values)
    if values.shape != (rows,) or not rows or not np.issubdtype(values.dtype, np.integer):
        raise ValueError(
            f"{name} has shape {values.shape} and type {values.dtype} for {rows} records; give one whole number a "
            "record, for 1 record or more"
        )
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
