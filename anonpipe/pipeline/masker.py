"""The masker that a job asks for: its steps and what it promises, once the columns are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from anonpipe.encoding.cells import CellCodec
from anonpipe.encoding.intervals import IntervalCodec
from anonpipe.encoding.points import PointCodec
from anonpipe.errors import JobError
from anonpipe.job.model import Job
from anonpipe.job.options import Generalize
from anonpipe.methods.masking import MASKERS, Expected, Masker, Step
from anonpipe.moments import Moments
from anonpipe.types import FloatArray

FILLED: dict[str, tuple[str, ...]] = {
    "data_shuffle": ("k", "kept", "categories"),
    "sequential_regression": ("categories",),
    "local_synthesis": ("k", "categories"),
    "generalize": ("k", "steps", "origin"),
}
"""Options that follow from the job's columns and k, of those maskers that have any."""


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
    if not isinstance(job.mask, Generalize) or job.mask.release != "interval":
        return None
    return IntervalCodec.fit(cells, points, job.mask.steps or {}, job.mask.origin or {})


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


def _options(job: Job, points: PointCodec, beside: int) -> dict[str, Any]:
    """The masker's options: the job's own, and those that follow from the columns."""
    if job.mask is None:
        return {}
    options = job.mask.model_dump(exclude={"method", "scope"})
    filled: dict[str, Any] = {
        "kept": tuple(range(points.width, points.width + beside)),
        "categories": points.category_columns,
        "k": job.k,
    }
    if isinstance(job.mask, Generalize):
        filled |= _steps(job.mask, points)
    return options | {name: filled[name] for name in FILLED.get(job.mask.method, ())}


def _steps(options: Generalize, points: PointCodec) -> dict[str, Any]:
    """Steps and origins in the unit of the points; a step of 0 for columns without."""
    if not options.steps:
        return {"steps": None, "origin": None}
    steps, origin = np.zeros(points.width), np.zeros(points.width)
    for block in points.numbers:
        if block.name in options.steps and block.offset is not None:
            raise JobError(
                f"mask.steps names {block.name!r}, which is masked by its logarithm (transform: log), where steps of "
                "its unit have no one width; leave out one of them"
            )
        if block.name in options.steps:
            steps[block.start] = options.steps[block.name] / block.sd
            origin[block.start] = ((options.origin or {}).get(block.name, 0.0) - block.mean) / block.sd
    return {"steps": tuple(steps.tolist()), "origin": tuple(origin.tolist())}
