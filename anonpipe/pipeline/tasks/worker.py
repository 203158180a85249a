"""The tasks of all stages by name, and the frame of each: nothing twice, whole files, then a task result.

A task takes the records of the run (`anonpipe.pipeline.context`) that its signature names, and the number of its piece:
an input split, a partition, an output file, a column. It can run twice, or on any worker, with the same result; its
task result is small and holds no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anonpipe.engine import Task
from anonpipe.files import disk_errors, private_umask
from anonpipe.pipeline.context import Context, context
from anonpipe.pipeline.evaluation.measures import measure_piece
from anonpipe.pipeline.evaluation.search import search_partition
from anonpipe.pipeline.tasks.decode import count_weights, decode_partition, score_partition
from anonpipe.pipeline.tasks.passes import run_pass
from anonpipe.pipeline.tasks.route import encode_partition, route_unit
from anonpipe.pipeline.tasks.scan import scan_unit
from anonpipe.pipeline.tasks.unfold import unfold_file
from anonpipe.pipeline.tasks.write import compare_values, write_file
from anonpipe.storage import sealed

# Stages of passes are named after their step; see `anonpipe.pipeline.tasks.passes.stage_name`
TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "scan": scan_unit,
    "route": route_unit,
    "encode": encode_partition,
    "scores": score_partition,
    "weights": count_weights,
    "decode": decode_partition,
    "search": search_partition,
    "measure": measure_piece,
    "write": write_file,
    "unfold": unfold_file,
    "values": compare_values,
}


def work(task: Task) -> dict[str, Any]:
    """Do one task, unless it has a task result."""
    records = context(task.staging, task.token, task.copy)
    staging = records.work.staging
    results = staging.results(task.stage)
    with private_umask(), disk_errors(f"running stage {task.stage}"):
        sealed.check_start(staging.root, staging.start)
        if not results.has(task.index):
            with sealed.recorded() as files:
                result = run_task(records, task.stage, task.index)
            results.write(task.index, result, files)
        result = results.read(task.index)
    return {"stage": task.stage, "index": task.index, "rows": result["rows"]}


def run_task(records: Context, stage: str, index: int) -> dict[str, Any]:
    """The result of a task."""
    result: dict[str, Any] = (
        records.call(TASKS[stage], index) if stage in TASKS else records.call(run_pass, stage, index)
    )
    return result
