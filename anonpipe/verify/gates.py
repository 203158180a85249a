"""Gates: from what was measured to the lines of the verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.cluster import CONFIDENCE, ClassDisclosure, LossBound
from anonpipe.mask import expect_together
from anonpipe.moments import GroupedMoments, GroupSpread, Moments, PairwiseMoments, merge_all, together
from anonpipe.verify.arrived import Arrived, Scanned
from anonpipe.verify.kept_groups import KeptGroups
from anonpipe.verify.promises import CHANCE, Promise, Target, against_promise, of_groups, worst
from anonpipe.verify.verdict import Check, Held, Outcome, Verdict, at_least, at_most, each_at_most
from anonpipe.verify.view import View

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """The limits that the job declares; see the job's `gates`."""

    mean: float
    covariance: float
    covariance_unchanged: float
    category_share: float
    null_share: float
    rows_under_k: int
    share_as_they_were: float
    suppressed_share: float
    mean_in_unit: float = 0.1


@dataclass(frozen=True)
class ClassConditions:
    """What the job asks of the classes in every group; see the job's `classes`."""

    l_diversity: float | None
    diversity: str
    t_closeness: float | None
    closeness: str


@dataclass(frozen=True)
class GroupEvidence:
    """What was measured of groups, and what their synthesizer promises; lists hold one entry a stratum.

    `scopes` tells of each stratum the scope of its noise: small strata may
    share one, and are then held together against what is promised.
    """

    promise: Promise
    asked: ClassConditions
    smallest_group: int
    grouped: list[GroupedMoments]
    spread: list[GroupSpread] | None
    bound: LossBound | None
    classes: dict[str, ClassDisclosure]
    scopes: list[int]

    @property
    def whole(self) -> Target:
        """The promise for the table."""
        spread = together(self.spread, self.scopes) if self.spread else None
        return of_groups(together(self.grouped, self.scopes), spread, self.promise)

    @property
    def strata(self) -> list[Target]:
        """The promise for each stratum, where it is promised; of those that share a scope the promise for it."""
        grouped = together(self.grouped, self.scopes)
        if not self.promise.strata or len(grouped) < 2:
            return []
        spreads = [[each] for each in together(self.spread, self.scopes)] if self.spread else [None] * len(grouped)
        pairs = zip(grouped, spreads, strict=True)
        return [of_groups([one], spread, self.promise, len(grouped)) for one, spread in pairs]


@dataclass(frozen=True)
class MaskEvidence:
    """What was measured of a masker, which forms no groups beforehand.

    Attributes
    ----------
    method
        Its name.
    masked
        Of what is masked as one table, the whole or each stratum, the moments
        of its points and what is promised of the masked ones.
    columns_changed
        Columns of points whose values are not those that are promised of the
        original ones (those of `data_shuffle`: averaged by rank), in any order; None where that is not promised.
    fewest_alike
        Fewest rows that are alike in all synthetic columns, in a partition;
        None where that is not promised.
    groups
        What became of groups that span partitions; None where there are none.
    """

    method: str
    masked: list[Target]
    columns_changed: int | None
    fewest_alike: int | None
    groups: KeptGroups | None = None

    @property
    def whole(self) -> Target:
        """The promise for the table, which follows from those for its strata."""
        original = merge_all([target.original for target in self.masked])
        promised = [(target.original, target.expected) for target in self.masked if target.expected is not None]
        return Target(original, expect_together(promised) if len(promised) == len(self.masked) else None)

    @property
    def strata(self) -> list[Target]:
        """The promise for each stratum that is masked as a table of its own; empty where the whole table is."""
        return self.masked if len(self.masked) > 1 else []

    @property
    def scopes(self) -> list[int]:
        """What is masked as one table, of each stratum where strata are."""
        return list(range(len(self.masked)))


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured in a run; lists hold one entry a stratum.

    `point_columns` tells of each variable of the view which column of points
    it is released from; None where there is none.
    """

    rows_in: int
    rows_held_out: int
    rows_dropped: int
    rows_out: int
    rows_under_k: int
    rows_as_they_were: int
    suppressed_share: float
    handed_on: tuple[int, str]
    unchanged: tuple[str, ...]
    released_names: tuple[str, ...]
    forbidden_names: tuple[str, ...]
    beyond_limits: int
    files: int
    view: View
    point_columns: tuple[int | None, ...]
    original: list[PairwiseMoments]
    released: list[PairwiseMoments]
    synthesized: list[Moments]
    by: GroupEvidence | MaskEvidence
    arrived: Arrived

    def scanned(self, scope: int | None = None) -> Scanned:
        """What the scan of the input says of the table's variables, or of those of the strata of a scope."""
        tally = self.arrived.table
        if scope is not None:
            strata = zip(self.arrived.strata, self.by.scopes, strict=True)
            tally = merge_all([stratum for stratum, own in strata if own == scope])
        return Scanned.of(tally, self.view, self.arrived.filled)


