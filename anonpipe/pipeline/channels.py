"""The channels of a run's table in the staging, and what the steps of its method have counted and learnt.

The features lie in a staged array, and so do the channels that each pass
leaves. A partition is a region of every one. Where a method works on whole
columns, a channel has chunks of its own, so that steps over rows and steps
over columns write side by side.

What is masked as one table is a scope: all partitions, or those of a stratum.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from anonpipe.encoding import part_shares
from anonpipe.errors import DamagedError
from anonpipe.methods import masking
from anonpipe.methods.executor import Place
from anonpipe.pipeline import group_counts
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut, Scope
from anonpipe.rng import generator, keyed
from anonpipe.storage.staging import StagedArray, Staging, create_staged_array
from anonpipe.types import FloatArray

FEATURES = "features"  # The staged array that the first pass sees

FOLDER = "channels"  # Of all that the steps leave in the staging; what later passes do not need is deleted

RECORDS: tuple[type, ...] = (*masking.RECORDS, *part_shares.RECORDS, *group_counts.RECORDS)


def channel_array(work: Work, fitted: Fitted, cut: Cut, name: str, channels: int) -> StagedArray:
    """The channels that a pass made, or the features; a region a partition.

    Made by the driver, before any worker asks for it.
    """
    by_column = fitted.procedure.by_column
    return create_staged_array(work.staging, f"{FOLDER}/{name}", cut.lengths, channels, "float64", by_column=by_column)


def read_channels(work: Work, fitted: Fitted, cut: Cut, name: str, channels: int, index: int) -> FloatArray:
    """All channels of one partition, shape (n_rows, channels)."""
    if not work.staging.has(f"{FOLDER}/{name}"):
        raise DamagedError(_GONE)
    return _whole(channel_array(work, fitted, cut, name, channels).read(index, 0, cut.partitions[index].rows))


def of_scope(staged: StagedArray, cut: Cut, scope: Scope) -> tuple[StagedArray, list[int]]:
    """The regions of a staged array that belong to a scope, and their lengths."""
    return replace(staged, starts=staged.starts[scope.inside]), cut.lengths[scope.inside]


def read_column(work: Work, fitted: Fitted, cut: Cut, name: str, channels: int, place: int, scope: Scope) -> FloatArray:
    """One channel of all rows of a scope, shape (n_rows,)."""
    if not work.staging.has(f"{FOLDER}/{name}"):
        raise DamagedError(_GONE)
    staged, lengths = of_scope(channel_array(work, fitted, cut, name, channels), cut, scope)
    return _whole(staged.read_column(place, lengths))


def _whole(values: FloatArray) -> FloatArray:
    """The values, if none is missing: a chunk that is gone, or was never written, reads as NaN."""
    if np.isnan(values).any():
        raise DamagedError(_GONE)
    return values


_GONE = "masked records are missing from the staging; run again, and the run starts from the input"


def save_record(work: Work, file: str, record: Any) -> None:
    """Write what was counted or learnt, whole or not at all."""
    work.staging.write_record(file, record)


def load_record(work: Work, file: str, kinds: tuple[type, ...] = RECORDS) -> Any:
    """Read it; `kinds` are what it may hold."""
    return work.staging.read_record(file, *kinds)


def params_file(name: str, scope: Scope) -> str:
    """Where what a step learnt of a scope lies."""
    return f"{FOLDER}/params-{name}-{scope.number}.npz"


def load_params(work: Work, name: str | None, scope: Scope) -> Any:
    """What a step learnt of a scope; None for nothing. Nobody may change it: the next task of a worker sees it, too."""
    return None if name is None else _loaded(work.staging, params_file(name, scope))


@lru_cache(maxsize=2)
def _loaded(staging: Staging, file: str) -> Any:
    """A record, read once by each process: of many strata it is large, and every task of a pass needs it."""
    return staging.read_record(file, *RECORDS)


def statistic_file(stage: str, index: int) -> str:
    """Where what a turn counted in one partition lies."""
    return f"{FOLDER}/{stage}-{index}.npz"


def scopes_of(fitted: Fitted, cut: Cut) -> list[Scope]:
    """The scopes of the run's method: the whole table, or each stratum."""
    return cut.scopes(fitted.procedure.by_stratum)


def scope_of(fitted: Fitted, cut: Cut, index: int) -> Scope:
    """The scope of a partition."""
    return next(scope for scope in scopes_of(fitted, cut) if scope.first <= index < scope.stop)


def scope_key(work: Work, scope: Scope) -> bytes:
    """The key of a scope's draws, which are those of `run_steps` with it; the run's where there is one scope."""
    return work.key if scope.stratum is None else keyed(work.key, "stratum", str(scope.stratum))


def place_of(work: Work, fitted: Fitted, cut: Cut, scope: Scope, index: int) -> Place:
    """A partition as a part of its scope."""
    key, number = scope_key(work, scope), index - scope.first
    return Place(
        number,
        lambda stream: generator(key, stream, number),
        lambda: read_channels(work, fitted, cut, FEATURES, fitted.width, index),
        cut.partitions[index].stratum,
    )
