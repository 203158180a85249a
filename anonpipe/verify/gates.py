"""Checks of every run: what was measured of the files and of each stage, held against its limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from anonpipe.errors import plural
from anonpipe.methods.grouping import CONFIDENCE, ClassDisclosure, LossBound
from anonpipe.methods.record import Guarantee
from anonpipe.moments import (
    GroupedMoments,
    GroupSpread,
    Moments,
    PairwiseMoments,
    expect_together,
    mean_limit,
    merge_all,
    together,
)
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.catalogue import Check, Scope, held, scoped, worst_entry
from anonpipe.verify.expectations import (
    CHANCE,
    KeptGroups,
    ReleaseView,
    Scanned,
    StagingCheck,
    Target,
    against_expectation,
    of_groups,
    worst,
)
from anonpipe.verify.original_values import SmallCellCounts
from anonpipe.verify.verdict import Verdict

PLACED = 0.25  # Largest part that exchanges leave of the standard deviation of a covariance with categories at random

# Times 1 / n: standard deviation of a correlation of normal draws less that of their normal scores (counted for 30 to
# 1,000 draws: 1.5 to 1.8 without correlation, less with it)
RANKED = 2.0

_FEW = 20  # Records of a pair: where fewer have both values, the release may have none with both
REACHED = 1e-4  # Probability that decoding alone moves one of a run's covariances beyond `ComparedMoments.reach`

MOST_KEPT = 0.9  # Share of records, beyond chance, from which on a mask has left them as they were

Limits = Mapping[str, float]  # The limits of the job by their names; see `anonpipe.verify.catalogue.GATES`


@dataclass(frozen=True)
class ClassConditions:
    """What the job asks of the classes in every group; see the job's `sensitive`."""

    l_diversity: float | None
    diversity: str
    t_closeness: float | None
    closeness: str


@dataclass(frozen=True)
class GroupEvidence:
    """What was measured of groups, and what their synthesizer promises; lists hold one entry a stratum."""

    guarantee: Guarantee
    identical: bool
    asked: ClassConditions
    smallest_group: int
    grouped: list[GroupedMoments]
    spread: list[GroupSpread] | None
    bound: LossBound | None
    classes: dict[str, ClassDisclosure]
    scopes: list[int]  # The scope of each stratum's noise; small strata that share one are compared together
    # smallest_units, largest_share: units of the smallest group, and the largest share of a group's records that are of
    # one unit; None where each record is a unit
    smallest_units: int | None = None
    largest_share: float | None = None
    split_units: int | None = None  # Units with records in more than one group; None where they may have

    @cached_property
    def whole(self) -> Target:
        """The promise for the table."""
        spread = together(self.spread, self.scopes) if self.spread else None
        return of_groups(together(self.grouped, self.scopes), spread, self.guarantee)

    @cached_property
    def strata(self) -> list[Target]:
        """The promise for each stratum, where it is promised; of those that share a scope the promise for it."""
        grouped = together(self.grouped, self.scopes)
        if self.guarantee.scope == "table" or len(grouped) < 2:
            return []
        spreads = [[each] for each in together(self.spread, self.scopes)] if self.spread else [None] * len(grouped)
        pairs = zip(grouped, spreads, strict=True)
        return [of_groups([one], spread, self.guarantee, len(grouped)) for one, spread in pairs]


@dataclass(frozen=True)
class MaskEvidence:
    """What was measured of a masker, which forms no groups beforehand."""

    method: str  # Its name
    # Of what is masked as one table, the whole or each stratum, the moments of its features and what is promised of the
    # masked ones
    masked: list[Target]
    # Columns of features whose values are not those that are promised of the original ones (those of `data_shuffle`:
    # averaged by rank), in any order; None where that is not promised
    columns_changed: int | None
    fewest_alike: int | None  # Fewest rows of a partition alike in all synthetic columns; None: not promised
    groups: KeptGroups | None = None  # What became of groups that span partitions; None where there are none

    @cached_property
    def whole(self) -> Target:
        """The promise for the table, which follows from those for its strata."""
        original = merge_all([target.original for target in self.masked])
        guaranteed = [(target.original, target.expected) for target in self.masked if target.expected is not None]
        drawn = [target.drawn for target in self.masked if target.drawn is not None]
        return Target(
            original,
            expect_together(guaranteed) if len(guaranteed) == len(self.masked) else None,
            drawn=np.sum(drawn, axis=0) if drawn else None,
        )

    @property
    def strata(self) -> list[Target]:
        """The promise for each stratum that is masked as a table of its own; empty where the whole table is."""
        return self.masked if len(self.masked) > 1 else []

    @property
    def scopes(self) -> list[int]:
        """What is masked as one table, of each stratum where strata are."""
        return list(range(len(self.masked)))


