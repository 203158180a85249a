"""The step on which all numbers of a sample lie: 0.1 of 31.2, 0.05 of prices, none of what has all digits."""

from __future__ import annotations

import numpy as np

from anonpipe.types import FloatArray

# Numbers, two of them distinct, below which nothing is said; and distinct ones below which fives may be chance
FEWEST = 20
DIGITS = 6  # Most decimals that are looked for
COARSER = (25, 5, 2)  # Times the last decimal: quarters, fives, twos
SPACINGS = 64  # Of two neighbouring floats: a smaller step than so many says nothing, as every float lies on it


def common_step(values: FloatArray, single: bool = False) -> float | None:
    """The largest decimal step below 1 of which all numbers are multiples, to rounding; None without one.

    Shapes: values (n,).

    Examples
    --------
    >>> tenths = np.arange(100) / 10
    >>> common_step(tenths), common_step(tenths.astype(np.float32).astype(float), single=True)
    (0.1, 0.1)
    >>> common_step(tenths / 2), common_step(np.sqrt(tenths)), common_step(np.arange(50) * 0.25)
    (0.05, None, 0.25)
    """
    values = values[np.isfinite(values)]
    many, values = len(values), np.unique(values)
    if many < FEWEST or len(values) < 2:
        return None
    kind = np.float32 if single else np.float64
    spacing = float(np.spacing(kind(np.abs(values).max())))
    for digits in range(1, DIGITS + 1):
        step = 10.0**-digits
        if step < SPACINGS * spacing:
            return None
        if not _multiples(values, step, kind):
            continue
        coarser = COARSER if len(values) >= FEWEST else ()
        return next((round(n * step, digits) for n in coarser if _multiples(values, n * step, kind)), step)
    return None


def _multiples(values: FloatArray, step: float, kind: type[np.floating]) -> bool:
    """Whether all values are the nearest floats to multiples of the step, or a few beside."""
    off = np.abs(np.rint(values / step) * step - values)
    return bool((off <= 4.0 * np.spacing(np.abs(values).astype(kind)).astype(np.float64)).all())
