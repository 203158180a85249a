"""The measures themselves, in pieces that workers do side by side: utility, risk, and each of the analyses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from math import isnan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anonpipe.columns import Kind
from anonpipe.encoding.row_hash import looked_up
from anonpipe.errors import EngineError, InputError, JobError
from anonpipe.evaluate import risk
from anonpipe.evaluate.measurement import Measurement, Reason
from anonpipe.job.analyses import endpoints_of, population_of
from anonpipe.job.model import Job
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation import samples, search
from anonpipe.pipeline.evaluation.known import coded_positions, feature_names, links_persons, stratum_numbers, typed
from anonpipe.pipeline.evaluation.samples import FOLDER, AskedUnits, Queries, read_samples
from anonpipe.pipeline.evaluation.search import found_in
from anonpipe.pipeline.procedure.group_steps import TableGroups
from anonpipe.pipeline.tasks.passes import learnt_groups
from anonpipe.pipeline.tasks.scan import FEWEST_HELD, held_cells, held_rows_of
from anonpipe.types import BoolArray, IntArray
from anonpipe.verify.catalogue import MEASURED, REFUSAL, UNMEASURED, Check, held, kind_of, unmeasured
from anonpipe.verify.output_control import on_too_few
from anonpipe.verify.verdict import RECORDS, AnalysisOutcome, Assessment, NotChecked, worst_assessment

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = "assessment.record"
UNORDERED = (Kind.CATEGORICAL, Kind.BINARY)
Tables: TypeAlias = "tuple[pd.DataFrame, pd.DataFrame, dict[str, Kind]]"  # Original, released, and kinds of columns
_BOTH = ("original", "released")  # Of the paired sample


def sampled_tables(work: Work, fitted: Fitted, cut: Cut) -> Tables | None:
    """The paired sample as tables, and kinds; None where nothing is measured on it, or there are probabilities only.

    Columns in whose place probabilities are released are in neither table, nor those that a written one repeats, nor
    the ends of linked rows, which follow from the link (`units.order`).
    """
    if not samples.wanted_rows(fitted.job, cut.rows):
        return None
    every = zip(fitted.cells.names, fitted.cells.columns, strict=True)
    gone = {*fitted.job.as_probabilities, *fitted.job.repeated, work.folded and work.folded.layout.end}
    kinds = {name: column.kind for name, column in every if name not in gone}
    if not kinds:
        return None
    both, names = read_samples(work, cut, *_BOTH), tuple(kinds)
    places = [fitted.cells.names.index(name) for name in names]
    before, after = (typed(fitted.cells, part[:, places], names) for part in both)
    return before, after, kinds


_TOGETHER = -1  # In place of the number of a copy: all of them


def pieces(job: Job) -> tuple[tuple[str, int, int], ...]:
    """The pieces in a fixed order: `utility`, `risk`, `analysis` and which, and of which copy of the release."""
    # Measures of utility that draw nothing are the first such piece, the others the second.
    named = [(name, at) for name, at in (("utility", 0), ("utility", 1), ("risk", 0)) if getattr(job.measure, name)]
    every = (*named, *(("analysis", at) for at in range(len(job.analyses))))
    alone = range(job.release.copies)
    # an attacker has all copies together, and one of them alone: with all, neighbours are rows of several copies
    attacked = (0,) if len(alone) == 1 else (_TOGETHER, 0)
    return tuple((what, at, copy) for what, at in every for copy in (attacked if what == "risk" else alone))


def measure_piece(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Do one piece, and leave what it found in the staging."""
    what, at, copy = pieces(fitted.job)[index]
    if what == "utility":
        rows, found = _utility(work.copies[copy], fitted, cut, draws=bool(at))
    elif what == "risk":
        rows, found = _risk(work if copy == _TOGETHER else work.copies[copy], fitted, cut)
    else:
        rows, found = _analysis(work.copies[copy], fitted, cut, at)
    work.staging.write_record(_file(index), found)
    return {"rows": rows}