@dataclass(frozen=True)
class Rounded:
    """What was done to the counts of a register that grows."""

    base: int  # To multiples of which counts of categories and nulls were rounded, in each part
    withheld: int  # Made records that were written nowhere, at most three times the base in a stratum
    parts: int  # Of the stratum with most

    def share(self, rows: float, strata: int, categories: IntArray | int) -> FloatArray:
        """Five deviations of the commonest category's share, which takes the others' roundings (base² / 6 each)."""
        others = np.maximum(np.asarray(categories, dtype=np.float64) - 1.0, 1.0)
        return np.asarray(5.0 * self.base * np.sqrt(others / 6.0 * self.parts * strata) / rows)

    def without(self, rows: float, strata: int) -> float:
        """How far withheld records lead a mean, in standard deviations: five standard deviations of their sum."""
        return float(5.0 * np.sqrt(3.0 * self.base * strata) / rows)

    def by_chance(self, rows: float, strata: int) -> float:
        """The same of the product of a category's dummy and another column, by the records that change category."""
        return float(5.0 * np.sqrt(self.base * self.parts * strata) / rows)


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured in a run; lists hold one entry a stratum."""

    rows_in: int
    rows_held_out: int
    rows_dropped: int
    rows_out: int
    rows_under_k: int
    unchanged_records: int
    equal_by_chance: int
    chance_variance: int
    suppressed: tuple[float, str]
    handed_on: tuple[int, str]
    unchanged: tuple[str, ...]
    released_names: tuple[str, ...]
    forbidden_names: tuple[str, ...]
    beyond_limits: int
    files: int
    view: ReleaseView
    feature_columns: tuple[int | None, ...]  # Feature column that each variable of the view is released from
    splits_ties: bool  # Whether equal values were encoded at random scores
    original: list[PairwiseMoments]
    released: list[PairwiseMoments]
    synthesized: list[Moments]
    by: GroupEvidence | MaskEvidence
    staging_check: StagingCheck
    rules_broken: int | None = None  # Rows that break a rule, added up over rules; None without rules
    # By column: records to which repairs by rules gave another value, and values that they replaced (`Kept.moved`)
    moved: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # Largest difference of the shares of units with at most so many rows, and its limit; None without whole units
    lengths_off: tuple[float, float] | None = None
    order_off: tuple[float, float] | None = None  # The same of the order of linked rows
    weights_off: float | None = None  # Of sums of survey weights, in standard errors of a sum; None without weights
    rounded: Rounded | None = None  # None where counts are kept
    unpreserved_moments: tuple[str, ...] = ()  # Columns whose mean is known not to be the original's
    record: str = "row"  # What a row of the measures is: a row, or a unit
    unpublished: frozenset[str] = frozenset()  # Columns of the records that no published row holds, or as a difference
    unit_rows: int | None = None  # Rows that hold k units, whichever they are; None where each row is a unit
    values_matched: bool = False  # Whether scores were mapped to the values' covariances (`encoding.matching`)
    rounded_below: int = 0  # Nulls or values of a number in a stratum, of which fewer are rounded at random; 0 for none
    kept: Sequence[float] = ()  # Records that equal their own, and by chance; empty where none is one person's

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Of each feature column the table's column that is released from it; empty for none."""
        width = len(self.by.whole.original.mean)
        names = dict(zip(self.feature_columns, (variable.column for variable in self.view.variables), strict=True))
        return tuple(names.get(at, "") for at in range(width))

    def scanned(self, scope: int | None = None) -> Scanned:
        """What the scan of the input says of the table's variables, or of those of the strata of a scope."""
        tally = self.staging_check.table
        if scope is not None:
            strata = zip(self.staging_check.strata, self.by.scopes, strict=True)
            tally = merge_all([stratum for stratum, own in strata if own == scope])
        return Scanned.of(tally, self.view, self.staging_check.filled)


def judge(evidence: Evidence, k: int, limits: Limits) -> Verdict:
    """All checks of a run."""
    checks = [
        *_counts(evidence, k, limits),
        *evidence.staging_check.checks(),
        *(_classes(evidence.by) if isinstance(evidence.by, GroupEvidence) else []),
        *_unchanged(evidence, k, limits),
        *_before_decoding(evidence),
        *_written(evidence, limits),
    ]
    return Verdict(tuple(checks), _notes(evidence))


def _counts(evidence: Evidence, k: int, limits: Limits) -> list[Check]:
    files = {"files": evidence.files}
    withheld = 0 if evidence.rounded is None else evidence.rounded.withheld
    lost = abs(evidence.rows_in - evidence.rows_held_out - evidence.rows_dropped - withheld - evidence.rows_out)
    share, column = evidence.suppressed
    forbidden = len(set(evidence.released_names) & set(evidence.forbidden_names))
    return [
        held("rows.lost", lost, 0, about={**files, "held_out": evidence.rows_held_out > 0}),
        *_sizes(evidence, k),
        held("columns.forbidden", forbidden, 0, about=files),
        held("local_suppression", share, limits["local_suppression_rate"], columns=(column,) if column else ()),
        held("values.beyond", evidence.beyond_limits, 0, about=files),
        *([] if evidence.rules_broken is None else [held("rules.broken", evidence.rules_broken, 0, about=files)]),
        *([] if evidence.lengths_off is None else [held("units.rows", *evidence.lengths_off, about=files)]),
        *([] if evidence.order_off is None else [held("units.order", *evidence.order_off, about=files)]),
        *([] if evidence.weights_off is None else [held("weights.sums", evidence.weights_off, SUMS_OFF, about=files)]),
    ]


