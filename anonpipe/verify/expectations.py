"""What is compared, and what is expected: variables, promised moments, the staging, groups across partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.columns import Column, Kind, Role
from anonpipe.encoding.cells import Tally
from anonpipe.encoding.scores import Scores
from anonpipe.methods.masking import RecordsAndDraws
from anonpipe.methods.record import Guarantee
from anonpipe.moments import Expected, GroupedMoments, GroupSpread, Moments, covariance_limit, mean_limit, merge_all
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.catalogue import Check, Scope, held, scoped, worst_entry, worst_of

# --- Variables --------------------------------------------------------------------------------------------------------
# One variable a number or ordinal (missing stays missing), one a category of a coded column, all in standard deviations
# of the original, so that means and covariances of any column can be held against one limit.


@dataclass(frozen=True)
class Variable:
    """One measured variable."""

    column: str  # Name of the table's column
    position: int  # Its position among the cells
    category: int | None  # The category's position that the variable indicates, or None for a number
    mean: float  # Of the original column or indicator; where the release's are known, these
    sd: float  # Likewise
    synthesized: bool  # Whether the column's values are replaced
    # offset, least: of a column that is masked by its logarithm, what is added before it is taken, and the lower bound;
    # the variable is the logarithm. None, 0 for others. Only values that have no logarithm count as the lower bound:
    # others that masking lifts to it are measured as they are, so that a bound that cuts the data is seen.
    offset: float | None = None
    least: float = 0.0
    own_unit: bool = False  # Whether it is a column on another scale once more, as it is, with a limit of its own
    # Whether the release tells a probability of the category in each record, not the category
    probability: bool = False
    # Whether the column is masked by normal scores. The variable is then the mean score of the records of the value:
    # what the value says of the score.
    scored: bool = False
    # Of such a column as it is, the variance that its release has whatever is drawn, in this unit: 1, or 0 of a
    # constant; its mean is 0. None for others. The original differs by top and bottom coding.
    known_variance: float | None = None
    derived: bool = False  # Whether a rule computes the column: it is shown, and its moments have no limit

    @property
    def on_other_scale(self) -> bool:
        """Whether it is a column that is masked by its logarithm or scores, on that scale."""
        return self.offset is not None or self.scored


@dataclass(frozen=True)
class ReleaseView:
    """All measured variables of a table."""

    variables: tuple[Variable, ...]
    scores: Scores | None = None

    @property
    def synthesized(self) -> BoolArray:
        """Which variables belong to synthesized columns, on the scale that is masked, shape (n_variables,)."""
        return np.array([variable.synthesized and not variable.own_unit for variable in self.variables], dtype=bool)

    @property
    def own_unit(self) -> BoolArray:
        """Which variables are columns as they are that are masked on another scale, shape (n_variables,)."""
        return np.array([variable.own_unit for variable in self.variables], dtype=bool)

    @property
    def derived(self) -> BoolArray:
        """Which variables are of columns that rules compute, shape (n_variables,)."""
        return np.array([variable.derived for variable in self.variables], dtype=bool)

    @property
    def known_variance(self) -> FloatArray:
        """The variances that the release has whatever is drawn, NaN where that is not known, shape (n_variables,)."""
        known = [np.nan if each.known_variance is None else each.known_variance for each in self.variables]
        return np.array(known, dtype=np.float64)

    @property
    def probability(self) -> BoolArray:
        """Which variables are categories that are released as probabilities, shape (n_variables,)."""
        return np.array([variable.probability for variable in self.variables], dtype=bool)

    @property
    def indicator(self) -> BoolArray:
        """Which variables indicate a category, shape (n_variables,)."""
        return np.array([variable.category is not None for variable in self.variables], dtype=bool)

    @property
    def of_ordinal(self) -> BoolArray:
        """Which of these are of a column whose position is a variable too, an ordinal's, shape (n_variables,)."""
        numbers = {variable.position for variable in self.variables if variable.category is None}
        positions = [variable.position in numbers for variable in self.variables]
        return np.asarray(self.indicator & np.array(positions, dtype=bool))

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the original columns, shape (n_variables,)."""
        return np.array([variable.sd for variable in self.variables])

    def measure(self, cells: FloatArray, probabilities: Mapping[int, FloatArray] | None = None) -> FloatArray:
        """The variables' values; probabilities (n_rows, n_codes)."""
        probabilities = probabilities or {}
        scored: dict[int, FloatArray] = {}
        if self.scores is not None:
            stratum = self.scores.strata.assign(cells)
            scored = {at: each.scores(cells[:, at], cells, stratum) for at, each in self.scores.by_position().items()}
        values = np.empty((len(cells), len(self.variables)))
        for at, variable in enumerate(self.variables):
            column = cells[:, variable.position]
            if variable.category is not None and variable.position in probabilities:
                of_codes, code = probabilities[variable.position], variable.category
                column = of_codes[:, code] if code < of_codes.shape[1] else np.zeros(len(cells))  # no record has it
            elif variable.category is not None:
                column = (column == variable.category).astype(np.float64)
            if variable.scored:
                column = scored[variable.position]
            if variable.offset is not None:
                column = np.log(np.where(column + variable.offset <= 0.0, variable.least, column) + variable.offset)
            values[:, at] = (column - variable.mean) / variable.sd
        return values


