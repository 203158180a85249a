"""Local search for groups of less scatter."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np

from anonpipe.kernels.features import checked_features
from anonpipe.methods.grouping._refine_search import BLOCK_ROWS, EFFORTS, search
from anonpipe.methods.grouping._sizes import count_groups
from anonpipe.types import FloatArray, IntArray


def refine(
    features: FloatArray,
    labels: IntArray,
    k: int,
    effort: Literal["quick", "normal", "thorough"] = "quick",
    *,
    rng: np.random.Generator | None = None,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
    block_rows: int = BLOCK_ROWS,
) -> IntArray:
    """Lower the information loss of a grouping by local search; it never rises.

    Groups of 2k or more are split. Then a record may move from a group of
    more than k to a near one with room, or swap places with a record there; a
    group may end by giving its records to near groups, and one may begin with
    records from near groups that have more than k. With n the sizes, c the
    means and u = x_j - x_i, a step adds to the scatter

        move i from a to b:   n_b/(n_b+1) |x_i - c_b|² - n_a/(n_a-1) |x_i - c_a|²
        swap i in a, j in b:  2 u·(c_b - c_a) - |u|² (1/n_a + 1/n_b)

    The groups are annealed in several runs. In a run such steps are taken
    where they add less than an allowance that shrinks from sweep to sweep, in
    units of each group's own scatter, and at last only steps that subtract.
    Then every region of the table keeps the better of its groups before and
    after the run, and the next run begins with those. Thorough begins several
    times with the given groups of a small table, and combines what comes of it
    in the same way.

    Near groups are those of nearest mean in the whole table, so that the
    borders of blocks in which groups were formed do not stay. Time is linear
    in the rows: in a sweep each group tries one step. Memory is a small
    multiple of that of the points.

    Shapes: features (n_rows, width); labels (n_rows,).

    References
    ----------
    The formulas follow from the change of two means. Annealing is Kirkpatrick,
    Gelatt and Vecchi 1983, doi:10.1126/science.220.4598.671; here every group
    has a temperature of its own. The choice by regions is that of `combine`.

    Examples
    --------
    >>> features = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> refine(features, np.array([0, 1, 0, 1]), 2).tolist()
    [0, 0, 1, 1]
    """
    features = checked_features(features)
    if effort not in EFFORTS:
        raise ValueError(f"effort is {effort!r}; allowed are {', '.join(EFFORTS)}")
    if k < 1 or block_rows < 1:
        raise ValueError(f"k is {k} and block_rows {block_rows}; give 1 or more")
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"seconds is {seconds}; give 0 or more, or None for no limit")
    if EFFORTS[effort].draws and rng is None:
        raise ValueError(f"effort {effort!r} draws at random and rng is None; give a numpy.random.Generator")
    count_groups(labels, len(features), k, "the grouping to be refined")
    if k == 1:
        return np.arange(len(features))
    if len(features) < 2 * k:
        return np.zeros(len(features), dtype=np.int64)
    refined, share = search(features, labels, k, EFFORTS[effort], rng, progress, seconds, block_rows)
    if share < 1.0:
        warnings.warn(
            f"refine stopped after {seconds} seconds with {share:.0%} of its sweeps done; "
            f"the groups are valid and no worse than those given",
            stacklevel=2,
        )
    count_groups(refined, len(features), k, "refine")
    return refined
