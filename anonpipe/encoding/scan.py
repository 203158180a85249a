"""One pass over the input: counts, moments, categories and a fingerprint, mergeable in their order."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column, Kind, Role
from anonpipe.encoding.columns import (
    LARGEST,
    ColumnScan,
    Faults,
    Numbers,
    Outermost,
    Sums,
    absent,
    code_of,
    feature_width,
    merge_columns,
    most_for,
    numbers_by,
    pooled,
    scan_codes,
    scan_numbers,
)
from anonpipe.encoding.identifiers import rows_of as _rows
from anonpipe.encoding.quantiles import Radix
from anonpipe.encoding.row_hash import add_fingerprints, fingerprint, population, row_lanes
from anonpipe.encoding.values import as_dictionary, cut_to_days, level_array, numbers, of_days, plain
from anonpipe.errors import LOWER_K, InputError, by_column
from anonpipe.partition.strata import Units, UnitSets
from anonpipe.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from anonpipe.encoding.cells import ColumnEncoder


MOST_DUMMIES = 400
_MOST_INDEX = 2**40


@dataclass(frozen=True, eq=False)
class Scan:
    """What a batch, a unit or the whole input holds."""

    rows: int  # Number of records
    # Two sums modulo 2^64 of the hashes of the rows, each bound to its place: equal for the same rows in the same
    # order, whatever the file layout and the encoding
    fingerprint: tuple[int, int]
    # The same without places: equal for the same rows in any order, of which the same are held out
    population: tuple[int, int]
    columns: dict[str, ColumnScan]  # The released columns
    # counted_by, counted_codes, counted_rows: columns whose combinations are counted (strata, classes), the
    # combinations of their codes that occur (nulls: the number of categories), and the records of each; shapes
    # (n_combinations, n_columns) and (n_combinations,)
    counted_by: tuple[str, ...] = ()
    counted_codes: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    counted_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # Of each column carried as numbers count, mean and sum of squared deviations in each of these combinations
    by_combination: dict[str, Numbers] = field(default_factory=dict)
    # strata_by, inside: the columns that make the strata; and of each masked column carried as codes the combinations
    # of their codes with its own that occur, shape (n, n_strata_columns + 1), and the records of each, shape (n,).
    # Empty without strata.
    strata_by: tuple[str, ...] = ()
    inside: dict[str, tuple[IntArray, IntArray]] = field(default_factory=dict)
    # scored_by, scored_codes, scored: columns inside whose combinations values are ranked, the combinations of their
    # codes that occur, shape (n_combinations, n_columns), and of each column that is carried by normal scores its
    # finite values at their combination
    scored_by: tuple[str, ...] = ()
    scored_codes: IntArray = field(default_factory=lambda: np.empty((1, 0), dtype=np.int64))
    scored: dict[str, Radix] = field(default_factory=dict)
    # Of each column of which dominant extremes are top- or bottom-coded, the outermost finite values at each of
    # `counted_codes` (at one place without any)
    outermost: dict[str, Outermost] = field(default_factory=dict)
    # counted_units, inside_units, null_units: where units may have several rows: the units of each combination of
    # `counted_codes`, of each of `inside` (which is then of all masked columns carried as codes), and those without a
    # value in each column carried as numbers (at one place). None and empty otherwise.
    counted_units: UnitSets | None = None
    inside_units: dict[str, UnitSets] = field(default_factory=dict)
    null_units: dict[str, UnitSets] = field(default_factory=dict)

    def code_counts(self, name: str) -> IntArray:
        """Records of each code of a column, the nulls last if there are any, shape (n_codes,)."""
        return self.columns[name].code_counts

    def combination_counts(self, encoder: ColumnEncoder, names: Sequence[str]) -> IntArray:
        """Records of each combination of codes of counted columns, in mixed radix order, shape (n_combinations,)."""
        index, size = self._combination_places(encoder, names)
        counts = np.zeros(size, dtype=np.int64)
        np.add.at(counts, index, self.counted_rows)
        return counts

    def combination_units(self, encoder: ColumnEncoder, names: Sequence[str]) -> UnitSets | None:
        """The units of the same combinations, at the same places; None where they were not counted."""
        if self.counted_units is None:
            return None
        return self.counted_units.moved(self._combination_places(encoder, names)[0])

    def _combination_places(self, encoder: ColumnEncoder, names: Sequence[str]) -> tuple[IntArray, int]:
        """Where each counted combination stands in mixed radix order of some columns, and how many places there are."""
        if not set(names) <= set(self.counted_by):
            raise ValueError("the scan did not count these columns together; scan again")
        sizes = [encoder.code_count(name) for name in names]
        index = np.zeros(len(self.counted_rows), dtype=np.int64)
        for name, size in zip(names, sizes, strict=True):
            index = index * size + self.counted_codes[:, self.counted_by.index(name)]
        return index, math.prod(sizes)

    def without_units(self) -> Scan:
        """The same of a table whose units have a row each, as if nobody had asked for units."""
        inside = self.inside if self.strata_by else {}
        return replace(self, counted_units=None, inside_units={}, null_units={}, inside=inside)

    @property
    def digest(self) -> str:
        """SHA-256 over the records: their content, which are held out, and the columns' names.

        Neither order of rows and columns, nor file layout, encoding or width of numbers change it.
        """
        text = json.dumps([list(self.population), sorted(self.columns)])
        return hashlib.sha256(text.encode()).hexdigest()


SCAN_RECORDS = (Scan, ColumnScan, Faults, Sums, Radix, Outermost, UnitSets)  # What a staged scan is made of


def scan_batch(
    batch: pa.RecordBatch,
    columns: Mapping[str, Column],
    first_row: int,
    counted_by: Sequence[str],
    kept: npt.NDArray[np.bool_] | None = None,
    strata_by: Sequence[str] = (),
    scored_by: Sequence[str] = (),
    units: tuple[Units, int] | None = None,
    k: int = 0,
) -> Scan:
    """Scan consecutive rows; kept (n_rows,); units (n_rows,)."""
    own = None if units is None else _Own.of(units[0] if kept is None else units[0][kept], units[1])
    scans: dict[str, ColumnScan] = {}
    codes: dict[str, IntArray] = {}
    arrays: dict[str, pa.Array] = {}
    for name in batch.schema.names:
        if name not in columns or not columns[name].role.released:
            continue
        whole = as_dictionary(batch.column(name)) if columns[name].staged_as_codes else batch.column(name)
        array = whole if kept is None else whole.filter(pa.array(kept))
        if columns[name].staged_as_codes:
            scans[name], codes[name] = scan_codes(name, array, columns[name])
            if columns[name].levels is None and pa.types.is_dictionary(batch.schema.field(name).type):
                categories = scans[name].categories
                if len(array.dictionary) > len(categories or ()):
                    scans[name] = replace(scans[name], unused=absent(plain(array.dictionary), categories))
        else:
            known = _known_days(name, array)
            scans[name] = scan_numbers(known, columns[name])  # which counts times of day
            arrays[name] = cut_to_days(known, columns[name].step)
        if kept is not None and not kept.all():
            rest, column = whole.filter(pa.array(~kept)), columns[name]
            coded = column.staged_as_codes
            held_out = scan_codes(name, rest, column)[0] if coded else scan_numbers(_known_days(name, rest), column)
            scans[name] = replace(scans[name], held_out=held_out.own_faults)
    combinations, counts, which = _inside(counted_by, codes)
    moments = {name: numbers_by(array, which, len(counts)) for name, array in arrays.items() if len(counts)}
    most = most_for(k, units is not None)
    outermost: dict[str, Outermost] = {}
    for name, array in arrays.items():
        if k and columns[name].codes_extremes:
            values, there = _finite(array)
            places = which[there] if counted_by else np.zeros(len(values), dtype=np.int64)
            outermost[name] = Outermost.of(values, places, max(1, len(counts)), most)
    rows = batch.num_rows if kept is None else int(np.count_nonzero(kept))
    within = {
        name: _inside([*strata_by, name], codes)
        for name in codes
        if (strata_by or own is not None) and columns[name].role.synthesized
    }
    inside = {name: found[:2] for name, found in within.items()}
    by_unit: dict[str, Any] = {}
    if own is not None:
        by_unit = {
            "counted_units": own.at(which) if counted_by else None,
            "inside_units": {name: own.at(places) for name, (_, _, places) in within.items()},
            "null_units": {name: own.without(array) for name, array in arrays.items()},
        }
    lanes, by = row_lanes(batch, columns), (tuple(counted_by), combinations, counts, moments)
    scored = tuple(scored_by), *_scored(arrays, columns, scored_by, codes)
    total, everybody = fingerprint(lanes, first_row), population(lanes, kept)
    return Scan(rows, total, everybody, scans, *by, tuple(strata_by), inside, *scored, outermost, **by_unit)


def _known_days(name: str, array: pa.Array) -> pa.Array:
    """Texts of days as dates, once for all that is counted."""
    days, wrong = of_days(array)
    if wrong:
        raise InputError(
            f"column {name!r} is declared date and holds text, {_rows(wrong)} or more of another form than 1990-01-31 "
            "(or of days that no month has); correct the input, or, of dates with times, cut them to the day"
        )
    return days


def _finite(array: pa.Array) -> tuple[FloatArray, BoolArray]:
    """The numbers of a column that can be counted, and whose rows they are."""
    values = numbers(array)
    there = np.abs(values) <= LARGEST  # false for NaN
    return values[there], there


@dataclass(frozen=True, eq=False)
class _Own:
    """The units of the rows of a batch, ascending, and where their rows stand."""

    order: IntArray
    units: Units
    enough: int

    @classmethod
    def of(cls, units: Units, enough: int) -> _Own:
        """Sorted once, for all columns."""
        order = np.argsort(units, kind="stable")
        return cls(order, units[order], enough)

    def at(self, places: IntArray) -> UnitSets:
        """The units of each place."""
        return UnitSets.of_ascending(places[self.order], self.units, self.enough)

    def without(self, array: pa.Array) -> UnitSets:
        """The units of rows without a number."""
        missing = self.units[np.isnan(numbers(array))[self.order]]
        return UnitSets.of_ascending(np.zeros(len(missing), dtype=np.int64), missing, self.enough)


def _scored(
    arrays: Mapping[str, pa.Array], columns: Mapping[str, Column], by: Sequence[str], codes: Mapping[str, IntArray]
) -> tuple[IntArray, dict[str, Radix]]:
    """The combinations of codes inside which values are ranked, and the values of each column for which they are."""
    found: dict[str, Radix] = {}
    combinations, which = np.empty((1, 0), dtype=np.int64), None
    if by:
        combinations, _, which = _inside(by, codes)
    for name, array in arrays.items():
        if columns[name].scored:
            values, there = _finite(array)
            found[name] = Radix.of(values, None if which is None else which[there])
    return combinations, found


def _inside(names: Sequence[str], codes: Mapping[str, IntArray]) -> tuple[IntArray, IntArray, IntArray]:
    """The combinations of codes of some columns, the records of each, and where each row's stands."""
    if not names:
        return _count_combinations(np.empty((0, 0), dtype=np.int64))
    return _count_combinations(np.stack([codes[name] for name in names], axis=1))


