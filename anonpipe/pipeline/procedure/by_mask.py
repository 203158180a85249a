"""The procedure of a job that masks whole tables, with its checks before any work."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from anonpipe.encoding.matching import ValueScores
from anonpipe.encoding.probabilities import IntervalDecoder
from anonpipe.encoding.shares import PartShares, SmallCells, factors_of
from anonpipe.errors import GROUPS_LINK, JobError
from anonpipe.evaluate.risk import columns_for_membership, membership_from_moments, rows_for_membership
from anonpipe.job.model import Job
from anonpipe.methods.executor import Reduce, Step
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import Features, Masker
from anonpipe.moments import Expected, Moments
from anonpipe.partition.strata import Strata
from anonpipe.pipeline.procedure.record import Decoder, Encoders, Procedure, options_text, refuse
from anonpipe.types import FloatArray
from anonpipe.verify.words import figure_beyond


def procedure(job: Job, encoders: Encoders, strata: Strata) -> Procedure:
    """The steps, the decoder and the expected moments of the job's mask."""
    masker = MASKERS[job.replacing.name]
    features = encoders.describe_features(encoders.least(job.k), sum(strata.rows))
    _check(job, masker, features, strata, encoders)
    options = masker.own(job.replacing_options) | masker.follows(job.replacing_options, features)
    expected, shares = partial(_expected, masker, options), None
    if not masker.row_for_row:
        small_cells = values = None
        if job.decode.of_cells == "calibrated":  # else decoding does not reach covariances
            factors = factors_of(encoders.cells, encoders.features, encoders.conditioning)
            rounding = None if encoders.rounded is None else encoders.rounded.rounding
            small_cells = SmallCells(factors, encoders.least(job.k), rounding)
            values = None if masker.exact_columns else ValueScores.fit(encoders.features)  # or columns' values are kept
        channels = features.width + features.conditioning
        coders = encoders.cells, encoders.features
        shares = PartShares.fit(*coders, channels, encoders.rounded, small_cells, values, job.k)
    return Procedure(
        name=masker.name,
        steps=(*masker.steps(**options), *_share_steps(shares, expected)),
        decoder=_decoder(job, encoders, masker, shares),
        weights=encoders.features.distance_weights(),
        by_stratum=job.masks_strata,
        members="scope" if masker.grouped else "alike" if masker.identical_rows else None,
        row_for_row=masker.row_for_row,
        identical_within_groups=masker.identical_rows,
        exact_columns=masker.exact_columns,
        returns_category_scores=masker.returns_category_scores,
        permutes=masker.permutes,
        expected=expected,
        lines=_lines(job, masker),
    )


def keeps_hazards(job: Job) -> bool:
    """Whether survival times are masked by their hazard: covariances of groups are kept, and matched in decoding."""
    return job.mask is not None and MASKERS[job.mask.method].grouped and job.decode.of_cells == "calibrated"


def _share_steps(shares: PartShares | None, expected: Any) -> tuple[Step, ...]:
    """The steps that distribute categories over the parts; none where records belong to persons."""
    if shares is None:
        return ()
    share = partial(shares.share, guaranteed=partial(expected, largest=None))
    counted = Reduce("categories", shares.count, share, once=True)
    if shares.values is None:
        return (counted,)
    learned = Reduce("value scores", shares.values.count, shares.values.learn)
    return learned, counted


def _expected(masker: Masker, options: dict[str, Any], moments: Moments, largest: FloatArray | None) -> Expected | None:
    """The moments that the masker promises for features of these moments; None for no promise."""
    # `largest` is the largest size of what was permuted along each axis, of maskers that permute.
    extra = {"largest": largest} if masker.permutes else {}
    return None if masker.expect is None else masker.expect(moments, **options, **extra)


def _decoder(job: Job, encoders: Encoders, masker: Masker, shares: PartShares | None) -> Decoder:
    matched = shares is not None and job.decode.of_cells == "calibrated"
    ends, both = masker.ends(job.replacing_options), (encoders.cells, encoders.features)
    return Decoder(
        features=encoders.features.on_scores,
        conditioning=encoders.conditioning.width,
        how=job.decode.of_cells,
        groups="alike" if masker.identical_rows else "one",
        identical=masker.identical_rows,
        shares=shares,
        rounded=encoders.rounded,
        matched=matched,
        values_too=masker.exact_columns,
        by_group=matched and masker.grouped,
        intervals=None if ends is None else IntervalDecoder.fit(*both, ends.steps, ends.origins),
        probabilities=encoders.probabilities,
    )


_IN_GROUPS = f"cluster: {{method: mdav}} in place of any mask; {GROUPS_LINK}"