SUMS_OFF = 0.5  # Of a sum of weights, in its standard errors: so much adds an eighth to its root mean square error


def _sizes(evidence: Evidence, k: int) -> list[Check]:
    """Sizes of groups, or of sets of equal rows where a masker promises them."""
    by = evidence.by
    if isinstance(by, GroupEvidence):
        if by.smallest_units is not None:
            whole = [] if by.split_units is None else [held("units.split", by.split_units, 0)]
            about = {"rows": by.smallest_group}
            return [held("group.smallest", by.smallest_units, k, unit="units", about=about), *whole]
        return [held("group.smallest", by.smallest_group, k)]
    if by.groups is not None:
        return by.groups.checks(evidence.unit_rows or k, len(set(evidence.feature_names) - {""}))
    return [] if by.fewest_alike is None else [held("alike.fewest", by.fewest_alike, k)]


def _classes(by: GroupEvidence) -> list[Check]:
    """Conditions on the sensitive values in groups, which are released: one line a class column and condition."""
    checks, asked = [], by.asked
    for name, disclosure in by.classes.items():
        if asked.l_diversity is not None:
            measured = disclosure.smallest_distinct if asked.diversity == "distinct" else disclosure.smallest_entropy_l
            about = {"column": name, "diversity": asked.diversity}
            checks.append(held("sensitive.l_diversity", measured, asked.l_diversity, about=about))
        if asked.t_closeness is not None:
            in_order, apart = disclosure.largest_ordered, disclosure.largest_total_variation
            measured = in_order if asked.closeness == "ordered" else apart
            about = {"column": name, "closeness": asked.closeness}
            checks.append(held("sensitive.t_closeness", measured, asked.t_closeness, about=about))
    return checks


def _unchanged(evidence: Evidence, k: int, limits: Limits) -> list[Check]:
    names = ", ".join(evidence.unchanged) or "none"
    handed_on, column = evidence.handed_on
    files = {"files": evidence.files, "k": k, "whom": "records" if evidence.unit_rows is None else "units"}
    inside = "group" if isinstance(evidence.by, GroupEvidence) else "partition"
    chance = evidence.equal_by_chance + mean_limit(np.sqrt(np.array(evidence.chance_variance, dtype=float)), CHANCE)
    equal = max(0.0, evidence.unchanged_records - float(chance)) / max(1, evidence.rows_out)
    columns, least = (column,) if column else (), evidence.unit_rows or k
    tables = merge_all(evidence.original), merge_all(evidence.released)
    small_cells = SmallCellCounts.of(*tables, evidence.view, least, evidence.unpublished)
    return [
        held("keys.rare", evidence.rows_under_k, limits["rows_under_k"], about={**files, "names": names}),
        held("values.handed_on", handed_on, 0, about=files, columns=columns),
        held("cells.exact", small_cells.excess, limits["exact_small_cells"], about=files),
        held("records.unchanged", equal, limits["unchanged_record_rate"], about={**files, "inside": inside}),
        *([hold_kept(evidence.kept, evidence.rows_out)] if evidence.kept else []),
    ]


def hold_kept(kept: Sequence[float], rows: int, **given: Any) -> Check:
    """The check on records that equal their own beyond chance, by Cohen's kappa; `kept`: so many, and by chance."""
    same, by_chance = kept
    return held("records.kept", max(0.0, same - by_chance) / max(1.0, rows - by_chance), MOST_KEPT, **given)


def _before_decoding(evidence: Evidence) -> list[Check]:
    """Hold the synthetic features against what the method promises: in the whole table, and in each stratum."""
    by, names = evidence.by, evidence.feature_names
    checks = against_expectation(Scope.TABLE, by.whole, merge_all(evidence.synthesized), names)
    if by.strata:
        pairs = zip(by.strata, together(evidence.synthesized, by.scopes), strict=True)
        checks += worst([against_expectation(Scope.STRATUM, target, made, names) for target, made in pairs])
    if isinstance(by, MaskEvidence) and by.columns_changed is not None:
        checks.append(held("expectation.columns", by.columns_changed, 0))
    return checks