_MOST_CATEGORIES = 50  # Of a column whose categories are compared without being masked


def build_view(
    columns: Mapping[str, Column],
    mean: Mapping[str, float],
    sd: Mapping[str, float],
    counts: Mapping[str, IntArray],
    *,
    log_mean: Mapping[str, float] | None = None,
    log_sd: Mapping[str, float] | None = None,
    as_probabilities: Collection[str] = (),
    scores: Scores | None = None,
    restored: Collection[int] = (),
    limited: Mapping[str, str] | None = None,
) -> ReleaseView:
    """Choose the variables of a table; an ordinal counts as a number and by its categories.

    `limited`: columns with a limit, of which the share that is masked in their place is none of the variables.
    """
    limited = limited or {}
    variables: list[Variable] = []
    released = {} if scores is None else {at: each.released_moments for at, each in scores.by_position().items()}
    for position, (name, column) in enumerate(columns.items()):
        if column.role is Role.SAMPLING_WEIGHT or name in limited.values():  # the first has checks of its own
            continue
        synthesized = column.encoded or name in limited
        first = len(variables)
        if name not in counts or (column.kind is Kind.ORDINAL and synthesized):
            by_logarithm = column.offset is not None
            if by_logarithm:
                own = (log_mean or {})[name], (log_sd or {})[name] or 1.0
                least = column.numeric_bounds[0] or 0.0
                variables.append(Variable(name, position, None, *own, synthesized, column.offset, least))
            if column.scored:
                variables.append(Variable(name, position, None, 0.0, 1.0, synthesized, scored=True))
            known = None if position in restored else released.get(position)
            centre, spread = (mean[name], sd[name]) if known is None else known
            variance, own_unit = None if known is None else float(spread > 0.0), by_logarithm or column.scored
            own = centre, spread or 1.0
            variables.append(
                Variable(name, position, None, *own, synthesized, own_unit=own_unit, known_variance=variance)
            )
        dummies = synthesized and column.kind is not Kind.ORDINAL  # whose number is limited already
        if name in counts and (dummies or len(counts[name]) <= _MOST_CATEGORIES):
            variables.extend(_indicators(name, position, counts[name], synthesized, name in as_probabilities))
        if column.role is Role.DERIVED and name not in limited:
            variables[first:] = [replace(each, derived=True) for each in variables[first:]]
    return ReleaseView(tuple(variables), scores)


def _indicators(name: str, position: int, counts: IntArray, synthesized: bool, probability: bool) -> Sequence[Variable]:
    share = counts / max(1, counts.sum())
    spread = np.sqrt(share * (1.0 - share))
    first = 1 if len(counts) == 2 else 0  # two categories: one indicator says it all
    own = [(code, float(share[code]), float(spread[code]) or 1.0) for code in range(first, len(counts))]
    return [Variable(name, position, *each, synthesized, probability=probability) for each in own]


