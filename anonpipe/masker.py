"""The masker that a job asks for: its steps and what it promises, once the columns are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from anonpipe.codec.points import PointCodec
from anonpipe.job import Job
from anonpipe.mask import MASKERS, Expected, Masker, Step
from anonpipe.moments import Moments
from anonpipe.options import Generalize

FILLED: dict[str, tuple[str, ...]] = {
    "data_shuffle": ("kept",),
    "sequential_regression": ("categories",),
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


def job_promise(job: Job, points: PointCodec, beside: int, moments: Moments) -> Expected | None:
    """What the masker promises of points of these moments; None for nothing, or nothing that is known."""
    expect = masker_of(job).expect
    return None if expect is None else expect(moments, **_options(job, points, beside))


def _options(job: Job, points: PointCodec, beside: int) -> dict[str, Any]:
    """The masker's options: the job's own, and those that follow from the columns."""
    if job.mask is None:
        return {}
    options = job.mask.model_dump(exclude={"method"})
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
        if block.name in options.steps:
            steps[block.start] = options.steps[block.name] / block.sd
            origin[block.start] = ((options.origin or {}).get(block.name, 0.0) - block.mean) / block.sd
    return {"steps": tuple(steps.tolist()), "origin": tuple(origin.tolist())}
