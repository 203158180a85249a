"""The table of all synthesizers; the validating dispatcher."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError
from anonpipe.methods.synthesis._centroid import centroid
from anonpipe.methods.synthesis._check import check_codes, check_groups, check_points
from anonpipe.methods.synthesis._gaussian import gaussian
from anonpipe.methods.synthesis._histogram import histogram
from anonpipe.methods.synthesis._micro_perturbation import micro_perturbation
from anonpipe.methods.synthesis._pca import pca
from anonpipe.methods.synthesis._r_microhybrid import r_microhybrid
from anonpipe.methods.synthesis._synthesizer import Synthesizer
from anonpipe.types import IntArray

Value = TypeVar("Value", np.float64, np.int64)

_MOMENTS = {
    "moments": "'exact' (default): of the drawn records; 'expected': of the distribution each is drawn from",
    "n_table": "records of the whole table; with moments='expected' only, and needed there",
}

_ONE = "pca and gaussian are one method under two names: their records have the same distribution"

METHODS: dict[str, Synthesizer] = {
    method.name: method
    for method in (
        Synthesizer(
            function=centroid,
            name="centroid",
            published="microaggregation, mean substitution",
            reference="Domingo-Ferrer & Mateo-Sanz (2002), doi:10.1109/69.979982",
            cost="time n · width; memory: the result",
            options={"statistics": "'mean' or 'median' for each column; means where left out"},
            required=(),
            promise=(
                "keeps means of groups, strata and table exactly; covariances shrink to those of the group means; "
                "medians keep neither"
            ),
            random=False,
            identical_groups=True,
            exact_group_moments=False,
            exact_table_moments=False,
        ),
        Synthesizer(
            function=gaussian,
            name="gaussian",
            published="normal data with the moments of the group (hybrid microdata); the same method as pca",
            reference="Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005",
            cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
            options=_MOMENTS,
            required=(),
            promise=(
                "exact: mean and scatter of every group, and so means and covariances of strata and table; groups of "
                "up to width + 1 records stay in the span of the originals, groups of two are the originals; "
                "expected: means and covariance of the table are unbiased (of a stratum up to a relative 1/N), those "
                f"of a group are not kept; {_ONE}"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=True,
            exact_table_moments=True,
        ),
        Synthesizer(
            function=pca,
            name="pca",
            published="improved condensation, synthetic data generation; the same method as gaussian",
            reference="Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 3 and Proposition 1",
            cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
            options=_MOMENTS,
            required=(),
            promise=f"as gaussian, in both forms; {_ONE}",
            random=True,
            identical_groups=False,
            exact_group_moments=True,
            exact_table_moments=True,
        ),
        Synthesizer(
            function=micro_perturbation,
            name="micro_perturbation",
            published="micro-perturbation (CAMP)",
            reference="Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 10 to 12",
            cost="time n · width · rank of the noise; memory: the result, and draws of one group or 8 MiB",
            options={
                "factor": (
                    "width x width: noise_factor(s_delta(moments of the table or stratum, form)), or for 'exact' "
                    "exact_factor(noise_scatter of all pieces, scatter within the groups)"
                ),
                "form": "'independent' (default), 'centred', 'published' or 'exact'",
            },
            required=("factor",),
            promise=(
                "independent: means and covariance of the table (or of each stratum, where the factor is the "
                "stratum's) are unbiased; centred: group means and all means exact, the covariance unbiased; "
                "published: means unbiased, the covariance too large by (G-1)/(N-G) of what the groups lost; "
                "exact: group means and all means exact, and the covariance of the table (or of each stratum)"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=False,
            exact_table_moments=False,
        ),
        Synthesizer(
            function=r_microhybrid,
            name="r_microhybrid",
            published="R-microhybrid, by IPSO in each group",
            reference="Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005",
            cost=(
                "time n · (width + kept) · min(group - 1, width + kept); "
                "memory: the result, one group, and its draws or 8 MiB"
            ),
            options={
                "kept": "columns released as they are, finite float64, n_rows x n_kept",
                "rule": "smallest group: 'argus' (default), 2 width + kept + 1 records, or 'rank', kept + 2",
            },
            required=("kept",),
            promise=(
                "keeps mean and scatter of every group exactly, its scatter with the kept columns too, and so those "
                "of strata and table; a group of kept + 2 records is released as it is half of the time"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=True,
            exact_table_moments=True,
        ),
        Synthesizer(
            function=histogram,
            name="histogram",
            published="condensation of categorical columns, histograms",
            reference="Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, on the condensation of Aggarwal and Yu",
            cost="time n · columns; memory: the result, and a draw a record",
            options={"counts": "'exact' (default): the group's codes, permuted; 'expected': drawn with replacement"},
            required=(),
            promise=(
                "exact: the counts of every category in every group, and so in strata and table; expected: the same "
                "on average; columns are independent within a group, so of what they have in common only what lies "
                "between the groups is left"
            ),
            random=True,
            identical_groups=False,
            exact_group_moments=False,
            exact_table_moments=False,
            takes="codes",
        ),
    )
}
"""All synthesizers by name."""


def synthesize(
    points: npt.NDArray[Value],
    order: IntArray,
    starts: IntArray,
    method: str,
    *,
    rng: np.random.Generator,
    **options: Any,
) -> npt.NDArray[Value]:
    """Replace the records of all groups by a method of `METHODS`, after checking its input.

    Parameters
    ----------
    points
        Finite float64, shape (n_rows, width); for a method that takes codes
        int64, shape (n_rows, n_columns).
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`. Every row is in
        one group, and no group is empty.
    method
        A key of `METHODS`.
    rng
        Source of all draws.
    **options
        The method's options; an unknown one is an error.

    Returns
    -------
    numpy.ndarray, shape and type of `points`
        Row i replaces row i; `points` is not changed.

    Raises
    ------
    JobError
        Unknown method or option, missing option, or a value that is not allowed.
    InputError
        Points that are not finite, or groups that do not hold every row once.

    Examples
    --------
    >>> points = np.array([[0.0], [4.0]])
    >>> synthesize(points, np.arange(2), np.array([0, 2]), "centroid", rng=np.random.default_rng()).tolist()
    [[2.0], [2.0]]
    """
    if method not in METHODS:
        raise JobError(f"unknown synthesizer {method!r}; known are: {', '.join(METHODS)}")
    entry = METHODS[method]
    known = ", ".join(entry.options) or "none"
    if unknown := [name for name in options if name not in entry.options]:
        raise JobError(f"{method} has no option {', '.join(unknown)}; its options: {known}")
    if missing := [name for name in entry.required if name not in options]:
        raise JobError(f"{method} needs the option {', '.join(missing)}; its options: {known}")
    (check_codes if entry.takes == "codes" else check_points)(points)
    check_groups(len(points), order, starts)
    drawn = {"rng": rng} if entry.random else {}
    new: npt.NDArray[Value] = entry.function(np.ascontiguousarray(points), order, starts, **drawn, **options)
    return new