# --- Moments that a method promises before decoding, and the allowance of the written rows ----------------------------

EXACT = 1e-9  # Relative tolerance of what a method promises exactly, before decoding

CHANCE = 1e-6  # Probability that chance alone leads one of the means or covariances of a run beyond its limit


@dataclass(frozen=True)
class Target:
    """The original features, and what is promised of the synthetic ones."""

    original: Moments  # Moments of the original features
    expected: Expected | None  # The promise; None for none
    # How many tables (strata, or one) are held against their promises at once: the chance of a false failure is shared
    # out among them
    tables: int = 1
    # How many records more each two dummies were to have together when they got categories (`encoding.shares`),
    # with those of unchanged columns behind, shape (width, channels); None for none
    drawn: FloatArray | None = None

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the original features, 1 for a constant, shape (width,)."""
        spread = np.sqrt(np.diag(self.original.covariance))
        return np.where(spread > 0, spread, 1.0)

    @property
    def limits(self) -> tuple[FloatArray, FloatArray]:
        """How far chance may lead means and covariances from what is expected, in units of features; 0 where exact."""
        # One of all entries of all tables is further off with probability `CHANCE` at most, whatever the data.
        width = len(self.original.mean)
        if self.expected is None or not width:
            return np.zeros(width), np.zeros((width, width))
        means, covariances = width * self.tables, width * (width + 1) // 2 * self.tables
        error, scale = self.expected.covariance_error, self.expected.covariance_scale
        mean = mean_limit(self.expected.mean_error, CHANCE / means)
        return mean, covariance_limit(error, scale, CHANCE / covariances)

    @property
    def allowance(self) -> tuple[FloatArray, FloatArray]:
        """What the method may change of each mean and covariance: its bias and chance, in standard deviations."""
        mean, covariance = self.limits
        if self.expected is not None:
            covariance = covariance + np.abs(self.expected.covariance - self.original.covariance)
        if self.drawn is not None:
            covariance = covariance + 4.0 * np.abs(self.drawn[:, : len(mean)]) / (self.original.n - 1)
        return mean / self.scale, covariance / np.outer(self.scale, self.scale)

    @property
    def drawn_with_keys(self) -> FloatArray:
        """How far a covariance with an unchanged category may move, over deviations of both, shape (width,)."""
        width = len(self.original.mean)
        if self.drawn is None or self.drawn.shape[1] == width:
            return np.zeros(width)
        return np.asarray(2.0 * np.abs(self.drawn[:, width:]).max(axis=1) / (self.original.n - 1) / self.scale)


def of_groups(
    grouped: list[GroupedMoments], spread: list[GroupSpread] | None, guarantee: Guarantee, tables: int = 1
) -> Target:
    """What a synthesizer guarantees of one scope of its noise, or of several together."""
    return Target(merge_all(grouped).total, guarantee.expect(grouped, spread), tables)


def against_expectation(scope: Scope, target: Target, made: Moments, names: Sequence[str]) -> list[Check]:
    """Hold the synthetic features against what the method promises; nothing where it promises nothing."""
    expected, scale = target.expected, target.scale
    if expected is None or not len(scale):
        return []
    mean, covariance = target.limits
    mean_off = np.abs(made.mean - target.original.mean)
    covariance_off = np.abs(made.covariance - expected.covariance)
    square = np.outer(scale, scale)
    keys = scoped("expectation.mean", scope), scoped("expectation.covariance", scope)
    of_covariance = covariance_off, covariance, expected.covariance_error, square
    return [
        _held(keys[0], mean_off, mean, expected.mean_error, scale, names=(names,), records=int(made.n)),
        _held(keys[1], *of_covariance, names=(names, names), records=int(made.n)),
    ]


def _held(key: str, off: FloatArray, limit: FloatArray, error: FloatArray, scale: FloatArray, **given: Any) -> Check:
    """Exact promises in parts of the standard deviation, random ones in standard errors."""
    if not error.any():
        return worst_entry(key, off / scale, EXACT, **given)
    rounding = EXACT * scale
    unit = error + rounding
    return worst_entry(key, off / unit, (limit + rounding) / unit, unit="standard errors", **given)


def worst(each: list[list[Check]]) -> list[Check]:
    """Of the same checks in several strata, the worst of each."""
    return [worst_of(same) for same in zip(*each, strict=True)]


# --- The staging holds the rows that were scanned: counts, nulls, categories, means and variances ---------------------
# Everything after the scan sees the staging alone. Where a part of it is lost or
# another's, originals and release are both made of the damage, and agree.

_EPS = 1e-12  # Of the size of a mean: what sums in another order, and of fixed numbers of digits, may differ by


@dataclass(frozen=True)
class StagingCheck:
    """What the scan says that the staging holds, and what was found there."""

    table: Tally  # The whole, as the scan has it
    strata: tuple[Tally, ...]  # Each stratum, as the scan has it
    read: tuple[tuple[Tally, ...], ...]  # What was found of each stratum, in each stage that read the rows
    # Of columns carried as codes of which the scan does not tell what records were dropped with small strata, by
    # position, the records of each code with those; empty where none were dropped
    before_drop: dict[int, IntArray]
    filled: tuple[int, ...]  # Positions of columns whose nulls are released as values, being too few
    # How far top and bottom coding moved the furthest extreme of each column; 0 for none. The moments of a stratum
    # without it are a difference, and rounded by parts of what it was.
    reach: FloatArray | float = 0.0

    def checks(self) -> list[Check]:
        """The lines of the verdict; both are mandatory."""
        whole = [merge_all(read) for read in self.read]
        pairs = [(self.table, found) for found in whole]
        pairs += [pair for read in self.read for pair in zip(self.strata, read, strict=True)]
        lost = [_miscounted(known, found) for known, found in pairs]
        lost += [_beyond_drop(self.before_drop, found) for found in whole]
        moments = worst_of([_moments_off(known, found, self.reach) for known, found in pairs])
        return [held("staging.counts", max(lost), 0), moments]


def _miscounted(known: Tally, found: Tally) -> int:
    """Records by which a count differs most: of rows, of a column's values, or of a category."""
    codes = [found.codes[position] - counts for position, counts in known.codes.items()]
    return _largest(np.array([known.rows - found.rows]), known.n - found.n, *codes)


