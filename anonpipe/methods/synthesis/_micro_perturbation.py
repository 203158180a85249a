"""Micro-perturbation: group means plus noise of one covariance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from anonpipe.errors import InputError
from anonpipe.kernels.groups import centre_in_groups, perturb_groups
from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Guarantee, Noise, Synthesizer
from anonpipe.methods.synthesis._gaussian import draw_in_chunks
from anonpipe.moments import (
    Expected,
    GroupedMoments,
    GroupSpread,
    NoiseScatter,
    exact_factor,
    expect_scopes,
    merge_all,
    noise_factor,
    s_delta,
)
from anonpipe.types import FloatArray, IntArray


def noise_scatter(starts: IntArray, width: int, *, rng: np.random.Generator) -> NoiseScatter:
    """Count the draws that `micro_perturbation` of form `exact` will make of the same groups and generator."""
    counted = NoiseScatter.of(np.empty((0, width)), starts[:1])
    for first, after, draws in draw_in_chunks(np.diff(starts) * width, rng):
        part = starts[first : after + 1] - starts[first]
        counted = counted.merge(NoiseScatter.of(draws.reshape(int(part[-1]), width), part))
    return counted


class MicroPerturbationOptions(MethodOptions):
    """Group means plus noise of one covariance (Li & Sarkar 2013, eq. 11).

    `noise_scope`: one covariance a `stratum`, so that means and covariances are unbiased (or exact) inside every
    stratum; strata of few records beyond their groups (under 30, or twice the feature columns) share one. Or one of the
    whole `table`, which is right for the table and biased inside strata.
    """

    method: Literal["micro_perturbation"] = "micro_perturbation"
    form: Literal["independent", "centred", "published", "exact"] = "independent"
    noise_scope: Literal["table", "stratum"] = "stratum"


def micro_perturbation(
    features: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    factor: FloatArray,
    form: Literal["independent", "centred", "published", "exact"] = "independent",
) -> FloatArray:
    """Replace each record by the mean of its group plus normal noise.

    `independent` and `published` draw for each record by itself (and differ in `factor`); `centred` and `exact`
    subtract the group's mean of the noise. With `independent` the group means move. With `published` the covariance is
    too large by (G-1)/(N-G) (S_X - S_B), because independent noise moves the group means too.

    `exact` pools the centred noise Z of all records, whitens it by its own scatter S and colours it with W, the scatter
    within the groups: E = Z S^(-1/2) L' with L L' = W has E'E = W, and no product with the group means, over which it
    sums to zero. Where the groups lie in several pieces, each counts its Z first (`noise_scatter`) and draws the same Z
    again here, from a generator in the same state; one matrix, the factor, carries all that the pieces need of each
    other. Groups of one record get no noise.

    `centred` and `exact` release the true group means: an attacker who knows all of a group but one computes the last.
    """
    width = features.shape[1]
    if factor.shape != (width, width) or not np.isfinite(factor).all():
        raise InputError(
            f"the noise factor must be finite and {width} x {width}; make it with noise_factor(s_delta(...)), "
            "or exact_factor(...) for form='exact'"
        )
    used = np.ascontiguousarray(factor[:, factor.any(axis=0)].T, dtype=np.float64)
    out = np.empty_like(features)
    drawn = width if form == "exact" else len(used)  # exact: as many as were counted, before the rank was known
    for first, after, draws in draw_in_chunks(np.diff(starts) * drawn, rng):
        part = starts[first : after + 1]
        shaped = draws.reshape(int(part[-1] - part[0]), drawn)
        if form in ("centred", "exact"):
            centre_in_groups(shaped, part)
        perturb_groups(features, order, part, shaped, used, out)
    return out


def _factor(options: MicroPerturbationOptions, grouped: GroupedMoments, drawn: NoiseScatter | None) -> FloatArray:
    if drawn is not None:
        return exact_factor(drawn, grouped.within)
    return noise_factor(s_delta(grouped, options.form))


def _expect_noise(grouped: Sequence[GroupedMoments], spread: Sequence[GroupSpread] | None, *, form: str) -> Expected:
    """Moments of records whose noise has a covariance for each part; of form `exact` those of the originals."""
    if form == "exact":
        return Expected.exactly(merge_all(grouped).total.covariance)
    return expect_scopes([(each, s_delta(each, form)) for each in grouped], form)


_BIASED = "synthesize.form 'published' is biased: variances come out too large (use independent or centred)"


METHOD = Synthesizer(
    function=micro_perturbation,
    options=MicroPerturbationOptions,
    published="micro-perturbation (CAMP)",
    reference="Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 10 to 12",
    cost="time n · width · rank of the noise; memory: the result, and draws of one group or 8 MiB",
    about={
        "factor": (
            "width x width: noise_factor(s_delta(moments of the table or stratum, form)), or for 'exact' "
            "exact_factor(noise_scatter of all pieces, scatter within the groups)"
        ),
        "form": "'independent' (default), 'centred', 'published' or 'exact'",
    },
    keeps=(
        "independent: means and covariance of the table (or of each stratum, where the factor is the "
        "stratum's) are unbiased; centred: group means and all means exact, the covariance unbiased; "
        "published: means unbiased, the covariance too large by (G-1)/(N-G) of what the groups lost; "
        "exact: group means and all means exact, and the covariance of the table (or of each stratum)"
    ),
    guarantee=lambda options: Guarantee(options.noise_scope, partial(_expect_noise, form=options.form)),
    noise=Noise(_factor, draws_first=lambda options: options.form == "exact"),
    averages=lambda options: options.form == "independent",
    warns=lambda options: _BIASED if options.form == "published" else None,
    forms="form",
)
