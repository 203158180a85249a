"""The nearest points of other points by comparing all with all: a matrix product rules nearly all pairs out.

Derivation. With points x and queries q, moved and divided so that all coordinates are at most
1, squared distances are |x|² + |q|² - 2 x·q. The product of all pairs is taken with numbers of 24
bits, e = 2^-24, which is several times faster than measuring pair by pair. Rounding the coordinates,
products and sums of w terms errs by at most 2 (w + 2) e |x| |q|, the norms and their sum by 5 e |x|² and
e |q|² (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1). A point that is nearer
than d has |x| <= |q| + sqrt(d), thus |x|² <= 2 |q|² + 2 d, and its estimate of |x|² - 2 x·q is at most

    d (1 + c e) - |q|² (1 - c e) + w 2^-140,    c = 4 w + 32,

the last term for what is too small for such numbers. c has room for the terms of higher order, and
for the rounding of d and of this limit. Pairs whose estimate is not above it are measured
with all digits, column by column: what is found does not depend on the estimates.
"""

from __future__ import annotations

import numpy as np

from anonpipe.evaluate.risk._nearest_kernel import keep_nearer
from anonpipe.types import FloatArray, IntArray

_TILE, _TOGETHER = 512, 1_024  # Points and queries of a product, so that it stays in the cache

_LEAST = 1e-140  # Smaller units have squares without all digits: the limit's last term is then above all estimates


def scan_nearest(
    features: FloatArray, queries: FloatArray, without: IntArray, rows: IntArray, squared: FloatArray
) -> None:
    """Write the nearest rows of each query and their squared distances, by comparing all with all.

    Shapes: without (m,).
    """
    rows[:], squared[:] = -1, np.inf
    if not len(features) or not len(queries):
        return
    width = features.shape[1]
    centre = features.mean(axis=0)
    reach = (np.maximum(side.max(axis=0) - centre, centre - side.min(axis=0)).max() for side in (features, queries))
    unit = max(_LEAST, *map(float, reach))
    error = (4 * width + 32) * 2.0**-24
    slope = (1 + error) / unit**2
    moved = (queries - centre) / unit
    shift = width * 2.0**-140 - (moved**2).sum(axis=1) * (1 - error)
    turned = np.ascontiguousarray(-2 * moved.T, dtype=np.float32)
    limits = np.full(len(queries), np.inf, dtype=np.float32)
    parts = [slice(start, start + _TOGETHER) for start in range(0, len(queries), _TOGETHER)]
    for first in range(0, len(features), _TILE):
        tile = ((features[first : first + _TILE] - centre) / unit).astype(np.float32)
        norms = np.einsum("ij,ij->i", tile, tile, dtype=np.float64).astype(np.float32)
        for part in parts:
            keep_nearer(
                features,
                first,
                queries[part],
                without[part],
                tile @ turned[:, part],
                norms,
                slope,
                shift[part],
                limits[part],
                rows[part],
                squared[part],
            )
