"""Three records that tasks name in their signatures: what the run is, what was fitted, how the work is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.dominance import Extremes
from anonpipe.encoding.rare import Suppression
from anonpipe.encoding.rounding import Rounding
from anonpipe.encoding.scan import SCAN_RECORDS
from anonpipe.encoding.units import UnitColumn
from anonpipe.job.model import Job, parse_job
from anonpipe.partition.strata import Strata
from anonpipe.partition.tree import Tree
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut, Partition
from anonpipe.rng import generator, keyed
from anonpipe.source import Labels, Source, Unit
from anonpipe.storage.staging import Staging


@dataclass(frozen=True)
class Work:
    """What a run is: its staging, its job, its input and its keys; known from the first stage on."""

    staging: Staging

    @cached_property
    def job(self) -> Job:
        """The job."""
        return parse_job(self.staging.read_json("job.json"))

    @cached_property
    def source(self) -> Source:
        """The input: its units and schema."""
        source: Source = self.staging.read_record("source.npz", Source, Unit, Labels)
        return source

    @cached_property
    def start_key(self) -> bytes:
        """The key of what is decided before the data have been read."""
        return bytes(self.staging.read("start.key"))

    @property
    def key(self) -> bytes:
        """The key of all draws, which follows from the data."""
        return self.staging.key

    def rng(self, stage: str, index: int) -> np.random.Generator:
        """The generator of one stage and piece."""
        return generator(self.key, stage, index)

    def draws(self, index: int) -> Callable[[str], np.random.Generator]:
        """The generators of a piece, by stage."""
        return lambda stage: self.rng(stage, index)


def read_fitted(work: Work) -> Fitted:
    """What the stage `scan` has fitted."""
    staging = work.staging
    return Fitted(
        job=work.job,
        input=work.source.schema,
        scan=staging.read_record("scan.npz", *SCAN_RECORDS),
        cells=staging.read_record("encoder.npz", ColumnEncoder, Column),
        suppression=staging.read_record("suppression.npz", Suppression),
        strata=staging.read_record("strata.npz", Strata),
        trees=tuple(staging.read_record("trees.npz", Tree)),
        pandas_types=work.source.pandas_types,
        labels=work.source.labels,
        unit=staging.read_record("unit.npz", UnitColumn),
        rounding=_rounding(work),
        extremes=staging.read_record("extremes.npz", Extremes),
    )


def _rounding(work: Work) -> Rounding | None:
    """By a key that follows from secret and job alone: a count has one answer, whoever joins or leaves."""
    base = work.job.fewest_changed
    return None if base is None else Rounding(base, keyed(work.start_key, "rounded counts"), keyed(work.key, "thinned"))


@dataclass(frozen=True)
class Context:
    """The records of one run, each read from the staging when a task first names it."""

    work: Work

    @cached_property
    def fitted(self) -> Fitted:
        """What was fitted to the scanned input."""
        return read_fitted(self.work)

    @cached_property
    def cut(self) -> Cut:
        """How the rows are cut; known once they are routed."""
        cut: Cut = self.work.staging.read_record("plan.npz", Cut, Partition)
        return cut

    @cached_property
    def file_rows(self) -> list[list[int]]:
        """Records that each partition sends to each output file; known once all are decoded."""
        counts: list[list[int]] = self.work.staging.read_json("file_rows.json")
        return counts

    def call(self, task: Callable[..., Any], *pieces: Any) -> Any:
        """Call a function with the records that its signature names, and then its own arguments."""
        named = [name for name in signature(task).parameters if name in _RECORDS]
        return task(*(getattr(self, name) for name in named), *pieces)


_RECORDS = ("work", "fitted", "cut", "file_rows")


@lru_cache(maxsize=2)
def context(staging: str, token: str) -> Context:
    """The context of a run; `token` differs between runs in the same folder."""
    return Context(Work(Staging(Path(staging), token)))
