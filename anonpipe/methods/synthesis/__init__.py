"""Replace the records of groups: one method a file; `synthesize` runs one of `METHODS` and checks its input.

`restore_by_rank` puts original values back in the order of synthetic ones.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.methods.record import Synthesizer, by_name
from anonpipe.methods.synthesis import _centroid, _gaussian, _histogram, _micro_perturbation, _r_microhybrid
from anonpipe.methods.synthesis._centroid import centroid
from anonpipe.methods.synthesis._gaussian import gaussian, pca
from anonpipe.methods.synthesis._histogram import histogram
from anonpipe.methods.synthesis._micro_perturbation import micro_perturbation, noise_scatter
from anonpipe.methods.synthesis._r_microhybrid import r_microhybrid
from anonpipe.types import FloatArray, IntArray

__all__ = [
    "METHODS", "centroid", "gaussian", "histogram", "micro_perturbation", "noise_scatter", "pca", "r_microhybrid",
    "restore_by_rank", "synthesize",
]  # fmt: skip


Value = TypeVar("Value", np.float64, np.int64)

# All synthesizers by name; a new one is a line here
METHODS: dict[str, Synthesizer] = by_name(
    Synthesizer, (_centroid, _gaussian, _micro_perturbation, _r_microhybrid, _histogram)
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
    """Replace the records of all groups, shape (n_rows, width), by a method of `METHODS`, after checking the input."""
    if method not in METHODS:
        raise JobError(f"unknown synthesizer {method!r}; known are: {', '.join(METHODS)}")
    entry = METHODS[method]
    entry.check(options)
    kind, article = ("int64", "an") if entry.takes == "codes" else ("float64", "a")
    if features.ndim != 2 or features.dtype != kind:
        raise InputError(
            f"{entry.takes} are {article} {kind} table, not {features.dtype} of {features.ndim} dimensions; convert "
            "them"
        )
    if bad := int(np.count_nonzero(~np.isfinite(features).all(axis=1))):
        raise InputError(f"{bad} of {len(features)} records have values that are not finite; fill or drop them first")
    n = len(features)
    if order.dtype != np.int64 or starts.dtype != np.int64:
        raise InputError("order and starts are int64; take them from sort_groups")
    ends = len(starts) > 0 and starts[0] == 0 and starts[-1] == n == len(order)
    if not ends or (np.diff(starts) < 1).any():
        raise InputError(f"starts do not cut {n} records into groups of at least one; take them from sort_groups")
    seen = np.zeros(n, dtype=np.bool_)
    if n and order.min() >= 0 and order.max() < n:
        seen[order] = True
    if not seen.all():
        raise InputError(f"order does not hold each of {n} records once; take it from sort_groups")
    drawn = {"rng": rng} if entry.draws else {}
    new: npt.NDArray[Value] = entry.function(np.ascontiguousarray(features), order, starts, **drawn, **options)
    return new


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

    Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 2, step d.ii.
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
