"""The table of all synthesizers; the validating dispatcher."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError
from anonpipe.methods.record import Synthesizer, by_name
from anonpipe.methods.synthesis import _centroid, _gaussian, _histogram, _micro_perturbation, _pca, _r_microhybrid
from anonpipe.methods.synthesis._check import check_codes, check_features, check_groups
from anonpipe.types import IntArray

Value = TypeVar("Value", np.float64, np.int64)

# All synthesizers by name; a new one is a line here
METHODS: dict[str, Synthesizer] = by_name(
    Synthesizer,
    (
        _centroid,
        _gaussian,
        _pca,
        _micro_perturbation,
        _r_microhybrid,
        _histogram,
    ),
)


def synthesize(
    features: npt.NDArray[Value],
    order: IntArray,
    starts: IntArray,
    method: str,
    *,
    rng: np.random.Generator,
    **options: Any,
) -> npt.NDArray[Value]:
    """Replace the records of all groups by a method of `METHODS`, after checking its input.

    Shapes: features (n_rows, width).

    Examples
    --------
    >>> features = np.array([[0.0], [4.0]])
    >>> synthesize(features, np.arange(2), np.array([0, 2]), "centroid", rng=np.random.default_rng()).tolist()
    [[2.0], [2.0]]
    """
    if method not in METHODS:
        raise JobError(f"unknown synthesizer {method!r}; known are: {', '.join(METHODS)}")
    entry = METHODS[method]
    entry.check(options)
    (check_codes if entry.takes == "codes" else check_features)(features)
    check_groups(len(features), order, starts)
    drawn = {"rng": rng} if entry.draws else {}
    new: npt.NDArray[Value] = entry.function(np.ascontiguousarray(features), order, starts, **drawn, **options)
    return new
