"""Codes drawn again within their groups."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.kernels.compiled import kernel
from anonpipe.methods.record import Synthesizer
from anonpipe.types import FloatArray, IntArray


@kernel
def _shuffle_in_groups(
    codes: IntArray, column: int, order: IntArray, starts: IntArray, uniform: FloatArray, out: IntArray
) -> None:
    """Write a random permutation of each group's codes of one column into `out` (Fisher and Yates)."""
    for g in range(starts.shape[0] - 1):
        begin = starts[g]
        for at in range(begin, starts[g + 1]):
            out[order[at], column] = codes[order[at], column]
        for i in range(starts[g + 1] - begin - 1, 0, -1):
            here, there = order[begin + i], order[begin + min(int(uniform[begin + i] * (i + 1)), i)]
            held = out[here, column]
            out[here, column] = out[there, column]
            out[there, column] = held


def _draw_in_groups(
    codes: IntArray, column: int, order: IntArray, starts: IntArray, uniform: FloatArray, out: IntArray
) -> None:
    """Write for each record the code of a random member of its group into `out`, with replacement."""
    sizes = np.diff(starts)
    size, begin = np.repeat(sizes, sizes), np.repeat(starts[:-1], sizes)
    out[order, column] = codes[order[begin + np.minimum((uniform * size).astype(np.int64), size - 1)], column]


def histogram(
    codes: IntArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    counts: Literal["exact", "expected"] = "exact",
) -> IntArray:
    """Replace each code by one from its group's histogram of that column, each column by itself.

    Codes are whole numbers, shape (n_rows, n_columns); a code for null is a code like any other. Only codes of the
    group itself occur, so a category that all its members share stays. The paper keeps the frequencies of co-occurring
    categories for covariances, for dynamic data; the draws use the histograms alone. With n members the count of a
    category of share p has the variance n p (1 - p) under `expected`.
    """
    replace = _shuffle_in_groups if counts == "exact" else _draw_in_groups
    out = np.empty_like(codes)
    for column in range(codes.shape[1]):
        replace(codes, column, order, starts, rng.random(len(codes)), out)
    return out


METHOD = Synthesizer(
    function=histogram,
    options=None,
    published="condensation of categorical columns, histograms",
    reference="Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, on the condensation of Aggarwal and Yu",
    cost="time n · columns; memory: the result, and a draw a record",
    about={"counts": "'exact' (default): the group's codes, permuted; 'expected': drawn with replacement"},
    keeps=(
        "exact: the counts of every category in every group, and so in strata and table; expected: the same "
        "on average; columns are independent within a group, so of what they have in common only what lies "
        "between the groups is left"
    ),
    guarantee=None,
    takes="codes",
)
