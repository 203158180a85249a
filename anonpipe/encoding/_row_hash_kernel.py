"""Hashing of column values and their order-aware, layout-independent sum.

The mixing step is the finaliser of SplitMix64 (Steele, Lea & Flood 2014,
"Fast splittable pseudorandom number generators", figure 16). None of this is
cryptographic: it tells inputs apart, it does not hide them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_NULL = np.uint64(0x6E756C6C6E756C6C)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)


@njit(cache=True, nogil=True, inline="always")
def _mix(state: np.uint64) -> np.uint64:
    state = state + _STEP
    state = (state ^ (state >> _S30)) * _FIRST
    state = (state ^ (state >> _S27)) * _SECOND
    return state ^ (state >> _S31)


@njit(cache=True, nogil=True)
def hash_texts(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each text, FNV-1a with a final mixing.

    Shapes: offsets (n + 1,); returns (n,).
    """
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    for i in range(len(out)):
        state = _FNV_START
        for at in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[at])) * _FNV_PRIME
        out[i] = _mix(state)
    return out


@njit(cache=True, nogil=True)
def add_column(
    rows: npt.NDArray[np.uint64],
    hashes: npt.NDArray[np.uint64],
    valid: npt.NDArray[np.bool_],
    seeds: npt.NDArray[np.uint64],
) -> None:
    """Add one column to the rows' hashes, in place; the order of the columns does not matter.

    Shapes: rows (n, lanes); hashes, valid (n,); seeds (lanes,).
    """
    for i in range(len(rows)):
        for lane in range(len(seeds)):
            if valid[i]:
                rows[i, lane] += _mix(hashes[i] ^ seeds[lane])
            else:
                rows[i, lane] += _mix(_mix(seeds[lane] ^ _NULL))


@njit(cache=True, nogil=True)
def sum_rows(rows: npt.NDArray[np.uint64], first_row: np.uint64) -> npt.NDArray[np.uint64]:
    """Sum of the rows' hashes modulo 2^64, each bound to its place in the input.

    Shapes: rows (n, lanes); returns (lanes,).
    """
    total = np.zeros(rows.shape[1], dtype=np.uint64)
    for i in range(len(rows)):
        place = _mix(first_row + np.uint64(i))
        for lane in range(len(total)):
            total[lane] += _mix(rows[i, lane] ^ place)
    return total
