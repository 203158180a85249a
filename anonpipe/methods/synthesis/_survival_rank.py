"""Put original values back into the synthetic records of their group, by rank."""

from __future__ import annotations

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.types import FloatArray, IntArray


def restore_by_rank(
    synthetic_values: FloatArray,
    original_values: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator | None = None,
    jitter: float = 0.0,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> FloatArray:
    """Give the record with the r-th smallest synthetic value the r-th smallest original of its group.

    Shapes: synthetic_values, original_values (n_rows,).

    References
    ----------
    Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 2, step d.ii.

    Examples
    --------
    >>> synthetic, original = np.array([0.3, -1.0, 0.1, 9.0]), np.array([12.0, 30.0, 18.0, 5.0])
    >>> restore_by_rank(synthetic, original, np.arange(4), np.array([0, 3, 4])).tolist()
    [30.0, 12.0, 18.0, 5.0]
    """
    if not len(synthetic_values) == len(original_values) == len(order):
        raise InputError("synthetic and original values differ in length; give one of each for every record")
    if not (np.isfinite(jitter) and jitter >= 0):
        raise JobError("jitter is a finite number of units, 0 or more")
    if jitter > 0 and rng is None:
        raise JobError("jitter needs a random generator; pass rng")
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    places = order[np.lexsort((synthetic_values[order], group))]
    ranked = order[np.lexsort((original_values[order], group))]
    out = np.empty(len(order), dtype=np.float64)
    out[places] = original_values[ranked]
    if jitter > 0 and rng is not None:
        room = np.minimum(out - limits[0], limits[1] - out)
        out += rng.uniform(-1.0, 1.0, len(out)) * np.clip(room, 0.0, jitter)
    return out