def _written(evidence: Evidence, limits: Limits) -> list[Check]:
    """Hold the written rows against the original: what the method takes plus what decoding may add."""
    by = evidence.by
    both = merge_all(evidence.original), merge_all(evidence.released)
    whole = ComparedMoments(evidence, Scope.TABLE, *both, by.whole, evidence.scanned())
    checks = _differences(whole, limits) + _without_limit(whole)
    if by.strata:
        scopes = sorted(set(by.scopes))
        scanned = [evidence.scanned(scope) for scope in scopes]
        strata = [tuple(at for at, own in enumerate(by.scopes) if own == scope) for scope in scopes]
        moments = together(evidence.original, by.scopes), together(evidence.released, by.scopes)
        tables = zip(*moments, by.strata, scanned, strata, strict=True)
        checks += worst([_moments(ComparedMoments(evidence, Scope.STRATUM, *table), limits) for table in tables])
    return checks


@dataclass(frozen=True)
class ComparedMoments:
    """A table, or the `strata` that are masked as one, before and after, with what is promised of it."""

    evidence: Evidence
    scope: Scope
    original: PairwiseMoments
    released: PairwiseMoments
    target: Target
    scanned: Scanned
    strata: tuple[int, ...] | None = None

    @property
    def view(self) -> ReleaseView:
        """The variables."""
        return self.evidence.view

    @property
    def mean(self) -> FloatArray:
        """Means of the original: those of the scan where it has them, shape (n_variables,)."""
        return _known_or(self.scanned.mean, self.original.mean)

    @property
    def null_share(self) -> FloatArray:
        """Shares of nulls of the original: those of the scan where it has them, shape (n_variables,)."""
        return _known_or(self.scanned.null_share, self.original.null_share)

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of the original, the variances being those of the scan where it has them."""
        covariance = self.original.covariance.copy()
        np.fill_diagonal(covariance, _known_or(self.scanned.variance, np.diag(covariance)))
        return covariance

    @cached_property
    def scale(self) -> FloatArray:
        """Standard deviations of the original, 1 for a constant, shape (n_variables,)."""
        scale = np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))  # a constant may come out below zero
        return np.where(scale > 0, scale, 1.0)

    @cached_property
    def mean_off(self) -> FloatArray:
        """Differences of means beyond what is known of them, in standard deviations; none where few were left out."""
        known = () if self._grouped else (self._known_mean,)
        beyond = _beyond(self.released.mean, self.mean, *known) / self.scale
        few = (np.diag(self.original.n) < _FEW) & (np.diag(self.released.n) == 0)
        return np.where(few, 0.0, beyond)

    @cached_property
    def covariance_off(self) -> FloatArray:
        """Differences of covariances beyond what is known of them, in standard deviations; none of a few records."""
        beyond = _beyond(self.released.covariance, self.covariance, *(() if self._grouped else self._known))
        beyond[(self.original.n < 2) | (self.original.n < _FEW) & (self.released.n < 2)] = 0.0
        return np.asarray(beyond / np.outer(self.scale, self.scale))

    @property
    def _grouped(self) -> bool:
        """Whether records are of groups, which lose more than scores do: what is known widens their limits."""
        return isinstance(self.evidence.by, GroupEvidence)

    @property
    def _known_mean(self) -> FloatArray:
        return _known_or(self._released_scores[0], self.mean)

    def against(self, key: str, off: FloatArray, limit: FloatArray | float, *which: BoolArray, **given: Any) -> Check:
        """Differences against their limits; `which` variables of the view they are of, one array an axis."""
        columns = np.array([variable.column for variable in self.view.variables])
        about = {
            "files": self.evidence.files,
            "probabilities": bool(self.view.probability.any()),
            "lost": ", ".join(map(repr, self.evidence.unpreserved_moments)),
        }
        names = [columns[each].tolist() for each in which]
        given |= {"about": about, "records": int(self.released.rows)}
        return worst_entry(scoped(key, self.scope), off, limit, names, **given)

    @cached_property
    def allowance(self) -> tuple[FloatArray, FloatArray]:
        """What the method may change of means and covariances; without a feature, the most of the other's."""
        mean, covariance = self.target.allowance
        width = len(mean)
        at = np.array([width if column is None else column for column in self.evidence.feature_columns])
        padded = np.zeros((width + 1, width + 1))
        padded[:width, :width] = covariance
        padded[:width, width] = padded[width, :width] = covariance.max(axis=0, initial=0.0)
        rounded_mean, rounded = self._rounded
        # What small cells of masked and unchanged categories, as they were drawn, take of covariances
        masked, view, sd = np.append(self.target.drawn_with_keys, 0.0)[at], self.view, self.scale * self.view.sd
        drawn = np.outer(masked, np.where(view.indicator & ~view.synthesized, 1.0 / np.where(sd > 0, sd, 1.0), 0.0))
        covariances = padded[np.ix_(at, at)] + rounded + drawn + drawn.T
        means = np.append(mean, 0.0)[at] + rounded_mean
        if self._grouped:
            known = np.max([_apart(each, self.covariance) for each in self._known], axis=0)
            means = means + np.nan_to_num(np.abs(self._known_mean - self.mean)) / self.scale
            covariances = covariances + np.nan_to_num(known) / np.outer(self.scale, self.scale)
        return means, covariances

    @property
    def _table(self) -> tuple[float, int]:
        """Rows, and strata."""
        return max(1.0, float(self.original.rows)), len(self.evidence.original if self.strata is None else self.strata)

    @cached_property
    def rounded_share(self) -> FloatArray:
        """How far rounding may lead the share of each variable's category, shape (n_variables,)."""
        view = self.view
        if self.evidence.rounded is None:
            return np.zeros(len(view.variables))
        columns = [variable.column for variable in view.variables]
        each = Counter(column for column, one in zip(columns, view.indicator, strict=True) if one)
        categories = np.array([each[column] for column in columns])
        return self.evidence.rounded.share(*self._table, categories)

    @property
    def rounded_nulls(self) -> FloatArray:
        """How far few nulls or values of strata, rounded at random, may lead the share of nulls, (n_variables,)."""
        every, k = self.evidence.original, self.evidence.rounded_below
        strata = every if self.strata is None else [every[at] for at in self.strata]
        counts = np.array([(np.diag(each.n), each.rows - np.diag(each.n)) for each in strata])  # (n, 2, n_variables)
        return np.asarray(k * ((counts > 0) & (counts < k)).any(axis=1).sum(axis=0) / self._table[0])

    @cached_property
    def withheld(self) -> float:
        """How far withheld records may lead a mean, in standard deviations."""
        return 0.0 if self.evidence.rounded is None else self.evidence.rounded.without(*self._table)

    @property
    def _rounded(self) -> tuple[FloatArray, FloatArray]:
        """What rounding and withholding take of means and covariances, in standard deviations."""
        # The share of a category by which it moved is known from the release, and has a limit of its own. The
        # category's variance moves by one over its deviation for each deviation of the share. A covariance moves as far
        # as the records that changed category are unlike others: by a deviation of the other column, and by chance.
        rounded, view = self.evidence.rounded, self.view
        if rounded is None:
            return np.zeros(len(view.variables)), np.zeros((len(view.variables), len(view.variables)))
        sd, table = self.scale * view.sd, self._table
        one_over = np.where(view.indicator, 1.0 / np.where(sd > 0, sd, 1.0), 0.0)
        withheld, mean = self.withheld, self.rounded_share * one_over
        moved = np.where(view.indicator, np.nan_to_num(np.minimum(self.mean_off, mean + withheld)), 0.0)
        covariance = np.add.outer(*2 * [moved + rounded.by_chance(*table) * one_over]) + 2.0 * withheld
        return mean + withheld, covariance + np.diag(moved * one_over)

    @property
    def _known(self) -> tuple[FloatArray, FloatArray]:
        """Covariances that normal scores are known to release, by their values and by their scores."""
        # Records of one released value have scores S' in a range: equal values share one, and so do the k records of a
        # mean. Let M be the mean scores of the original's values, of variance v (1 without ties). Let M' be those of
        # the release, v' their variance and g = cov(M', S'), all known before any draw
        # (`ScoredColumn.released_scores`). A method keeps the covariance c of its input with some T. If its output is
        # jointly normal, with S' its own score, then cov(M', T') = cov(S', T') g.
        #
        # Where ties are split at random the input is M + E, of variance 1, and c = cov(M, T) = cov(S', T'): g of it is
        # left. Where ties have their middle, the input is M, and S' is the output divided by sqrt(v): g / sqrt(v) of it
        # is left. Of two such columns the product of both is left, and all of it where scores were matched to values.
        # The variance is v', and not v. What lies between the original's covariance and both is as it should be.
        _, own, _ = self._released_scores
        ratio = _known_or(np.sqrt(np.maximum(own, 0.0)) / self.scale, np.ones(len(own)))
        of_values = self.covariance * np.outer(ratio, ratio)
        of_scores = self.covariance * np.outer(self._kept, self._kept)
        if self.evidence.values_matched:
            both = np.outer(*2 * [np.array([each.scored for each in self.view.variables], dtype=bool)])
            of_scores[both] = of_values[both]
        np.fill_diagonal(of_scores, np.where(np.isnan(own), np.diag(of_scores), np.diag(of_values)))
        return of_values, of_scores

    @cached_property
    def _released_scores(self) -> FloatArray:
        """Of each variable `ScoredColumn.released_scores`, NaN of those without, shape (3, n_variables)."""
        view = self.view
        scored = {} if view.scores is None else view.scores.by_position()
        columns = [scored.get(each.position) if each.scored else None for each in view.variables]
        found = [[np.nan] * 3 if column is None else column.released_scores(self.strata) for column in columns]
        return np.array(found, dtype=np.float64).reshape(-1, 3).T

    @property
    def _kept(self) -> FloatArray:
        """What is left of the scores of each variable in what is released; 1 of others, shape (n_variables,)."""
        _, _, left = self._released_scores
        return _known_or(left / (1.0 if self.evidence.splits_ties else self.scale), np.ones(len(left)))

    @property
    def _share(self) -> FloatArray:
        """Share of the records in the category that a variable indicates, shape (n_variables,); nothing of numbers."""
        centre = np.array([each.mean for each in self.view.variables])
        return np.asarray(np.clip(centre + self.view.sd * np.nan_to_num(self.mean), 0.0, 1.0))

    @property
    def _correlation(self) -> FloatArray:
        return np.asarray(np.nan_to_num(np.abs(self.covariance) / np.outer(self.scale, self.scale)))

    @cached_property
    def reach(self) -> FloatArray:
        """How near decoding gets to each two variables' covariance where records are synthetic, in sd x sd.

        0 where each record has the categories and nulls of its group. Synthetic records get new ones, and with few
        records not all covariances can be met. With n records of the pair among N, in standard deviations:

        - A category at random moves a covariance by 1 / sqrt(n), and that of two categories by the error of a count
          with given margins (noncentral hypergeometric). Exchanges remove all but `PLACED` of it where they have the
          choice: m records of a category (or out of it) have about m choices for its w covariances, and w / (w + m) is
          left. Positions of an ordinal are exchanged for their own covariances alone: all is left of its categories.
        - Of a score its value has only the range (`_known`): a sum of n draws of variance 1 - kept² is lost.
        - A correlation of n draws and that of their normal scores differ by `RANKED` / n.
        - Of records to which a rule gave another value the product is that of another draw.
        - With nulls the pair is counted on n of N records, before and after: on both sides the covariance of a random
          subset has the variance (1 + r²)(1 / n - 1 / N).

        The largest of all pairs is beyond the limit once in 1 / `REACHED` runs, if these were normal. At last a
        category moves by whole records: one record in both of two categories of standard deviations s and t is
        1 / (n s t), a record in one of them and a number's standard deviation 1 / (n s).
        """
        view, n = self.view, np.maximum(self.original.n, 2)
        if self.evidence.splits_ties:
            return np.zeros(n.shape)
        scored = np.array([each.scored for each in view.variables], dtype=bool)
        kept, indicator = np.clip(self._kept, 0.0, 1.0), view.indicator
        placed, ranked = np.logical_or.outer(indicator, indicator), np.logical_or.outer(scored, scored)
        wanted = int(view.synthesized.sum())
        few = self.original.rows * np.minimum(self._share, 1.0 - self._share)
        left = np.where(indicator, np.maximum(np.square(wanted / (wanted + few)), PLACED**2), 0.0)
        left[view.of_ordinal] = 1.0
        most_left = np.maximum.outer(left, left)
        variance = (most_left * self._joint + 1.0 - np.square(np.outer(kept, kept))) / n
        variance += ranked * np.square(RANKED / n)
        moved, twice = self._moved[0], 2.0 * (1.0 + np.square(self._correlation))
        variance += twice * np.maximum.outer(moved, moved) / n
        variance += twice * np.maximum(1.0 / n - 1.0 / max(self.original.rows, 2), 0.0)
        own = np.where(indicator, self.scale * view.sd, 1.0)
        record = placed / (n * np.outer(own, own))
        pairs = len(kept) * (len(kept) + 1) // 2 * max(1, len(self.evidence.by.strata))
        skewed = np.outer(indicator, indicator) * most_left * skewness_quantile(REACHED / pairs)
        return np.asarray(mean_limit(np.sqrt(variance), REACHED / pairs) + (1.0 + skewed) * record)

    @property
    def reach_of_means(self) -> FloatArray:
        """How near repairs by rules get to each mean, in standard deviations: what they replace is another draw."""
        n, replaced = np.maximum(np.diag(self.original.n), 2), self._moved[1]
        return mean_limit(np.sqrt(2.0 * replaced / n), REACHED / max(1, len(n)))

    @property
    def _moved(self) -> FloatArray:
        """`Evidence.moved` as shares of the records that have a value, shape (2, n_variables)."""
        there = np.sum([np.diag(each.n) for each in self.evidence.released], axis=0)
        counts = [self.evidence.moved.get(each.column, (0, 0)) for each in self.view.variables]
        return np.asarray(np.minimum(np.transpose(counts) / np.maximum(there, 1), 1.0))

    @property
    def _joint(self) -> FloatArray:
        """Variance of records in both of two categories over that of independent ones, at least 1."""
        view, share = self.view, self._share
        covariance = np.nan_to_num(self.covariance) * np.outer(view.sd, view.sd)
        ratio = joint_variance(share[:, None], share, covariance)
        square = np.square(np.outer(self.scale * view.sd, self.scale * view.sd))
        ratio /= np.where(square > 0, square, 1.0)
        return np.where(np.outer(view.indicator, view.indicator), np.maximum(ratio, 1.0), 1.0)