def _count_combinations(codes: IntArray, rows: IntArray | int = 1) -> tuple[IntArray, IntArray, IntArray]:
    """The combinations that occur, in ascending order, the sum of `rows` over each, and where each row's stands."""
    if not codes.size:
        return codes[:0], np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    index = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        if int(index.max()) > _MOST_INDEX:
            index = np.unique(index, return_inverse=True)[1]
        index = index * (int(column.max()) + 1) + column
    _, first, which = np.unique(index, return_index=True, return_inverse=True)
    counts = np.zeros(len(first), dtype=np.int64)
    np.add.at(counts, which, rows)
    return codes[first], counts, which


def merge_scans(scans: Iterable[Scan]) -> Scan:
    """The scan of all parts together, merged in the given order, one after the other."""
    merged: Scan | None = None
    for scan in scans:
        merged = scan if merged is None else _merge(merged, scan)
    if merged is None:
        raise InputError("the input has no rows; give a table of at least k rows")
    return merged


def _merge(a: Scan, b: Scan) -> Scan:
    if a.counted_by != b.counted_by or list(a.columns) != list(b.columns):
        raise ValueError("the scans are of different columns")
    columns = {name: merge_columns(name, a.columns[name], b.columns[name]) for name in a.columns}
    codes = np.concatenate([_in_terms_of(columns, part, part.counted_by, part.counted_codes) for part in (a, b)])
    combinations, counts, which = _count_combinations(codes, np.concatenate([a.counted_rows, b.counted_rows]))
    numbers = {
        name: _merge_numbers(a, b, name, which, len(counts)) for name in {**a.by_combination, **b.by_combination}
    }
    total = add_fingerprints(a.fingerprint, b.fingerprint)
    within = {name: _merge_inside(a, b, name, columns) for name in a.inside}
    inside = {name: found[:2] for name, found in within.items()}
    by_unit: dict[str, Any] = {
        "counted_units": _merge_units(a.counted_units, b.counted_units, len(a.counted_codes), which),
        "inside_units": {
            name: _merge_units(a.inside_units[name], b.inside_units[name], len(a.inside[name][0]), places)
            for name, (_, _, places) in within.items()
            if name in a.inside_units
        },
        "null_units": {name: each.merge(b.null_units[name]) for name, each in a.null_units.items()},
    }
    everybody, by = add_fingerprints(a.population, b.population), (a.counted_by, combinations, counts, numbers)
    scored = a.scored_by, *_merge_scored(a, b, columns)
    size, in_a = max(1, len(counts)), len(a.counted_codes)
    outermost = {}
    for name, each in a.outermost.items():
        parts = (each, which[:in_a]), (b.outermost[name], which[in_a:])
        one, two = (part.moved(places, size) if len(places) else part for part, places in parts)
        outermost[name] = one.merge(two)
    return Scan(a.rows + b.rows, total, everybody, columns, *by, a.strata_by, inside, *scored, outermost, **by_unit)


