"""What lies in the staging of a run, for tests that look into it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.pipeline.arrays import partition_cells, scope_key, scopes_of, shuffled
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.tasks.passes import last_channels
from anonpipe.pipeline.tasks.route import encoded_cells
from anonpipe.types import FloatArray
from tests.in_memory import run_steps


def features(records: Context, index: int) -> FloatArray:
    """The features of a partition, encoded again."""
    return encoded_cells(records.fitted, records.call(partition_cells, index), records.work.draws(index))


def steps_on_disk_and_in_memory(records: Context) -> tuple[list[FloatArray], list[FloatArray]]:
    """Of each scope the last channels that workers made, and those that the same steps make of an array."""
    work, fitted, cut = records.work, records.fitted, records.cut
    found, wanted = [], []
    for scope in scopes_of(fitted, cut):
        inside = range(scope.first, scope.stop)
        table = np.concatenate([features(records, at) for at in inside])
        strata = [cut.partitions[at].stratum for at in inside]
        parts, key = cut.lengths[scope.inside], scope_key(work, scope)
        wanted.append(run_steps(table, fitted.procedure.steps, key=key, parts=parts, strata=strata))
        found.append(np.concatenate([last_channels(work, fitted, cut, at)[0] for at in inside]))
    return found, wanted


def beside_the_original(records: Context, index: int, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What lies in the order of the output files, in the order of the original rows."""
    order, _ = shuffled(records.work, records.cut, index)
    back = np.empty_like(rows)
    back[order] = rows
    return back