def _check(job: Job, masker: Masker, features: Features, strata: Strata, encoders: Encoders) -> None:
    """Refuse options that the columns, the units or the strata do not allow."""
    if encoders.unit is not None and not masker.grouped:
        raise JobError(
            f"mask {masker.name} counts rows, but column {encoders.unit.name!r} has units of up to "
            f"{encoders.unit.most:,} rows. Take mask.method local_synthesis, make one row of each unit, or replace "
            f"records in groups of k={job.k} units ({_IN_GROUPS})"
        )
    # With fewer records than feature columns (and two more) a regression fits each record exactly, and permuted
    # components stay in the span of the originals: "synthetic" records would be original ones.
    refuse(masker, job.replacing_options, features)
    if masker.link != "none" and not masker.grouped:
        return
    channels, stratified = features.width + features.conditioning, job.masks_strata and len(strata.rows) > 1
    rows, what = (min(strata.rows), "the smallest stratum") if stratified else (sum(strata.rows), "the table")
    least = max(_least(features), features.k)
    if rows < least:
        wider = "" if masker.grouped or job.design is not None else ", or mask.scope to table"
        remedy = f"{job.larger_strata}{wider}, or take fewer strata" if stratified else "mask fewer columns"
        remedy += f", or replace records in groups ({_IN_GROUPS})" if masker.grouped else ""
        units = "" if encoders.unit is None else f" and k={job.k} units of up to {encoders.unit.most:,} rows"
        raise JobError(
            f"{what} has {rows} records, and mask.method {masker.name} needs {least} for {channels} feature columns"
            f"{units}; {remedy}"
        )
    _check_membership(job, encoders, rows, what)


_MOST_RECORDS = 10**10  # More than there are persons: no table has so many


def _check_membership(job: Job, encoders: Encoders, rows: int, what: str) -> None:
    """Refuse a table with so few records for its columns that the preserved moments disclose membership."""
    limit, width, counted = job.limits["membership_auc"], encoders.dimension, "records"
    if encoders.unit is not None:
        rows, counted = encoders.independent(rows), "independent records (rows over the mean rows of a row's unit)"
    if limit is None or width.columns < 1:
        return
    expected = membership_from_moments(rows, width)
    if expected <= limit:
        return
    enough, fewer = rows_for_membership(width, limit), columns_for_membership(rows, width, limit)
    needs = "No number of records suffices" if enough > _MOST_RECORDS else f"At least {enough:,} records are needed"
    raise JobError(
        f"{what} has {rows:,} {counted} and {width.columns} independent feature columns. Means and covariances, which "
        f"mask.method {job.replacing.name} preserves, then disclose membership: expected AUC "
        f"{figure_beyond(expected, limit)}, limit {limit:g} (gates.membership_auc). {needs}, or about {fewer:,} "
        f"feature columns at most. {_most_categories(encoders)}Drop columns, take fewer strata, or "
        f"{job.larger_strata}. gates.membership_auc: null removes the limit, and members are then disclosed as often"
    )


def _most_categories(encoders: Encoders) -> str:
    """The categorical columns with most feature columns, and what makes them fewer; empty where all have one."""
    width = {block.name: int((block.shares > 0).sum()) - 1 for block in encoders.features.categories}
    most = [f"{name!r} ({width[name]})" for name in sorted(width, key=lambda name: -width[name])[:3] if width[name] > 1]
    if not most:
        return ""
    return f"Most have {', '.join(most)}: join categories, or declare ordered ones kind: ordinal, which have one. "


def _least(features: Features) -> int:
    """The fewest records for moments of all channels: two more than channels."""
    return features.width + features.conditioning + 2


# After exchanges of categories the error of covariances, in products of two standard deviations, is about this / n.
# One exchange moves the covariance of two dummies by up to 4 / (n - 1). Measured of three numbers and two categories:
# 0.35 off at 8 records, 0.2 at 20, 0.1 at 40, 0.05 at 80.
COVARIANCE_ERROR = 5.0


def needed(job: Job, encoders: Encoders, rows: int) -> tuple[int, str] | None:
    """Records that a stratum needs, with a text; None where k is enough, as records belong to persons."""
    # The most of four numbers: k units, for moments (of fewer records part of one discloses the rest, see
    # `small_groups`), for decoding within the limit on covariances, and for moments within the limit on membership.
    masker, membership = MASKERS[job.replacing.name], job.limits["membership_auc"]
    if masker.row_for_row or (masker.link != "none" and not masker.grouped):
        return None
    features = encoders.describe_features(encoders.least(job.k), rows)
    least = max(features.k, _least(features), math.ceil(COVARIANCE_ERROR / job.gates.of_every_run["covariance"]))
    if membership is not None and encoders.dimension.columns:
        independent = rows_for_membership(encoders.dimension, membership)
        least = max(least, math.ceil(independent * rows / max(1, encoders.independent(rows))))
    return least, f"{least}, which {masker.name} needs for covariances of {_least(features) - 2} feature columns"


def _lines(job: Job, masker: Masker) -> tuple[tuple[str, str], ...]:
    """The mask as `anonpipe plan` shows it."""
    if not job.replaces:
        return (("mask", "none: no column is masked"),)
    of = "each stratum" if job.masks_strata and job.strata.by else "the whole table"
    groups = f"groups of at least {job.k}" if masker.grouped else f"no groups; k = {job.k}"
    return (("mask", f"{masker.name} of {of}, {groups}{options_text(job.replacing_options)}"),)