def _moments(compared: ComparedMoments, limits: Limits) -> list[Check]:
    """Each mean and covariance of the masked columns against its own limit."""
    view = compared.view
    made, valued = view.synthesized, view.synthesized & ~view.probability
    allowed_mean, allowed = compared.allowance
    allowed_mean = allowed_mean + compared.reach_of_means
    block = np.ix_(valued, valued)
    limit = allowed[block] + np.maximum(limits["covariance"], compared.reach[block])
    return [
        compared.against("mean", compared.mean_off[made], allowed_mean[made] + limits["mean"], made),
        compared.against("covariance", compared.covariance_off[block], limit, valued, valued),
    ]


def _differences(compared: ComparedMoments, limits: Limits) -> list[Check]:
    """Each mean, covariance and share of the written rows against its own limit."""
    view = compared.view
    made, own_unit = view.synthesized, view.own_unit
    kept = ~made & ~own_unit & ~view.derived
    valued, category = made & ~view.probability, made & view.indicator
    share = _apart(compared.released.mean, compared.mean)[category] * view.sd[category]
    null = np.abs(compared.released.null_share - compared.null_share)
    with_nulls = zip(view.variables, compared.null_share > 0, strict=True)
    columns = {variable.column for variable, any_null in with_nulls if any_null and variable.synthesized}
    rounded = compared.rounded_share + compared.withheld / 2.0  # a share's deviation is a half at most
    every, null_limit = ~view.derived, limits["null_share"] + rounded + compared.rounded_nulls
    checks = [
        *_moments(compared, limits),
        compared.against("category_share", share, limits["category_share"] + rounded[category], category),
        compared.against("null_share", null[every], null_limit[every], every, compared=len(columns)),
        *_in_unit(compared, limits),
    ]
    if kept.any():
        block = np.ix_(valued, kept)
        limit = compared.allowance[1][block] + np.maximum(limits["covariance_with_keys"], compared.reach[block])
        checks.append(compared.against("covariance.keys", compared.covariance_off[block], limit, valued, kept))
    return checks


