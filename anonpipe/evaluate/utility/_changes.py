"""How far the statistics of a release are from those of the original, averaged over many terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.types import FloatArray

LEAST = 1e-3  # Default size below which an original term, on its own scale, counts as 0


@dataclass(frozen=True)
class Changes:
    """Mean and median over all terms that can be compared."""

    # mean, median: of the sizes of the changes, in the unit that the function names; NaN where no term can be compared
    mean: float
    median: float
    terms: int  # Terms in them
    # Terms that the original does not have, or that are so near zero there that a ratio to them says nothing
    left_out: int
    # Terms that the original has and the release has not, such as the correlation of a column that the release holds
    # constant. They are not in the mean: where there are any, it flatters the release.
    lost: int


def relative_changes(original: FloatArray, released: FloatArray, sizes: FloatArray, least: float) -> Changes:
    """100 · |released - original| / |original|, over the terms whose size is `least` or more.

    Examples
    --------
    >>> old, new = np.array([2.0, -4.0, 1e-9]), np.array([3.0, -4.0, 1.0])
    >>> relative_changes(old, new, np.abs(old), 1e-3)
    Changes(mean=25.0, median=25.0, terms=2, left_out=1, lost=0)
    """
    usable = np.isfinite(original) & (original != 0) & (sizes > 0) & (sizes >= least)
    old = np.where(usable, original, 1.0)
    return summary(100.0 * np.abs(released - old) / np.abs(old), usable)


def summary(changes: FloatArray, usable: npt.NDArray[np.bool_]) -> Changes:
    """Mean and median of the usable changes; a usable one that is not finite is lost.

    Examples
    --------
    >>> summary(np.array([1.0, np.nan, 5.0]), np.array([True, True, False]))
    Changes(mean=1.0, median=1.0, terms=1, left_out=1, lost=1)
    """
    kept = changes[usable & np.isfinite(changes)]
    terms, known = len(kept), int(usable.sum())
    middle = (float(kept.mean()), float(np.median(kept))) if terms else (float("nan"), float("nan"))
    return Changes(*middle, terms, changes.size - known, known - terms)
