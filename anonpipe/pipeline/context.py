"""The records of a run that tasks name in their signatures: `Work`, `Fitted`, `Cut`, rows by file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anonpipe.columns import Column, Comparison, Rule, RuleFactor
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import ClassColumn, ConditioningEncoder, FeatureEncoder, class_columns
from anonpipe.encoding.identifiers import UnitColumn
from anonpipe.encoding.probabilities import ProbabilityDecoder
from anonpipe.encoding.rare import Extremes, Suppression
from anonpipe.encoding.rules import PairCounts, RuleBook, RuleCounts, absent_by_category
from anonpipe.encoding.scan import SCAN_RECORDS, Scan
from anonpipe.encoding.scores import Draws, Scores
from anonpipe.encoding.shares import RoundedColumns, Rounding
from anonpipe.encoding.values import Grid, with_nullable_types
from anonpipe.encoding.weights import Replicates, SamplingWeight
from anonpipe.job.csv_format import CsvFormat
from anonpipe.job.model import Job, parse_job
from anonpipe.job.sections import COPY
from anonpipe.job.wide import UnitLayout
from anonpipe.partition.strata import Strata
from anonpipe.partition.tree import Tree
from anonpipe.pipeline import disclosure, units
from anonpipe.pipeline.cut import Cut, RowPartition
from anonpipe.pipeline.disclosure import Controlled
from anonpipe.pipeline.procedure import by_groups, by_mask
from anonpipe.pipeline.procedure.record import Encoders, Procedure
from anonpipe.pipeline.units import Folded
from anonpipe.rng import generator, keyed
from anonpipe.source import Labels, Source, Unit
from anonpipe.storage.sketch import Sketch
from anonpipe.storage.staging import Staging
from anonpipe.types import FloatArray
from anonpipe.verify.expectations import ReleaseView, build_view


@dataclass(frozen=True)
class Work:
    """Staging, job, input and keys of a run, known from the first stage on."""

    staging: Staging

    @cached_property
    def job(self) -> Job:
        """The job."""
        return parse_job(self.staging.read_json("job.json"))

    @cached_property
    def source(self) -> Source:
        """The input: its units and schema."""
        parts = Unit, Labels, CsvFormat, Rule, Comparison, RuleFactor
        return self.staging.read_one("source.record", Source, *parts)

    def of_splits(self, file: str, *kinds: type) -> Iterator[Any]:
        """The records that tasks left of each split of the input; `{}` in the name stands for its number."""
        return (self.staging.read_record(file.format(at), *kinds) for at in range(len(self.source.units)))

    @cached_property
    def folded(self) -> Folded | None:
        """What is known of rows that lie side by side in the input of this run; None where records are rows."""
        there, staging = self.staging.has(units.RECORD), self.staging
        return staging.read_one(units.RECORD, Folded, UnitLayout, Sketch) if there else None

    @cached_property
    def controlled(self) -> Controlled | None:
        """What disclosure control did to the input of this run; None without."""
        there, staging = self.staging.has(disclosure.RECORD), self.staging
        return staging.read_one(disclosure.RECORD, Controlled, Sketch) if there else None

    @cached_property
    def start_key(self) -> bytes:
        """The key of decisions before the data are read."""
        return bytes(self.staging.read("start.key"))

    @property
    def key(self) -> bytes:
        """The key of all draws, which depends on the data."""
        return self.staging.key

    @cached_property
    def copies(self) -> tuple[Work, ...]:
        """Of each copy of the release; itself where there is one, or it is of one."""
        if self.staging.copy or self.job.release.copies == 1:
            return (self,)
        return tuple(Work(replace(self.staging, copy=at + 1)) for at in range(self.job.release.copies))

    @property
    def place(self) -> int:
        """The place of this copy of the release among all, from 0."""
        return max(0, self.staging.copy - 1)

    @property
    def draw_key(self) -> bytes:
        """The key of what each copy of the release draws for itself; the first draws what an only one would."""
        return keyed(self.key, "copy", str(self.place)) if self.place else self.key

    def rng(self, stage: str, index: int) -> np.random.Generator:
        """The generator of a stage and piece."""
        return generator(self.draw_key, stage, index)

    def draws(self, index: int) -> Callable[[str], np.random.Generator]:
        """The generators of a piece, by stage."""
        return lambda stage: self.rng(stage, index)


# What the stage `scan` leaves of `Fitted`; the rest follows from job and input
_FITTED = "fitted.record"
_FOUND = ("scan", "cells", "suppression", "strata", "trees", "unit", "extremes", "rule_counts")
_KINDS = (*SCAN_RECORDS, ColumnEncoder, Column, Suppression, Strata, Tree, UnitColumn, Extremes, RuleCounts, PairCounts)


def keep_fitted(staging: Staging, fitted: Fitted) -> None:
    """Write the results of the stage `scan`."""
    staging.write_record(_FITTED, {name: getattr(fitted, name) for name in _FOUND})


def _read_fitted(work: Work) -> Fitted:
    """Read them."""
    found, source = work.staging.read_record(_FITTED, *_KINDS), work.source
    return Fitted(
        work.job,
        source.schema,
        pandas_types=source.pandas_types,
        labels=source.labels,
        rounding=_rounding(work),
        draws=work.rng,
        **found,
    )


_shared_fit = lru_cache(maxsize=1)(_read_fitted)


def _rounding(work: Work) -> Rounding | None:
    """Rounding by a key of secret and job alone: a count has one answer, whatever rows join or leave."""
    base = work.job.fewest_changed
    return None if base is None else Rounding(base, keyed(work.start_key, "rounded counts"), keyed(work.key, "thinned"))


@dataclass(frozen=True)
class Context:
    """The records of one run, each read from the staging when a task first names it."""

    work: Work

    @cached_property
    def fitted(self) -> Fitted:
        """The results of the fit to the scanned input, which copies of the release share."""
        if self.work.staging.copy:
            return _shared_fit(Work(replace(self.work.staging, copy=0)))
        return _read_fitted(self.work)

    @cached_property
    def cut(self) -> Cut:
        """The cut of the rows into partitions, known after `route`."""
        return self.work.staging.read_one("plan.record", Cut, RowPartition)

    @cached_property
    def file_rows(self) -> list[list[int]]:
        """Records of each partition in each output file, known after `decode`."""
        counts: list[list[int]] = self.work.staging.read_json("file_rows.json")
        return counts

    def call(self, task: Callable[..., Any], *pieces: Any) -> Any:
        """Call a function with the records that its signature names, then with `pieces`."""
        return task(*(getattr(self, name) for name in _named(task)), *pieces)


_RECORDS = ("work", "fitted", "cut", "file_rows")


@lru_cache(maxsize=256)
def _named(task: Callable[..., Any]) -> list[str]:
    return [name for name in signature(task).parameters if name in _RECORDS]


@lru_cache(maxsize=2)
def context(staging: str, token: str, copy: int = 0) -> Context:
    """The context of a run or a copy; `token` distinguishes runs in the same folder for the cache."""
    return Context(Work(Staging(Path(staging), token, copy)))


# --- The fit to the scanned input


@dataclass(frozen=True, eq=False)
class Fitted:
    """The fit of a job to its scanned input; the properties follow from the fields."""

    job: Job  # The job
    input: pa.Schema  # The schema of its input
    scan: Scan  # The merged scan, after suppression of rare categories and top-coding of extremes
    cells: ColumnEncoder  # Table to cells and back
    suppression: Suppression  # Rare categories and their replacements
    strata: Strata  # Records of different strata never share a group
    trees: tuple[Tree, ...] = ()  # One tree of pre-clusters a stratum; none before they are fitted
    # By column: the nullable type in which pandas reads it, if it has one
    pandas_types: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)  # Labels of columns and codes in the input
    unit: UnitColumn | None = None  # The unit that k counts; None where k counts rows
    # How counts of categories are rounded; None where they are kept, and before that is known
    rounding: Rounding | None = None
    extremes: Extremes = field(default_factory=Extremes)  # Top-coded values of columns without normal scores
    draws: Draws | None = None  # Generators of the run by what they draw; None before its key is known
    rule_counts: RuleCounts | None = None  # What the original says of rules between columns; None without any

    @property
    def min_rows(self) -> int:
        """Rows that belong to k units or more, whichever rows they are; k where each row is a unit."""
        return self.job.k if self.unit is None else self.unit.sure

    @property
    def coarse_min_rows(self) -> int | None:
        """A coarse upper bound of it for recipients; None where each row is a unit."""
        return None if self.unit is None else self.unit.coarse(self.job.k)

    @property
    def whole_units(self) -> bool:
        """Whether all rows of a unit stay in one group, and so in one partition."""
        return self.unit is not None and self.job.whole_units

    @cached_property
    def features(self) -> FeatureEncoder:
        """Cells to features and back."""
        return FeatureEncoder.fit(self.cells, self.scan, self.scores)

    @cached_property
    def rules(self) -> RuleBook | None:
        """The rules between columns, for released rows; None for none."""
        if self.rule_counts is None:
            return None
        blocks = {block.name: (block.start, block.stop) for block in self.features.numbers}
        blocks |= {block.name: (block.start, block.stop) for block in self.features.categories}
        return RuleBook(self.job.parsed_rules, self.cells, self.rule_counts, self.min_rows, blocks)

    def grid(self, name: str) -> Grid:
        """The values that a released number may take, with steps and heaps of the original."""
        position = self.cells.names.index(name)
        scored = {} if self.scores is None else self.scores.by_position()
        if position in scored:
            return scored[position].grid
        coarse = {} if self.rules is None else self.rules.coarse
        return coarse.get(name) or self.cells.grid(position)

    @cached_property
    def weight(self) -> SamplingWeight | None:
        """The survey weight; None for none."""
        return SamplingWeight.fit(self.cells, self.strata, self.min_rows)

    @cached_property
    def replicates(self) -> Replicates | None:
        """Replicate weights of a survey's design; None for none."""
        design, weight = self.job.design, self.job.weight_column
        if design is None or weight is None or design.replicates == "none":
            return None
        return Replicates(weight, design.cluster, design.random_groups, len(self.cells.categories[design.cluster]))

    @property
    def suppresses_calibrated(self) -> bool:
        """Whether rare categories are suppressed by whose sums the survey weight is calibrated."""
        return any(not self.suppression.targets.keys().isdisjoint(each.calibrate) for each in self.cells.columns)

    @cached_property
    def scores(self) -> Scores | None:
        """The columns that are transformed to normal scores; None for none."""
        if not self.scan.scored:
            return None
        least_text = "" if self.unit is None else f"{self.min_rows} (fewer need not be of k={self.job.k} units)"
        thin = None if self.rounding is None else self.rounding.thinned
        least, rules = () if self.unit is None else self.unit.sure_in_strata, self.job.parsed_rules
        hazards = by_mask.keeps_hazards(self.job)
        given = self.cells, self.scan, self.strata, self.min_rows, least_text
        return Scores.fit(*given, thin, self.draws, least, rules, hazards)

    @cached_property
    def conditioning(self) -> ConditioningEncoder:
        """The unchanged columns that condition the masked ones, as numbers."""
        return ConditioningEncoder.fit(self.cells, self.scan, self.job.conditioning_columns)

    @cached_property
    def probabilities(self) -> ProbabilityDecoder | None:
        """Decodes categories to columns of probabilities; None where categories are released."""
        step = self.job.decode.probability_step
        return None if step is None else ProbabilityDecoder.fit(self.cells, self.features, step, self.job.columns)

    @property
    def encoders(self) -> Encoders:
        """The encoders that a procedure is built on."""
        rounded = None if self.rounding is None else RoundedColumns.fit(self.rounding, self.cells, self.features)
        absent = absent_by_category(self.job.parsed_rules, self.cells, self.scan)
        rows = self.scan.counted_rows
        if self.job.masks_strata and len(self.strata.rows) == len(rows):  # where a stratum has all or none
            there = {name: values[0] for name, values in self.scan.by_combination.items()}
            absent |= {name for name, count in there.items() if ((count == 0) | (count == rows)).all()}
        coders = self.features, self.conditioning, self.probabilities
        return Encoders(self.scan, self.cells, *coders, self.unit, rounded, absent)

    @cached_property
    def procedure(self) -> Procedure:
        """The steps and the decoder of the job; the one place where jobs by groups and by a mask differ."""
        build = by_groups.procedure if self.job.mask is None else by_mask.procedure
        return build(self.job, self.encoders, self.strata)

    @property
    def width(self) -> int:
        """Channels before the first pass: features, conditioning columns, classes and units."""
        return self.features.width + self.conditioning.width + len(self.procedure.codes) + self.stages_units

    @property
    def stages_units(self) -> bool:
        """Whether groups are formed of units, whose numbers are then the last channel."""
        return self.unit is not None and self.procedure.forms_groups

    @property
    def leaves(self) -> int:
        """Of all trees."""
        return sum(tree.leaves for tree in self.trees)

    @cached_property
    def added(self) -> tuple[pa.Field, ...]:
        """Columns that only the release has: ends of intervals, or probabilities."""
        encoder = self.procedure.decoder.intervals or self.probabilities
        return () if encoder is None else encoder.fields

    @cached_property
    def worked_schema(self) -> pa.Schema:
        """The schema of released rows with columns by name; probabilities in their place, ends of intervals last."""
        names = () if self.replicates is None else self.replicates.names
        last = [pa.field(name, pa.float64(), nullable=False) for name in names]
        last += [pa.field(COPY, pa.int32(), nullable=False)] if self.job.release.copies > 1 else []
        if self.probabilities is not None:
            return pa.schema([*self.probabilities.schema(self.cells.schema), *last])
        return pa.schema([*self.cells.schema, *self.added, *last])

    @cached_property
    def schema(self) -> pa.Schema:
        """The written schema, in the order of the input, with the metadata of pandas types."""
        intervals = self.procedure.decoder.intervals
        owners = {field.name: field.name for field in self.worked_schema}
        if self.probabilities is not None:
            owners |= {name: str(info["column"]) for name, info in self.probabilities.described().items()}
        ends = {} if intervals is None else intervals.owners
        owners |= ends
        place = {name: at for at, name in enumerate(self.input.names)}
        written = [field for field in self.worked_schema if field.name not in self.job.differences]
        ordered = sorted(written, key=lambda field: (field.name in ends, place.get(owners[field.name], len(place))))
        types = {name: kind for name, kind in self.pandas_types.items() if name in self.cells.names}
        return with_nullable_types(pa.schema(ordered), types)

    @cached_property
    def classes(self) -> tuple[ClassColumn, ...]:
        """The sensitive columns whose classes can mix in a group."""
        return class_columns(self.cells, self.scan, self.job.sensitive_columns)

    @cached_property
    def view(self) -> ReleaseView:
        """The variables on which the release is verified."""
        columns = dict(zip(self.cells.names, self.cells.columns, strict=True))
        scanned = {name: self.scan.columns[name] for name in columns}
        return build_view(
            columns,
            {name: each.mean for name, each in scanned.items()},
            {name: each.sd for name, each in scanned.items()},
            {name: scanned[name].code_counts for name, column in columns.items() if column.staged_as_codes},
            log_mean={name: each.log_mean for name, each in scanned.items()},
            log_sd={name: each.log_sd for name, each in scanned.items()},
            as_probabilities=self.job.as_probabilities,
            scores=self.scores,
            restored=self.procedure.decoder.restored,
            limited=self.job.limited,
        )

    @cached_property
    def synthesized(self) -> list[int]:
        """Positions in the cells of columns that synthetic values are made for: of derived ones a rule tells all."""
        return [at for at, column in enumerate(self.cells.columns) if column.encoded]

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """Names of the cells for a reader: of what is masked in place of a column with a spike, the column's."""
        columns = {masked: name for name, masked in self.job.spikes.items()}
        return tuple(columns.get(name, name) for name in self.cells.names)

    @cached_property
    def unchanged_names(self) -> list[str]:
        """Columns whose original values are released, with restored survival times; of `disclosure` its keys."""
        names = [name for name in self.cells.names if name in self.job.key_variables]
        times = self.procedure.decoder.times
        return names if times is None or times.jitter else [*names, self.cells.names[times.position]]

    @cached_property
    def own_positions(self) -> list[int]:
        """Columns of which every released record keeps one person's value, with restored survival times."""
        times = self.procedure.decoder.times
        restored = None if times is None else times.position
        return [at for at, column in enumerate(self.cells.columns) if column.role.unchanged or at == restored]

    def encode(self, cells: FloatArray) -> FloatArray:
        """Features of cells, shape (n_rows, width); of released rows with dummies from their probabilities."""
        features, width = self.features.encode(cells), len(self.cells.names)
        if self.probabilities is not None and cells.shape[1] > width:
            self.probabilities.put_dummies(features, cells[:, width:])
        return features
