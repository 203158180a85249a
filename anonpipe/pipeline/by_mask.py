"""The procedure of a job that masks whole tables, and what speaks against it before any work."""

from __future__ import annotations

from functools import partial
from typing import Any

from anonpipe.encoding.intervals import IntervalDecoder
from anonpipe.encoding.part_shares import PartShares
from anonpipe.errors import JobError
from anonpipe.job.model import Job
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import Features, Masker
from anonpipe.methods.steps import Reduce, Step
from anonpipe.moments import Expected, Moments
from anonpipe.partition.strata import Strata
from anonpipe.pipeline.decoder import Decoder
from anonpipe.pipeline.job_text import options_text
from anonpipe.pipeline.procedure import Encoders, Members, Procedure, refuse, small_groups
from anonpipe.types import FloatArray


def procedure(job: Job, encoders: Encoders, strata: Strata) -> Procedure:
    """The steps, the decoder and what is expected of the job's mask.

    Raises
    ------
    JobError
        An option that the masker refuses, or a name that a new column would take.
    """
    masker, told = MASKERS[job.replacing.name], encoders.told(job.k, sum(strata.rows))
    warnings = _checked(job, masker, told, strata)
    options = masker.own(job.replacing_options) | masker.follows(job.replacing_options, told)
    expected, shares = partial(_expected, masker, options), None
    if not masker.same_person:
        shares = PartShares.fit(encoders.cells, encoders.features, told.width + told.conditioning)
    return Procedure(
        name=masker.name,
        steps=(*masker.steps(**options), *_shared_out(shares, expected)),
        decoder=_decoder(job, encoders, masker, shares),
        weights=encoders.features.distance_weights(),
        fills_first=True,
        by_stratum=job.masks_strata,
        members=_members(masker),
        same_person=masker.row_for_row,
        exact_groups=masker.grouped,
        one_row_a_group=masker.identical_rows,
        exact_columns=masker.exact_columns,
        leaves_scores=masker.leaves_scores,
        kept_together=masker.grouped,
        permutes=masker.permutes,
        expected=expected,
        lines=_lines(job, masker),
        warnings=tuple(warnings),
        title="mask: ",
    )


def _members(masker: Masker) -> Members | None:
    if masker.grouped:
        return "scope"
    return "alike" if masker.identical_rows else None


def _shared_out(shares: PartShares | None, expected: Any) -> tuple[Step, ...]:
    """The step that shares categories out among the parts; none where records are those of persons."""
    if shares is None:
        return ()
    guaranteed = partial(expected, largest=None)
    return (Reduce("categories", shares.call, partial(shares.share, guaranteed=guaranteed), with_original=True),)


def _expected(masker: Masker, options: dict[str, Any], moments: Moments, largest: FloatArray | None) -> Expected | None:
    """What the masker promises of features of these moments; None for nothing, or nothing that is known.

    `largest` is the largest size of what was permuted along each axis, of maskers that permute.
    """
    told = {"largest": largest} if masker.permutes else {}
    return None if masker.expect is None else masker.expect(moments, **options, **told)


def _decoder(job: Job, encoders: Encoders, masker: Masker, shares: PartShares | None) -> Decoder:
    return Decoder(
        features=encoders.features.on_scores,
        conditioning=encoders.conditioning.width,
        how=job.decode.of_cells,
        groups="alike" if masker.identical_rows else "one",
        identical=masker.identical_rows,
        shares=shares,
        matched=shares is not None and job.decode.of_cells == "calibrated",
        values_too=masker.exact_columns,
        intervals=_intervals(job, encoders, masker),
        probabilities=encoders.probabilities,
    )


def _intervals(job: Job, encoders: Encoders, masker: Masker) -> IntervalDecoder | None:
    """How the ends of intervals become columns; None where they are not released."""
    ends = masker.ends(job.replacing_options)
    return None if ends is None else IntervalDecoder.fit(encoders.cells, encoders.features, ends.steps, ends.origins)


def _checked(job: Job, masker: Masker, told: Features, strata: Strata) -> list[str]:
    """Refuse what the columns or the strata do not allow, before any work; the warnings.

    Masked records must not be mixed from so few that they are these: with
    fewer records than feature columns (and two more) a regression fits each
    record exactly, and permuted components stay in the span of the originals:
    the release would say of records of no person, as it does, what is not true.

    Raises
    ------
    JobError
        How many there are, and how many are needed.
    """
    refuse(masker, job.replacing_options, told)
    if masker.grouped:
        instead = "another mask, or groups with synthesize.method micro_perturbation"
        return small_groups(job.k, told.width, masker.name, instead)
    if masker.link != "none":
        return []
    channels, apart = told.width + told.conditioning, job.masks_strata and len(strata.rows) > 1
    rows, what = (min(strata.rows), "the smallest stratum") if apart else (sum(strata.rows), "the table")
    if rows < channels + 2:
        remedy = "set mask.scope to table, or take fewer strata" if apart else "mask fewer columns"
        raise JobError(
            f"{what} has {rows} records, and mask.method {masker.name} needs {channels + 2} for {channels} feature "
            f"columns; {remedy}"
        )
    return []


def _lines(job: Job, masker: Masker) -> tuple[tuple[str, str], ...]:
    """How `anonpipe plan` tells of the mask."""
    options = options_text(job.replacing_options)
    if masker.grouped:
        return (("mask", f"{masker.name} in groups that span partitions, k={job.k}, {options}"),)
    of = "each stratum" if job.masks_strata and job.strata.by else "the whole table"
    shown = ", ".join(each for each in options.split(", ") if not each.startswith("scope="))
    return (("mask", f"{masker.name} of {of}, {shown or 'no options'}; k={job.k}, no groups"),)