def _in_unit(compared: ComparedMoments, limits: Limits) -> list[Check]:
    """Means of columns that are masked on another scale, and variances of those that are masked by normal scores."""
    # Normal scores release values that are known before any draw, but for their order
    # (`ScoredColumn.released_moments`). Mean and variance are held against these: from the original's a top-coded
    # extreme could be computed. Neither depends on chance, so that the limits are the job's alone, but for values that
    # repairs by rules replace (a square has twice a normal value's variance), and for records that are to be equal:
    # they share the middle of their positions, and may lose as much variance as their method takes of the scores'.
    # The mean of logarithms is compared with the original's, and their variance is not.
    own_unit, known = compared.view.own_unit, ~np.isnan(compared.view.known_variance)
    found, by_rules = [], compared.reach_of_means
    if own_unit.any():
        off = np.where(known, np.abs(compared.released.mean), compared.mean_off)
        limit = limits["mean_in_unit"] + by_rules
        found.append(compared.against("mean.own_unit", off[own_unit], limit[own_unit], own_unit))
    if known.any():
        off = _apart(np.diag(compared.released.covariance), compared.view.known_variance)
        by = compared.evidence.by
        taken = np.diag(compared.allowance[1]) if isinstance(by, GroupEvidence) and by.identical else 0.0
        limit = limits["variance_in_unit"] + taken + np.sqrt(2.0) * by_rules
        found.append(compared.against("variance.own_unit", off[known], limit[known], known))
    return found