def _merge_units(a: UnitSets | None, b: UnitSets | None, in_a: int, which: IntArray) -> UnitSets | None:
    """Units of two parts together; `which` tells the new places of those of a, so many, then of b."""
    return None if a is None or b is None else a.moved(which[:in_a]).merge(b.moved(which[in_a:]))


def _merge_scored(a: Scan, b: Scan, merged: Mapping[str, ColumnScan]) -> tuple[IntArray, dict[str, Radix]]:
    """Values that are ranked, of two parts together."""
    if not a.scored_by:
        return a.scored_codes, {name: a.scored[name].merge(b.scored[name]) for name in a.scored}
    codes = np.concatenate([_in_terms_of(merged, part, a.scored_by, part.scored_codes) for part in (a, b)])
    combinations, _, which = _count_combinations(codes)
    in_a, in_b = which[: len(a.scored_codes)], which[len(a.scored_codes) :]
    return combinations, {name: a.scored[name].moved(in_a).merge(b.scored[name].moved(in_b)) for name in a.scored}


MOST_INSIDE = 1_000_000


def _merge_inside(a: Scan, b: Scan, name: str, merged: Mapping[str, ColumnScan]) -> tuple[IntArray, IntArray, IntArray]:
    """Codes of a masked column inside the strata, of two parts together, and where those of either stand."""
    names = (*a.strata_by, name)
    codes = np.concatenate([_in_terms_of(merged, part, names, part.inside[name][0]) for part in (a, b)])
    found, rows, which = _count_combinations(codes, np.concatenate([part.inside[name][1] for part in (a, b)]))
    if len(rows) > MOST_INSIDE:
        raise InputError(
            f"column {name!r} has more than {MOST_INSIDE:,} combinations of its categories with those of strata.by; "
            "take fewer or coarser strata, or coarsen the column"
        )
    return found, rows, which


