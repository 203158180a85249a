"""Steps of maskers on arrays: the numbers that `anonpipe.pipeline.tasks.passes` makes on the staging of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.points import LARGEST
from anonpipe.methods.executor import (
    Pass,
    Place,
    Step,
    asks,
    column_made,
    execute,
    learnt,
    passes,
    rows_made,
    statistic,
    stream_of,
)
from anonpipe.methods.masking import MASKERS
from anonpipe.rng import generator
from anonpipe.types import FloatArray


@dataclass
class InMemory:
    """Channels as an array."""

    # channels, params: what the last pass left
    channels: FloatArray
    features: FloatArray  # What the first began with
    key: bytes  # Of all draws
    parts: Sequence[slice]  # The rows of each part
    strata: Sequence[int]  # Stratum of each part
    params: Any = None

    def _place(self, at: int) -> Place:
        rows = self.parts[at]
        return Place(at, lambda stream: generator(self.key, stream, at), lambda: self.features[rows], self.strata[at])

    def replace_rows(self, one: Pass) -> None:
        """Replace the channels of every part."""
        made = [rows_made(one, self.channels[rows], self.params, self._place(at)) for at, rows in enumerate(self.parts)]
        self.channels = made[0] if len(made) == 1 else np.concatenate(made)

    def replace_columns(self, one: Pass) -> None:
        """Replace every channel."""
        out, step = np.empty_like(self.channels), one.step
        for at in range(out.shape[1]):
            original = np.ascontiguousarray(self.features[:, at]) if asks(step, "original") else None
            column = np.ascontiguousarray(self.channels[:, at])
            rng = generator(self.key, stream_of(one.number, step), at)
            out[:, at] = column_made(step, column, at, self.params, rng, original)
        self.channels = out

    def learn(self, one: Pass, turn: int) -> bool:
        """Count all parts; whether another turn is wanted."""
        step = one.step
        counted = [
            statistic(step, self.channels[rows], self.params, self._place(at)) for at, rows in enumerate(self.parts)
        ]
        self.params = learnt(step, counted, self.params, generator(self.key, stream_of(one.number, step), turn))
        return step.again is not None and step.again(self.params)


def run_steps(
    features: FloatArray,
    steps: Sequence[Step],
    *,
    key: bytes,
    parts: Sequence[int],
    strata: Sequence[int] | None = None,
) -> FloatArray:
    """Run the steps of a method on an array (n_rows, width)."""
    edges = [0, *np.cumsum(parts, dtype=np.int64).tolist()]
    pieces = [slice(low, high) for low, high in pairwise(edges)]
    table = InMemory(features, features, key, pieces, [0] * len(pieces) if strata is None else strata)
    execute(passes(steps), table)
    return table.channels


def mask(
    features: FloatArray,
    method: str,
    *,
    rng: np.random.Generator,
    partitions: Sequence[int] | None = None,
    **options: Any,
) -> FloatArray:
    """Mask a table in memory by a method of `MASKERS`.

    Shapes: features (n_rows, width).
    """
    if method not in MASKERS:
        raise JobError(f"unknown masker {method!r}; known are: {', '.join(MASKERS)}")
    steps = MASKERS[method].steps(**options)
    table = _checked(features)
    parts = [len(table)] if partitions is None else list(partitions)
    if any(rows < 0 for rows in parts) or sum(parts) != len(table):
        raise InputError(f"partitions have {sum(parts)} rows, and there are {len(table)}; give all rows to parts")
    masked = run_steps(table, steps, key=rng.bytes(32), parts=parts)
    return np.ascontiguousarray(masked[:, : table.shape[1]]) if MASKERS[method].grouped else masked


def _checked(features: FloatArray) -> FloatArray:
    if features.ndim != 2 or features.shape[1] == 0:
        raise InputError(f"features of shape {features.shape} are no table; give rows and one column or more")
    table = np.ascontiguousarray(features, dtype=np.float64)
    if len(table) < 2:
        raise InputError(f"a table of {len(table)} records cannot be masked; give two or more")
    if not (table.min() >= -LARGEST and table.max() <= LARGEST):
        raise InputError("features hold NaN, infinity or numbers above 1e100 in size; encode nulls and scale first")
    return table
