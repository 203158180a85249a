"""Maximum distance to average vector (MDAV)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.mdav import mdav_block

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def mdav(points: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records by MDAV.

    While 3k or more records are left: r is the record furthest from their
    mean and forms a group with its k - 1 nearest; s, the record furthest from
    r, forms a group with its k - 1 nearest among the others. Of 2k to 3k - 1
    records left, the one furthest from the mean and its k - 1 nearest form a
    group and the rest another; fewer than 2k form one group. So all groups
    have k records but the last, which has up to 2k - 1. Ties go to the lower
    row number.

    This is the variant with the threshold 3k. The older one takes two groups
    a round down to 2k records and adds fewer than k leftovers to their
    nearest groups.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; MDAV draws nothing from it.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    References
    ----------
    Domingo-Ferrer and Mateo-Sanz 2002, doi:10.1109/69.979982; Domingo-Ferrer
    and Torra 2005, doi:10.1007/s10618-005-0007-5, algorithm MDAV-generic.

    Examples
    --------
    >>> points = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> mdav(points, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 1]
    """
    labels = np.empty(len(points), dtype=np.int64)
    mdav_block(points, k, np.arange(len(points)), labels, 0)
    return labels