def _merge_numbers(a: Scan, b: Scan, name: str, which: IntArray, size: int) -> Numbers:
    """Numbers of a column in the merged combinations, of which `which` tells for those of a, then of b."""
    nothing = np.empty(0), np.empty(0), np.empty(0)
    parts = zip(a.by_combination.get(name, nothing), b.by_combination.get(name, nothing), strict=True)
    n, mean, m2 = (np.concatenate(pair) for pair in parts)
    return pooled(which, size, n, mean, m2)


def _in_terms_of(merged: Mapping[str, ColumnScan], part: Scan, names: Sequence[str], given: IntArray) -> IntArray:
    """Codes of a part's columns in terms of the merged categories, shape (n, n_names)."""
    codes = given.copy()
    for position, name in enumerate(names):
        new = code_of(part.columns[name].categories, merged[name].categories)
        codes[:, position] = np.append(new, len(merged[name].categories or ()))[codes[:, position]]
    return codes


def check_scan(
    scan: Scan,
    columns: Mapping[str, Column],
    k: int,
    remedied: Collection[str] = (),
    lower_k: str = LOWER_K,
    held_out: bool = False,
) -> list[str]:
    """Hold the input, without the rows that are held out, against the job."""
    problems, warnings = [], list[str]()
    if scan.rows < k:
        rest = " besides those that are held out" if held_out else ""
        problems.append(f"the input has {_rows(scan.rows)}{rest}, fewer than k={k}; add rows, or {lower_k}")
    if one := [name for name, each in scan.columns.items() if each.constant and each.values and not each.nulls]:
        hold = "holds one value only: it is released as it is"
        several = "hold one value only: they are released as they are"
        names = ", ".join(map(repr, one))
        warnings.append(f"columns {names} {several}" if len(one) > 1 else f"column {names} {hold}")
    for name, scanned in scan.columns.items():
        problems += _problems(name, columns[name], scanned)
        warnings += _warnings(name, columns[name], scanned, 1 if name in remedied else k)
    warnings += by_column(_moved(columns, scan.columns))
    dummies = {
        name: feature_width(columns[name], part) for name, part in scan.columns.items() if part.counts is not None
    }
    if (total := sum(dummies.values())) > MOST_DUMMIES:
        most = ", ".join(f"{name!r} ({dummies[name]})" for name in sorted(dummies, key=lambda name: -dummies[name])[:3])
        problems.append(
            f"the masked categories make {total} feature columns, more than {MOST_DUMMIES}; give counts kind: "
            f"integer, ordered ones kind: ordinal, or drop or coarsen the columns with most categories: {most}"
        )
    if problems:
        raise InputError("\n".join(problems))
    return warnings


