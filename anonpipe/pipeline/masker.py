"""The masker that a job asks for: its steps and what it promises, once the columns are known."""

from __future__ import annotations

from typing import Any

from anonpipe.encoding.cells import CellCodec
from anonpipe.encoding.intervals import IntervalCodec
from anonpipe.encoding.points import PointCodec
from anonpipe.job.model import Job
from anonpipe.methods.masking import MASKERS, Step
from anonpipe.methods.record import Features, Masker, Number
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray


def masker_of(job: Job) -> Masker:
    """The record of the job's masker.

    Raises
    ------
    KeyError
        The job has none.
    """
    return MASKERS[job.mask.method if job.mask is not None else ""]


def first_columns(moments: Moments, width: int) -> Moments:
    """Moments of the first columns alone: the masked ones, without what stands beside."""
    return Moments(moments.n, moments.mean[:width], moments.scatter[:width, :width])


def job_steps(job: Job, points: PointCodec, beside: int) -> tuple[Step, ...]:
    """The steps of the job's masker.

    Parameters
    ----------
    points
        The codec of the masked columns, which stand first among the channels.
    beside
        Columns of numbers that follow: those of `Job.beside`.

    Raises
    ------
    JobError
        An option that the masker refuses.
    """
    return masker_of(job).steps(**_options(job, points, beside))


def intervals_of(job: Job, cells: CellCodec, points: PointCodec) -> IntervalCodec | None:
    """How the ends of intervals become columns; None where they are not released.

    Raises
    ------
    JobError
        The table has a column of such a name already.
    """
    ends = None if job.mask is None else masker_of(job).ends(job.mask)
    return None if ends is None else IntervalCodec.fit(cells, points, ends.steps, ends.origins)


def job_promise(
    job: Job, points: PointCodec, beside: int, moments: Moments, largest: FloatArray | None = None
) -> Expected | None:
    """What the masker promises of points of these moments; None for nothing, or nothing that is known.

    `largest` is the largest size of what was permuted along each axis, of maskers that permute.
    """
    expect, options = masker_of(job).expect, _options(job, points, beside)
    if masker_of(job).permutes:
        options["largest"] = largest
    return None if expect is None else expect(moments, **options)


def features_of(job: Job, points: PointCodec, conditioning: int, rows: int = 0) -> Features:
    """What the job's methods are told of the table.

    Parameters
    ----------
    points
        The codec of the masked columns.
    conditioning
        Columns of numbers that they are drawn given: those of `Job.beside`.
    rows
        Records of the table; 0 while nobody asks.
    """
    numbers = tuple(
        Number(block.name, block.start, block.mean, block.sd, block.offset is not None) for block in points.numbers
    )
    return Features(job.k, rows, points.width, conditioning, points.category_columns, numbers)


def _options(job: Job, points: PointCodec, beside: int) -> dict[str, Any]:
    """The masker's options: the job's own, and those that follow from the columns."""
    if job.mask is None:
        return {}
    masker = masker_of(job)
    return masker.own(job.mask) | masker.follows(job.mask, features_of(job, points, beside))