def _without_limit(compared: ComparedMoments) -> list[Check]:
    """What is measured and held against no limit."""
    view = compared.view
    if not view.probability.any():
        return []
    column = np.array([variable.position for variable in view.variables])
    others = np.outer(view.probability, ~view.own_unit & ~view.derived) & (column[:, None] != column[None, :])
    off = _apart(compared.released.covariance, compared.covariance) / np.outer(compared.scale, compared.scale)
    largest = float(np.max(off[others], initial=0.0))  # NaN, which fails, where one is missing
    columns = len({variable.column for variable in view.variables if variable.synthesized})
    given: dict[str, Any] = {"about": {"files": compared.evidence.files}, "records": compared.released.rows}
    return [held("covariance.probabilities", largest, None, compared=columns, **given)]


def joint_variance(share: FloatArray, other: FloatArray, covariance: FloatArray) -> FloatArray:
    """Variance of the count of records in both of two categories with given margins, over the number of records."""
    # That of Fisher's noncentral hypergeometric law, by the harmonic sum of the four expected counts (Cornfield 1956).
    signs = ((1, share, other), (-1, share, 1 - other), (-1, 1 - share, other), (1, 1 - share, 1 - other))
    cells = (np.maximum(sign * covariance + one * two, 1e-300) for sign, one, two in signs)
    return np.asarray(1.0 / sum(1.0 / cell for cell in cells))


def skewness_quantile(chance: float) -> float:
    """How far beyond the normal quantile a Poisson count lies, in records (Cornish-Fisher, second term)."""
    return float((mean_limit(np.ones(1), chance)[0] ** 2 - 1.0) / 6.0)