def _problems(name: str, column: Column, scanned: ColumnScan) -> list[str]:
    found, faults = [], scanned.faults
    if faults.infinite:
        found.append(
            f"column {name!r} holds {_rows(faults.infinite)} with a value that is infinite or beyond 1e150; "
            "replace them by nulls or drop it"
        )
    if faults.inexact:
        found.append(
            f"column {name!r} holds {_rows(faults.inexact)} with a whole number of 2^53 or more that would be "
            "rounded; if these are codes or keys give it kind categorical, or role identifier or dropped, else "
            "divide them"
        )
    if column.role.synthesized and scanned.nulls == scanned.rows:
        found.append(f"column {name!r} holds nulls only, there is nothing to mask; give it role dropped")
    if column.missing == "error" and faults.nulls:
        found.append(
            f"column {name!r} holds {_rows(faults.nulls)} with a null, and the job says missing: error; "
            "correct the input or say missing: carry"
        )
    if column.role is Role.SAMPLING_WEIGHT and (faults.nulls or faults.not_positive):
        found.append(
            f"column {name!r} has role sampling_weight and holds {_rows(faults.nulls)} with a null and "
            f"{_rows(faults.not_positive)} with a weight of 0 or less; a weight says how many persons a record stands "
            "for: correct these rows, remove those that stand for nobody, or give the column role masked"
        )
    if column.levels is not None and faults.outside:
        found.append(
            f"column {name!r} holds {_rows(faults.outside)} whose value is not among its declared levels; "
            "correct the input or complete the levels"
        )
    if column.kind is Kind.BINARY and scanned.counts is not None and np.count_nonzero(scanned.counts) > 2:
        found.append(
            f"column {name!r} is declared binary and holds {np.count_nonzero(scanned.counts)} distinct values; "
            "declare it categorical or ordinal"
        )
    return found