def _beyond_drop(before: Mapping[int, IntArray], found: Tally) -> int:
    """The same of codes of which dropped records took some: none may have grown, and all together are the rows."""
    grown = [np.maximum(found.codes[position] - counts, 0) for position, counts in before.items()]
    sums = [np.array([found.codes[position].sum() - found.rows]) for position in before]
    return _largest(*grown, *sums)


def _largest(*differences: npt.NDArray[Any]) -> int:
    return max((int(np.max(np.abs(each), initial=0)) for each in differences), default=0)


def _moments_off(known: Tally, found: Tally, reach: FloatArray | float) -> Check:
    """Means and squared deviations in standard deviations of the scan, within what rounding may be."""
    # A mean is rounded by parts of its size. A column of one value is measured in ten times these parts.
    sd = np.sqrt(np.divide(known.m2, known.n, out=np.zeros_like(known.m2), where=known.n > 0))
    size = np.abs(known.mean) + sd
    scale = np.maximum(sd, 10.0 * _EPS * size)
    scale = np.where(scale > 0, scale, 1.0)
    limit = EXACT + _EPS * (size + reach) / scale
    mean = np.abs(found.mean - known.mean) / scale
    variance = np.abs(found.m2 - known.m2) / np.maximum(known.n, 1.0) / scale**2
    both = np.concatenate([mean, variance])
    limits = np.concatenate([limit, 2.0 * limit + _EPS * np.square(reach / scale)])
    compared = int(np.count_nonzero(known.n))
    return worst_entry("staging.moments", both, limits, records=known.rows, compared=compared)