def _apart(released: FloatArray, original: FloatArray) -> FloatArray:
    """Differences in size; none where neither has a value, as of a column that is null in a whole stratum."""
    return np.where(np.isnan(released) & np.isnan(original), 0.0, np.abs(released - original))


def _beyond(released: FloatArray, original: FloatArray, *known: FloatArray) -> FloatArray:
    """How far released moments are off the interval from the original's to the known ones; none where neither is."""
    ends = np.stack([original, *known])
    off = np.maximum(ends.min(axis=0) - released, released - ends.max(axis=0))
    return np.where(np.isnan(released) & np.isnan(original), 0.0, np.maximum(off, 0.0))


def _known_or(known: FloatArray, other: FloatArray) -> FloatArray:
    """What is known, and elsewhere the other."""
    return np.where(np.isnan(known), other, known)


def _notes(evidence: Evidence) -> tuple[str, ...]:
    by = evidence.by
    notes = _of_groups_in_words(by) if isinstance(by, GroupEvidence) else _of_mask_in_words(by)
    if evidence.view.probability.any():
        names = dict.fromkeys(each.column for each in evidence.view.variables if each.probability)
        notes.append(
            f"released as probabilities of categories: {', '.join(names)}. Shares are held against those of the "
            "original; covariances are reported, and held against no limit after decoding: a logit makes them smaller. "
            "A reader who undoes it has the masked dummies, so that even 0.73 can be certainty where little was masked"
        )
    if evidence.rows_held_out:
        notes.append(
            f"{evidence.rows_held_out:,} of {plural(evidence.rows_in, evidence.record)} were held out "
            "(measure.hold_out) and are in no release"
        )
    return (
        *notes,
        "limits on the written rows are, entry by entry, the method's own bias and what chance leads to once in "
        f"{1 / CHANCE:,.0f} runs, plus the job's gates for what steps, bounds, categories and nulls add; of normal "
        "scores what is off counts beyond the moments that their values are known to have; the entry is shown that "
        "comes nearest to its limit",
    )


def _of_groups_in_words(by: GroupEvidence) -> list[str]:
    whole = merge_all(by.grouped)
    loss = 100.0 * np.trace(whole.within) / max(np.trace(whole.total.scatter), np.finfo(float).tiny)
    bound = "averaged over several groupings"
    if by.bound is not None:
        sampled = f" of {by.bound.sampled} records, confidence {CONFIDENCE:.0%}" if by.bound.sampled is not None else ""
        how = f"exact neighbours{sampled or ' of every record'}"
        bound = f"lower bound of any grouping with this k {by.bound.percent:.2f} % ({how})"
    notes = [
        f"group centroids keep {100 - loss:.2f} % of the variance of the features (z-scores and -1/+1 indicators); "
        f"information loss of the grouping {loss:.2f} %, {bound}",
        *(
            f"sensitive {name!r}: {100 * one.homogeneous_share:.2f} % of the records are in groups with one value, "
            f"chi-square {one.chi_square:.3g}, mean Jensen-Shannon divergence {one.mean_divergence:.3g}, fewest values "
            f"in a group {one.smallest_distinct}, largest distance from the table's shares "
            f"{one.largest_total_variation:.3g}"
            for name, one in by.classes.items()
        ),
    ]
    shared = [scope for scope in by.scopes if by.scopes.count(scope) > 1]
    if by.guarantee.scope != "table" and shared:
        notes.append(
            f"{len(shared)} of {len(by.scopes)} strata share the covariance of their noise, as each has too few "
            "records beyond their groups; means and covariances are expected of these strata together, not of each"
        )
    if not by.identical:
        whom = "records" if by.smallest_units is None else "units"
        notes.append(f"groups have at least k {whom}; that is not k-anonymity of the release")
    if by.largest_share is not None:
        notes.append(f"of the records of a group up to {100 * by.largest_share:.0f} % are of one unit")
    return notes


def _of_mask_in_words(by: MaskEvidence) -> list[str]:
    if not len(by.whole.original.mean):
        return ["no column is masked: released rows are those of persons"]
    if by.fewest_alike is not None:
        notes = [
            f"{by.method} makes sets of k or more rows that are alike in all synthetic columns; key variables "
            "distinguish the rows of a set"
        ]
    elif by.groups is not None:
        notes = [
            f"{by.method} formed {len(by.groups.sizes)} groups across partitions, the smallest of "
            f"{min(by.groups.sizes):,} records; that is not k-anonymity of the release"
        ]
    else:
        notes = [
            f"{by.method} masks {'each stratum' if by.strata else 'the whole table'} and forms no groups: k governs "
            "the suppression of rare categories and the combinations of key variables, and nothing else"
        ]
    if by.whole.expected is None:
        notes.append(
            f"means and covariances after {by.method} have no known expectation: only the written rows are compared"
        )
    return notes
