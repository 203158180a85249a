"""Runs of one input that differ in k and method: each scan and each routing that several need is done once.

A run that needs what another has done takes a copy of its files and receipts,
and finds the stage finished, as a resumed run does. Which runs share is
decided by a keyed digest of all that the stage reads. The job enters it but for a few
sections, of which what the stages read enters by itself: a section that is
added to jobs keeps runs apart until it is named here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anonpipe.engine import Mapper
from anonpipe.job.model import Job
from anonpipe.pipeline.context import Work, read_settled
from anonpipe.pipeline.fit import TREES
from anonpipe.pipeline.opening import Run
from anonpipe.pipeline.partitioning import partition_rows
from anonpipe.pipeline.run import MAPPED_STAGES, Stage, route, scan
from anonpipe.pipeline.staged import ROUTED
from anonpipe.rng import keyed, steward_secret
from anonpipe.storage import sealed
from anonpipe.storage.staging import Staging, disk_errors, make_private, wait_for_lock

_OWN = {"k", "cluster", "classes", "synthesize", "mask", "output", "run"}
"""Sections of a job in which runs that share may differ."""


@dataclass(frozen=True)
class Shared:
    """A private folder in which runs with one secret leave their scans and routings for each other."""

    folder: Path

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of a run that shares."""
        return (self.scan, self.route, *MAPPED_STAGES[2:])

    def scan(self, run: Run, mapper: Mapper) -> None:
        """As `anonpipe.pipeline.run.scan`.

        What is decided before the data have been read, as which records are
        held out, follows from what the scan reads, not from k and method.
        """
        name = _name("scan", _read_by_scan(run.job, run.context.work))
        run.staging.write("start.key", keyed(steward_secret(), "start", _common(run.job).digest()))
        units = len(run.context.work.source.units)
        self._once(run, name, "scan", (), lambda: run.map_stage(mapper, "scan", units))
        scan(run, mapper)

    def route(self, run: Run, mapper: Mapper) -> None:
        """As `anonpipe.pipeline.run.route`."""
        name = _name("route", _read_by_routing(run.job, run.context.work))
        self._once(run, name, "route", (TREES, f"{ROUTED}/zarr.json"), lambda: route(run, mapper))
        route(run, mapper)

    def _once(self, run: Run, name: str, stage: str, files: Sequence[str], do: Callable[[], None]) -> None:
        """Take what another run has left under this name; where none has, do it and leave it."""
        left, units = Staging(make_private(self.folder) / name), len(run.context.work.source.units)
        with wait_for_lock(left):
            if left.has(_WHOLE):
                with disk_errors(f"sharing stage {stage}"):
                    _copy(left, run.staging, stage, units, files)
                return
            do()
            with disk_errors(f"sharing stage {stage}"):
                make_private(left.root)
                left.file(sealed.KEY).write_bytes(sealed.make_key(left.root, steward_secret()))
                _copy(run.staging, left, stage, units, files)
                left.write(_WHOLE, b"")


_WHOLE = "whole"


def _common(job: Job) -> Job:
    """The job without k and method."""
    return job.model_copy(update={"k": 0, "cluster": None, "classes": None, "synthesize": None, "mask": None})


def _copy(source: Staging, to: Staging, stage: str, units: int, files: Sequence[str]) -> None:
    """Copy the receipts of a stage, the files that they tell of, and some more; each is found whole first."""
    receipts = [f"receipts/{stage}/{unit}.json" for unit in range(units)]
    told = [file for unit in range(units) for file in source.receipts(stage).read(unit)["files"]]
    for name in dict.fromkeys([*files, *told, *receipts]):
        to.write(name, source.read(name))


def _name(stage: str, read: Sequence[bytes]) -> str:
    return keyed(steward_secret(), stage, *(part.hex() for part in read)).hex()[:32]


def _read_by_scan(job: Job, work: Work) -> list[bytes]:
    """All that decides what a scan leaves."""
    told = json.dumps([job.model_dump(mode="json", exclude=_OWN), job.counted], sort_keys=True)
    return [told.encode(), bytes(work.staging.read("source.arrow"))]


def _read_by_routing(job: Job, work: Work) -> list[bytes]:
    """All that decides what trees are fitted, and where they send a record."""
    fitted = read_settled(work)
    weights = np.asarray(fitted.procedure.weights, dtype=np.float64).tobytes()
    rows = partition_rows(job, max(fitted.features.width, len(fitted.cells.names)))
    names = ("start.key", "scan.arrow", "codec.arrow", "suppression.json", "strata.json")
    files = [bytes(work.staging.read(name)) for name in names]
    return [*_read_by_scan(job, work), *files, weights, str(rows).encode()]
