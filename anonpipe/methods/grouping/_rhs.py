"""Recursive histogram sanitization (RHS)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.errors import InfeasibleError
from anonpipe.methods.grouping._histogram_kernel import split_at_all_medians
from anonpipe.methods.grouping._options import GroupingOptions
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class RhsOptions(GroupingOptions):
    """Recursive histogram sanitization (RHS)."""

    method: Literal["rhs"]
    block_rows: int | None = Field(default=None, ge=10)


def rhs(features: FloatArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Group records into the cells of a recursive histogram, or refuse.

    A cell of more than 2k records is split at the median of every column at
    once, and so are the cells that come of it. Nothing keeps a cell from
    having fewer than k records, and with many columns most have one: then
    there is an error, and no grouping. One column without many ties passes;
    with two of a continuous table there are small cells already.

    Splits are by value: a value up to the median, of an even number the lower
    one, goes left. Where that would be all of a column that is not constant,
    its highest value goes right alone, so that each split makes progress; a
    constant column splits nothing. So groups have k to 2k records, and more
    only where all records of the group are equal.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Part of every clusterer's signature; nothing is drawn from it.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    Raises
    ------
    InfeasibleError
        A cell has fewer than k records.

    References
    ----------
    Chawla et al. 2005, doi:10.1007/978-3-540-30576-7_20, in the form of Lasko
    and Vinterbo 2010, doi:10.1109/TKDE.2009.88, section III-B2.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> rhs(features, 2, rng=np.random.default_rng(0)).tolist()
    [0, 1, 0, 1, 0]
    """
    labels = np.empty(len(features), dtype=np.int64)
    split_at_all_medians(features, k, labels)
    sizes = np.bincount(labels)
    small = int((sizes < k).sum())
    if small:
        raise InfeasibleError(
            f"rhs splits {features.shape[1]} columns at once, which leaves {small} of {len(sizes)} cells "
            f"under k={k} records; use spectral_rhs, which splits one column at a time, or fewer columns"
        )
    return labels


METHOD = Grouping(
    function=rhs,
    options=RhsOptions,
    published="Recursive histogram sanitization (RHS)",
    reference="Chawla et al. 2005, doi:10.1007/978-3-540-30576-7_20, as Lasko and Vinterbo 2010, section III-B2",
    cost="time O(n·w·log(n/k)), memory O(n·w)",
    sizes="k to 2k, more only of equal records; refuses where a cell is under k, as with many columns",
    largest=None,
)
