"""Normal draws for many groups, in pieces of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anonpipe.types import FloatArray, IntArray

DRAWS = 1 << 20  # Draws held at a time (8 MiB), more only for a group that needs more


def draw_in_chunks(
    per_group: IntArray, rng: np.random.Generator, most: int = DRAWS
) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield (first group, group after the last, draws) over all groups in order.

    Shapes: per_group (n_groups,).

    Examples
    --------
    >>> [(a, b, len(z)) for a, b, z in draw_in_chunks(np.array([3, 3, 9, 1]), np.random.default_rng(), most=6)]
    [(0, 2, 6), (2, 3, 9), (3, 4, 1)]
    """
    ends = np.cumsum(per_group)
    first, done = 0, 0
    while first < len(per_group):
        after = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield first, after, rng.standard_normal(int(ends[after - 1]) - done)
        first, done = after, int(ends[after - 1])
