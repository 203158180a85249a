"""Rules between columns: how a row is held against them, what is computed again, and how rows are repaired."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column, Comparison, Kind, Role, Rule, RuleFactor
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.columns import code_of
from anonpipe.encoding.quantiles import Radix, coarsened
from anonpipe.encoding.scan import Scan
from anonpipe.encoding.values import Grid, cut_to_days, level_array, numbers, plain, present
from anonpipe.kernels.points import places, sort_groups
from anonpipe.partition.strata import Units, UnitSets
from anonpipe.types import BoolArray, FloatArray, IntArray

_RELATIVE = 1e-9  # Rounding of sums, in parts of the largest term; of 32-bit floats `_SINGLE`
_SINGLE = 1e-6
_PASSES = 4  # How often values are brought inside bounds, and rows repaired, before the gate decides
_TRIES = 8
_NEAREST = 5  # Rows, for each that leaves a bound, among which it finds one to exchange with
_FAR = 1e6  # Beyond all distances of features
_ROWS, _CANDIDATES = 256, 1024  # Rows, and partners for them, that are matched at once


# --- Rows of a table held against rules


def base_of(rule: Rule, batch: pa.RecordBatch) -> FloatArray:
    """Where an order begins, by the first operand there; the largest target of a limit; a spike; shape (n_rows,)."""
    if rule.kind == "spike":  # as its type has it: there is no 0.1 in single precision
        single = pa.types.is_float32(batch.schema.field(rule.target).type)
        return np.full(batch.num_rows, np.float32(rule.constant) if single else rule.constant, np.float64)
    if rule.kind == "limit":  # the target's own bound where an operand is missing
        return np.maximum(np.fmin(_sum(rule, batch), rule.ends[1]), rule.ends[0])
    found = [numbers(batch.column(name)) for name, _ in rule.terms]
    return reduce(lambda base, other: np.where(np.isnan(base), other, base), found)


def _gap(rule: Rule, batch: pa.RecordBatch) -> FloatArray:
    """The difference, share or ratio of a rule, as recipients can compute it, shape (n_rows,)."""
    if timed := pa.types.is_timestamp(batch.column(rule.target).type):  # as they are released
        names = [name for name in rule.names if name in batch.schema.names]
        batch = pa.record_batch([cut_to_days(batch.column(name), rule.step) for name in names], names=names)
    target, base = numbers(batch.column(rule.target)), base_of(rule, batch)
    if rule.kind == "limit":
        low, whole = rule.ends[0], 1.0 + 0.0 * target
        below = (base > low) & ~(np.abs(target - _sum(rule, batch)) <= rule.slack)
        return np.divide(target - low, base - low, out=whole, where=below)
    if rule.kind in ("share", "ratio"):
        return np.divide(target, base, out=np.where(base == 0, 0.0 * target, np.nan), where=base != 0)
    if rule.kind == "spike":
        return np.where(target == base, np.nan, target)
    gap = rule.sign * (target - base)
    if timed or rule.step:  # without what is between steps: equal differences of cents would be rare values
        step = rule.step or 1.0
        nearest = np.rint(gap / step) * step
        rounded = np.abs(gap - nearest) <= 4.0 * np.spacing(np.abs(target) + np.abs(base))
        gap = np.where(timed | rounded, nearest, gap)
    return np.asarray(gap)


def with_differences(batch: pa.RecordBatch, rules: Sequence[Rule]) -> pa.RecordBatch:
    """The batch with the column of differences, shares or ratios of each order between columns."""
    for rule in rules:
        if rule.gap and rule.gap not in batch.schema.names:
            gap = _gap(rule, batch)
            array = pa.array(gap, pa.float64(), mask=np.isnan(gap))
            fields = batch.schema.append(pa.field(rule.gap, pa.float64()))
            batch = pa.record_batch([*batch.columns, array], schema=fields)
    return batch


def value_of(rule: Rule, batch: pa.RecordBatch) -> FloatArray:
    """What a rule computes, NaN where an operand is missing or a divisor is 0, shape (n_rows,)."""
    if rule.kind == "order":
        return base_of(rule, batch) + rule.sign * numbers(batch.column(rule.gap))
    if rule.kind == "spike":
        gap = numbers(batch.column(rule.gap))
        return np.where(np.isnan(gap), rule.constant, gap)
    if rule.kind == "limit":
        return rule.ends[0] + numbers(batch.column(rule.gap)) * (base_of(rule, batch) - rule.ends[0])
    if rule.factors:
        return _product(rule, batch)
    return np.clip(_sum(rule, batch), rule.ends[0], math.inf if math.isnan(rule.ends[1]) else rule.ends[1])


def _sum(
    part: Rule | RuleFactor, batch: pa.RecordBatch, size: Callable[[FloatArray], FloatArray] = np.positive
) -> FloatArray:
    """A constant plus multiples of columns, or of `size` of each summand, shape (n_rows,)."""
    terms = (size(times * numbers(batch.column(name))) for name, times in part.terms)
    return sum(terms, size(np.full(batch.num_rows, part.constant)))


def _product(rule: Rule, batch: pa.RecordBatch, size: Callable[[FloatArray], FloatArray] = np.positive) -> FloatArray:
    """A constant times and divided by sums, whose summands count by `size`, shape (n_rows,)."""
    value = size(np.full(batch.num_rows, rule.constant))
    for factor in rule.factors:
        each = _sum(factor, batch, np.positive if factor.divides else size)
        value = value / size(np.where(each == 0, np.nan, each)) if factor.divides else value * each
    return value


def _highest(rule: Rule, batch: pa.RecordBatch) -> FloatArray:
    """The limit of a target, with what rounding may add, shape (n_rows,); NaN where an operand is missing."""
    return _sum(rule, batch) + rule.slack + _RELATIVE * _sum(rule, batch, np.abs)


def is_broken(rule: Rule, batch: pa.RecordBatch, columns: Mapping[str, Column]) -> BoolArray:
    """Which rows break a rule that each row meets or breaks alone, shape (n_rows,)."""
    if rule.kind == "condition":
        return _all(rule.when, batch, columns) & ~_all(rule.then, batch, columns)
    target = numbers(batch.column(rule.target))
    if rule.kind == "spike":
        return np.isnan(target)
    if rule.kind == "limit":
        return np.asarray(target > _highest(rule, batch))
    if rule.kind == "share":
        return np.asarray((target < 0) | (target > base_of(rule, batch)))
    if rule.kind == "ratio":
        divisor = base_of(rule, batch)
        return np.asarray((target < 0) | (divisor < 0) | (divisor == 0) & (target != 0) & ~np.isnan(target))
    if rule.kind == "order":
        far = [rule.sign * (target - numbers(batch.column(name))) < 0 for name, _ in rule.terms]
        return np.asarray(np.logical_or.reduce(far))
    value = value_of(rule, batch)
    size = (_product if rule.factors else _sum)(rule, batch, np.abs)
    single = any(pa.types.is_float32(batch.schema.field(name).type) for name in rule.names)
    allowed = (_SINGLE if single else _RELATIVE) * (size + np.abs(target))
    allowed = allowed + (columns[rule.target].resolution or 0.0) / 2
    return differ(value, target, allowed)


def differ(value: FloatArray, target: FloatArray, allowed: FloatArray) -> BoolArray:
    """In which rows a column is not what a rule computes, missing where an operand is, shape (n_rows,)."""
    missing = np.isnan(value) | np.isnan(target)
    return np.where(missing, np.isnan(value) != np.isnan(target), np.abs(value - target) > allowed)


def _all(tests: Sequence[Comparison], batch: pa.RecordBatch, columns: Mapping[str, Column]) -> BoolArray:
    met = [_met(test, batch, columns[test.column]) for test in tests]
    return np.asarray(np.logical_and.reduce(met)) if met else np.ones(batch.num_rows, dtype=np.bool_)


_NEGATED = {"<": ">=", "<=": ">", "==": "!=", "in": "not in", "null": "not null"}
_NEGATED |= {after: before for before, after in _NEGATED.items()}
_COMPARED = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def _met(test: Comparison, batch: pa.RecordBatch, column: Column) -> BoolArray:
    """Which rows meet a test; of what is missing only `null` is true."""
    array = batch.column(test.column)
    if column.kind.coded:
        there = present(array)
        if test.values:
            levels = level_array(test.column, test.values, array.type)
            found = (code_of(array, levels) < len(levels)) & there
    else:
        values = numbers(array)
        there = ~np.isnan(values)
        against = numbers(batch.column(test.other)) if test.other else np.array(test.values, dtype=np.float64)
        if test.operator in _COMPARED:
            return there & _COMPARED[test.operator](values, against)
        found = values == against if test.other else np.isin(values, against)
    if test.operator == "null":
        return ~there
    if test.operator == "not null":
        return np.asarray(there)
    other_there = ~np.isnan(against) if test.other else True
    return there & other_there & (found if test.operator in ("==", "in") else ~found)


def absent_by_category(rules: Sequence[Rule], cells: ColumnEncoder, scan: Scan) -> frozenset[str]:
    """Columns that are null where a masked category has some values and nowhere else, by rules and counts."""
    masked = {name for name, column in zip(cells.names, cells.columns, strict=True) if column.encoded}
    masked |= {rule.target for rule in rules if rule.kind == "lookup" and rule.terms[0][0] in masked}
    nulls, found = {name: column.nulls for name, column in scan.columns.items()}, set[str]()
    for rule in rules:
        test = rule.when[0] if len(rule.when) == 1 else None
        if test is None or test.operator not in ("==", "in") or test.column not in masked & cells.categories.keys():
            continue
        known = cells.categories[test.column]
        there = code_of(known, level_array(test.column, test.values, known.type)) < len(test.values)
        rows = int(scan.code_counts(test.column)[: len(known)][there].sum())
        found |= {each.column for each in rule.then if each.operator == "null" and nulls[each.column] == rows > 0}
    gaps = {rule.gap: rule.target for rule in rules if rule.gap}  # null where their columns are
    return frozenset(found | {gap for gap, name in gaps.items() if name in found and nulls[gap] == nulls[name]})


def limits_of(rules: Sequence[Rule], name: str) -> list[tuple[float, bool]]:
    """What conditions compare a column of numbers with, and whether values up to it are meant, or values below it."""
    names = {name, *(rule.target for rule in rules if rule.kind == "spike" and rule.gap == name)}
    tests = [test for rule in rules for test in (*rule.when, *rule.then) if test.column in names]
    ends = [(test.operator, float(value)) for test in tests for value in test.values]
    below = [(value, False) for operator, value in ends if operator not in ("<=", ">")]
    return below + [(value, True) for operator, value in ends if operator not in ("<", ">=")]


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Combinations of two columns that occur, each once, and what has them; counts add up over pieces of a table."""

    values: pa.RecordBatch  # Of the columns "term" and "target"
    rows: IntArray  # Shape (n_pairs,)
    units: UnitSets | None  # At the number of each combination; None where each row is a unit
    ends: bool = False  # Of a term of numbers: each target has its lowest, with the records between, and its highest

    @classmethod
    def of(cls, values: pa.RecordBatch, units: tuple[Units, int] | None, ends: bool = False) -> PairCounts:
        """Count rows, and units up to a number that is enough."""
        every = np.arange(values.num_rows)
        return cls(values, np.ones_like(every), None if units is None else UnitSets.of(every, *units), ends)._once()

    def merge(self, other: PairCounts) -> PairCounts:
        """Both pieces together."""
        units = self.units
        if units is not None and other.units is not None:
            further = other.units.moved(np.arange(len(other.rows)) + len(self.rows))
            units = units.merge(further)
        values = pa.concat_batches([self.values, other.values])
        return PairCounts(values, np.concatenate([self.rows, other.rows]), units, self.ends)._once()

    def _once(self) -> PairCounts:
        """The same with each combination once."""
        (term, _), (target, size) = map(_numbered, self.values.columns)
        order = np.arange(len(term))
        if self.ends:
            value, (_, high) = numbers(self.values.column("term")), self._ranges
            term, order = np.where(np.isnan(value), 0, 1 + (value == high[target])), np.argsort(value, kind="stable")
        _, first, within = np.unique((term * size + target)[order], return_index=True, return_inverse=True)
        at = np.empty(len(order), dtype=np.int64)
        at[order] = within
        rows = np.bincount(at, weights=self.rows, minlength=len(first)).astype(np.int64)
        values = self.values.take(pa.array(order[first]))
        return replace(self, values=values, rows=rows, units=self.units and self.units.moved(at))

    @property
    def _ranges(self) -> FloatArray:
        """Of each target the lowest and the highest number, NaN for none, shape (2, n_targets)."""
        (target, size), value = _numbered(self.values.column("target")), numbers(self.values.column("term"))
        found = np.full((2, size), np.nan)
        np.fmin.at(found[0], target, value)
        np.fmax.at(found[1], target, value)
        return found

    def cuts(self, least: int) -> FloatArray:
        """Where the targets of enough records begin among the numbers, but for the lowest; of few these are joined."""
        (target, _), (low, high) = _numbered(self.values.column("target")), self._ranges
        order = np.intersect1d(target[self.are_of(least)], np.flatnonzero(~np.isnan(low)))
        order = order[np.argsort(low[order])]
        return np.array([_between(*ends) for ends in zip(high[order[:-1]], low[order[1:]], strict=True)])

    @property
    def overlapping(self) -> int:
        """Targets of which a number is not above all those of a target that begins lower."""
        low, high = (ends := self._ranges)[:, np.argsort(ends[0])]
        return int((low[1:] <= np.fmax.accumulate(high)[:-1]).sum())

    def are_of(self, least: int) -> BoolArray:
        """Which combinations enough units have, or so many rows where each is a unit, shape (n_pairs,)."""
        if self.units is None:
            return self.rows >= least
        return self.units.counts(len(self.rows)) >= self.units.most


