"""Relative changes of terms in per cent, and what they come to over all that can be compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.types import BoolArray, FloatArray


@dataclass(frozen=True)
class ChangeSummary:
    """Sizes of relative changes in per cent, over all terms that can be compared."""

    mean: float  # NaN where no term can be compared
    median: float  # Likewise
    terms: int  # Terms in them
    left_out: int  # Terms that the original lacks, or so near zero there that a ratio to them says nothing
    # Terms that the original has and the release has not, such as the correlation of a column that the release holds
    # constant. They are not in the mean: where there are any, it flatters the release.
    lost: int


def relative_changes(original: FloatArray, released: FloatArray, sizes: FloatArray, least: float) -> ChangeSummary:
    """100 · |released - original| / |original|, over the terms whose size is `least` or more."""
    usable = np.isfinite(original) & (original != 0) & (sizes > 0) & (sizes >= least)
    old = np.where(usable, original, 1.0)
    return summarize(100.0 * np.abs(released - old) / np.abs(old), usable)


def summarize(changes: FloatArray, usable: BoolArray) -> ChangeSummary:
    """Mean and median of the usable changes; a usable one that is not finite is lost."""
    kept = changes[usable & np.isfinite(changes)]
    terms, compared = len(kept), int(usable.sum())
    mean, median = (float(kept.mean()), float(np.median(kept))) if terms else (float("nan"), float("nan"))
    return ChangeSummary(mean, median, terms, changes.size - compared, compared - terms)