@dataclass(frozen=True, eq=False)
class Scanned:
    """What the scan knows of each variable of the view, on its scale; NaN where it does not."""

    # mean, variance, null_share: shape (n_variables,)
    mean: FloatArray
    variance: FloatArray
    null_share: FloatArray

    @classmethod
    def of(cls, tally: Tally, view: ReleaseView, filled: Sequence[int]) -> Scanned:
        """Translate a tally; logarithms are not known, as the scan takes them of values inside their bounds."""
        mean, variance, null_share = (np.full(len(view.variables), np.nan) for _ in range(3))
        rows = max(tally.rows, 1)
        numbers = {variable.position for variable in view.variables if variable.category is None}
        for at, variable in enumerate(view.variables):
            position = variable.position
            if variable.category is not None:
                null = variable.category == len(tally.codes.get(position, ())) - 1
                if position in tally.codes and not (null and position in numbers):  # those are NaN, in no category
                    share = tally.codes[position][variable.category] / rows
                    mean[at] = (share - variable.mean) / variable.sd
                    variance[at] = share * (1.0 - share) * rows / max(rows - 1, 1) / variable.sd**2
                    null_share[at] = 0.0
            elif position in tally.codes:
                counts = tally.codes[position][:-1]
                null_share[at] = 1.0 - counts.sum() / rows
                if counts.sum() > 1:
                    codes, there = np.arange(len(counts)), counts.sum()
                    centre = float(codes @ counts / there)
                    mean[at] = (centre - variable.mean) / variable.sd
                    variance[at] = np.square(codes - centre) @ counts / (there - 1) / variable.sd**2
            elif tally.n[position] > 1:
                null_share[at] = 0.0 if position in filled else 1.0 - tally.n[position] / rows
                if not variable.on_other_scale:
                    mean[at] = (tally.mean[position] - variable.mean) / variable.sd
                    variance[at] = tally.m2[position] / (tally.n[position] - 1.0) / variable.sd**2
        return cls(mean, variance, null_share)


# --- Groups that span partitions: sizes and moments, counted again from labels and features ---------------------------

_LEAST = 1e-6  # Deviations count in parts of the group's deviation, or where more of this part of the table's


@dataclass(frozen=True)
class KeptGroups:
    """What was found of the groups of all strata."""

    sizes: tuple[int, ...]  # Records of each group
    # mean_off, covariance_off: largest differences of a mean and of a covariance between records and synthetic features
    # of a group, in its standard deviations
    mean_off: float
    covariance_off: float

    @classmethod
    def of(cls, strata: Sequence[Sequence[RecordsAndDraws]]) -> KeptGroups:
        """Merge what the partitions of each stratum counted, in their order."""
        found = []
        for parts in strata:
            groups = max(len(part.records.counts) for part in parts)
            whole = merge_all([part.grown(groups) for part in parts])
            counts = whole.records.counts
            spread = np.sqrt(np.diagonal(whole.records.scatters, axis1=1, axis2=2) / counts[:, None])
            means = whole.records.means
            between = (counts[:, None] * (means - counts @ means / counts.sum()) ** 2).sum(axis=0)
            table = np.sqrt((between + (counts[:, None] * spread**2).sum(axis=0)) / counts.sum())
            scale = np.maximum(spread, _LEAST * np.where(table > 0, table, 1.0))
            mean = np.abs(whole.draws.means - means) / scale
            scatter = np.abs(whole.draws.scatters - whole.records.scatters) / counts[:, None, None]
            covariance = scatter / (scale[:, :, None] * scale[:, None, :])
            found.append(cls(tuple(map(int, counts)), float(mean.max()), float(covariance.max())))
        return cls(
            tuple(size for each in found for size in each.sizes),
            float(np.max([each.mean_off for each in found])),  # a NaN of any stratum stays one, and fails
            float(np.max([each.covariance_off for each in found])),
        )

    def checks(self, k: int, columns: int) -> list[Check]:
        """The smallest group against k, and what is promised of every group, its features being of so many columns."""
        whole: dict[str, Any] = {"records": sum(self.sizes), "compared": columns}
        return [
            held("group.smallest", min(self.sizes), k, about={"groups": len(self.sizes)}),
            held("expectation.mean.group", self.mean_off, EXACT, **whole),
            held("expectation.covariance.group", self.covariance_off, EXACT, **whole),
        ]