def _between(low: float, high: float) -> float:
    """The roundest number above one and not above another one: where a code book would have cut."""
    for step in (digit * 10.0**power for power in range(15, -7, -1) for digit in (5, 2, 1)):
        if low < (cut := float(np.rint((low + high) / 2 / step) * step)) <= high:
            return cut
    return high


def _numbered(array: pa.Array) -> tuple[IntArray, int]:
    """A number for each distinct value of an array, nulls being one, and how many there are."""
    found = pc.dictionary_encode(array, null_encoding="encode")
    return found.indices.to_numpy().astype(np.int64), max(1, len(found.dictionary))


@dataclass(frozen=True, eq=False)
class RuleCounts:
    """What some rows say of the rules of a job; counts add up over pieces of a table."""

    broken: IntArray  # Rows that break each rule; of a lookup and of pairs not known yet, shape (n_rules,)
    # Rows of each order with a target and none of the columns that it begins at, shape (n_rules,)
    without_operand: IntArray
    # Rows that meet what a condition begins with, have a numerator over a divisor of 0, or another value than a spike,
    # shape (n_rules,)
    met: IntArray
    pairs: dict[int, PairCounts]  # Of each lookup and each rule of pairs
    targets: dict[int, Radix]  # Of each rule with a column of differences, shares or ratios the values of its target
    # Rows whose value lies half a step from what the rule computes: further from 0, or nearer, shape (n_rules, 2)
    halves: IntArray

    @classmethod
    def of(
        cls,
        rules: Sequence[Rule],
        batch: pa.RecordBatch,
        columns: Mapping[str, Column],
        units: tuple[Units, int] | None = None,
    ) -> RuleCounts:
        """Count the rows of a batch; `units`: that of each row, and of how many combinations are released."""
        broken, without_operand, met = np.zeros((3, len(rules)), dtype=np.int64)
        pairs, targets, halves = {}, {}, np.zeros((len(rules), 2), dtype=np.int64)
        names = [name for name in batch.schema.names if name in columns]  # points in time as they are released
        days = pa.record_batch([cut_to_days(batch.column(name), columns[name].step) for name in names], names=names)
        for at, rule in enumerate(rules):
            if rule.kind in ("lookup", "pairs"):
                arrays = [plain(batch.column(name)) for name in (rule.terms[0][0], rule.target)]
                ends = not columns[rule.terms[0][0]].staged_as_codes
                pairs[at] = PairCounts.of(pa.record_batch(arrays, names=["term", "target"]), units, ends)
                continue
            if rule.kind == "spike":
                without_operand[at] = np.count_nonzero(is_broken(rule, batch, columns))
                met[at] = np.count_nonzero(~np.isnan(_gap(rule, batch)))
                continue
            computed = rule.kind in ("linear", "product")
            broken[at] = np.count_nonzero(is_broken(rule, days if computed else batch, columns))
            if rule.kind == "condition":
                met[at] = np.count_nonzero(_all(rule.when, batch, columns))
            if rule.gap:
                values, base = numbers(batch.column(rule.target)), base_of(rule, batch)
                there, targets[at] = ~np.isnan(values), Radix.of(values[np.isfinite(values)])
                without_operand[at] = np.count_nonzero(there & np.isnan(base))
                met[at] = np.count_nonzero(there & (base == 0))
            elif computed and (step := columns[rule.target].resolution):
                value = value_of(rule, days)
                further = np.sign(value) * (numbers(days.column(rule.target)) - value) / step
                halves[at] = [np.count_nonzero(np.abs(further - half) < _SINGLE) for half in (0.5, -0.5)]
        return cls(broken, without_operand, met, pairs, targets, halves)

    @classmethod
    def none(cls, rules: Sequence[Rule]) -> RuleCounts:
        """Of no rows."""
        empty = np.zeros(len(rules), dtype=np.int64)
        return cls(empty, empty, empty, {}, {}, np.zeros((len(rules), 2), dtype=np.int64))

    def merge(self, other: RuleCounts) -> RuleCounts:
        """Both pieces together."""
        pairs = {at: each.merge(other.pairs[at]) for at, each in self.pairs.items() if at in other.pairs}
        merged = {at: each.merge(other.targets[at]) for at, each in self.targets.items() if at in other.targets}
        return RuleCounts(
            self.broken + other.broken,
            self.without_operand + other.without_operand,
            self.met + other.met,
            self.pairs | other.pairs | pairs,
            self.targets | other.targets | merged,
            self.halves + other.halves,
        )

    def broken_by(self, at: int, rule: Rule) -> int:
        """Rows that break a rule; of a lookup those with another value than most with the same term, or classes."""
        if rule.kind != "lookup":
            return int(self.broken[at])
        counted = self.pairs[at]
        if counted.ends:
            return counted.overlapping
        most = np.zeros(len(counted.rows), dtype=np.int64)
        np.maximum.at(most, _numbered(counted.values.column("term"))[0], counted.rows)
        return int(counted.rows.sum() - most.sum())

    def without_units(self) -> RuleCounts:
        """The same of a table whose units have a row each."""
        return replace(self, pairs={at: replace(each, units=None) for at, each in self.pairs.items()})


