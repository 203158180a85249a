"""The area under the ROC curve with DeLong's interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, ndtri

from anonpipe.errors import InputError

_Z = float(ndtri(0.975))


@dataclass(frozen=True)
class Auc:
    """Chance that a positive scores higher than a negative, ties counting half, and its 95 % interval."""

    value: float
    low: float
    high: float


def auc(positives: npt.ArrayLike, negatives: npt.ArrayLike) -> Auc:
    """Area under the ROC curve of scores.

    Parameters
    ----------
    positives, negatives
        Finite scores, one or more each.

    Returns
    -------
    Auc
        The variance is DeLong's, and the interval symmetric on the logit
        scale, so that it stays between 0 and 1. Where the variance is 0
        (scores without overlap, or all equal) it is extended by 3 / n of the
        smaller group, the rule of three.

    Raises
    ------
    InputError
        A group is empty, or scores are not finite.

    References
    ----------
    DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44:837-845; by ranks as
    in Sun & Xu (2014), IEEE Signal Processing Letters 21:1389-1393.

    Examples
    --------
    >>> found = auc([2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 1.0])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.875, 0.427, 0.985)
    """
    from scipy.stats import rankdata

    high, low = (np.asarray(scores, dtype=np.float64).ravel() for scores in (positives, negatives))
    if min(len(high), len(low)) == 0:
        raise InputError(f"{len(high)} positive and {len(low)} negative scores were given; give one or more of both")
    if not (np.isfinite(high).all() and np.isfinite(low).all()):
        raise InputError("scores are not finite; leave out the records without one")
    m, n = len(high), len(low)
    ranks = rankdata(np.concatenate([high, low]))
    above = (ranks[:m] - rankdata(high)) / n  # share of negatives below each positive
    below = 1.0 - (ranks[m:] - rankdata(low)) / m
    value = float(above.mean())
    variance = (float(above.var(ddof=1)) / m if m > 1 else 0.0) + (float(below.var(ddof=1)) / n if n > 1 else 0.0)
    if variance > 0 and 0 < value < 1:
        reach = _Z * math.sqrt(variance) / (value * (1 - value))
        ends = expit(logit(value) + reach * np.array([-1.0, 1.0]))
        return Auc(value, float(ends[0]), float(ends[1]))
    reach = 3.0 / min(m, n)
    return Auc(value, max(0.0, value - reach), min(1.0, value + reach))
