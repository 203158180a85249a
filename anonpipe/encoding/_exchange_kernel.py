"""Values of one column exchanged between records until the column has wanted covariances with all others."""

from __future__ import annotations

import numba as nb

from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def exchange(
    features: FloatArray, start: int, stop: int, pairs: IntArray, lack: FloatArray, unit: FloatArray, source: IntArray
) -> int:
    """Exchange columns start..stop between the records of each pair where that brings the scatter nearer.

    Nearer in the sum of squares of what it lacks, in units of the columns.
    An exchange keeps every column's values, hence means and variances.

    Shapes: pairs (n_pairs, 2); lack (width, width); unit (width,); source (n,).

    Examples
    --------
    >>> import numpy as np
    >>> features, source = np.array([[0.0, 1.0], [1.0, 0.0]]), np.arange(2)
    >>> lack = np.array([[0.0, 1.0], [1.0, 0.0]])  # they should vary together
    >>> exchange(features, 0, 1, np.array([[0, 1]]), lack, np.ones(2), source), features.tolist(), source.tolist()
    (1, [[1.0, 1.0], [0.0, 0.0]], [1, 0])
    """
    width, made = features.shape[1], 0
    for p in range(len(pairs)):
        r, s = pairs[p, 0], pairs[p, 1]
        change = 0.0
        for j in range(start, stop):
            d = features[r, j] - features[s, j]
            if d != 0.0:
                for h in range(width):
                    if h < start or h >= stop:
                        e = d * (features[s, h] - features[r, h])
                        change += (unit[j] * unit[h]) ** 2 * e * (e - 2.0 * lack[j, h])
        if change >= 0.0:
            continue
        for j in range(start, stop):
            d = features[r, j] - features[s, j]
            if d != 0.0:
                for h in range(width):
                    if h < start or h >= stop:
                        lack[j, h] -= d * (features[s, h] - features[r, h])
                        lack[h, j] = lack[j, h]
                features[r, j], features[s, j] = features[s, j], features[r, j]
        source[r], source[s] = source[s], source[r]
        made += 1
    return made