def judge(evidence: Evidence, k: int, limits: Limits) -> Verdict:
    """All checks of a run.

    Parameters
    ----------
    evidence
        What was measured, and what the method promises.
    k
        Smallest permissible group.
    limits
        The job's limits on the written rows.
    """
    checks = [
        *_counts(evidence, k, limits),
        *evidence.arrived.checks(),
        *(_classes(evidence.by) if isinstance(evidence.by, GroupEvidence) else []),
        *_unchanged(evidence, k, limits),
        *_before_decoding(evidence),
        *_written(evidence, limits),
    ]
    return Verdict(tuple(checks), _notes(evidence))


def _counts(evidence: Evidence, k: int, limits: Limits) -> list[Check]:
    on = _files(evidence)
    lost = abs(evidence.rows_in - evidence.rows_held_out - evidence.rows_dropped - evidence.rows_out)
    declared = "drops and the hold-out" if evidence.rows_held_out else "drops"
    forbidden = len(set(evidence.released_names) & set(evidence.forbidden_names))
    return [
        at_most(f"rows lost or added (beyond declared {declared})", lost, 0, on, mandatory=True),
        *_sizes(evidence.by, k),
        at_most("identifier or dropped columns released", forbidden, 0, on, mandatory=True),
        at_most(
            "share of rows changed by suppression of rare categories, in the column with most",
            evidence.suppressed_share,
            limits.suppressed_share,
            "the input",
        ),
        at_most("values beyond declared bounds or steps", evidence.beyond_limits, 0, on),
    ]


def _files(evidence: Evidence) -> str:
    """The bytes that were measured, in words."""
    return f"{evidence.files:,} written file{'' if evidence.files == 1 else 's'}"


def _sizes(by: GroupEvidence | MaskEvidence, k: int) -> list[Check]:
    """Sizes of groups, or of sets of equal rows where a masker promises them."""
    if isinstance(by, GroupEvidence):
        return [at_least("smallest group", by.smallest_group, k, "all groups", unit="records", mandatory=True)]
    if by.groups is not None:
        return by.groups.checks(k)
    if by.fewest_alike is None:
        return []
    name = "fewest rows that are alike in all synthetic columns"
    return [at_least(name, by.fewest_alike, k, "all rows, after decoding", unit="rows", mandatory=True)]


def _classes(by: GroupEvidence) -> list[Check]:
    """Conditions on the classes in groups, which are released: one line a class column and condition."""
    checks, asked = [], by.asked
    for name, told in by.classes.items():
        if asked.l_diversity is not None:
            distinct = asked.diversity == "distinct"
            measured = told.smallest_distinct if distinct else told.smallest_entropy_l
            text = f"{asked.diversity} l-diversity of {name!r}, the least diverse group"
            checks.append(at_least(text, measured, asked.l_diversity, "all groups", unit="classes", mandatory=True))
        if asked.t_closeness is not None:
            ordered = asked.closeness == "ordered"
            measured = told.largest_ordered if ordered else told.largest_total_variation
            text = f"t-closeness of {name!r} ({asked.closeness.replace('_', ' ')}), the furthest group"
            checks.append(at_most(text, measured, asked.t_closeness, "all groups", mandatory=True))
    return checks


