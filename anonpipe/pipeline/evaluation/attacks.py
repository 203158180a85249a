"""All attacks and disclosure measures of a run, fed from its samples and searches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from anonpipe.columns import Kind
from anonpipe.encoding.row_hash import looked_up
from anonpipe.errors import EngineError, InputError, JobError
from anonpipe.evaluate import risk
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import Measurement
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation.known import coded_positions, feature_names, links_persons, stratum_numbers
from anonpipe.pipeline.evaluation.samples import (
    AskedUnits,
    Queries,
    can_be_assigned,
    fewest_alike,
    group_sizes,
    masked_numbers,
    one_of_each_unit,
    read_class_counts,
    read_groups,
    read_guessed,
    read_pairs,
    read_predicates,
    read_queries,
    read_samples,
    read_units,
    spanning_disclosures,
)
from anonpipe.pipeline.evaluation.search import (
    found_by_keys,
    found_guesses,
    found_in,
    found_within,
    matches_in,
    own_alike,
)
from anonpipe.pipeline.procedure.group_steps import TableGroups
from anonpipe.pipeline.tasks.passes import learnt_groups
from anonpipe.pipeline.tasks.scan import FEWEST_HELD, held_cells
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.assessment import NotChecked
from anonpipe.verify.catalogue import SAID

_UNORDERED = (Kind.CATEGORICAL, Kind.BINARY)


@dataclass(frozen=True, eq=False)
class KnownOfRun:
    """What attacks are given (`anonpipe.evaluate.risk.Known`), read from the staging when first needed."""

    work: Work
    fitted: Fitted
    cut: Cut

    @property
    def k(self) -> int:
        """Smallest permissible group."""
        return self.fitted.job.k

    @property
    def rows(self) -> int:
        """Records of the release."""
        return self.cut.rows

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of features."""
        return tuple(feature_names(self.fitted.features))

    @property
    def moments(self) -> tuple[int, risk.Width] | Reason:
        """Records whose moments are kept, of the smallest stratum that is masked by itself, and of which columns.

        Where a hold-out was asked for and is too small, nothing stands in for what it should have measured.
        """
        if isinstance(self.held, Reason) and self.held is not Reason.NO_HOLD_OUT:
            return self.held
        job, strata = self.fitted.job, self.fitted.strata
        rows = min(strata.rows) if job.masks_strata else sum(strata.rows)
        return rows, self.fitted.encoders.dimension

    @cached_property
    def queries(self) -> Queries:
        """The records looked for."""
        return read_queries(self.work)

    @cached_property
    def released(self) -> risk.Found:
        """The nearest released records of the records looked for."""
        return self._of_own_unit(found_in(self.work, self.cut, "release", "groups"))

    @cached_property
    def original(self) -> risk.Found:
        """The nearest other originals of them."""
        return found_in(self.work, self.cut, "original")

    @cached_property
    def by_rank(self) -> risk.Found:
        """The nearest released records by ranks."""
        return self._of_own_unit(found_in(self.work, self.cut, "ranks", "groups"))

    @cached_property
    def whitened(self) -> risk.Found:
        """The nearest released records by Mahalanobis distance."""
        return found_in(self.work, self.cut, "whitened")

    @cached_property
    def units(self) -> AskedUnits | None:
        """The units of the records looked for; None where each record is one."""
        return None if self.fitted.unit is None else read_units(self.work)

    def _of_own_unit(self, found: risk.Found) -> risk.Found:
        """Where units have several rows a group with any of these counts as the one that is looked for."""
        if self.units is None or found.groups is None or self.own_group is None:
            return found
        columns = [
            np.where(self.units.groups.found(self.units.own, each)[0] > 0, self.own_group, each)
            for each in found.groups.T
        ]
        return risk.Found(found.nearest, np.stack(columns, axis=1))

    @property
    def grouped(self) -> bool:
        """Whether each record is in one group."""
        return self.fitted.procedure.members is not None

    @property
    def link(self) -> risk.Link:
        """What ties a released record to one person."""
        return risk.link_by(self.fitted.job.replacing)

    @property
    def own_row(self) -> IntArray | None:
        """The released row made from each record looked for, where a row is made from one record."""
        return self.queries.own_row if self.link == "own" else None

    @property
    def own_group(self) -> IntArray | None:
        """The group of each record looked for, where there are groups."""
        return self.queries.own_group if self.grouped else None

    @property
    def own_size(self) -> IntArray:
        """Records of that group; of a unit with several rows those of all its groups."""
        return self.queries.own_size if self.units is None else self.units.groups.all_sizes(self.units.own)

    @property
    def unlinked(self) -> Reason:
        """Why there is neither, where there is not."""
        return self.fitted.procedure.no_link

    @property
    def numbers(self) -> tuple[tuple[str, ...], FloatArray]:
        """Masked numbers and dates of the records looked for."""
        names = tuple(self.fitted.cells.names[at] for at in masked_numbers(self.fitted))
        return names, self.queries.own_numbers

    @property
    def alike(self) -> risk.Alike | None:
        """Which of the nearest are alike, where records are in groups and made from none alone."""
        found = found_in(self.work, self.cut, "release", "alike") if self.own_row is None else None
        if found is None or found.groups is None:
            return None
        if self.units is None:
            return risk.Alike(found, self.queries.own_alike, own_alike(self.work, self.cut))
        rows, sizes = self.units.alike.found(self.units.own, found.groups[:, 0])
        own = np.where(rows > 0, found.groups[:, 0], -1)  # of n alike r are of the unit: it is found with r / n
        return risk.Alike(found, own, sizes / np.maximum(rows, 1))

    @property
    def assigned(self) -> FloatArray | Reason:
        """Right links of some cells where all is assigned at once."""
        if not links_persons(self.fitted):
            return self.unlinked
        if not can_be_assigned(self.fitted):
            return Reason.SPANNING
        (cells,) = read_samples(self.work, self.cut, "assigned")
        return cells if len(cells) else Reason.NO_CELL

    @property
    def held(self) -> risk.Found | Reason:
        """The nearest released records of records that were held out."""
        return self._no_control or found_in(self.work, self.cut, "held_release")

    @property
    def guessed(self) -> risk.Guessed | Reason:
        """Records whose columns are guessed."""
        if problem := self._no_control:
            return problem
        fitted, cells = self.fitted, read_guessed(self.work)
        if cells is None:
            raise EngineError("records to guess were not kept; go on with --resume")
        return risk.Guessed(
            cells.told,
            cells.members,
            cells.controls,
            found_guesses(self.work, self.cut),
            fitted.cells.names,
            fitted.synthesized,
            coded_positions(fitted),
        )

    @property
    def singled(self) -> dict[str, risk.Met] | Reason:
        """What meets predicates that may single out."""
        if problem := self._no_control:
            return problem
        held, wanted = held_cells(self.work, self.fitted)[: self.rows], self.fitted.job.measure.queries
        controls, found = risk.Ordered.of(held), {}
        for name, each in read_predicates(self.work).items():
            released, original = (matches_in(self.work, self.cut, where, name) for where in ("release", "original"))
            found[name] = risk.Met(released, original, each.matches(controls), self.rows, len(held), wanted)
        return found

    @property
    def halves(self) -> tuple[BoolArray, BoolArray] | Reason:
        """Whether both halves of a record lead to the same released one."""
        if problem := self._no_control:
            return problem
        if len(self.fitted.cells.names) < 2:
            return Reason.ONE_COLUMN
        both = ([f"{who}half_{at}" for at in (0, 1)] for who in ("", "held_"))
        found = ([found_in(self.work, self.cut, name).nearest.rows for name in names] for names in both)
        members, controls = (risk.joined(*rows) for rows in found)
        return members, controls

    @property
    def _no_control(self) -> Reason | None:
        if not self.fitted.job.measure.held_out:
            return Reason.NO_HOLD_OUT
        return Reason.FEW_HELD if len(held_cells(self.work, self.fitted)) < FEWEST_HELD else None

    @property
    def pairs(self) -> risk.Pairs | Reason:
        """A paired sample of the masked columns that are released as values."""
        encoder, left_out = self.fitted.cells, self.fitted.job.as_probabilities
        if not self.fitted.procedure.row_for_row:
            return Reason.NO_PAIRS
        places = [place for place in self.fitted.synthesized if encoder.names[place] not in left_out]
        if not places:
            return Reason.ONLY_PROBABILITIES
        names, sample = [encoder.names[place] for place in places], read_pairs(self.work, self.cut)
        if self.fitted.unit is not None:
            sample = one_of_each_unit(self.work, self.cut, sample)
        categories = [at for at, place in enumerate(places) if encoder.columns[place].kind in _UNORDERED]
        return risk.Pairs(sample.original[:, places], sample.released[:, places], names, categories)

    @property
    def groups(self) -> risk.WholeGroups | Reason:
        """Some whole groups."""
        if not self.grouped:
            return self.fitted.procedure.no_groups
        sample, encode = read_groups(self.work, self.cut), self.fitted.encode
        if not len(sample.labels):
            return Reason.NO_GROUP_SAMPLED
        return risk.WholeGroups(encode(sample.original), encode(sample.released), sample.labels)

    @cached_property
    def counted(self) -> TableGroups | None:
        """What was counted of groups that lie in one partition each; None for others."""
        return learnt_groups(self.work, self.fitted, self.cut)

    @property
    def classes(self) -> dict[str, risk.ClassShares] | Reason:
        """What groups tell of the class columns."""
        if self.counted is None and not self.grouped:
            return self.fitted.procedure.no_groups
        if not self.fitted.classes:
            return Reason.NO_CLASS
        shares = {column.name: np.asarray(column.shares) for column in self.fitted.classes}
        if self.counted is None:
            told = spanning_disclosures(self.work, self.fitted, self.cut)
            return {name: risk.ClassShares(one, shares[name], sizes) for name, (one, sizes) in told.items()}
        sizes = self.counted.tallied_sizes if self.grouped else None
        pairs = zip(shares.items(), self.counted.whole.classes, strict=True)
        return {name: risk.ClassShares(one, share, sizes) for (name, share), one in pairs}

    @property
    def strata(self) -> dict[str, risk.StratumGuesses] | Reason:
        """Guesses of the columns that make the strata."""
        names = self.fitted.job.strata.by
        if not names:
            return Reason.NO_STRATA
        held = None if self._no_control else held_cells(self.work, self.fitted)
        if held is None and self.fitted.unit is not None:
            return Reason.UNITS_WITHOUT_CONTROL
        linked = self._linked_without_strata()
        found = {}
        for at, name in enumerate(names):
            own = self.queries.own_strata[:, at]
            members = self._stratum_of("strata_release", name) == own
            if held is None:
                others = self._stratum_of("strata_original", name) == own
            else:
                others = self._stratum_of("strata_held", name) == stratum_numbers(self.fitted, held)[name]
            commonest = float(np.unique(own, return_counts=True)[1].max() / len(own))
            found[name] = risk.StratumGuesses(members, others, linked, commonest, held is not None)
        return found

    def _stratum_of(self, which: str, name: str) -> IntArray:
        """The value of a stratum column in the closest record of a search."""
        told = found_in(self.work, self.cut, which, name).groups
        assert told is not None  # as it was asked for
        return told[:, 0]

    def _linked_without_strata(self) -> BoolArray | None:
        """Of whom the closest released record is their own, or of their own group; None where there is none such."""
        found = found_in(self.work, self.cut, "strata_release", "groups")
        if self.own_group is not None and found.groups is not None:
            return np.asarray(found.groups[:, 0] == self.own_group)
        return None if self.own_row is None else np.asarray(found.nearest.rows[:, 0] == self.own_row)

    @property
    def scenarios(self) -> dict[str, risk.Scenario] | Reason:
        """What comes of the scenarios that the job names."""
        measure = self.fitted.job.measure
        found = {}
        for at, scenario in enumerate(measure.scenarios):
            linked, persons = links_persons(self.fitted), None
            if scenario.within:
                sizes = own = found_within(self.work, self.cut, at)
                persons = np.ones_like(sizes)
            else:
                classes, sizes = read_class_counts(self.work, self.fitted, self.cut, at)
                own = looked_up(classes, sizes, self.queries.own_classes[:, at])
            found[scenario.name] = risk.Scenario(
                scenario.described,
                sizes,
                persons,
                own,
                found_by_keys(self.work, self.fitted, self.cut, at) if linked else self.unlinked,
                measure.sampling_fraction,
                self.rows if self.fitted.unit is None else self.fitted.unit.distinct,
            )
        return found or Reason.NO_SCENARIO

    @property
    def smallest_group(self) -> int | Reason | None:
        """Records of the smallest group; None where the whole table is one."""
        if not self.grouped:
            return self.fitted.procedure.no_bound
        if self.counted is not None:
            return self.counted.smallest
        return int(group_sizes(self.work, self.cut)[1].min())

    @property
    def exact_moments(self) -> bool:
        """Whether mean and scatter of every group are kept exactly."""
        return self.grouped and self.fitted.procedure.exact_group_moments

    @property
    def own_columns(self) -> int:
        """Columns of which each released record keeps one person's values."""
        return len(self.fitted.own_positions)

    @property
    def fewest_alike(self) -> int | None:
        """Fewest records of a group that are alike in these; None where that is not known."""
        return fewest_alike(self.work, self.fitted, self.cut) if self.own_columns and self.grouped else None

    def rng(self, what: str) -> np.random.Generator:
        """The generator of one use."""
        return self.work.rng(f"assess {what}", 0)


