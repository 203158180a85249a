"""Who swaps with whom: see `anonpipe.methods.masking._rank_swap`."""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def partners(draws: FloatArray, reach: int) -> IntArray:
    """The rank that each rank changes places with, its own where none is left; shape (n,).

    `draws` are uniform, one a rank. A pool holds those of the next `reach`
    ranks that have not been swapped, in no order; each leaves it in constant
    time, as the last one takes its place.
    """
    n = len(draws)
    partner = np.arange(n)
    pool, place = np.empty(n, dtype=np.int64), np.full(n, -1)
    size, ahead = 0, 1
    for rank in range(n):
        while ahead < n and ahead <= rank + reach:
            pool[size], place[ahead] = ahead, size
            size, ahead = size + 1, ahead + 1
        at = place[rank]
        if at >= 0:
            size -= 1
            pool[at], place[pool[size]], place[rank] = pool[size], at, -1
        if partner[rank] == rank and size > 0:
            at = int(draws[rank] * size)
            other = pool[at]
            size -= 1
            pool[at], place[pool[size]], place[other] = pool[size], at, -1
            partner[rank], partner[other] = other, rank
    return partner