def _unchanged(evidence: Evidence, k: int, limits: Limits) -> list[Check]:
    names = ", ".join(evidence.unchanged) or "none"
    handed_on, column = evidence.handed_on
    most = f", most in column {column!r}" if column else ""
    where = "group" if isinstance(evidence.by, GroupEvidence) else "partition"
    return [
        at_most(
            f"rows whose unchanged columns ({names}) occur fewer than {k} times together",
            evidence.rows_under_k,
            limits.rows_under_k,
            _files(evidence),
            mandatory=True,
        ),
        at_most(
            f"values of masked numbers and dates that fewer than {k} records hold, released beyond chance",
            handed_on,
            0,
            f"{_files(evidence)}{most}",
            mandatory=True,
        ),
        at_most(
            f"share of rows that equal an original row of their {where} shared by fewer than {k}",
            evidence.rows_as_they_were / max(1, evidence.rows_out),
            limits.share_as_they_were,
            f"all {where}s, after decoding",
        ),
    ]


def _before_decoding(evidence: Evidence) -> list[Check]:
    """Hold the synthetic points against what the method promises: in the whole table, and in each stratum."""
    by = evidence.by
    held = against_promise("", by.whole, merge_all(evidence.synthesized))
    if by.strata:
        pairs = zip(by.strata, together(evidence.synthesized, by.scopes), strict=True)
        held += worst([against_promise(" in each stratum", target, made) for target, made in pairs])
    checks = [each.check for each in held]
    if isinstance(by, MaskEvidence) and by.columns_changed is not None:
        name, on = "columns that hold other values than promised", "synthetic points before decoding"
        checks.append(at_most(name, by.columns_changed, 0, on, mandatory=True))
    return checks


def _written(evidence: Evidence, limits: Limits) -> list[Check]:
    """Hold the written rows against the original: what the method takes plus what decoding may add."""
    by = evidence.by
    whole = Compared("", merge_all(evidence.original), merge_all(evidence.released), by.whole, evidence.scanned())
    checks = [each.check for each in _differences(whole, evidence, limits)] + _told_only(whole, evidence)
    if by.strata:
        scanned = [evidence.scanned(scope) for scope in sorted(set(by.scopes))]
        tables = together(evidence.original, by.scopes), together(evidence.released, by.scopes), by.strata, scanned
        each = [Compared(" in each stratum", *table) for table in zip(*tables, strict=True)]
        checks += [held.check for held in worst([_differences(one, evidence, limits)[:2] for one in each])]
    return checks