def _warnings(name: str, column: Column, scanned: ColumnScan, k: int) -> list[str]:
    found = []
    if scanned.unused is not None:
        found.append(
            f"column {name!r}: its dictionary has {_categories(len(scanned.unused))} that no record has; the released "
            "one is without, as without what is suppressed, since a dictionary may be made of records; to release all "
            "categories of the code book, in its order, declare levels"
        )
    if column.kind is Kind.ORDINAL and column.levels is None and scanned.holds_text:
        found.append(f"column {name!r} is ordinal text without levels: its order is alphabetical; declare levels")
    if _all_happened(name, column, scanned):
        found.append(
            f"column {name!r}: its event lists every value that the column has, so that nobody is censored; list under "
            "event only what means that it happened"
        )
    rare = int(np.count_nonzero((scanned.code_counts > 0) & (scanned.code_counts < k)))
    if rare and column.role.unchanged:
        found.append(
            f"column {name!r} is released unchanged and has {_categories(rare)} with fewer than k={k} records: "
            "the gate on combinations of key variables will fail; coarsen or mask it"
        )
    return found


def _moved(columns: Mapping[str, Column], scanned: Mapping[str, ColumnScan]) -> Iterator[tuple[str, str, str]]:
    """Columns with numbers or dates that are released as others by declared bounds, or as whole ones."""
    for name, each in scanned.items():
        column = columns[name]
        if each.timed and column.step is None:
            hours = "to keep hours give step: 0.0416666666667 (1/24 of a day)"
            yield (
                name,
                _rows(each.timed),
                f"times of day are lost, as whole days of the time zone are released; {hours}",
            )
        if column.levels is None and each.outside:
            bounds = "the declared bounds" if column.bounds is not None else "what a survival time can be (0 or more)"
            text = f"values outside {bounds} are released inside; correct these bounds unless they are right"
            yield name, _part(each.outside, each), text
        if each.off_step and column.step is None and column.role.synthesized:
            whole = "to keep decimals declare it continuous, with a step such as 0.001"
            yield name, _rows(each.off_step), f"declared integer, numbers that are not whole are rounded; {whole}"


def _part(rows: int, of: ColumnScan) -> str:
    return f"{_rows(rows)}, {rows / max(1, of.rows):.1%}"


def off_steps(scan: Scan, columns: Mapping[str, Column], origins: Mapping[str, float]) -> list[str]:
    """Warnings on numbers that are not on their declared step, nor (`origins`) all as far from it."""
    cause = "values that are no multiples of the declared step are released as multiples; give the step that they have"
    return by_column(
        (name, _part(each.off_step, each), cause)
        for name, each in scan.columns.items()
        if each.off_step and columns[name].step and columns[name].role.synthesized and not origins.get(name)
    )


