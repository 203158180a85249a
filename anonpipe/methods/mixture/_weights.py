"""Mixing weights that do not fall below k / n."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anonpipe.types import FloatArray


def smoothed(weights: FloatArray, least: float) -> FloatArray:
    """Add one number to all weights and rescale, so that the smallest becomes `least` (eq. 3 and 4).

    Weights stay in their order and all move towards 1 / G, large and small
    ones; nothing changes where all are `least` or more.

    References
    ----------
    Oganian and Domingo-Ferrer 2017, Trans. Data Privacy 10:61-81, section 3.

    Examples
    --------
    >>> smoothed(np.array([0.05, 0.35, 0.6]), 0.1).round(4).tolist()
    [0.1, 0.3471, 0.5529]
    """
    smallest = weights.min()
    if smallest >= least:
        return weights
    shift = (least - smallest) / (1.0 - least * len(weights))
    lifted: FloatArray = (weights + shift) / (1.0 + len(weights) * shift)
    # The smallest is `least` but for rounding, which must not leave it below.
    return np.maximum(lifted, least)


def constrained(weights: FloatArray, least: float) -> FloatArray:
    """The most likely weights among those of `least` or more.

    Of all weights with this bound they maximise Σ N_g log π_g: the small ones
    become `least`, the others shrink in proportion. An iteration with this
    rule cannot lower the likelihood; one with `smoothed` can.

    Examples
    --------
    >>> constrained(np.array([0.05, 0.35, 0.6]), 0.1).round(4).tolist()
    [0.1, 0.3316, 0.5684]
    """
    low = np.zeros(len(weights), dtype=np.bool_)
    bounded = weights
    while True:
        rest = weights[~low].sum()
        shrink = (1.0 - least * low.sum()) / rest if rest > 0 else 0.0
        bounded = np.where(low, least, weights * shrink)
        below = ~low & (bounded < least)
        if not below.any():
            return bounded
        low |= below


# Ways to lift weights to a bound, by name
RULES: dict[str, Callable[[FloatArray, float], FloatArray]] = {"published": smoothed, "constrained": constrained}
