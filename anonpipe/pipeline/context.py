"""What all tasks of one run share: read from the staging when first needed, then remembered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from anonpipe.encoding.beside import BesideCodec
from anonpipe.encoding.cells import CellCodec
from anonpipe.encoding.classes import ClassColumn, Compound, class_columns, compound_of
from anonpipe.encoding.intervals import IntervalCodec
from anonpipe.encoding.points import PointCodec
from anonpipe.encoding.probabilities import ProbabilityCodec
from anonpipe.encoding.rare import Suppression
from anonpipe.encoding.scan import Scan, scan_from_bytes
from anonpipe.job.model import Job, parse_job
from anonpipe.methods.masking import Step
from anonpipe.partition.strata import Strata
from anonpipe.partition.tree import Tree
from anonpipe.pipeline.masker import intervals_of, job_steps
from anonpipe.pipeline.partitioning import Plan
from anonpipe.rng import generator
from anonpipe.source import Source, source_from_bytes
from anonpipe.storage.staging import Staging
from anonpipe.types import FloatArray
from anonpipe.verify.view import View, build_view


@dataclass(frozen=True)
class Context:
    """What all tasks of one run share, read from the staging when first needed."""

    staging: Staging
    token: str

    @cached_property
    def job(self) -> Job:
        """The job."""
        return parse_job(self.staging.read_json("job.json"))

    @cached_property
    def source(self) -> Source:
        """The input: its units and schema."""
        return source_from_bytes(self.staging.read("source.arrow"))

    @cached_property
    def scan(self) -> Scan:
        """The merged scan."""
        return scan_from_bytes(self.staging.read("scan.arrow"))

    @cached_property
    def cells(self) -> CellCodec:
        """Table to cells and back."""
        return CellCodec.from_bytes(self.staging.read("codec.arrow"))

    @cached_property
    def points(self) -> PointCodec:
        """Cells to points and back."""
        return PointCodec.fit(self.cells, self.scan)

    @cached_property
    def beside(self) -> BesideCodec:
        """The unchanged columns that the masked ones are drawn given, as numbers."""
        return BesideCodec.fit(self.cells, self.scan, self.job.beside)

    @cached_property
    def intervals(self) -> IntervalCodec | None:
        """The ends of intervals that are released beside their middles; None for none."""
        return intervals_of(self.job, self.cells, self.points)

    @cached_property
    def probabilities(self) -> ProbabilityCodec | None:
        """The columns of probabilities that stand in place of categories; None for none."""
        return probabilities_of(self.job, self.cells, self.points)

    @cached_property
    def added(self) -> tuple[pa.Field, ...]:
        """Columns of the release that are no columns of the table: ends of intervals, or probabilities."""
        codec = self.intervals or self.probabilities
        return () if codec is None else codec.fields

    @cached_property
    def worked_schema(self) -> pa.Schema:
        """The released table's, columns by name as they are worked on; probabilities in their place, ends last."""
        if self.probabilities is not None:
            return self.probabilities.schema(self.cells.schema)
        return pa.schema([*self.cells.schema, *self.added])

    @cached_property
    def schema(self) -> pa.Schema:
        """The same in the order of the input, in which it is written."""
        owners = {field.name: field.name for field in self.worked_schema}
        if self.probabilities is not None:
            owners |= {name: str(told["column"]) for name, told in self.probabilities.described().items()}
        if self.intervals is not None:
            owners |= self.intervals.owners
        place = {name: at for at, name in enumerate(self.source.schema.names)}
        ends = () if self.intervals is None else self.intervals.owners
        order = sorted(self.worked_schema, key=lambda field: (field.name in ends, place[owners[field.name]]))
        return pa.schema(order)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the job's masker."""
        return job_steps(self.job, self.points, self.beside.width)

    @cached_property
    def weights(self) -> FloatArray:
        """Multipliers of squared differences, shape (width,)."""
        if self.job.mask is not None:
            return self.points.distance_weights()
        options = self.job.by_groups.cluster
        response = self.job.time_column if options.response_weight is not None else None
        weight = options.response_weight if response else None
        return self.points.distance_weights(response, weight, options.distance)

    @cached_property
    def classes(self) -> tuple[ClassColumn, ...]:
        """The class columns whose classes can mix in a group."""
        return class_columns(self.cells, self.scan, self.job.class_columns)

    @cached_property
    def compound(self) -> Compound:
        """All class columns as one."""
        return compound_of(self.cells, self.scan, self.classes)

    @cached_property
    def suppression(self) -> Suppression:
        """Rare categories and what they are released as."""
        return Suppression.from_dict(self.staging.read_json("suppression.json"))

    @cached_property
    def strata(self) -> Strata:
        """The strata."""
        return Strata.from_dict(self.staging.read_json("strata.json"))

    @cached_property
    def trees(self) -> list[Tree]:
        """One tree of pre-clusters a stratum."""
        return [Tree.from_dict(content) for content in self.staging.read_json("trees.json")]

    @cached_property
    def plan(self) -> Plan:
        """The partitions."""
        return Plan.from_dict(self.staging.read_json("plan.json"))

    @cached_property
    def file_rows(self) -> list[list[int]]:
        """Records that each partition sends to each output file."""
        counts: list[list[int]] = self.staging.read_json("file_rows.json")
        return counts

    @cached_property
    def noise(self) -> FloatArray:
        """Factors of the noise covariance, shape (n_scopes, width, width)."""
        return self.staging.read_array("noise.npy")

    @cached_property
    def noise_scopes(self) -> list[int]:
        """Of each stratum, which of the factors its noise takes."""
        scopes: list[int] = self.staging.read_json("noise_scopes.json")
        return scopes

    @cached_property
    def view(self) -> View:
        """The variables on which the release is verified."""
        return view_of(self.cells, self.scan, self.job.as_probabilities)

    def encode(self, cells: FloatArray) -> FloatArray:
        """Points of cells, shape (n_rows, width); of released ones also where probabilities stand beside them.

        Dummies are then those that a reader makes of the probabilities.
        """
        points, width = self.points.encode(cells), len(self.cells.names)
        if self.probabilities is not None and cells.shape[1] > width:
            self.probabilities.put_dummies(points, cells[:, width:])
        return points

    def rng(self, stage: str, index: int) -> np.random.Generator:
        """The generator of one stage and piece."""
        return generator(self.staging.key, stage, index)