def _utility(work: Work, fitted: Fitted, cut: Cut, draws: bool) -> tuple[int, Assessment]:
    from anonpipe.evaluate.utility import utility

    if (tables := sampled_tables(work, fitted, cut)) is None:
        if fitted.job.as_probabilities:
            return 0, Assessment()
        raise EngineError("utility is measured on a sample, and none was kept; go on with --resume")
    found = utility(
        *tables,
        rng=work.rng("assess utility", 0),
        least=fitted.min_rows,
        of=cut.rows,
        paired=fitted.procedure.row_for_row,
        endpoints=endpoints_of(fitted.job),
        weight=fitted.job.weight_column,
        population=population_of(fitted.job),
        design=fitted.job.design_columns,
        differences=fitted.job.differences,
        draws=draws,
    )
    return len(tables[0]), Assessment(utility=found)


def _risk(work: Work, fitted: Fitted, cut: Cut) -> tuple[int, Assessment]:
    found, not_checked = measure_risk(RunReader(work, fitted, cut).attack_data(), fitted.unit is not None)
    return work.job.measure.queries, Assessment(risk=found, not_checked=not_checked)


def _analysis(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[int, Assessment]:
    """Fit one of the recipient's models to both tables."""
    from anonpipe.evaluate.utility import fit_models

    wanted = fitted.job.analyses[index]
    names = samples.model_columns(fitted)
    before, after = read_samples(work, cut, "model_original", "model_released")
    (model,) = fit_models(typed(fitted.cells, before, names), [fitted.job.analysis_of(wanted)])
    if model.fit.problem is not None:
        raise JobError(
            f"analysis {wanted.name!r} cannot be fitted to the original ({model.fit.problem}), so that no release "
            "can be held against it; correct or remove it"
        )
    comparison = model.compare(typed(fitted.cells, after, names))
    outcome = AnalysisOutcome(comparison, wanted.declared, len(before), cut.rows)
    return len(before), Assessment(analyses=(outcome,))


def save_assessment(work: Work) -> Assessment:
    """Put the pieces together, in their order, and keep the whole in the staging."""
    parts: dict[tuple[str, int], list[Assessment]] = {}
    for index, (what, at, _) in enumerate(pieces(work.job)):
        parts.setdefault((what, at), []).append(work.staging.read_record(_file(index), *RECORDS))
    left_out = Assessment(not_checked=_switched_off(work.job))
    assessment = sum(map(worst_assessment, parts.values()), Assessment()) + left_out
    work.staging.write_record(_WHOLE, assessment)
    return assessment


def _switched_off(job: Job) -> tuple[NotChecked, ...]:
    found = []
    if not job.measure.utility:
        found.append(NotChecked("unmeasured.utility", Reason.UTILITY_OFF))
    elif job.as_probabilities:
        about = {"names": ", ".join(job.as_probabilities)}
        found.append(NotChecked("unmeasured.utility_of_columns", Reason.PROBABILITIES, about))
    if not job.measure.risk:
        found.append(NotChecked("unmeasured.risk", Reason.RISK_OFF))
    if not job.analyses:
        found.append(NotChecked("unmeasured.analyses", Reason.NO_ANALYSES))
    return tuple(found)


def load_assessment(work: Work) -> Assessment:
    """What `save_assessment` kept."""
    return work.staging.read_one(_WHOLE, Assessment, *RECORDS)


def _file(index: int) -> str:
    return f"{FOLDER}/measured-{index}.record"


class RunReader:
    """Reads what attacks are given from the samples and searches of a run."""

    def __init__(self, work: Work, fitted: Fitted, cut: Cut) -> None:
        self.work, self.fitted, self.cut = work, fitted, cut
        self.queries: Queries = samples.read_queries(work)
        # The units of the records looked for; None where each record is one
        self.units: AskedUnits | None = None if fitted.unit is None else samples.read_units(work)
        self.grouped, self.link = fitted.procedure.members is not None, risk.link_by(fitted.job.replacing)
        self.own_row = self.queries.own_row if self.link == "own" else None
        self.own_group = self.queries.own_group if self.grouped else None
        # What was counted of groups that lie in one partition each; None for others
        self.counted: TableGroups | None = learnt_groups(work, fitted, cut)
        self.held_cells = held_cells(work, fitted)
        self.no_control = None if len(self.held_cells) >= FEWEST_HELD else Reason.FEW_HELD
        if not fitted.job.measure.held_out:
            self.no_control = Reason.ALL_IN_CLASSES if self.fitted.job.keys_recoded else Reason.NO_HOLD_OUT

    def attack_data(self) -> risk.AttackData:
        """Everything, read from the staging once."""
        work, fitted, cut = self.work, self.fitted, self.cut
        numbers = tuple(fitted.titles[at] for at in samples.masked_numbers(fitted)), self.queries.own_numbers
        return risk.AttackData(
            k=fitted.job.k,
            rows=cut.rows,
            features=feature_names(fitted.features, fitted.titles),
            rng=lambda what: work.rng(f"assess {what}", 0),
            own_row=self.own_row,
            own_group=self.own_group,
            # of a unit with several rows the records of all its groups
            own_size=self.units.groups.all_sizes(self.units.own) if self.units else self.queries.own_size,
            unlinked=fitted.procedure.no_link,
            grouped=self.grouped,
            released=self._of_own_unit(found_in(work, cut, "release", "groups")),
            original=found_in(work, cut, "original"),
            mean_distances=self.no_control or search.mean_distances(work, cut),
            by_rank=self._of_own_unit(found_in(work, cut, "ranks", "groups")),
            whitened=found_in(work, cut, "whitened") if self.link == "own" else None,
            numbers=numbers,
            alike=self._alike(),
            assigned=self._assigned(),
            held=self.no_control or found_in(work, cut, "held_release"),
            guessed=self.no_control or self._guessed(),
            singled=self.no_control or self._singled(),
            halves=self.no_control or self._halves(),
            pairs=self._pairs(),
            groups=self._groups(),
            classes=self._classes(),
            strata=self._strata(),
            scenarios=self._scenarios(),
            moments=self._moments(),
            smallest_group=self._smallest_group(),
            link=self.link,
            exact_moments=self.grouped and fitted.procedure.exact_group_moments,
            own_columns=len(fitted.own_positions),
            fewest_alike=samples.fewest_alike(work, fitted, cut) if fitted.own_positions and self.grouped else None,
        )

    def _moments(self) -> tuple[int, risk.EffectiveDimension] | Reason:
        """Where a hold-out was asked for and is too small, nothing stands in for what it should have measured."""
        if self.no_control is Reason.FEW_HELD:
            return self.no_control
        job, strata = self.fitted.job, self.fitted.strata
        rows = min(strata.rows) if job.masks_strata else sum(strata.rows)
        return self.fitted.encoders.independent(rows), self.fitted.encoders.dimension

    def _of_own_unit(self, matches: risk.NearestMatches) -> risk.NearestMatches:
        """Where units have several rows a group with any of these counts as the one that is looked for."""
        if self.units is None or matches.groups is None or self.own_group is None:
            return matches
        found = (self.units.groups.found(self.units.own, groups)[0] for groups in matches.groups.T)
        own = np.stack([rows > 0 for rows in found], axis=1)
        return replace(matches, groups=np.where(own, self.own_group[:, None], matches.groups))

    def _alike(self) -> risk.EquivalenceClasses | None:
        if self.own_row is not None or not self.grouped:
            return None
        matches = found_in(self.work, self.cut, "release", "alike")
        assert matches.groups is not None  # as they were asked for
        if self.units is None:
            return risk.EquivalenceClasses(
                matches, self.queries.own_alike, search.summed_in(self.work, self.cut, "own_alike")
            )
        rows, sizes = self.units.alike.found(self.units.own, matches.groups[:, 0])
        own = np.where(rows > 0, matches.groups[:, 0], -1)  # of n alike r are of the unit: it is found with r / n
        return risk.EquivalenceClasses(matches, own, sizes / np.maximum(rows, 1))

    def _assigned(self) -> Any:
        if not links_persons(self.fitted):
            return self.fitted.procedure.no_link
        if not samples.can_be_assigned(self.fitted):
            return Reason.SPANNING
        (cells,) = read_samples(self.work, self.cut, "assigned")
        return cells if len(cells) else Reason.NO_CELL

    def _guessed(self) -> risk.InferenceTask:
        fitted, cells = self.fitted, samples.read_guessed(self.work)
        if cells is None:
            raise EngineError("records to guess were not kept; go on with --resume")
        tables, guesses = (cells.released, cells.members, cells.controls), search.found_guesses(self.work, self.cut)
        return risk.InferenceTask(*tables, guesses, fitted.titles, fitted.synthesized, coded_positions(fitted))

    def _singled(self) -> dict[str, risk.PredicateMatches]:
        """Of persons one row each; of units all rows, each unit meeting what one of its rows meets."""
        unit, share, matches = self.fitted.unit, self.fitted.job.measure.held_out, {}
        rows = self.cut.rows if unit is None else round(unit.distinct * (1 - share))
        held, units = held_rows_of(self.work, self.fitted, rows)
        sizes = rows, len(np.unique(units)), self.fitted.job.measure.queries, "record" if unit is None else "unit"
        controls, places = risk.Ordered.of(held), ("release", "original")
        for name, predicates in samples.read_predicates(self.work).items():
            released, original = (search.matches_in(self.work, self.cut, where, name) for where in places)
            of_held = risk.joined_units([predicates.units(controls, units)])
            matches[name] = risk.PredicateMatches(released, original, of_held, *sizes)
        return matches

    def _halves(self) -> tuple[BoolArray, BoolArray] | Reason:
        if len(self.fitted.cells.names) < 2:
            return Reason.ONE_COLUMN
        both = ([f"{who}half_{at}" for at in (0, 1)] for who in ("", "held_"))
        rows = ([found_in(self.work, self.cut, name).nearest.rows for name in names] for names in both)
        members, controls = (risk.joined(*halves) for halves in rows)
        return members, controls

    def _pairs(self) -> risk.Pairs | Reason:
        """The masked columns that are released as values."""
        encoder, left_out = self.fitted.cells, self.fitted.job.as_probabilities
        if not self.fitted.procedure.row_for_row:
            return Reason.NO_PAIRS
        places = [place for place in self.fitted.synthesized if encoder.names[place] not in left_out]
        if not places:
            return Reason.ONLY_PROBABILITIES
        names, both = [self.fitted.titles[place] for place in places], read_samples(self.work, self.cut, *_BOTH)
        if self.fitted.unit is not None:
            (units,) = read_samples(self.work, self.cut, "units")
            once = samples.one_of_each(self.work, units, "pairs")
            both = [table[once] for table in both]
        categories = [at for at, place in enumerate(places) if encoder.columns[place].kind in UNORDERED]
        before, after = (table[:, places] for table in both)
        return risk.Pairs(before, after, names, categories)

    def _groups(self) -> risk.WholeGroups | Reason:
        if not self.grouped:
            return self.fitted.procedure.no_groups
        before, after, labels = read_samples(self.work, self.cut, "group_original", "group_released", "group_labels")
        if not len(labels):
            return Reason.NO_GROUP_SAMPLED
        return risk.WholeGroups(self.fitted.encode(before), self.fitted.encode(after), labels)

    def _classes(self) -> dict[str, risk.ClassShares] | Reason:
        if self.counted is None and not self.grouped:
            return self.fitted.procedure.no_groups
        if not self.fitted.classes:
            return Reason.NO_CLASS
        shares = {column.name: np.asarray(column.shares) for column in self.fitted.classes}
        if self.counted is None:
            disclosures = samples.spanning_disclosures(self.work, self.fitted, self.cut)
            return {name: risk.ClassShares(one, shares[name], sizes) for name, (one, sizes) in disclosures.items()}
        sizes = self.counted.tallied_sizes if self.grouped else None
        pairs = zip(shares.items(), self.counted.whole.classes, strict=True)
        return {name: risk.ClassShares(one, share, sizes) for (name, share), one in pairs}

    def _strata(self) -> dict[str, risk.StratumGuesses] | Reason:
        names = self.fitted.job.strata.by
        if not names:
            return Reason.NO_STRATA
        if self.no_control and self.fitted.unit is not None:
            return Reason.UNITS_WITHOUT_CONTROL
        linked, guesses = self._linked_without_strata(), {}
        for at, name in enumerate(names):
            own = self.queries.own_strata[:, at]
            members = self._stratum_of("strata_release", name) == own
            if self.no_control:
                others = self._stratum_of("strata_original", name) == own
            else:
                of_held = stratum_numbers(self.fitted, self.held_cells)[name]
                others = self._stratum_of("held_strata_release", name) == of_held
            commonest = float(np.unique(own, return_counts=True)[1].max() / len(own))
            guesses[name] = risk.StratumGuesses(members, others, linked, commonest, not self.no_control)
        return guesses

    def _stratum_of(self, which: str, name: str) -> IntArray:
        """The value of a stratum column in the closest record of a search."""
        values = found_in(self.work, self.cut, which, name).groups
        assert values is not None  # as it was asked for
        return values[:, 0]

    def _linked_without_strata(self) -> BoolArray | None:
        """Of whom the closest released record is their own, or of their own group; None where there is none such."""
        matches = found_in(self.work, self.cut, "strata_release", "groups")
        if self.own_group is not None and matches.groups is not None:
            return np.asarray(matches.groups[:, 0] == self.own_group)
        return None if self.own_row is None else np.asarray(matches.nearest.rows[:, 0] == self.own_row)

    def _scenarios(self) -> dict[str, risk.AttackScenario] | Reason:
        work, fitted, cut, scenarios = self.work, self.fitted, self.cut, {}
        for at, scenario in enumerate(fitted.job.measure.scenarios):
            persons = weights = None
            if scenario.tolerance:
                sizes = own = search.summed_in(work, cut, f"scenario_{at}.within")
                persons = np.ones_like(sizes)
            else:
                classes, sizes = samples.read_class_counts(work, fitted, cut, at)
                weights = samples.read_class_weights(work, fitted, cut, at, classes)
                own = looked_up(classes, sizes, self.queries.own_classes[:, at])
            scenarios[scenario.name] = risk.AttackScenario(
                scenario.described,
                sizes,
                persons,
                own,
                search.found_by_keys(work, fitted, cut, at) if links_persons(fitted) else fitted.procedure.no_link,
                fitted.job.measure.sampling_fraction,
                cut.rows if fitted.unit is None else fitted.unit.distinct,
                weights,
            )
        return scenarios or Reason.NO_SCENARIO

    def _smallest_group(self) -> int | Reason | None:
        if not self.grouped:
            return self.fitted.procedure.no_bound
        return self.counted.smallest if self.counted else int(samples.group_sizes(self.work, self.cut)[1].min())


def measure_risk(data: risk.AttackData, units: bool) -> tuple[tuple[Measurement, ...], tuple[NotChecked, ...]]:
    """Every measure that the data allow, and what they do not allow; `units`: whether these have several rows."""
    measured: list[Measurement] = []
    left_out: list[NotChecked] = []
    for measure in risk.MEASURES:
        outcome, key = _outcome(measure, data, units), f"unmeasured.{measure.key}"
        if isinstance(outcome, Reason):
            left_out.append(NotChecked(key, outcome, {"fewest": FEWEST_HELD}))
        elif isinstance(outcome, str):
            left_out.append(NotChecked(key, Reason.REFUSED, {REFUSAL: outcome}))
        else:
            measured.extend(outcome)
    return tuple(measured), tuple(left_out)


def _outcome(measure: risk.RiskMeasure, data: risk.AttackData, units: bool) -> risk.Measured | Reason | str:
    """The figures, or why there are none, in the measure's own words: too few records, or no column that it is for."""
    # A refused measure is not checked, and fails a gate that limits it.
    if units and not measure.counts_units:
        return Reason.UNITS
    try:
        return measure.of(data)
    except (JobError, InputError) as error:
        return str(error)


# --- Lines of the verdict: the analyses of recipients and the limits on risk ------------------------------------------


# Half widths of an interval, as shares of the distance from guessing to the default limit. Up to `NARROW` the upper end
# is held against the limit, up to `FAIR` the estimate. Beyond that the estimate counts if a 99.9 % interval lies above
# guessing, `SURE` times as wide, else the lower end. So what discloses nothing is refused less than once in 1,000 runs.
NARROW, FAIR, SURE = 0.4, 0.65, 1.68

UPPER_ENDS = (
    "figures of risk in the verdict are upper ends of 95 % intervals, of wide ones the estimate or the lower end; "
    "the report has estimates and intervals"
)


def checks(
    assessment: Assessment, limits: Mapping[str, float | None], at_default: Collection[str] = ()
) -> tuple[Check, ...]:
    """The lines; `at_default`: the limits that the job leaves to anonpipe, which allow for few controls."""
    found = [line for each in assessment.analyses for line in _of_analysis(each)]
    found += [line for name, limit in limits.items() for line in _of_gate(name, limit, assessment, name in at_default)]
    found += [each.check for each in assessment.not_checked]
    return tuple(found)


def limits_of(job: Job, assessment: Assessment) -> dict[str, float | None]:
    """The limits that are held: the job's own in any case, default ones where there is a figure that is sure enough."""

    def is_known(name: str) -> bool:
        found = gated(name, assessment.measured)
        return found is not None and not isnan(_judged(name, found)[0])

    at_default = job.gates.at_default
    return {name: limit if name not in at_default or is_known(name) else None for name, limit in job.limits.items()}


def notes(assessment: Assessment, limits: Mapping[str, float | None]) -> tuple[str, ...]:
    """Why a model has no fit, what the figures of risk are, and of limits held against nothing which can be held."""
    # Why nothing was measured is recorded where `Assessment.not_checked` is.
    known = {name: each for name in MEASURED if (each := gated(name, assessment.measured)) is not None}
    apply = [f"gates.{name}" for name in known if "risk" in MEASURED[name].needs]
    whole = any(each.reason is Reason.ALL_IN_CLASSES for each in assessment.not_checked)
    if not whole and not any("hold_out" in MEASURED[name.partition(".")[2]].needs for name in apply):
        apply.append("with measure.hold_out also gates.membership_auc and attribute_inference")
    found = [
        f"analysis {each.comparison.analysis.name!r} has no fit to the release: {each.comparison.released.problem}"
        for each in assessment.analyses
        if each.comparison.released.problem is not None
    ]
    found += [UPPER_ENDS] * any(name in known and known[name].high is not None for name in limits)
    held_limits = [name for name, limit in limits.items() if limit is not None]
    found += [
        f"gates.{name} failed, as {UNMEASURED[MEASURED[name].unmeasured]} was not measured; "
        f"limits on risk that can be held here: {', '.join(apply)}"
        for name in held_limits
        if name not in known
    ]
    found += [
        f"gates.{name} failed, as what it limits is not defined here ({known[name].title}). {known[name].note}".strip()
        for name in held_limits
        if name in known and isnan(_judged(name, known[name])[0])
    ]
    return tuple(found)


_RECOGNIZED = 0.9  # Area under the curve from which on released records as a whole are other than original ones


def warnings(assessment: Assessment, limits: Mapping[str, float | None]) -> tuple[str, ...]:
    """That columns do not go together as in the original, where no limit says so, and what it means for recipients."""
    return tuple(f"recipients {what}: {why}" for _, what, why in _apart(assessment, limits))


def for_recipients(job: Job, assessment: Assessment, least: int | None) -> tuple[str, ...]:
    """The same for recipients: without figures, and nothing that rests on few records; `least` is of k units."""
    found = () if job.repeat.growing else _apart(assessment, limits_of(job, assessment))
    return tuple(f"Recipients {what}." for each, what, _ in found if not on_too_few(each.records, least or job.k))


def _apart(assessment: Assessment, limits: Mapping[str, float | None]) -> list[tuple[Measurement, str, str]]:
    """Figures by which the release differs, without a limit on them: what recipients must not do, and why."""
    pairs, trees = (
        gated(name, assessment.measured) if limits.get(name) is None else None
        for name in ("pair_shapes", "distinguishability")
    )
    off = 0.0 if pairs is None else _judged("pair_shapes", pairs)[0]
    found, far = [], [] if pairs is None or not off > 1 else [pairs.worst, *pairs.then]
    if pairs is not None and off > 1:
        which = "; ".join(" and ".join(map(repr, names)) for names in far) or "of one pair"
        what = f"must not relate columns {which} to each other (correlations, cross tables, models)"
        why = (
            f"they go together {f'up to {off:.3g}' if off < 1000 else 'over 1,000'} times further from the original "
            "than chance allows. What follows from another column, as a stay from its two days or a total from its "
            "parts, is not kept. Release the difference or the parts in place of one of them"
        )
        found.append((pairs, what, why))
    if trees is not None and trees.worst and set(trees.worst) not in map(set, far):
        which = " and ".join(map(repr, trees.worst))
        why = (
            "many original records lie near a line of both, and fewer released ones do. If one follows from the other, "
            "or ends at a limit that it sets, keep it by a rule (docs/rules.md)"
        )
        found.append((trees, f"must not compute with columns {which} together (sums, differences)", why))
    if trees is not None and trees.value > _RECOGNIZED:
        what = (
            "can use single columns, and relations that were checked, but not rules between columns, small subgroups "
            "or models of many columns"
        )
        why = (
            f"boosted trees recognize released records (AUC {trees.value:.3g}, 0.5 is chance), so that whole records "
            "are not as in the original"
        )
        found.append((trees, what, why))
    return found


def gated(
    name: str, measured: tuple[Measurement, ...], limit: float | None = None, at_default: bool = False
) -> Measurement | None:
    """The measure that a gate judges: the worst of those that it names; None where none was measured."""
    for figure in MEASURED[name].figures:
        if named := [each for each in measured if fnmatchcase(each.name, figure)]:
            others = [each for each in measured if each.name in MEASURED[name].other_attackers]
            return max((*named, *others), key=lambda each: _badness(name, each, limit, at_default))
    return None


def _badness(name: str, measured: Measurement, limit: float | None, at_default: bool) -> tuple[bool, float]:
    """Whether it is beyond the limit, and how bad it is: the higher the worse, infinity for what is no number."""
    # Of default limits, which are held against several ends of intervals, the figures themselves are compared.
    judged = _judged(name, measured, at_default)[0]
    value = measured.value if at_default else judged
    if value != value or judged != judged:
        return True, float("inf")
    if kind_of(name).at_least:
        return False, -value
    return limit is not None and judged > limit, value


def _judged(name: str, measured: Measurement, at_default: bool = False) -> tuple[float, str]:
    """What is held against the gate's limit, and which end of the interval it is; the value where there is none."""
    if kind_of(name).at_least:
        return (measured.value, "") if measured.low is None else (measured.low, "lower")
    if measured.low is None or measured.high is None:
        return measured.value, "expected" if measured.name.endswith(".expected") else ""
    gate, half = MEASURED[name], max(measured.high - measured.value, measured.value - measured.low)
    if at_default and gate.few_records and gate.default is not None and measured.high > gate.default:
        guessing = gate.least or 0.0
        way, sure = gate.default - guessing, measured.value - SURE * (measured.value - measured.low) > guessing
        if half > FAIR * way and not sure:
            return measured.low, "lower"
        if half > NARROW * way:
            return measured.value, "estimate"
    return measured.high, "upper"


def _of_gate(name: str, limit: float | None, assessment: Assessment, at_default: bool) -> list[Check]:
    found, key = gated(name, assessment.measured, limit, at_default), kind_of(name).key
    if found is None:
        return [] if limit is None else [held(key, None, limit)]
    if limit is None and not MEASURED[name].always_shown:
        return []
    if limit is None and "survival" in MEASURED[name].needs and found.value != found.value:
        return []  # a job without survival analysis needs no curves
    value, end = _judged(name, found, at_default)
    given: dict[str, Any] = {"records": found.records, "of": found.of, "about": {"end": end}}
    if found.reason is not None:
        return [unmeasured(key, found.reason, limit, **given)]
    given |= {"columns": found.worst, "compared": found.columns}
    if found.high is not None and found.value == found.value:
        given |= {"point": found.value, "high": found.high}
    return [held(key, value, limit, **given)]


def _of_analysis(outcome: AnalysisOutcome) -> list[Check]:
    """A line for each limit, or one without."""
    name, shares = outcome.comparison.analysis.name, outcome.shares
    about = {"analysis": name, "coefficients": shares.coefficients}
    direction = shares.changed_direction if shares.significant else 0.0  # none that could have changed
    measured = {
        "changed_significance": shares.changed_significance,
        "changed_direction": direction,
        "outside": shares.outside,
        "overlap": shares.overlap,
    }
    limits: Mapping[str, float | None] = outcome.limits or {"changed_significance": None}
    given: dict[str, Any] = {"records": outcome.records, "of": outcome.of, "about": about}
    if not (shares.coefficients or all(each.judged for each in outcome.comparison.coefficients)):
        few = Reason.FEW_DEGREES
        return [unmeasured(f"analysis.{share}", few, limit, **given) for share, limit in limits.items()]
    return [held(f"analysis.{share}", measured[share], limit, **given) for share, limit in limits.items()]
