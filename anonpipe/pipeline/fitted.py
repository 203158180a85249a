"""What follows from the job and the scan of its input, and stays the same to the end of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.classes import ClassColumn, class_columns
from anonpipe.encoding.conditioning import ConditioningEncoder
from anonpipe.encoding.dominance import Extremes
from anonpipe.encoding.features import FeatureEncoder
from anonpipe.encoding.pandas_types import with_nullable_types
from anonpipe.encoding.probabilities import ProbabilityDecoder
from anonpipe.encoding.rare import Suppression
from anonpipe.encoding.rounding import RoundedColumns, Rounding
from anonpipe.encoding.scan import Scan
from anonpipe.encoding.scores import Scores
from anonpipe.encoding.units import UnitColumn
from anonpipe.job.model import Job
from anonpipe.partition.strata import Strata
from anonpipe.partition.tree import Tree
from anonpipe.pipeline import by_groups, by_mask
from anonpipe.pipeline.procedure import Encoders, Procedure
from anonpipe.source import Labels
from anonpipe.types import FloatArray
from anonpipe.verify.view import View, build_view


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was fitted; everything else here follows from it."""

    job: Job  # The job
    input: pa.Schema  # The schema of its input
    scan: Scan  # The merged scan, after suppression of rare categories, and extremes being drawn in
    cells: ColumnEncoder  # Table to cells and back
    suppression: Suppression  # Rare categories and what they are released as
    strata: Strata  # Records that never share a group
    trees: tuple[Tree, ...] = ()  # One tree of pre-clusters a stratum; none before they are fitted
    # Of each column of the input that pandas reads in a nullable type of its own, this type
    pandas_types: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Labels] = field(default_factory=dict)  # What the input says of its columns
    unit: UnitColumn | None = None  # What k counts where it may have several rows; None where k counts rows
    # How counts of categories are rounded; None where they are kept, and before that is known
    rounding: Rounding | None = None
    extremes: Extremes = field(default_factory=Extremes)  # Values of columns on a scale of their own that are drawn in

    @property
    def least(self) -> int:
        """Rows that are of k units, whichever rows they are: k where each row is one."""
        return self.job.k if self.unit is None else self.unit.sure

    @property
    def least_told(self) -> int | None:
        """The same, coarse, for what recipients see; None where each row is a unit, and it is k."""
        return None if self.unit is None else self.unit.coarse(self.job.k)

    @property
    def whole_units(self) -> bool:
        """Whether all rows of a unit of several stay in one group, and before that in one partition."""
        return self.unit is not None and self.job.whole_units

    @cached_property
    def features(self) -> FeatureEncoder:
        """Cells to features and back."""
        return FeatureEncoder.fit(self.cells, self.scan, self.scores)

    @cached_property
    def scores(self) -> Scores | None:
        """The columns that are carried by normal scores; None for none."""
        if not self.scan.scored:
            return None
        told = "" if self.unit is None else f"{self.least} (fewer need not be of k={self.job.k} units)"
        thin = None if self.rounding is None else self.rounding.thinned
        return Scores.fit(self.cells, self.scan, self.strata, self.least, told, thin)

    @cached_property
    def conditioning(self) -> ConditioningEncoder:
        """The unchanged columns that the masked ones are drawn given, as numbers."""
        return ConditioningEncoder.fit(self.cells, self.scan, self.job.beside)

    @cached_property
    def probabilities(self) -> ProbabilityDecoder | None:
        """How categories become columns of probabilities; None where they are released as they are."""
        step = self.job.decode.probability_step
        return None if step is None else ProbabilityDecoder.fit(self.cells, self.features, step, self.job.columns)

    @property
    def encoders(self) -> Encoders:
        """What a method is built on."""
        rounded = None if self.rounding is None else RoundedColumns.fit(self.rounding, self.cells, self.features)
        return Encoders(self.scan, self.cells, self.features, self.conditioning, self.probabilities, self.unit, rounded)

    @cached_property
    def procedure(self) -> Procedure:
        """What is done with the records; here, and only here, jobs with groups and with a mask part."""
        build = by_groups.procedure if self.job.mask is None else by_mask.procedure
        return build(self.job, self.encoders, self.strata)

    @property
    def width(self) -> int:
        """Channels that the method begins with: features, what they are drawn given, classes and units."""
        return self.features.width + self.conditioning.width + len(self.procedure.codes) + (self.unit is not None)

    @property
    def leaves(self) -> int:
        """Of all trees."""
        return sum(tree.leaves for tree in self.trees)

    @cached_property
    def added(self) -> tuple[pa.Field, ...]:
        """Columns of the release that are no columns of the table: ends of intervals, or probabilities."""
        encoder = self.procedure.decoder.intervals or self.probabilities
        return () if encoder is None else encoder.fields

    @cached_property
    def worked_schema(self) -> pa.Schema:
        """The released table's, columns by name as they are worked on; probabilities in their place, ends last."""
        if self.probabilities is not None:
            return self.probabilities.schema(self.cells.schema)
        return pa.schema([*self.cells.schema, *self.added])

    @cached_property
    def schema(self) -> pa.Schema:
        """The same in the order of the input, in which it is written, with what pandas needs to read its types."""
        intervals = self.procedure.decoder.intervals
        owners = {field.name: field.name for field in self.worked_schema}
        if self.probabilities is not None:
            owners |= {name: str(told["column"]) for name, told in self.probabilities.described().items()}
        ends = {} if intervals is None else intervals.owners
        owners |= ends
        place = {name: at for at, name in enumerate(self.input.names)}
        ordered = sorted(self.worked_schema, key=lambda field: (field.name in ends, place[owners[field.name]]))
        types = {name: kind for name, kind in self.pandas_types.items() if name in self.cells.names}
        return with_nullable_types(pa.schema(ordered), types)

    @cached_property
    def classes(self) -> tuple[ClassColumn, ...]:
        """The class columns whose classes can mix in a group."""
        return class_columns(self.cells, self.scan, self.job.sensitive_columns)

    @cached_property
    def view(self) -> View:
        """The variables on which the release is verified."""
        return view_of(self.cells, self.scan, self.job.as_probabilities, self.scores, self.procedure.decoder.restored)

    @cached_property
    def synthesized(self) -> list[int]:
        """Where the columns whose values are replaced stand among the cells."""
        return [at for at, column in enumerate(self.cells.columns) if column.role.synthesized]

    @cached_property
    def unchanged_names(self) -> list[str]:
        """Columns whose true values are released, restored survival times among them."""
        names = [n for n, column in zip(self.cells.names, self.cells.columns, strict=True) if column.role.unchanged]
        times = self.procedure.decoder.times
        return names if times is None or times.jitter else [*names, self.cells.names[times.position]]

    @cached_property
    def own_positions(self) -> list[int]:
        """Columns of which every released record keeps one person's value, restored survival times among them."""
        times = self.procedure.decoder.times
        restored = None if times is None else times.position
        return [at for at, column in enumerate(self.cells.columns) if column.role.unchanged or at == restored]

    def encode(self, cells: FloatArray) -> FloatArray:
        """Features of cells, shape (n_rows, width); of released ones also where probabilities stand beside them.

        Dummies are then those that a reader makes of the probabilities.
        """
        features, width = self.features.encode(cells), len(self.cells.names)
        if self.probabilities is not None and cells.shape[1] > width:
            self.probabilities.put_dummies(features, cells[:, width:])
        return features


def view_of(
    encoder: ColumnEncoder,
    scan: Scan,
    as_probabilities: Collection[str] = (),
    scores: Scores | None = None,
    restored: Collection[int] = (),
) -> View:
    """The verified variables of a scanned table; see `build_view`."""
    columns = dict(zip(encoder.names, encoder.columns, strict=True))
    coded = {name for name, column in columns.items() if column.staged_as_codes}
    counts = {name: scan.code_counts(name) for name in coded}
    mean = {name: scan.columns[name].mean for name in columns}
    sd = {name: scan.columns[name].sd for name in columns}
    log_mean = {name: scan.columns[name].log_mean for name in columns}
    log_sd = {name: scan.columns[name].log_sd for name in columns}
    return build_view(
        columns,
        mean,
        sd,
        counts,
        log_mean=log_mean,
        log_sd=log_sd,
        as_probabilities=as_probabilities,
        scores=scores,
        restored=restored,
    )