def probabilities_of(job: Job, cells: CellCodec, points: PointCodec) -> ProbabilityCodec | None:
    """How categories become columns of probabilities; None where they are released as they are.

    Raises
    ------
    JobError
        Two columns would have one name.
    """
    if job.decode.probability_step is None:
        return None
    return ProbabilityCodec.fit(cells, points, job.decode.probability_step, job.columns)


def view_of(codec: CellCodec, scan: Scan, as_probabilities: Collection[str] = ()) -> View:
    """The verified variables of a scanned table, of which some columns may be released as probabilities."""
    columns = dict(zip(codec.names, codec.columns, strict=True))
    coded = {name for name, column in columns.items() if column.staged_as_codes}
    counts = {name: scan.code_counts(name) for name in coded}
    mean = {name: scan.columns[name].mean for name in columns}
    sd = {name: scan.columns[name].sd for name in columns}
    log_mean = {name: scan.columns[name].log_mean for name in columns}
    log_sd = {name: scan.columns[name].log_sd for name in columns}
    return build_view(columns, mean, sd, counts, log_mean=log_mean, log_sd=log_sd, as_probabilities=as_probabilities)


@lru_cache(maxsize=2)
def context(staging: str, token: str) -> Context:
    """The context of a run; `token` differs between runs in the same folder."""
    return Context(Staging(Path(staging), token), token)
