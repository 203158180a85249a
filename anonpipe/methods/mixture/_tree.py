"""First groups for a mixture: agglomeration of a sample."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anonpipe.kernels.group_maps import moments_by_group
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.mixture._determinant_kernel import join_groups
from anonpipe.types import FloatArray, IntArray

# Records of unit covariance added to each scatter: groups of fewer records than columns have no determinant else
PRIOR_ROWS = 0.1


def agglomerate(sample: FloatArray, most: int, starts: Iterable[int] = (50,)) -> list[IntArray]:
    """Groups of a sample for every number of groups from `most` down to 1, once for each of the `starts`.

    Ward's criterion first joins the records into so many small groups. From there
    the determinant criterion goes on: always the two groups are joined whose union raises
    Σ_g n_g log|W_g / n_g| least, the classification likelihood of groups that
    are ellipsoids of any size and shape. Columns count in units of their
    standard deviation; nothing is random, ties go to the lower numbers.

    Notes
    -----
    The authors let the determinant criterion start from single records, for
    which it is not defined; tools add terms to it there. Ward's criterion is
    its counterpart for small balls. Where the change comes decides which
    maximum of the likelihood is found: try several and keep the best.

    References
    ----------
    Fraley 1998, SIAM J. Sci. Comput. 20:270-281, doi:10.1137/S1064827596311451;
    Fraley and Raftery 2002, J. Am. Stat. Assoc. 97:611-631, section 3.

    Examples
    --------
    >>> agglomerate(np.array([[0.0], [0.1], [5.0], [5.1]]), 2)[0].tolist()
    [[0, 0, 0, 0], [0, 0, 1, 1]]
    """
    from scipy.cluster.hierarchy import linkage

    spread = sample.std(axis=0)
    scaled = (sample - sample.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    small_groups = [max(most, small) for small in starts]
    tree = linkage(scaled, "ward") if min(small_groups, default=0) < len(scaled) > 1 else None
    return [_levels(scaled, _ward(tree, len(scaled), groups), most) for groups in small_groups]


def _levels(scaled: FloatArray, first: IntArray, most: int) -> IntArray:
    """The small groups joined by the determinant criterion."""
    order, starts = sort_groups(first)
    means, scatters = moments_by_group(scaled, order, starts)
    joined = join_groups(np.diff(starts).astype(np.float64), means, scatters, PRIOR_ROWS)
    levels = np.empty((most, len(scaled)), dtype=np.int64)
    for groups in range(1, most + 1):
        # Ward's tree has fewer groups than asked for where records are equal.
        levels[groups - 1] = _in_order_of_rows(joined[min(groups, len(joined)) - 1][first])
    return levels


def _ward(tree: FloatArray | None, n_rows: int, groups: int) -> IntArray:
    """Ward's groups of the records, numbered 0 to `groups` - 1."""
    from scipy.cluster.hierarchy import fcluster

    if tree is None or groups >= n_rows:
        return np.arange(n_rows)
    return _in_order_of_rows(fcluster(tree, groups, "maxclust"))


def _in_order_of_rows(labels: IntArray) -> IntArray:
    """Number groups in the order of their first records."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[inverse]
