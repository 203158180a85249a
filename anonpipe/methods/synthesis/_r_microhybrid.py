"""Hybrid records: what kept columns explain stays, the rest of each group is rotated."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.errors import InputError
from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Features, Guarantee, Synthesizer
from anonpipe.methods.synthesis._gaussian import draw_in_chunks, kept_exactly, rotate_residuals, rotation_draws
from anonpipe.types import FloatArray, IntArray


class RMicrohybridOptions(MethodOptions):
    """Hybrid records: what the columns that are released unchanged explain stays, the rest of each group is rotated.

    Means, covariances, and covariances with the key variables stay exact in every group. `rule` is the smallest k that
    is accepted: `argus` asks for 2 w + u + 1, w and u being the feature columns of the masked columns and of the key
    variables (`anonpipe plan` tells them), `rank` for u + 2. A record that alone in its group has a category of a key
    variable is explained whole and released as it is, whatever the rule: gates.unchanged_record_rate counts them, and
    strata.by of that column prevents them.
    """

    method: Literal["r_microhybrid"]
    rule: Literal["argus", "rank"] = "argus"


def r_microhybrid(
    features: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    kept: FloatArray,
    rule: Literal["argus", "rank"] = "argus",
) -> FloatArray:
    """Replace each group by records with its mean, its scatter, and its covariances with columns that are kept.

    IPSO (Burridge 2003, Statistics and Computing 13, 321-327) regresses the masked columns X on the kept ones K in each
    group, with intercept, and adds to the fitted values normal residuals that are made orthogonal to 1 and K and given
    exactly the scatter R'R of the regression's. Such residuals are Q R, Q uniform among the orthogonal matrices that
    leave 1 and K alone (Langsrud 2019, doi:10.1007/s11222-018-9848-9); so nothing is drawn beyond Q and nothing
    inverted. Kept columns that are constant in a group, or depend on others there to 1e-10 of their length, are left
    out of its regression. Without kept columns the method is `gaussian`.

    Q turns the n - 1 - rank(K) dimensions that K leaves. In one dimension it keeps the records of the group or mirrors
    them: `rank` lets through groups that are released as they are, half of the time. With at least 2 width dimensions,
    as `argus` has them, the rule of mu-Argus, old and new residuals need not share a direction. Where K explains X
    well, the residuals are small and the release is near the original, whatever the size.
    """
    _check_kept(kept, len(features))
    width, n_kept = features.shape[1], kept.shape[1]
    least = {each: _smallest(each, width, n_kept) for each in ("argus", "rank")}
    sizes = np.diff(starts)
    if small := int(np.count_nonzero(sizes < least[rule])):
        raise InputError(
            f"{small} of {len(sizes)} groups are too small for r_microhybrid: with {width} masked and {n_kept} key "
            f"columns rule {rule!r} asks for {least[rule]} records; form larger groups or mask or keep fewer columns"
            + (", or take rule='rank' and see what its groups disclose" if rule == "argus" else "")
        )
    out = np.empty_like(features)
    fixed = np.ascontiguousarray(kept)
    for first, after, draws in draw_in_chunks(rotation_draws(starts, width), rng):
        rotate_residuals(features, fixed, order, starts[first : after + 1], draws, out)
    return out


def _check_kept(kept: FloatArray, n_rows: int) -> None:
    if kept.ndim != 2 or kept.dtype != np.float64 or len(kept) != n_rows:
        raise InputError(
            f"kept columns are a float64 table of {n_rows} rows, as the features; "
            f"given are {kept.dtype} of shape {kept.shape}"
        )
    if bad := int(np.count_nonzero(~np.isfinite(kept).all(axis=1))):
        raise InputError(f"{bad} of {n_rows} records have kept values that are not finite; fill or drop them first")


def _smallest(rule: str, width: int, kept: int) -> int:
    return 2 * width + kept + 1 if rule == "argus" else kept + 2


def _of_small_groups(options: RMicrohybridOptions, features: Features) -> str | None:
    least = _smallest(options.rule, features.width, features.conditioning)
    if features.k >= least:
        return None
    return (
        f"k is {features.k}, and synthesize.method r_microhybrid needs {least} with rule {options.rule}: the "
        f"masked columns make {features.width} feature columns, the conditioning variables {features.conditioning}; "
        "raise k, or mask and keep fewer columns"
        + (", or take rule: rank and see its warnings" if options.rule == "argus" else "")
    )


METHOD = Synthesizer(
    function=r_microhybrid,
    options=RMicrohybridOptions,
    published="R-microhybrid, by IPSO in each group",
    reference="Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005",
    cost=(
        "time n · (width + kept) · min(group - 1, width + kept); memory: the result, one group, and its draws or 8 MiB"
    ),
    about={
        "kept": "key variables, released unchanged, finite float64, n_rows x n_kept",
        "rule": "smallest group: 'argus' (default), 2 width + kept + 1 records, or 'rank', kept + 2",
    },
    keeps=(
        "keeps mean and scatter of every group exactly, its scatter with the key variables too, and so "
        "those of strata and table; a group of kept + 2 records is released as it is half of the time"
    ),
    guarantee=lambda options: Guarantee("group", kept_exactly),
    conditions_on=lambda options, unchanged: tuple(unchanged),
    refuses=_of_small_groups,
    forms="rule",
)
