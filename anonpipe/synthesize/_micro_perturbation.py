"""Micro-perturbation: group means plus noise of one covariance."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.noise import perturb_groups
from anonpipe.moments import FORMS
from anonpipe.synthesize._draws import draw_in_chunks

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def micro_perturbation(
    points: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    factor: FloatArray,
    form: Literal["independent", "centred", "published"] = "independent",
) -> FloatArray:
    """Replace each record by the mean of its group plus normal noise.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width), C order.
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`.
    rng
        Source of the draws.
    factor
        `noise_factor(s_delta(grouped, form))` with the moments of the whole
        table (or stratum), shape (width, width).
    form
        `independent` and `published` draw for each record by itself (and
        differ in `factor`); `centred` subtracts the group's mean of the noise.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i. `independent`: the table's mean and covariance
        are unbiased, the group means move. `centred`: the table's mean and the
        group means are kept, the covariance is unbiased. `published`: the
        mean is unbiased, the covariance too large by (G-1)/(N-G) (S_X - S_B),
        because independent noise moves the group means too.

    Raises
    ------
    JobError
        Unknown `form`.
    InputError
        `factor` has another shape or is not finite.

    References
    ----------
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 10 to 12.

    Examples
    --------
    >>> rng = np.random.default_rng()
    >>> points, groups = np.array([[1.0], [3.0], [9.0]]), (np.arange(3), np.array([0, 2, 3]))
    >>> new = micro_perturbation(points, *groups, rng=rng, factor=np.array([[0.5]]), form="centred")
    >>> new[:2].mean().round(12).item(), new[2].item()
    (2.0, 9.0)
    """
    if form not in FORMS:
        raise JobError(f"micro_perturbation was given form={form!r}; known are: {', '.join(FORMS)}")
    width = points.shape[1]
    if factor.shape != (width, width) or not np.isfinite(factor).all():
        raise InputError(
            f"the noise factor must be finite and {width} x {width}; make it with noise_factor(s_delta(...))"
        )
    used = np.ascontiguousarray(factor[:, factor.any(axis=0)].T, dtype=np.float64)
    out = np.empty_like(points)
    for first, after, draws in draw_in_chunks(np.diff(starts) * len(used), rng):
        part = starts[first : after + 1]
        shaped = draws.reshape(int(part[-1] - part[0]), len(used))
        perturb_groups(points, order, part, shaped, used, form == "centred", out)
    return out