@dataclass(frozen=True)
class Compared:
    """A table, or a stratum, before and after, with what is promised of it; `where` ends the names of its checks."""

    where: str
    original: PairwiseMoments
    released: PairwiseMoments
    target: Target
    scanned: Scanned

    @property
    def mean(self) -> FloatArray:
        """Means of the original: those of the scan where it has them, shape (n_variables,)."""
        return _known_or(self.scanned.mean, self.original.mean)

    @property
    def null_share(self) -> FloatArray:
        """Shares of nulls of the original: those of the scan where it has them, shape (n_variables,)."""
        return _known_or(self.scanned.null_share, self.original.null_share)

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the original, the variances being those of the scan where it has them."""
        covariance = self.original.covariance.copy()
        np.fill_diagonal(covariance, _known_or(self.scanned.variance, np.diag(covariance)))
        return covariance

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the original, 1 for a constant, shape (n_variables,)."""
        scale = np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))  # a constant may come out below zero
        return np.where(scale > 0, scale, 1.0)

    @property
    def mean_off(self) -> FloatArray:
        """Differences of means, in standard deviations."""
        return _apart(self.released.mean, self.mean) / self.scale

    @property
    def covariance_off(self) -> FloatArray:
        """Differences of covariances, in standard deviations."""
        return _apart(self.released.covariance, self.covariance) / np.outer(self.scale, self.scale)

    def allowance(self, columns: tuple[int | None, ...]) -> tuple[FloatArray, FloatArray]:
        """What the method may change of each variable's mean, and of each two variables' covariance.

        A variable that is made of no column of points is allowed what the
        other variable's column is with itself or any other, whichever is most.
        """
        mean, covariance = self.target.allowance
        width = len(mean)
        at = np.array([width if column is None else column for column in columns])
        padded = np.zeros((width + 1, width + 1))
        padded[:width, :width] = covariance
        padded[:width, width] = padded[width, :width] = covariance.max(axis=0, initial=0.0)
        return np.append(mean, 0.0)[at], padded[np.ix_(at, at)]


def _differences(compared: Compared, evidence: Evidence, limits: Limits) -> list[Held]:
    """Each mean and covariance of the written rows against its own limit; mean and covariance come first."""
    view, on, where = evidence.view, _files(evidence), compared.where
    made, own_unit = view.synthesized, view.own_unit
    kept = ~made & ~own_unit
    valued = made & ~view.probability
    allowed_mean, allowed = compared.allowance(evidence.point_columns)
    mean, covariance = compared.mean_off, compared.covariance_off
    category = np.array([variable.category is not None for variable in view.variables]) & made
    sd = np.array([variable.sd for variable in view.variables])
    share = _apart(compared.released.mean, compared.mean)[category] * sd[category]
    null = np.abs(compared.released.null_share - compared.null_share)
    block, beside = np.ix_(valued, valued), np.ix_(valued, kept)
    name, unit = f"covariance{_but_probabilities(view)}", "sd x sd"
    held = [
        each_at_most(f"mean{where}", mean[made], allowed_mean[made] + limits.mean, on, unit="sd", mandatory=True),
        each_at_most(
            f"{name}{where}", covariance[block], allowed[block] + limits.covariance, on, unit=unit, mandatory=True
        ),
        each_at_most(f"share of a category{where}", share, limits.category_share, on),
        each_at_most(f"share of nulls{where}", null, limits.null_share, on),
    ]
    if own_unit.any():
        told = f"mean, in its own unit, of a column masked by its logarithm{where}"
        held.append(each_at_most(told, mean[own_unit], limits.mean_in_unit, on, unit="sd"))
    if kept.any():
        told = f"{name} with unchanged columns{where}"
        limit = allowed[beside] + limits.covariance_unchanged
        held.append(each_at_most(told, covariance[beside], limit, on, unit=unit))
    return held


def _told_only(compared: Compared, evidence: Evidence) -> list[Check]:
    """What is measured and held against no limit."""
    view = evidence.view
    if not view.probability.any():
        return []
    column = np.array([variable.position for variable in view.variables])
    others = compared.covariance_off[np.outer(view.probability, ~view.own_unit) & (column[:, None] != column[None, :])]
    name = f"covariance of category probabilities with other columns{compared.where}"
    return [Check(name, Outcome.NOT_CHECKED, f"{_largest(others):.3g} sd x sd", "no limit", _files(evidence))]


def _but_probabilities(view: View) -> str:
    """What the names of checks say where covariances of some columns are compared by a check of their own."""
    return " (all but category probabilities)" if view.probability.any() else ""


def _apart(released: FloatArray, original: FloatArray) -> FloatArray:
    """Differences in size; none where neither has a value, as of a column that is null in a whole stratum."""
    return np.where(np.isnan(released) & np.isnan(original), 0.0, np.abs(released - original))