def _all_happened(name: str, column: Column, scanned: ColumnScan) -> bool:
    """Whether a survival status has several values, and all of them are the event."""
    if not column.event or scanned.categories is None or scanned.counts is None:
        return False
    present = scanned.categories.filter(pa.array(scanned.counts > 0))
    events = level_array(name, column.event, present.type)
    return len(present) > 1 and bool((code_of(present, events) < len(events)).all())


def _categories(count: int) -> str:
    return "1 category" if count == 1 else f"{count:,} categories"


# --- A line of totals at the end of a table ---------------------------------------------------------------------------

FEWEST = 20  # Rows below which nothing is said

_WORD = re.compile(
    r"\W*((grand|over|sub)?\W*total(s|e|en|i|t)?( g[ée]n[ée]ral| general)?|sums?|summe|gesamt(summe|zahl)?|insgesamt|"
    r"somme|ensemble|suma|soma|som|totaal|razem|yhteens[äa]|i alt)\W*",
    re.IGNORECASE,
)


@dataclass
class TotalLine:
    """Finds out whether the last row of a table is a line of totals: by a word for it, or as its numbers are sums."""

    key: str  # The table's first column, where the word stands
    sums: dict[str, float] = field(default_factory=dict)  # Of the columns of numbers, over all rows
    last: dict[str, float] = field(default_factory=dict)  # The numbers of the last row
    word: bool = False  # Whether the last row has a word for totals
    rows: int = 0

    def add(self, batch: pa.RecordBatch, names: Sequence[str] | None = None) -> Self:
        """Take the next rows; of numbers those in the named columns, all if not given. No other value is kept."""
        if not batch.num_rows:
            return self
        self.last, end = {}, batch.num_rows - 1
        for name in batch.schema.names if names is None else names:
            column = batch.column(name)
            if not (pa.types.is_integer(column.type) or column.type in (pa.float32(), pa.float64())):
                continue
            self.sums[name] = self.sums.get(name, 0.0) + float(pc.sum(column).as_py() or 0.0)
            value = column[end].as_py()
            if value is not None and math.isfinite(value):
                self.last[name] = float(value)
        text = batch.column(self.key)[end].as_py() if self.key in batch.schema.names else None
        self.word = isinstance(text, str) and _WORD.fullmatch(text) is not None
        self.rows += batch.num_rows
        return self

    @classmethod
    def joined(cls, parts: Iterable[TotalLine]) -> TotalLine:
        """That of consecutive parts of a table together."""
        whole = cls("")
        for part in (part for part in parts if part.rows):
            sums = {name: total + whole.sums.get(name, 0.0) for name, total in part.sums.items()}
            whole = cls(part.key, sums, part.last, part.word, part.rows + whole.rows)
        return whole

    def warnings(self) -> list[str]:
        """What to tell of the last row: its number and names of columns, no value."""
        if self.rows < FEWEST:
            return []
        sums = [name for name, value in self.last.items() if value and math.isclose(value, self.sums[name] - value)]
        if not self.word and (len(sums) < 2 or len(self.last) - len(sums) > 1):  # one number may be a key
            return []
        what = f"a word for them in column {self.key!r}" if self.word else f"the sums of {', '.join(map(repr, sums))}"
        return [
            f"row {self.rows:,}, the last one, looks like a line of totals ({what}). It counts as a person, and its "
            "values are masked with those of the others: delete the line in the file, leave it out by a query, or "
            "write input.last_row: record if it is a record"
        ]

    def check(self, last_row: str | None) -> None:
        """Refuse a line of totals, unless the job says that the last row is a record."""
        for text in self.warnings() if last_row is None else ():
            raise InputError(text)