def measured_risk(work: Work, fitted: Fitted, cut: Cut) -> tuple[tuple[Measurement, ...], tuple[NotChecked, ...]]:
    """Every measure that the run allows, and what it does not allow."""
    known = KnownOfRun(work, fitted, cut)
    return measured_of(known, known.units is not None)


def measured_of(known: risk.Known, units: bool) -> tuple[tuple[Measurement, ...], tuple[NotChecked, ...]]:
    """Every measure that what is known allows, and what it does not allow; `units`: whether they have several rows."""
    found: list[Measurement] = []
    left_out: list[NotChecked] = []
    for measure in risk.MEASURES:
        outcome, key = _tried(measure, known, units), f"unmeasured.{measure.key}"
        if isinstance(outcome, Reason):
            left_out.append(NotChecked(key, outcome, {"fewest": FEWEST_HELD}))
        elif isinstance(outcome, str):
            left_out.append(NotChecked(key, Reason.REFUSED, {SAID: outcome}))
        else:
            found.extend(outcome)
    return tuple(found), tuple(left_out)


def _tried(measure: risk.Measure, known: risk.Known, units: bool) -> risk.Measured | Reason | str:
    """What a measure finds, or why it refuses, in its own words: too few records, or no column that it is for.

    A refused measure is not checked, and fails a gate that limits it.
    """
    if units and not measure.counts_units:
        return Reason.UNITS
    try:
        return measure.of(known)
    except (JobError, InputError) as error:
        return str(error)