def _known_or(known: FloatArray, other: FloatArray) -> FloatArray:
    """What is known, and elsewhere the other."""
    return np.where(np.isnan(known), other, known)


def _largest(values: FloatArray) -> float:
    """The largest entry; 0 for none, and NaN (which fails) where one is missing."""
    return float(np.max(values)) if values.size else 0.0


def _bound_in_words(bound: LossBound | None) -> str:
    if bound is None:
        return "averaged over several groupings"
    how = "exact neighbours of every record"
    if bound.sampled is not None:
        how = f"exact neighbours of {bound.sampled} records, confidence {CONFIDENCE:.0%}"
    return f"and no grouping of this k loses less than {bound.percent:.2f} % ({how})"


def _classes_in_words(name: str, told: ClassDisclosure) -> str:
    return (
        f"class {name!r}: {100 * told.homogeneous_share:.2f} % of the records are in groups of one class, chi-square "
        f"{told.chi_square:.3g}, mean Jensen-Shannon divergence {told.mean_divergence:.3g}, fewest classes in a group "
        f"{told.smallest_distinct}, largest distance from the table's shares {told.largest_total_variation:.3g}"
    )


def _notes(evidence: Evidence) -> tuple[str, ...]:
    by = evidence.by
    notes = _of_groups_in_words(by) if isinstance(by, GroupEvidence) else _of_mask_in_words(by)
    if evidence.view.probability.any():
        names = dict.fromkeys(each.column for each in evidence.view.variables if each.probability)
        notes = [
            *notes,
            f"released as probabilities of categories: {', '.join(names)}. Shares are held against those of the "
            "original; covariances are told, and held against no limit after decoding: a logit makes them smaller. "
            "A reader who undoes it has the masked dummies, so that even 0.73 can be certainty where little was masked",
        ]
    return (
        *notes,
        "limits on the written rows are, entry by entry, the method's own bias and what chance leads to once in "
        f"{1 / CHANCE:,.0f} runs, plus the job's gates for what steps, bounds, categories and nulls add; the entry is "
        "shown that comes nearest to its limit",
    )


def _of_groups_in_words(by: GroupEvidence) -> list[str]:
    whole = merge_all(by.grouped)
    loss = 100.0 * np.trace(whole.within) / max(np.trace(whole.total.scatter), np.finfo(float).tiny)
    notes = [
        f"group centroids keep {100 - loss:.2f} % of the variance of the points (z-scores and -1/+1 indicators); "
        f"information loss of the grouping {loss:.2f} %, {_bound_in_words(by.bound)}",
        *(_classes_in_words(name, told) for name, told in by.classes.items()),
    ]
    shared = [scope for scope in by.scopes if by.scopes.count(scope) > 1]
    if by.promise.strata and shared:
        notes.append(
            f"{len(shared)} of {len(by.scopes)} strata share the covariance of their noise, as each has too few "
            "records beyond their groups; means and covariances are promised of these strata together, not of each"
        )
    if not by.promise.identical:
        notes.append("groups have at least k records; that is not k-anonymity of the release")
    return notes


def _of_mask_in_words(by: MaskEvidence) -> list[str]:
    if by.fewest_alike is not None:
        notes = [
            f"{by.method} makes sets of k or more rows that are alike in all synthetic columns; columns that are "
            "released unchanged tell the rows of a set apart"
        ]
    elif by.groups is not None:
        notes = [
            f"{by.method} formed {by.groups.groups} groups across partitions, the smallest of {by.groups.smallest} "
            "records; that is not k-anonymity of the release"
        ]
    else:
        notes = [
            f"{by.method} masks {'each stratum' if by.strata else 'the whole table'} and forms no groups: k governs "
            "the suppression of rare categories and the combinations of unchanged columns, and nothing else"
        ]
    if by.whole.expected is None:
        notes.append(f"means and covariances after {by.method} are not foretold: only the written rows are compared")
    return notes
