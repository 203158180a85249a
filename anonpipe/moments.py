"""Means and scatters that merge, and what they say about a synthesizer.

Each statistic is a frozen record: `of` counts one piece, `merge` joins two,
`merge_all` joins many in the given order; any split of a table merges to the
moments of the whole, to rounding. From them follow the noise covariance of
micro-perturbation (`s_delta`, `noise_factor`), and what each method promises:
`expected_covariance` on average, `sampling_limit` for the spread about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.group_moments import cross_products, mean_and_scatter, spread_sums, within_scatter

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FORMS = ("independent", "centred", "published")
"""Forms of micro-perturbation; see `s_delta`."""

_NEGATIVE = 1e-8
"""Eigenvalues of a correlation matrix below minus this are not rounding."""


class Mergeable(Protocol):
    """A statistic of which two make one."""

    def merge(self, other: Self) -> Self:
        """The statistic of both pieces together."""
        ...


def merge_all[T: Mergeable](parts: Sequence[T]) -> T:
    """Merge pieces in the given order.

    Examples
    --------
    >>> halves = [Moments.of(np.array([[0.0]])), Moments.of(np.array([[2.0]]))]
    >>> merge_all(halves).mean.tolist()
    [1.0]
    """
    if not parts:
        raise InputError("there are no moments to merge; give at least one piece")
    return reduce(lambda a, b: a.merge(b), parts)
