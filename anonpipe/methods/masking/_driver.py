"""The steps of a masker on an array in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from anonpipe.errors import AnonpipeError, InputError
from anonpipe.methods.masking._steps import Columns, Reduce, Rows, Step
from anonpipe.moments import merge_all
from anonpipe.rng import generator
from anonpipe.types import FloatArray


def run_steps(points: FloatArray, steps: Sequence[Step], *, key: bytes, parts: Sequence[int]) -> FloatArray:
    """Run steps one after the other.

    Parameters
    ----------
    points
        Finite, shape (n_rows, width), C order. Not changed.
    steps
        A masker's, see `anonpipe.methods.masking.MASKERS`.
    key
        16 bytes or more. Draws are keyed by it, the step's number and name,
        and the part or column.
    parts
        Rows of each part, which add up to n_rows.

    Returns
    -------
    float64, shape (n_rows, channels)

    Raises
    ------
    InputError
        A part has fewer rows than a step needs.
    AnonpipeError
        A step returned another number of rows.
    """
    edges = [0, *np.cumsum(parts, dtype=np.int64).tolist()]
    pieces = [slice(low, high) for low, high in pairwise(edges)]
    channels, params = points, None
    for number, step in enumerate(steps):
        stage = f"mask {number} {step.name}"
        if isinstance(step, Reduce):
            params = _learn(channels, points, step, params, key, stage, pieces)
        elif isinstance(step, Rows):
            channels = _each_part(channels, step, params, key, stage, pieces)
        else:
            channels = _each_column(channels, points, step, params, key, stage)
    return channels


def _learn(
    channels: FloatArray,
    points: FloatArray,
    step: Reduce,
    params: Any,
    key: bytes,
    stage: str,
    pieces: list[slice],
) -> Any:
    turn = 0
    while True:
        counted = []
        for place, rows in enumerate(pieces):
            asked = placed_at(step, place) | ({"original": points[rows]} if step.with_original else {})
            counted.append(step.count(channels[rows], params=params, **asked))
        params = step.finish(merge_all(counted), params=params, rng=generator(key, stage, turn))
        turn += 1
        if step.again is None or not step.again(params):
            return params


def placed_at(step: Rows | Reduce, place: int) -> dict[str, Any]:
    """The argument `place` for the function of a step that asks for it."""
    return {"place": place} if step.placed else {}


def _each_part(
    channels: FloatArray, step: Rows, params: Any, key: bytes, stage: str, pieces: list[slice]
) -> FloatArray:
    made = []
    for place, rows in enumerate(pieces):
        size = rows.stop - rows.start
        if size < step.least:
            raise InputError(
                f"a part has {size} records, and {step.name} needs {step.least} or more; make parts larger"
            )
        rng = generator(key, stage, place)
        part = step.function(channels[rows], params=params, rng=rng, **placed_at(step, place))
        made.append(counted(part, size, step.name, step.channels(channels.shape[1], params)))
    return made[0] if len(made) == 1 else np.concatenate(made)


def _each_column(
    channels: FloatArray, points: FloatArray, step: Columns, params: Any, key: bytes, stage: str
) -> FloatArray:
    out = np.empty_like(channels)
    for place in range(channels.shape[1]):
        given = {"original": np.ascontiguousarray(points[:, place])} if step.with_original else {}
        column, rng = np.ascontiguousarray(channels[:, place]), generator(key, stage, place)
        out[:, place] = counted(
            step.function(column, place=place, params=params, rng=rng, **given), len(out), step.name
        )
    return out


def counted(made: FloatArray, rows: int, name: str, channels: int | None = None) -> FloatArray:
    """What a step made, if it has the rows, and the channels (None: a column alone), that it must have.

    Raises
    ------
    AnonpipeError
        It lost or added some.
    """
    wanted = (rows,) if channels is None else (rows, channels)
    if made.shape != wanted:
        raise AnonpipeError(f"the step {name} returned shape {made.shape} for {wanted}; please report this")
    return made