# --- Released rows: derived columns, and repairs


@dataclass(frozen=True, eq=False)
class Kept:
    """Released cells that meet the rules, as far as they can."""

    cells: FloatArray  # Shape (n_rows, n_columns)
    repaired: IntArray  # Rows that broke each rule, or left bounds by it, before, shape (n_rules,)
    # By column rows with another value than before, and values replaced, not exchanged, shape (2, n_columns)
    moved: IntArray


@dataclass(frozen=True, eq=False)
class RuleBook:
    """The rules of a job for the cells of its released table."""

    rules: tuple[Rule, ...]
    cells: ColumnEncoder
    counts: RuleCounts  # Of the original
    least: int  # Rows below which something in the original is not taken for one that occurs
    blocks: dict[str, tuple[int, int]] = field(default_factory=dict)  # Feature columns of each masked column

    def keep(self, cells: FloatArray, features: FloatArray, rng: np.random.Generator) -> Kept:
        """Derive columns inside their bounds, and repair rows that break a condition; features (n_rows, width)."""
        cells, moved = cells.copy(), np.zeros((2, cells.shape[1]), dtype=np.int64)
        repaired = self.derive(cells, rng)
        if self.repairable and (broken := self.broken(cells)).any():
            repaired, before = repaired + broken.sum(axis=1), cells.copy()
            _Repair(self, cells, features, rng).run()
            self.derive(cells, rng)
            moved = _moved(before, cells)
        return Kept(cells, repaired, moved)

    def with_differences(self, cells: FloatArray) -> FloatArray:
        """The cells with differences, shares and ratios as recipients compute them: of rounded targets."""
        cells = cells.copy()
        for rule in (rule for _, rule in self._derived if rule.gap):
            cells[:, self.positions[rule.gap]] = _gap(rule, self.written(cells, rule.target))
        return cells

    def count_broken(self, batch: pa.RecordBatch) -> IntArray:
        """Rows of a released batch that break each rule, shape (n_rules,)."""
        broken = [np.count_nonzero(self.breaks(at, rule, batch)) for at, rule in enumerate(self.rules)]
        return np.array(broken, dtype=np.int64)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where each column stands among the cells."""
        return {name: at for at, name in enumerate(self.cells.names)}

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What the job says of each column."""
        return dict(zip(self.cells.names, self.cells.columns, strict=True))

    @cached_property
    def _named(self) -> dict[str | None, set[str]]:
        """The columns that the rule of each derived column names, and those that conditions and pairs name."""
        by_target: dict[str | None, list[Rule]] = {rule.target: [rule] for _, rule in self._derived}
        by_target[None] = [rule for _, rule in self.repairable]
        return {
            target: {name for rule in rules for name in (*rule.names, rule.gap)} for target, rules in by_target.items()
        }

    def written(self, cells: FloatArray, derived: str | None = None) -> pa.RecordBatch:
        """The columns that the rule of a derived column names, or conditions and pairs, as they are written."""
        return self.cells.from_cells(cells, self._named[derived])

    # Lookups and pairs, by codes, of which a missing value has the one after the last; numbers by their values

    def _codes(self, name: str, array: pa.Array) -> IntArray | FloatArray:
        codes = self.cells.categories.get(name)
        return numbers(array) if codes is None else code_of(plain(array), codes)

    @cached_property
    def _cuts(self) -> dict[int, FloatArray]:
        """Of each lookup that begins with a number where its classes begin."""
        return {at: counted.cuts(self.least) for at, counted in self.counts.pairs.items() if counted.ends}

    def _terms(self, at: int, array: pa.Array) -> IntArray:
        """The codes of the first column of a lookup or of pairs; of a number its class, nulls after the last."""
        if at not in self._cuts:
            return self._codes(self.rules[at].terms[0][0], array).astype(np.int64)
        value, cuts = numbers(array), self._cuts[at]
        return np.where(np.isnan(value), len(cuts) + 1, np.searchsorted(cuts, value, side="right"))

    @cached_property
    def _known(self) -> dict[int, tuple[IntArray, IntArray | FloatArray, IntArray]]:
        """Of each lookup and rule of pairs the codes of combinations of enough original records or units."""
        found = {}
        for at, counted in self.counts.pairs.items():
            names, arrays = (self.rules[at].terms[0][0], self.rules[at].target), counted.values.columns
            codes, kept = (self._terms(at, arrays[0]), self._codes(names[1], arrays[1])), counted.are_of(self.least)
            for name, array, code in zip(names, arrays, codes, strict=True):
                if name in self.cells.categories:
                    kept &= ~present(array) | (code < len(self.cells.categories[name]))
            found[at] = codes[0][kept], codes[1][kept], counted.rows[kept]
        return found

    @cached_property
    def _lookups(self) -> dict[int, FloatArray]:
        """Of each lookup the target's cell for each code of the term; the commonest for one of too few records."""
        found = {}
        for at, (term, target, rows) in self._known.items():
            if self.rules[at].kind != "lookup":
                continue
            codes = self.cells.categories.get(self.rules[at].terms[0][0])
            size = len(self._cuts[at]) + 2 if codes is None else len(codes) + 1
            values, place = np.unique(target, return_inverse=True)
            commonest = values[np.bincount(place, weights=rows).argmax()] if len(rows) else 0.0
            found[at] = np.full(size, commonest, np.float64)
            order = np.argsort(rows, kind="stable")
            found[at][term[order]] = target[order]
            if self.rules[at].target not in self.cells.categories:
                found[at] = self.cells.grid(self.positions[self.rules[at].target]).round(found[at])
        return found

    def _is_unknown_pair(self, at: int, rule: Rule, batch: pa.RecordBatch) -> BoolArray:
        """In which rows a lookup does not give the target, or both do not occur in enough original records."""
        term = self._terms(at, batch.column(rule.terms[0][0]))
        target = self._codes(rule.target, batch.column(rule.target))
        if at in self._lookups:
            column = self.columns[rule.target]
            allowed = 0.0 if column.kind.coded else (column.resolution or 0.0) / 2
            return differ(self._lookups[at][term], target.astype(np.float64), np.full(len(term), allowed))
        size = len(self.cells.categories[self.rules[at].target]) + 1
        return ~np.isin(term * size + target, self._known[at][0] * size + self._known[at][1])

    @cached_property
    def coarse(self) -> dict[str, Grid]:
        """Of each target of an order, a share or a limit the grid that nearly all original records lie on."""
        targets = {self.rules[at].target: each for at, each in self.counts.targets.items()}
        grids = {name: self.cells.grid(self.positions[name]) for name in targets}
        dates = {name: self.columns[name].kind is Kind.DATE for name in targets}
        return {name: coarsened(grids[name], each, self.least, dates[name]) for name, each in targets.items()}

    @cached_property
    def _halves(self) -> dict[str, int]:
        """By target whether halves of a step are rounded from 0 in all rows (1), or to it (-1); else 0, to even."""
        further, nearer = self.counts.halves.T
        signs = (1 * ((further >= self.least) & (nearer == 0))) - ((nearer >= self.least) & (further == 0))
        return {rule.target: int(sign) for rule, sign in zip(self.rules, signs, strict=True)}

    # Derived columns

    @cached_property
    def _derived(self) -> list[tuple[int, Rule]]:
        """Rules that derive a column, each after those that derive its operands."""
        left, found = [(at, rule) for at, rule in enumerate(self.rules) if rule.derives], []
        while left:
            waiting = {rule.target for _, rule in left}
            ready = [(at, rule) for at, rule in left if not waiting & {name for name, _ in rule.terms}]
            found += ready
            left = [each for each in left if each not in ready]
        return found

    @cached_property
    def _masked_behind(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Of each column the masked columns that decide it, and all that it depends on."""
        roots = {name: [name] for name, column in self.columns.items() if column.role is Role.MASKED}
        behind = dict(roots)
        for _, rule in self._derived:
            terms = [name for name, _ in rule.terms]
            of_terms = dict.fromkeys(root for name in terms for root in roots.get(name, []))
            roots[rule.target] = [rule.gap] if rule.gap else list(of_terms)
            further = (each for name in terms for each in behind.get(name, []))
            behind[rule.target] = list(dict.fromkeys([*roots[rule.target], *further]))
        return roots, behind

    def derive(self, cells: FloatArray, rng: np.random.Generator) -> IntArray:
        """Compute derived columns in place; returns the rows of each rule that were brought inside bounds."""
        moved = np.zeros((len(self.rules), len(cells)), dtype=np.bool_)
        for _ in range(_PASSES):
            again = False
            for at, rule in self._derived:
                if rule.kind == "lookup":
                    term = rule.terms[0][0]
                    found = self._lookups[at][self._terms(at, self.written(cells, rule.target).column(term))]
                    if self.columns[rule.target].kind is Kind.ORDINAL:
                        found[found == len(self.cells.categories[rule.target])] = np.nan
                    cells[:, self.positions[rule.target]] = found
                    continue
                inside = self._clear_undefined(at, rule, cells, rng) | self._put(rule, cells, rng)
                again |= bool(inside.any())
                moved[at] |= inside
            if not again:
                break
        return np.asarray(moved.sum(axis=1))

    def _put(self, rule: Rule, cells: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Compute the target of a rule in place, its operands changed where it would leave its bounds; which rows."""
        position = self.positions[rule.target]
        grid = self.cells.grid(position)
        leave = {"limit": self._leave_bound, "spike": self._leave_spike}.get(rule.kind)
        moved = np.zeros(len(cells), dtype=np.bool_) if leave is None else leave(rule, cells, rng)
        batch = self.written(cells, rule.target)
        value = value_of(rule, batch)
        if rule.factors and not self.cells.has_nulls[position]:
            moved = np.isnan(value)
            self._take_operands(rule, cells, moved, rng)
            batch = self.written(cells, rule.target)
            value = value_of(rule, batch)
        excess = _excess(rule, value, batch, grid)
        for name, times in self._moving(rule):
            if not excess.any():
                break
            by = _too_far(rule, name, batch, value - excess) if rule.factors else excess / times
            rows = np.flatnonzero((excess != 0) & np.isfinite(by))
            place, by = self.positions[name], by[rows]
            own = self.cells.grid(place)
            if own.step:
                by = np.sign(by) * np.ceil(np.abs(by) / own.step - _SINGLE) * own.step
            cells[rows, place] = own.round(own.round(cells[rows, place]) - by)
            moved[rows] = True
            batch = self.written(cells, rule.target)
            value = value_of(rule, batch)
            excess = _excess(rule, value, batch, grid)
        cells[:, position] = self._rounded(rule, cells, value, batch, rng)
        return moved

    def _moving(self, rule: Rule) -> list[tuple[str, float]]:
        """Masked operands, and by what the target changes with each; of an order the difference first."""
        changed = (Role.MASKED, Role.SURVIVAL_TIME) if rule.kind == "limit" else (Role.MASKED,)
        terms = [(name, times) for name, times in rule.terms if self.columns[name].role in changed and times]
        terms.sort(key=lambda term: abs(term[1]) if rule.factors else 0.0)
        return [(rule.gap, float(rule.sign)), *terms] if rule.gap and rule.kind != "limit" else terms

    def _rounded(
        self, rule: Rule, cells: FloatArray, value: FloatArray, batch: pa.RecordBatch, rng: np.random.Generator
    ) -> FloatArray:
        """Values on the grid of the target, none beyond what its rule allows, shape (n_rows,)."""
        if rule.kind == "spike":
            return value  # other values have been rounded
        if rule.kind not in ("order", "share", "limit"):
            grid = self.cells.grid(self.positions[rule.target])
            return grid.round(value + np.sign(value) * self._halves[rule.target] * _SINGLE * (grid.step or 0.0))
        grid, base = self.coarse[rule.target], base_of(rule, batch)
        if rule.kind == "limit":
            return _not_above(_highest(rule, batch), self._at_limit(rule, cells, value, batch, rng), grid)
        if rule.kind == "order":
            of_sign = grid.mirrored if rule.sign > 0 else grid
            return -rule.sign * _not_above(-rule.sign * base, -rule.sign * value, of_sign)
        return _not_above(base, value, grid)

    def _leave_bound(self, rule: Rule, cells: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Exchange shares of 1, where the limit is above the upper bound, with lower ones of others; which rows."""
        # Else these rows would be a heap at the bound. Exchanges are among rows of equal unchanged values, with some of
        # those whose limit is nearest below the bound: with any, covariances of limits and shares would move.
        limit, high = _sum(rule, self.written(cells, rule.target)), self.cells.grid(self.positions[rule.target]).high
        share, moved = cells[:, self.positions[rule.gap]].copy(), np.zeros(len(cells), dtype=np.bool_)
        own = np.flatnonzero((share == 1.0) & (limit > high + rule.slack))
        if len(own):
            fixed = [at for at, column in enumerate(self.cells.columns) if column.role.unchanged]
            labels = np.unique(cells[:, fixed], axis=0, return_inverse=True)[1].reshape(-1)
            other = np.argsort(-limit, kind="stable")
            other = other[(share[other] < 1.0) & (limit[other] <= high)]
            wanted = _NEAREST * np.bincount(labels[own], minlength=len(cells))
            other = rng.permutation(other[_number_within(labels[other]) < wanted[labels[other]]])
            first, second = (_number_within(labels[rows]) + (labels[rows] << 31) for rows in (own, other))
            _, one, two = np.intersect1d(first, second, return_indices=True)
            own, other = own[one], other[two]
            cells[own, self.positions[rule.gap]], cells[other, self.positions[rule.gap]] = share[other], share[own]
            moved[own] = moved[other] = True
        return moved

    def _leave_spike(self, rule: Rule, cells: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Give other values that were rounded to a spike, in place, the nearest values of other rows; which rows."""
        gap = numbers(self.written(cells, rule.target).column(rule.gap))
        there, far = gap == rule.constant, np.abs(gap - rule.constant)
        if there.any() and (far > 0).any():
            nearest = np.unique(gap[far == far[far > 0].min()])  # one on either side, where both are as near
            cells[there, self.positions[rule.gap]] = rng.choice(nearest, np.count_nonzero(there))
        return np.asarray(there)

    def _at_limit(
        self, rule: Rule, cells: FloatArray, value: FloatArray, batch: pa.RecordBatch, rng: np.random.Generator
    ) -> FloatArray:
        """Values of a target; those at their limit anywhere in its rounding, shape (n_rows,)."""
        grid, limit = replace(self.coarse[rule.target], heaps=None), _sum(rule, batch)
        old, value = cells[:, self.positions[rule.target]], grid.round(value)
        if rule.slack:  # else the steps of rounded operands would be seen in the target
            there = (cells[:, self.positions[rule.gap]] == 1.0) & (limit < grid.high)
            drawn = grid.round(limit + rng.uniform(-rule.slack, rule.slack, len(cells)))
            value = np.where(there, np.where(np.abs(old - limit) <= rule.slack, old, drawn), value)
            value = np.where(there & (value < limit - rule.slack), value + (grid.step or 0.0), value)
        return value

    def _clear_undefined(self, at: int, rule: Rule, cells: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Exchange ratios over divisors of 0, in place, for nulls, if the original has these there; which rows."""
        moved, nullable = np.zeros(len(cells), dtype=np.bool_), self.cells.has_nulls[self.positions[rule.target]]
        if rule.kind not in ("share", "ratio") or self.counts.met[at] or not nullable:
            return moved
        divisor, place = base_of(rule, self.written(cells, rule.target)), self.positions[rule.gap]
        known = ~np.isnan(cells[:, place])
        own = rng.permutation(np.flatnonzero((divisor == 0) & known))
        other = rng.permutation(np.flatnonzero((divisor > 0) & ~known & bool(len(own))))[: len(own)]
        cells[other, place] = cells[own[: len(other)], place]
        cells[own, place] = np.nan
        moved[own] = moved[other] = True
        return moved

    def _take_operands(self, rule: Rule, cells: FloatArray, rows: BoolArray, rng: np.random.Generator) -> None:
        """Give rows whose divisor is 0, in place, the operands of random rows that have a result."""
        names = {each for name, _ in rule.terms for each in (name, *self.behind(name))}
        places = np.array([self.positions[name] for name in names if not self.columns[name].role.unchanged])
        at, donors = np.flatnonzero(rows), np.flatnonzero(~rows)
        if len(donors):
            cells[np.ix_(at, places)] = cells[np.ix_(rng.choice(donors, len(at)), places)]

    # Conditions and pairs

    @cached_property
    def repairable(self) -> list[tuple[int, Rule]]:
        """Conditions and rules of pairs, each with its number."""
        return [(at, rule) for at, rule in enumerate(self.rules) if not rule.derives]

    def broken(self, cells: FloatArray) -> BoolArray:
        """Which rows break each condition and rule of pairs, shape (n_rules, n_rows)."""
        broken, batch = np.zeros((len(self.rules), len(cells)), dtype=np.bool_), self.written(cells)
        for at, rule in self.repairable:
            broken[at] = self.breaks(at, rule, batch)
        return broken

    def breaks(self, at: int, rule: Rule, batch: pa.RecordBatch) -> BoolArray:
        """Which rows of a batch break a rule, shape (n_rows,)."""
        pairs = rule.kind in ("lookup", "pairs")
        return self._is_unknown_pair(at, rule, batch) if pairs else is_broken(rule, batch, self.columns)

    def roots(self, name: str) -> list[str]:
        """The masked columns that decide a column: of a derived one the difference, or the operands."""
        return self._masked_behind[0].get(name, [])

    def masked_for(self, name: str) -> str:
        """The column that is masked in place of one with a spike; else the column."""
        return next((rule.gap for rule in self.rules if rule.kind == "spike" and rule.target == name), name)

    def behind(self, name: str) -> list[str]:
        """All masked columns that a column depends on."""
        return self._masked_behind[1].get(name, [])

    def only(self, test: Comparison) -> float | None:
        """The cell of the only value that meets a test; None where there are several."""
        position, column = self.positions[test.column], self.columns[test.column]
        if test.operator == "null" and self.cells.schema.field(position).nullable:
            coded = test.column in self.cells.categories and column.kind is not Kind.ORDINAL
            return float(len(self.cells.categories[test.column])) if coded else np.nan
        if test.operator not in ("==", "in") or len(test.values) != 1:
            return None
        if not column.kind.coded:
            return float(test.values[0])
        levels = level_array(test.column, test.values, self.cells.schema.field(position).type)
        code = int(code_of(levels, self.cells.categories[test.column])[0])
        return float(code) if code < len(self.cells.categories[test.column]) else None


@dataclass(frozen=True, eq=False)
class _Repair:
    """Cells that are repaired in place. Methods take a rule and rows that break it, and give those they leave."""

    book: RuleBook
    cells: FloatArray  # Shape (n_rows, n_columns)
    features: FloatArray  # Shape (n_rows, width)
    rng: np.random.Generator

    def run(self) -> None:
        """Exchange values between rows, else set what the condition demands, else take those of a row without fault."""
        book, cells = self.book, self.cells
        for _ in range(_PASSES):
            for at, rule in self.turned:
                at_fault = np.flatnonzero(book.breaks(at, book.rules[at], book.written(cells)))
                for way in (self._exchange, self._set, self._take):
                    if len(at_fault):
                        at_fault = way(at, rule, at_fault)
            if not book.broken(cells).any():
                return
        roots = dict.fromkeys(root for _, rule in book.repairable for name in rule.names for root in book.behind(name))
        every = np.ones(len(cells), dtype=np.bool_)
        self._copy(np.flatnonzero(book.broken(cells).any(axis=0)), every, list(roots))

    @cached_property
    def turned(self) -> list[tuple[int, Rule]]:
        """Conditions and rules of pairs; where a number beyond a limit tells of nulls, turned round.

        Rows near a limit exchange numbers that differ little: this moves less than to exchange nulls for values.
        """
        found = []
        for at, rule in self.book.repairable:
            if len(rule.when) == len(rule.then) == 1:
                (when,), (then,) = rule.when, rule.then
                of_numbers = "null" not in then.operator and not self.book.columns[then.column].kind.coded
                if when.operator in _COMPARED and self.book.roots(when.column) and not of_numbers:
                    other, own = (replace(test, operator=_NEGATED[test.operator]) for test in (then, when))
                    rule = replace(rule, when=(other,), then=(own,))
            found.append((at, rule))
        return found

    def _targets(self, rule: Rule) -> list[str]:
        """The masked columns that a repair changes."""
        roots = self.book.roots
        if rule.kind == "pairs":
            return roots(rule.target) or roots(rule.terms[0][0])
        found = [root for test in rule.then for root in roots(test.column)]
        found = found or [root for test in rule.then if test.other for root in roots(test.other)]
        return list(dict.fromkeys(found))

    def _exchange(self, at: int, rule: Rule, rows: IntArray) -> IntArray:
        """Exchange targets with those of similar rows, where fewer rules are broken then."""
        book, cells = self.book, self.cells
        names, free = self._targets(rule), np.ones(len(cells), dtype=np.bool_)
        places = [book.positions[name] for name in names]
        like = {other: one for other, one in self.turned if not set(names).isdisjoint(self._targets(one))}
        at_fault = book.broken(cells)[list(like)].any(axis=0)
        if rule.kind == "condition":
            batch, given = book.written(cells), book.written(cells[rows])
            free = _all(rule.then, batch, book.columns)
            for one in like.values():  # a partner has no use for targets that its other columns forbid
                fixed = one.kind == "condition" and not any(test.other for test in one.then)
                if fixed and not _all(one.then, given, book.columns).any():
                    free &= ~_all(one.when, batch, book.columns)
        for attempt in range(_TRIES if names else 0):
            chosen, partner = rows, free.copy()
            if attempt < _TRIES / 2:  # with rows whose targets are at fault too: one exchange repairs two
                partner &= at_fault
                chosen = self.rng.permutation(rows)[: -(-len(rows) // 2)] if rule.kind == "pairs" else rows
            partner[chosen] = False
            chosen, partners = self._match(chosen, np.flatnonzero(partner), names, rule)
            own, other = chosen[partners >= 0], partners[partners >= 0]
            mine, theirs = cells[own], cells[other]
            mine[:, places], theirs[:, places] = theirs[:, places].copy(), mine[:, places].copy()
            book.derive(mine, self.rng)
            book.derive(theirs, self.rng)
            broken = book.broken(np.concatenate([cells[own], cells[other], mine, theirs]))
            faults = broken.sum(axis=0).reshape(4, len(own))
            better = (faults[2] + faults[3] < faults[0] + faults[1]) & ~broken[at].reshape(4, len(own))[2]
            cells[own[better]], cells[other[better]] = mine[better], theirs[better]
            free[other[better]] = False
            rows = rows[book.breaks(at, rule, book.written(cells[rows]))]
            if not len(rows):
                break
        return rows

    def _set(self, at: int, rule: Rule, rows: IntArray) -> IntArray:
        """Set the only value that a condition allows; rows where it allows several are left."""
        if rule.kind == "pairs":
            return rows
        changed = self.cells[rows]
        for test in rule.then:
            value, name = self.book.only(test), self.book.masked_for(test.column)
            if value is None or self.book.columns[name].role is not Role.MASKED:
                return rows
            other = name == test.column or value != self.book.columns[test.column].spike
            changed[:, self.book.positions[name]] = value if other else np.nan
        self.book.derive(changed, self.rng)
        better = ~self.book.breaks(at, rule, self.book.written(changed))
        self.cells[rows[better]] = changed[better]
        return np.asarray(rows[~better])

    def _take(self, at: int, rule: Rule, rows: IntArray) -> IntArray:
        """Take the targets from a similar row that meets the rule."""
        donors = np.ones(len(self.cells), dtype=np.bool_)
        if rule.kind == "condition":
            donors = _all(rule.when, self.book.written(self.cells), self.book.columns)
        return self._copy(rows, donors, self._targets(rule))

    def _copy(self, rows: IntArray, donors: BoolArray, names: list[str]) -> IntArray:
        """Copy columns from similar donors without fault, where that leaves fewer faults."""
        cells, places = self.cells, [self.book.positions[name] for name in names]
        for _ in range(_TRIES if names else 0):
            whole = ~self.book.broken(cells).any(axis=0)
            rows, partners = self._match(rows, np.flatnonzero(whole & donors), names)
            paired = partners >= 0
            own = rows[paired]
            changed = cells[own]
            changed[:, places] = cells[partners[paired]][:, places]
            self.book.derive(changed, self.rng)
            before, after = np.split(self.book.broken(np.concatenate([cells[own], changed])).sum(axis=0), 2)
            better = after < before
            cells[own[better]] = changed[better]
            rows = np.sort(np.concatenate([rows[~paired], own[~better]]))
            if not len(rows):
                break
        return rows

    def _match(
        self, rows: IntArray, candidates: IntArray, names: Sequence[str], exchanged: Rule | None = None
    ) -> tuple[IntArray, IntArray]:
        """The rows in random order, and for each a similar candidate in all but some columns; -1 where none is left.

        `exchanged`: each candidate is taken once, and one whose exchange this rule allows if there is any.
        """
        from scipy.optimize import linear_sum_assignment  # here, as both take .3 s to load
        from scipy.spatial.distance import cdist

        rows, candidates = self.rng.permutation(rows), self.rng.permutation(candidates)
        partners = np.full(len(rows), -1, dtype=np.int64)
        used = np.ones(self.features.shape[1], dtype=np.bool_)
        for name in names:
            used[slice(*self.book.blocks.get(name, (0, 0)))] = False
        at = 0
        for begin in range(0, len(rows), _ROWS):
            part = rows[begin : begin + _ROWS]
            if exchanged is None and len(candidates):
                at = int(self.rng.integers(len(candidates)))
                chosen = candidates[(at + np.arange(min(_CANDIDATES, len(candidates)))) % len(candidates)]
                near = cdist(self.features[part][:, used], self.features[chosen][:, used]).argmin(axis=1)
                partners[begin : begin + len(part)] = chosen[near]
                continue
            share = max(len(part), min(_CANDIDATES, (len(candidates) - at) // max(1, -(-(len(rows) - begin) // _ROWS))))
            chosen = candidates[at : at + share]
            at += len(chosen)
            if len(chosen):
                distances = cdist(self.features[part][:, used], self.features[chosen][:, used])
                if exchanged is not None:
                    distances += ~self._allowed(exchanged, part, chosen, names) * _FAR
                own, other = linear_sum_assignment(distances)
                partners[begin + own] = chosen[other]
        return rows, partners

    def _allowed(self, rule: Rule, rows: IntArray, others: IntArray, names: Sequence[str]) -> BoolArray:
        """Which exchanges of targets comparisons with other columns allow on both sides, (n_rows, n_others)."""
        found = np.ones((len(rows), len(others)), dtype=np.bool_)
        mine, theirs = (self.book.written(self.cells[each]) for each in (rows, others))
        for test in rule.then:
            if test.column in names and test.other and test.other not in names and test.operator in _COMPARED:
                compare = _COMPARED[test.operator]
                own, own_limit = (numbers(mine.column(name))[:, None] for name in (test.column, test.other))
                other, other_limit = (numbers(theirs.column(name)) for name in (test.column, test.other))
                found &= compare(other, own_limit) & compare(own, other_limit)
        return found


def _moved(before: FloatArray, after: FloatArray) -> IntArray:
    """See `Kept.moved`."""
    others = (before != after) & ~(np.isnan(before) & np.isnan(after))
    found = np.zeros((2, before.shape[1]), dtype=np.int64)
    for at in np.flatnonzero(others.any(axis=0)):
        rows = others[:, at]
        values, which = np.unique(np.concatenate([before[rows, at], after[rows, at]]), return_inverse=True)
        signs = np.repeat([1.0, -1.0], np.count_nonzero(rows))
        left = np.bincount(which.reshape(-1), signs, len(values))
        found[:, at] = np.count_nonzero(rows), np.abs(left).sum() / 2
    return found


def _not_above(limit: FloatArray, values: FloatArray, grid: Grid) -> FloatArray:
    """The nearest values on a grid that are not above a limit, shape (n_rows,)."""
    found, step = replace(grid, heaps=None).round(values), grid.step or 0.0
    found = np.where(found > limit, np.maximum(found - step, grid.low), found)
    return grid.on_heaps(found, limit)


def _number_within(labels: IntArray) -> IntArray:
    """How many places before each have its label, shape (n,)."""
    order, starts = sort_groups(labels)
    found = np.empty(len(labels), dtype=np.int64)
    found[order] = places(np.diff(starts))[1]
    return found


def _too_far(rule: Rule, name: str, batch: pa.RecordBatch, wanted: FloatArray) -> FloatArray:
    """How far above the place that gives a product the wanted value a column lies; not finite where none does."""
    own = [factor for factor in rule.factors if name in dict(factor.terms)]
    others = replace(rule, factors=tuple(factor for factor in rule.factors if factor not in own))
    power = sum(-1.0 if factor.divides else 1.0 for factor in own)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = wanted / _product(others, batch)
        place = np.sign(share) * np.abs(share) ** (1.0 / power)
        return np.asarray((_sum(own[0], batch) - place) / dict(own[0].terms)[name])


def _excess(rule: Rule, value: FloatArray, batch: pa.RecordBatch, grid: Grid) -> FloatArray:
    """How far values lie beyond bounds; 0 inside, and of what is missing; of a limit, how far it lies below them."""
    if rule.kind == "limit":
        return np.minimum(np.nan_to_num(_highest(rule, batch) - grid.low), 0.0)
    beyond = value - np.clip(value, grid.low, grid.high)
    beyond[np.isnan(beyond) | (np.abs(beyond) <= _RELATIVE * np.abs(value))] = 0.0
    return beyond
