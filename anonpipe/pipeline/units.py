"""Units that are released whole: their rows are laid side by side before a run, and below each other after it.

The run between knows records that are units, and all that it counts, masks, attacks and measures are units. What is
published is unfolded from the files that were measured, read again, and held against them. Of units with too many rows
records are rows, each with the row before; the measured ones are linked into units (`pipeline/tasks/unfold.py`).
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.special import ndtr

from anonpipe.columns import Kind, Role
from anonpipe.encoding.columns import LARGEST
from anonpipe.encoding.identifiers import UnitColumn, doubled, keyed_values
from anonpipe.encoding.row_hash import identifier_lanes, keyed_rows, row_lanes, value_words
from anonpipe.encoding.scan import MOST_DUMMIES, TotalLine
from anonpipe.encoding.tracers import Tracer
from anonpipe.encoding.values import numbers, plain
from anonpipe.errors import InputError, JobError, plural
from anonpipe.evaluate.risk import EffectiveDimension, effective_dimension, membership_from_moments, normal_scores
from anonpipe.evaluate.utility import ks_distance
from anonpipe.files import make_private
from anonpipe.job import linked
from anonpipe.job.model import Job
from anonpipe.job.wide import ROWS, TIMES, UnitLayout, fits_side_by_side, levels_of, row_name, wide_job, without_values
from anonpipe.kernels.points import places
from anonpipe.methods.masking import MASKERS
from anonpipe.rng import keyed, steward_secret
from anonpipe.source import Source, open_source, read_batches
from anonpipe.storage.sketch import Sketch
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.output_control import about

FOLDER = "units"  # Of the staging: rows side by side; not sealed, as its pages have checksums
RECORD = "units.record"
_FILE = "rows.parquet"
_BUCKET_CELLS = 8_000_000  # Of units that are laid side by side at once
SUMS = 13  # Of each column of `row_sums`
_GROUP_ROWS = 65_536  # Records of a row group
_LEAST = 20  # Units of a number of rows, or twice k: of numbers that fewer have rows are left out
_MOST_TIMES = 24  # Values of the order: of more, gaps between rows are masked
_MOST_PATTERNS = 2_000  # Of these, before rare ones are joined
_MOST_MOVED = 0.1  # Share of the units that get the times of others; else gaps are masked
_MOST_SHIFT = 0.05  # Standard deviations by which these may move mean or deviation of all times
_SIMULATED = 5_000  # Units whose times are simulated
_LEAST_LONGEST = 100  # Units of the largest number of rows, or a 20th of all: moments of its last row rest on these


@dataclass(frozen=True, eq=False)
class Folded:
    """An input whose rows lie side by side, and facts of its rows."""

    layout: UnitLayout
    names: tuple[str, ...]  # The unit and the released columns, in the order of the input
    released: tuple[str, ...]  # The released columns, in the order of the job
    unreleased: tuple[tuple[str, bool], ...]  # Other columns that are not released, and whether they name persons
    digest: str  # Of the job as it was given
    rows: int  # Of the input
    sizes: IntArray  # Units of the input with each number of rows, from 0 on
    constant: tuple[str, ...]  # Columns with one value in every unit that do not say so
    compared: tuple[str, ...]  # Numbers and dates that differ within units
    sums: FloatArray  # `row_sums` of them
    sketches: dict[str, Sketch]  # Of the rows, for the release logs
    form: str  # In which form the rows are masked, and why
    # moved, left_out: units with rare times: those that got others, and those that rules forbid to get others
    moved: int = 0
    left_out: int = 0
    overlapping: int | None = None  # Rows of the input that overlap; None where no rule says ends, or none will overlap

    @property
    def meaning(self) -> str:
        """What a record of the measures is, without a count of the data."""
        if self.layout.linked:
            return (
                f"units are released whole, under new numbers in {self.layout.unit!r}: measures are of rows, each with "
                "its row before; the masked rows were then linked into units, by these columns and nothing else"
            )
        return (
            f"units are released whole, under new numbers in {self.layout.unit!r}: measures are of units, records of "
            f"up to {self.layout.most} rows side by side ({row_name('x', 2)!r} is column x in a unit's second row)"
        )

    def with_strata(self, unit: UnitColumn, job: Job) -> UnitColumn:
        """The unit with what is known of the strata of linked rows: independent records, and rows that hold k units."""
        parts = _rows_in_strata(self.sizes, self.layout.most)
        largest = np.diff(np.minimum(np.cumsum(self.sizes[::-1]), job.k - 1), prepend=0)[::-1]
        sure = tuple(1 + int(largest @ part) for part in parts)
        return replace(unit, effective_rows=_effective_rows(self.sizes, parts, job), sure_in_strata=sure)

    @property
    def _less(self) -> IntArray:
        """By how many rows a released unit of each size is shorter, shape (n_sizes,)."""
        size = np.arange(len(self.sizes))
        return size - _released_number(size, self.layout.numbers)

    def left_out_for_recipients(self, k: int) -> str:
        """What recipients read of rows and units that are left out; as long where there are none."""
        less, fewest = self._less, self.layout.numbers[0]
        cut = about(int((self.sizes * less)[fewest:].sum()), "rows", doubled(k, k * int(less[fewest:].max())))
        gone = about(int(self.sizes[1:fewest].sum()) + self.left_out, "units", k)
        return (
            f"Numbers of rows that few units have are not released. Left out: last rows of longer units ({cut}), and "
            f"units with too few rows or rare values of the order ({gone}). Counts of rows and events are "
            "without them."
        ) + self._empty(" Null in the release, as few units have a value: {}.")

    def _empty(self, text: str) -> str:
        """The text with the columns that are null in the release, or none."""
        return text.format(", ".join(map(repr, self.layout.empty))) if self.layout.empty else ""

    @property
    def warnings(self) -> list[str]:
        """What the steward should know; counts alone."""
        found = []
        if self.constant:
            found.append(
                f"give level: unit to {', '.join(map(repr, self.constant))}: one value in all rows of every unit of the"
                " input, and masked row by row"
            )
        if self.layout.counted:
            names = ", ".join(map(repr, self.layout.counted))
            found.append(f"columns that are the number of rows in all units are counted in the release: {names}")
        less, fewest = self._less, self.layout.numbers[0]
        if (self.sizes * less).any():
            gone, cut = int(self.sizes[1:fewest].sum()), int((self.sizes * less)[fewest:].sum())
            units = f"{plural(gone, 'unit')} with fewer rows than {fewest} and " if gone else ""
            lost = f"{units}{plural(cut, 'row')} of longer units left out"
            found.append(f"numbers of rows that few units have are not released: {lost}")
        if empty := self._empty("null in the release, as fewer than 2 k units have a value: {}"):
            found.append(empty)
        for number, done in (
            (self.moved, "moved to the nearest common ones"),
            (self.left_out, "left out, as a rule ties them to other columns"),
        ):
            if number:
                units = plural(number, "unit")
                found.append(f"column {self.layout.order!r}: {units} with rare combinations of values {done}")
        if self.overlapping is not None:
            why = "linked rows, none of which overlap, disclose too much, or cannot be masked"
            why = _of_overlapping(self.overlapping) if self.overlapping else why
            found.append(f"released rows of a unit may overlap: {why}")
        return found


def _of_overlapping(rows: int) -> str:
    """How many rows keep others from being linked without overlap, and what to do."""
    return (
        f"{plural(rows, 'row')} of the input with an end before the begin, or with a begin before the end of the row "
        "above (or without one there); correct them, or leave them out"
    )


def fold(job: Job, source: Source, folder: Path) -> tuple[Job, Source, Folded]:
    """Lay the rows of each unit side by side in a private folder; the job and the input of records that are units."""
    # The rows are read once, into buckets of whole units by a keyed hash of the unit: memory is that of a bucket.
    make_private(folder)
    key = keyed(steward_secret(), "units", job.digest())
    of_unit, of_row = levels_of(job)
    unit, order = str(job.unit_column), job.release.order
    names = [name for name in source.schema.names if name in {unit, order, *of_unit, *of_row}]
    paths, sketches = _distribute(job, source, names, folder, key)
    facts = _Facts.of(job, paths, key, [name for name in names if name != unit])
    _refuse(job, facts.by_name, int(facts.sizes.sum()))
    compared = tuple(name for name in of_row if not job.columns[name].kind.coded)
    constant = tuple(name for name in of_row if len(facts.sizes) > 2 and not facts.by_name[name][0])
    varying = [name for name in of_row if job.columns[name].role.encoded and name not in {order, *constant}]
    averaged = tuple(name for name in varying if name in {*compared, *facts.ones})
    form, why = _chosen(job, facts, _forms(job, facts, averaged))  # before any writing: it may refuse
    layout, table, made_job = form.layout, form.table, form.job
    sums = _write(job, layout, compared, facts.ones, paths, key, table)
    sides = {side: name for name in (*of_unit, *of_row) for side in layout.wide_names(name)}
    folded = Folded(
        layout,
        names=tuple(name for name in names if name == unit or name in {*of_unit, *of_row}),
        released=tuple(job.released),
        unreleased=tuple(
            (name, column.role.names_persons)
            for name, column in job.columns.items()
            if not column.role.released and name != unit
        ),
        digest=job.digest(),
        rows=source.rows,
        sizes=facts.sizes,
        constant=constant,
        compared=compared,
        sums=sums,
        sketches=sketches,
        form=why,
        moved=table.moved if table else 0,
        left_out=table.left_out if table else 0,
        overlapping=None if layout.end else facts.overlapping,
    )
    types = {side: source.pandas_types[name] for side, name in sides.items() if name in source.pandas_types}
    labels = {side: source.labels[name] for side, name in sides.items() if name in source.labels}
    made = replace(open_source(str(folder / _FILE)), pandas_types=types, labels=labels)
    return made_job, made, folded


@dataclass(frozen=True, eq=False)
class _Facts:
    """What is known of the rows before they are laid in any form."""

    sizes: IntArray  # Units with each number of rows, from 0 on
    by_name: Mapping[str, tuple[int, int]]  # Of each column the units in which it differs, and its nulls
    shares: Mapping[str, FloatArray]  # Of the categories of columns that have some
    ones: Mapping[str, Any]  # Of binary columns the larger value, which counts as 1
    times: _Times | None  # None where there are none, or many
    present: Mapping[str, IntArray]  # Of columns that differ within units: the units with a value in each row
    sequences: FloatArray  # Values of a masked order in the rows of some units, infinite after the last, (n, most)
    counted: tuple[str, ...]  # Columns of units that are the number of their rows
    spells: tuple[str, str] | None  # End and length of rows that begin, in each unit, once the row before has ended
    overlapping: int | None  # Rows that do not; None where no rule says where rows end

    @classmethod
    def of(cls, job: Job, paths: Sequence[Path], key: bytes, names: Sequence[str]) -> _Facts:
        """Read buckets of whole units one by one."""
        of_unit, of_row = levels_of(job)
        order, sizes, found = job.release.order, np.zeros(1, dtype=np.int64), np.zeros((len(names), 2), dtype=np.int64)
        ordered = order in of_row and job.columns[order].role is Role.MASKED
        times, sequences = _Times.none() if ordered else None, np.empty((0, 1))
        coded = [name for name in names if job.columns[name].kind.coded and job.columns[name].kind is not Kind.ORDINAL]
        counts: dict[str, list[pa.Table]] = {name: [] for name in coded}
        present = dict.fromkeys(of_row, np.zeros(0, dtype=np.int64))
        spells, overlapping = linked.end_and_length(job, of_row), 0
        tied = {name for rule in job.parsed_rules for name in rule.names}
        whole = {name for name in of_unit if job.columns[name].kind is Kind.INTEGER and job.columns[name].role.encoded}
        counted = sorted(whole - tied)
        for path in paths:
            bucket = _Bucket.read(job, path, key)
            sizes = added(sizes, np.bincount(bucket.sizes))
            times = times and times.merge(bucket.times(str(order)))
            if ordered and not len(sequences):
                sequences = bucket.first(_SIMULATED).sequences(str(order), int(bucket.sizes.max()))
            found += np.array([bucket.differing_and_nulls(name) for name in names]).reshape(-1, 2)
            overlapping += bucket.overlapping(str(order), spells[0]) if spells else 0
            counted = [name for name in counted if np.array_equal(bucket.of_units(name), bucket.sizes)]
            place = places(bucket.sizes)[1]
            for name in of_row:
                there = bucket.rows.column(name).is_valid().to_numpy(zero_copy_only=False)
                present[name] = added(present[name], np.bincount(place[there]))
            for name in coded:
                counts[name].append(bucket.values_of(name, name in of_unit))
        found_in = {name: pa.concat_tables(each).group_by("value") for name, each in counts.items()}
        summed = {name: each.aggregate([("n", "sum")]) for name, each in found_in.items()}
        shares = {name: _common_shares(each["n_sum"].to_numpy(), job.k) for name, each in summed.items()}
        binary = [name for name in of_row if job.columns[name].kind is Kind.BINARY]
        ones = {name: one for name in binary if (one := pc.max(summed[name]["value"]).as_py()) is not None}
        by_name = {name: (int(a), int(b)) for name, (a, b) in zip(names, found, strict=True)}
        ends = None if overlapping else spells, overlapping if spells else None
        return cls(sizes, by_name, shares, ones, times, present, sequences, tuple(counted), *ends)

    def empty(self, job: Job, most: int) -> tuple[str, ...]:
        """Columns side by side in which fewer than 2 k units have a value, or none where conditions name them."""
        conditions = [rule for rule in job.parsed_rules if rule.kind == "condition"]
        tested = {name for rule in conditions for name in rule.names}
        computed = {name for rule in job.parsed_rules if rule.kind != "condition" for name in rule.names}
        rows = {name: np.append(each, np.zeros(most, dtype=np.int64))[:most] for name, each in self.present.items()}
        few = {name: each < (1 if name in tested else 2 * job.k) for name, each in rows.items() if name not in computed}
        few = {name: each for name, each in few.items() if not each.all()}
        found = [without_values(conditions, {name for name, each in few.items() if each[at]}) for at in range(most)]
        return tuple(row_name(name, at + 1) for name in few for at in range(most) if name in found[at])


def _common_shares(counts: IntArray, k: int) -> FloatArray:
    """Shares of categories without those of fewer than k records, which are joined with others."""
    kept = counts[counts >= k]
    return np.asarray(kept / max(1, kept.sum()))


def _refuse(job: Job, by_name: Mapping[str, tuple[int, int]], units: int) -> None:
    """Refuse columns that are not what the job says of them."""
    found = []
    for name, (differing, nulls) in by_name.items():
        if differing and job.columns[name].level == "unit":
            found.append(
                f"column {name!r} has level: unit, and differs within {differing:,} of {units:,} units of "
                f"{job.unit_column!r}; correct these rows, or leave level out"
            )
        if nulls and name == job.release.order:
            found.append(f"release.order names {name!r}, which holds {plural(nulls, 'row')} with a null; fill them")
        elif nulls and job.columns[name].missing == "error":
            found.append(
                f"column {name!r} holds {plural(nulls, 'row')} with a null, and the job says missing: error; correct "
                "the input or say missing: carry"
            )
    if found:
        raise InputError("\n".join(found))


def _numbers(job: Job, sizes: IntArray, to_link: bool = False) -> tuple[int, ...]:
    """The numbers of rows that are released: enough units have each, or a larger one that is not."""
    # Of linked rows all up to the largest: their number is a masked column.
    least, units = max(2 * job.k, _LEAST), int(sizes.sum())
    longest = least if to_link else max(least, min(_LEAST_LONGEST, units // 20))
    found: list[int] = []
    waiting = 0
    for number in range(len(sizes) - 1, 0, -1):
        waiting += int(sizes[number])
        if waiting >= (least if found else longest):
            found, waiting = [number, *found], 0
            if to_link:
                return tuple(range(1, number + 1))
    if not found:
        raise InputError(
            f"release.unit: pseudonym needs {least} units to release a number of rows, and there are {units:,}; add "
            "units, or release rows without it"
        )
    return tuple(found)


def _released_number(sizes: IntArray, known: Sequence[int] | IntArray) -> IntArray:
    """The largest released number of rows that is not above each size; 0 for none."""
    return np.append(0, known)[np.searchsorted(known, sizes, side="right")]


def added(one: IntArray, other: IntArray) -> IntArray:
    """The sum of counts by number of rows; the shorter one has none of the largest numbers."""
    size = max(len(one), len(other))
    return np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))


def _distribute(
    job: Job, source: Source, names: list[str], folder: Path, key: bytes
) -> tuple[list[Path], dict[str, Sketch]]:
    """Write each row into the bucket of its unit; the files that have rows, and the sketches of all rows."""
    buckets = max(1, -(-source.rows * len(names) // _BUCKET_CELLS))
    unit, paths = str(job.unit_column), [folder / f"bucket-{at}.arrows" for at in range(buckets)]
    tracer = Tracer.of(source.schema, job.columns, keyed(steward_secret(), "records"))
    writers: dict[int, pa.RecordBatchStreamWriter] = {}
    totals = TotalLine(next(iter(job.columns)))
    with contextlib.ExitStack() as opened:
        for split in source.units:
            for first_row, batch in read_batches(source, split, sorted({*tracer.names, *names})):
                tracer.add(batch, first_row)
                totals.add(batch)
                high, _, there = keyed_values(unit, batch.column(unit), key, ("high",))
                if not there.all():
                    raise InputError(
                        f"column {unit!r} (role unit) has {plural(int((~there).sum()), 'row')} without a value, and "
                        "nobody can tell whose they are; fill it, or leave these rows out"
                    )
                which, rows = (high % np.uint64(buckets)).astype(np.int64), batch.select(names)
                for at in np.unique(which).tolist():
                    if at not in writers:
                        writers[at] = opened.enter_context(pa.ipc.new_stream(paths[at], rows.schema))
                    writers[at].write_batch(rows.filter(pa.array(which == at)))
    totals.check(job.source.last_row)
    return [paths[at] for at in sorted(writers)], tracer.sketches


@dataclass(frozen=True, eq=False)
class _Bucket:
    """Rows of whole units, those of a unit below each other in their order."""

    rows: pa.RecordBatch
    # starts, sizes: the first row of each unit, and how many it has, shape (n_units,)
    starts: IntArray
    sizes: IntArray

    @classmethod
    def read(cls, job: Job, path: Path, key: bytes) -> _Bucket:
        """Sort the rows by unit, then by the order that the job names, the end of spells, and at random."""
        with pa.ipc.open_stream(path) as reader:
            rows = reader.read_all().unify_dictionaries().combine_chunks().to_batches()[0]
        unit, order = str(job.unit_column), job.release.order
        high, low, _ = keyed_values(unit, rows.column(unit), key)
        # by content and unit: in no order of the input, and of two units with equal rows in another one
        lanes = row_lanes(rows, job.columns) + identifier_lanes(rows.select([unit]), job.columns)
        drawn = keyed_rows(lanes, keyed(key, "order"), keyed(key, "order, too"))
        by = [np.zeros(len(high))] if order is None else [numbers(rows.column(order))]
        if spells := linked.end_and_length(job, levels_of(job)[1]):  # one of no days lies before the next of that day
            by = [numbers(rows.column(spells[0])), *by]
        sequence = np.lexsort((drawn, *by, low, high))
        new = np.append(True, (np.diff(high[sequence]) != 0) | (np.diff(low[sequence]) != 0))
        starts = np.flatnonzero(new)
        return cls(rows.take(pa.array(sequence)), starts, np.diff(np.append(starts, len(sequence))))

    def first(self, units: int) -> _Bucket:
        """The rows of so many units."""
        sizes = self.sizes[:units]
        return _Bucket(self.rows.slice(0, int(sizes.sum())), self.starts[:units], sizes)

    def differing_and_nulls(self, name: str) -> tuple[int, int]:
        """Units in which a column differs, and its rows without a value."""
        words, there = value_words(self.rows.column(name))
        words, first = np.where(there, words, np.uint64(0)), np.repeat(self.starts, self.sizes)
        other = (words != words[first]) | (there != there[first])
        units = np.count_nonzero(np.add.reduceat(other.astype(np.int64), self.starts))
        return int(units), int(np.count_nonzero(~there))

    def values_of(self, name: str, of_unit: bool) -> pa.Table:
        """The values of a column, and how many rows, or units, have each."""
        column = plain(self.rows.column(name))
        found = pc.value_counts(column.take(pa.array(self.starts)) if of_unit else column)
        return pa.table({"value": found.field(0), "n": found.field(1)})

    def sequences(self, order: str, most: int) -> FloatArray:
        """Values of the order in the first rows of each unit, infinite after the last, shape (n_units, most)."""
        found, (unit, place) = np.full((len(self.sizes), most), np.inf), places(self.sizes)
        early = place < most
        found[unit[early], place[early]] = numbers(self.rows.column(order))[early]
        return found

    def of_units(self, name: str) -> FloatArray:
        """A column as numbers in the first row of each unit, shape (n_units,)."""
        return numbers(self.rows.column(name).take(pa.array(self.starts)))

    def overlapping(self, begin: str, end: str) -> int:
        """Rows that end before they begin, or begin before the row above of the unit has ended, or without its end."""
        begins, ends = (np.floor(numbers(self.rows.column(name))) for name in (begin, end))
        later = np.ones(len(begins), dtype=np.bool_)
        later[self.starts] = False
        return int(np.count_nonzero((ends < begins) | (~(begins >= np.append(0.0, ends[:-1])) & later)))

    def times(self, order: str) -> _Times | None:
        """Values of the order that units have; None where these are many, or none that can be counted."""
        values = plain(self.rows.column(order)).unique()
        if len(values) > _MOST_TIMES or not (np.abs(numbers(values)) <= LARGEST).all():
            return None
        return _Times(values, *_counted(self.sequences(order, _MOST_TIMES))).few()

    def to_wide(self, layout: UnitLayout, table: _Timetable | None) -> pa.RecordBatch:
        """One record for each unit, those of too few rows, or of times that are left out, not among them."""
        number = _released_number(self.sizes, layout.numbers)
        code = np.zeros(len(number), dtype=np.int64)
        if table is not None:
            code = table.code_of(self.sequences(str(layout.order), layout.most), number)
            number, code = np.where(code < 0, 0, number), code[(number > 0) & (code >= 0)]
        starts, number = self.starts[number > 0], number[number > 0]
        columns = {layout.unit: self.rows.column(layout.unit).take(pa.array(starts)), ROWS: pa.array(number)}
        if table is not None:
            columns[TIMES] = pa.array(code + 1)
        columns |= {name: self.rows.column(name).take(pa.array(starts)) for name in layout.of_unit}
        for name in layout.of_row:
            for at, side in enumerate(layout.every_name(name)):
                if side not in layout.empty:
                    columns[side] = self.rows.column(name).take(pa.array(starts + at, mask=number <= at))
        if table is not None:
            for at, side in enumerate(layout.wide_names(str(layout.order))):
                columns[side] = table.values.take(pa.array(table.rows[code, at], mask=number <= at))
        return pa.RecordBatch.from_pydict(columns)

    def rows_as_records(self, job: Job, layout: UnitLayout, ones: Mapping[str, Any]) -> pa.RecordBatch:
        """A record for each row, with facts of its unit and of the row before."""
        number = _released_number(self.sizes, layout.numbers)
        record, place = places(number)
        at = self.starts[record] + place
        first, before = place == 0, pa.array(at - 1, mask=place == 0)
        columns = {name: self.rows.column(name).take(pa.array(at)) for name in (layout.unit, *layout.of_unit)}
        columns |= {ROWS: pa.array(number[record]), linked.ROW: pa.array(place + 1)}
        part = np.select([first, place + 1 >= linked.LATE_FROM], [linked.FIRST, linked.LATE], linked.EARLY)
        columns[linked.PART] = pa.array(part.tolist())
        columns |= {name: self.rows.column(name).take(pa.array(at)) for name in layout.of_row}
        if layout.order in layout.of_row:
            whole, order = linked.whole_gaps(job, layout.order), numbers(self.rows.column(layout.order))[at]
            order = np.floor(order) if whole else order
            since = order if layout.end is None else np.floor(numbers(self.rows.column(layout.end)))[at]
            gaps = np.where(first, 0.0, order - np.append(0.0, since[:-1]))
            columns[linked.gap_name(layout.order)] = pa.array(gaps.astype(np.int64) if whole else gaps, mask=first)
        for name in linked.masked_rows(job, layout):
            columns[linked.before_name(name)] = self.rows.column(name).take(before)
        for name in layout.averaged:
            column = self.rows.column(name)
            values = numbers(pc.equal(plain(column), ones[name]) if name in ones else column)[at]
            there, starts = ~np.isnan(values), np.flatnonzero(first)
            with np.errstate(invalid="ignore"):
                mean = np.add.reduceat(np.where(there, values, 0.0), starts) / np.add.reduceat(there * 1.0, starts)
            columns[linked.mean_name(name)] = pa.array(mean[record], from_pandas=True)
        return pa.RecordBatch.from_pydict(columns)


def _schema(rows: pa.Schema, records: pa.Schema) -> pa.Schema:
    """The columns of records, those of the rows as these have them."""
    known, counted = dict(zip(rows.names, rows, strict=True)), {ROWS, TIMES, linked.ROW, linked.PART}
    return pa.schema(known.get(each.name, each.with_nullable(each.name not in counted)) for each in records)


def _write(
    job: Job,
    layout: UnitLayout,
    compared: Sequence[str],
    ones: Mapping[str, Any],
    paths: Sequence[Path],
    key: bytes,
    table: _Timetable | None,
) -> FloatArray:
    """Write the records bucket by bucket, next to these; returns the `row_sums` of all."""
    found, writer = np.zeros((len(compared), SUMS)), None
    with contextlib.ExitStack() as opened:
        for path in paths:
            bucket = _Bucket.read(job, path, key)
            records = bucket.rows_as_records(job, layout, ones) if layout.linked else bucket.to_wide(layout, table)
            if writer is None:
                schema = _schema(bucket.rows.schema, records.schema)
                made = pq.ParquetWriter(paths[0].parent / _FILE, schema, compression="lz4", write_page_checksum=True)
                writer = opened.enter_context(made)
            writer.write_batch(records.cast(schema), row_group_size=_GROUP_ROWS)
            found += sums_of_records(compared, layout, records)
            path.unlink()
    return found


# --- At which times units have rows: a category, where the order takes few values
# Rows of a panel end with its last year. Masked gaps between rows would lead beyond it, and past years that all have.


@dataclass(frozen=True, eq=False)
class _Times:
    """Values of the order that units have, and how many units have the same ones."""

    values: pa.Array  # Distinct ones, as the input has them
    patterns: FloatArray  # Values in the rows of a unit, infinite after the last, shape (n_patterns, n_rows)
    units: IntArray  # Of each pattern

    @classmethod
    def none(cls) -> _Times:
        """Of no unit."""
        return cls(pa.nulls(0), np.empty((0, _MOST_TIMES)), np.zeros(0, dtype=np.int64))

    def merge(self, other: _Times | None) -> _Times | None:
        """Both together; None where values or patterns are many."""
        if other is None or not len(self.values):
            return other
        values = pa.concat_arrays([self.values, other.values]).unique()
        units = np.concatenate([self.units, other.units])
        return _Times(values, *_counted(np.concatenate([self.patterns, other.patterns]), units)).few()

    def few(self) -> _Times | None:
        """These, or None where values or patterns are many."""
        return self if len(self.values) <= _MOST_TIMES and len(self.units) <= _MOST_PATTERNS else None


def _counted(patterns: FloatArray, units: IntArray | None = None) -> tuple[FloatArray, IntArray]:
    """Distinct patterns in ascending order, and the units of each."""
    first, at = _distinct(patterns)
    return patterns[first], np.bincount(at, weights=units, minlength=len(first)).astype(np.int64)


def _distinct(patterns: FloatArray) -> tuple[IntArray, IntArray]:
    """The first of each distinct pattern, and which one each is; as texts of places, which sort fast."""
    finite = np.isfinite(patterns)
    place = np.where(finite, np.searchsorted(np.unique(patterns[finite]), patterns) + 1, 0).astype(np.uint8)
    texts = np.ascontiguousarray(place).view(f"S{patterns.shape[1]}").ravel()
    _, first, at = np.unique(texts, return_index=True, return_inverse=True)
    return first, at


@dataclass(frozen=True, eq=False)
class _Timetable:
    """The patterns of times that are released."""

    values: pa.Array  # Of the order, ascending
    rows: IntArray  # Of each released pattern the places of its rows among the values, shape (n_released, most)
    codes: dict[bytes, int]  # Of each pattern of the input the released one, or -1
    numbers: tuple[int, ...]  # Of rows that are released
    units: IntArray  # Of each released pattern
    moved: int
    left_out: int

    def code_of(self, sequences: FloatArray, number: IntArray) -> IntArray:
        """The released pattern of each unit; -1 for none."""
        kept = np.where(np.arange(sequences.shape[1]) < number[:, None], sequences, np.inf)
        first, at = _distinct(kept)
        return np.array([self.codes.get(each.tobytes(), -1) for each in kept[first]], dtype=np.int64)[at]


def _timetable(job: Job, times: _Times, known: Sequence[int]) -> _Timetable | None:
    """Patterns that enough units have, rare ones joined; None where rows have one time each, or much would change."""
    # Rare ones that a rule ties to other columns are left out: their units count for no other pattern.
    if (most := known[-1]) > times.patterns.shape[1]:
        return None
    number = _released_number(np.isfinite(times.patterns).sum(axis=1), known)
    there = np.arange(most) < number[:, None]
    patterns, units = _counted(np.where(there, times.patterns[:, :most], np.inf)[number > 0], times.units[number > 0])
    if all(len(np.unique(column[np.isfinite(column)])) == 1 for column in patterns.T):
        return None
    least, every, rows = max(2 * job.k, _LEAST), np.arange(len(units)), np.isfinite(patterns).sum(axis=1)
    tied = any(job.release.order in rule.names and len(set(rule.names)) > 1 for rule in job.parsed_rules)
    joined = np.where(units < least, -1, every) if tied else _joined(patterns, units, least)
    changed = int(units[joined != every].sum())
    if changed > _MOST_MOVED * units.sum() / (2 if tied else 1):
        return None
    if without := set(rows) - set(rows[joined >= 0]):  # numbers of rows of which no unit is left
        fewer = [number for number in known if number not in without]
        return _timetable(job, times, fewer) if fewer else None
    if not tied and _shift(patterns, patterns[joined], units) > _MOST_SHIFT:
        return None
    released = np.unique(joined[joined >= 0])
    code = np.where(joined < 0, -1, np.searchsorted(released, joined))
    ascending = times.values.take(pa.array(np.argsort(numbers(times.values))))
    at = np.searchsorted(numbers(ascending), patterns[released])
    codes = {each.tobytes(): int(own) for each, own in zip(patterns, code, strict=True)}
    kept = np.bincount(code[code >= 0], units[code >= 0]).astype(np.int64)
    return _Timetable(ascending, at, codes, tuple(known), kept, 0 if tied else changed, changed if tied else 0)


def _shift(before: FloatArray, after: FloatArray, units: IntArray) -> float:
    """How far mean or standard deviation of all times move, in standard deviations; `before` are not all equal."""
    rows = np.repeat(units, np.isfinite(before).sum(axis=1))
    means = [np.average(each[np.isfinite(each)], weights=rows) for each in (before, after)]
    centred = [each[np.isfinite(each)] - mean for each, mean in zip((before, after), means, strict=True)]
    sd = [float(np.sqrt(np.average(np.square(each), weights=rows))) for each in centred]
    return max(abs(means[1] - means[0]), abs(sd[1] - sd[0])) / sd[0]


def _joined(patterns: FloatArray, units: IntArray, least: int) -> IntArray:
    """Of each pattern the one that its units get: of as many rows, near, and of enough units, shape (n_patterns,)."""
    # The rarest pattern is joined with the nearest one, until each has enough units.
    joined, left = np.arange(len(patterns)), units.copy()
    rows = np.isfinite(patterns).sum(axis=1)
    place = np.where(np.isfinite(patterns), patterns, 0.0)
    while True:
        alive = np.flatnonzero(left > 0)
        alone = np.bincount(rows[alive])[rows[alive]] == 1
        rare = alive[(left[alive] < least) & ~alone]
        if not len(rare):
            return joined
        at = rare[left[rare].argmin()]
        others = alive[(rows[alive] == rows[at]) & (alive != at)]
        far = np.abs(place[others] - place[at]).sum(axis=1)
        near = others[np.lexsort((-left[others], far))[0]]
        joined[joined == at], left[near], left[at] = near, left[near] + left[at], 0


# --- How rows follow each other otherwise: by gaps, or by shares of the way to the next one
# Dates in a window are no sums of gaps that know nothing of its end; regular gaps are no shares of a window.


def _prefers_shares(job: Job, sequences: FloatArray, known: Sequence[int]) -> bool:
    """Whether masked shares would keep times and gaps better than masked gaps; never without bounds that hold."""
    column = job.columns[str(job.release.order)]
    low, high = column.numeric_bounds
    number = _released_number(np.isfinite(sequences).sum(axis=1), known)
    there = np.arange(sequences.shape[1]) < number[:, None]
    times = np.where(there, sequences, np.nan)[:, : number.max()][number > 0]
    times = np.floor(times) if column.kind is Kind.DATE else times
    if low is None or high is None or number.max() < 2 or np.nanmin(times) < low or np.nanmax(times) > high:
        return False
    number, later = number[number > 0], np.column_stack([times[:, 1:], np.full(len(times), high)])
    room, way = np.where(np.isnan(later), high, later) - low, times - low
    shares = np.divide(way, room, out=np.ones_like(way), where=(room > 0) | np.isnan(way))
    by_gaps = np.minimum(np.cumsum(_simulated(np.diff(times, prepend=0.0), number), axis=1), high)
    drawn = _simulated(shares, number)
    ways = np.cumprod(np.nan_to_num(drawn, nan=1.0)[:, ::-1], axis=1)[:, ::-1] * (high - low)
    return _moved(times, low + np.where(np.isnan(drawn), np.nan, ways)) < _moved(times, by_gaps)


def _simulated(columns: FloatArray, number: IntArray) -> FloatArray:
    """Values with the distribution of each column, and the normal scores' moments among units of as many rows."""
    rng, made = np.random.default_rng(0), np.full(columns.shape, np.nan)
    ascending = [np.sort(column[~np.isnan(column)]) for column in columns.T]
    scores = np.column_stack([normal_scores(*each) for each in zip(columns.T, ascending, strict=True)])
    for size in np.unique(number):
        rows = np.flatnonzero(number == size)
        own = scores[rows, :size]
        covariance = np.atleast_2d(np.cov(own.T)) if len(rows) > 1 else np.zeros((size, size))
        drawn = ndtr(rng.multivariate_normal(own.mean(axis=0), covariance, len(rows), method="eigh"))
        for at, values in enumerate(ascending[:size]):
            made[rows, at] = values[np.minimum((drawn[:, at] * len(values)).astype(np.int64), len(values) - 1)]
    return made


def _moved(before: FloatArray, after: FloatArray) -> float:
    """How far times of each row and the gaps before them move at most, by Smirnov's statistic and its scale."""
    sides = [np.concatenate([each, np.diff(each, axis=1)], axis=1) for each in (before, after)]
    pairs = [
        [column[~np.isnan(column)] for column in columns] for columns in zip(*(side.T for side in sides), strict=True)
    ]
    return max(ks_distance(old, new) * math.sqrt(len(old)) for old, new in pairs)


# --- The form of the records: the first in which their moments tell members no more often than the limit allows

_MARGIN = 0.005  # Below the limit: which records are held out, and which categories joined, is not known yet


@dataclass(frozen=True, eq=False)
class _Form:
    """A form of the records."""

    name: str
    layout: UnitLayout
    table: _Timetable | None
    job: Job
    expected: float  # Chance that the moments tell a member
    dummies: int  # Feature columns of its categories, about

    def within(self, limit: float | None) -> bool:
        """Whether it can be masked, and is within a limit, if there is one."""
        return self.dummies <= MOST_DUMMIES and (limit is None or self.expected <= limit - _MARGIN)

    @classmethod
    def of(cls, job: Job, facts: _Facts, layout: UnitLayout, table: _Timetable | None) -> _Form:
        """A form, with the chance in the strata that are masked by themselves."""
        number = _released_number(np.arange(len(facts.sizes)), layout.numbers)
        if layout.linked:
            name = "linked rows" + ", none of which overlap" * (layout.end is not None)
            made, units = linked.linked_job(job, layout), np.zeros(0, dtype=np.int64)
            rows = _effective_rows(facts.sizes, _rows_in_strata(facts.sizes, layout.most), job)
        else:
            name = "rows side by side" + ", their times as one category" * layout.timed
            name += ", their times as shares of the way to the next one" * layout.by_shares
            made, sizes = wide_job(job, layout), facts.sizes
            units = np.array([sizes[number == each].sum() for each in layout.numbers])
            rows = int((units.sum() if table is None else table.units.sum()) * (1.0 - job.measure.held_out))
        own = {ROWS: units / max(1, units.sum())} | ({} if table is None else {TIMES: table.units / table.units.sum()})
        dimension, dummies = _dimension(made, layout, facts, own)
        expected = 0.5 if dimension.columns < 1 else membership_from_moments(max(2, rows), dimension)
        return cls(name, layout, table, made, expected, dummies)


def _dimension(
    made: Job, layout: UnitLayout, facts: _Facts, own: Mapping[str, FloatArray]
) -> tuple[EffectiveDimension, int]:
    """The effective number of masked columns of a form, and dummies; `own`: shares of categories that only it has."""
    every = 1.0 - np.cumsum([0.0, *own[ROWS][:-1]])  # Units that have each number of rows, or more
    base = {linked.before_name(name): (name, 1.0) for name in layout.of_row}
    for name in (*layout.of_unit, *layout.of_row):
        for at, side in enumerate(layout.every_name(name), start=1):
            base[side] = name, 1.0 if layout.linked else float(every[np.searchsorted(layout.numbers, at)])
    rows, numbers, attributes = int(facts.sizes @ np.arange(len(facts.sizes))), 0, []
    dummies, records = 0, rows if layout.linked else int(facts.sizes.sum())
    for name, column in made.columns.items():
        if not column.encoded:
            continue
        given, there = base.get(name, (name, 1.0))
        shares, nulls = {**own, **facts.shares}.get(given), facts.by_name.get(given, (0, 0))[1] / max(1, rows)
        if shares is not None and column.kind.coded:
            attributes.append(shares)
            dummies += int(np.count_nonzero(shares * there * records >= made.k))
            continue
        numbers += 1
        attributes += [np.array([1.0 - there * (1.0 - nulls), there * (1.0 - nulls)])] * (nulls > 0)
    return effective_dimension(numbers, attributes), dummies


def _forms(job: Job, facts: _Facts, averaged: tuple[str, ...]) -> Iterator[_Form]:
    """The forms that are possible, the one that keeps most first."""
    of_unit, of_row = levels_of(job)
    units, most = int(facts.sizes.sum()), len(facts.sizes) - 1
    complete = tuple(name for name in of_row if not facts.by_name[name][1])
    columns = str(job.unit_column), job.release.order, of_unit, of_row
    able = job.mask is not None and MASKERS[job.mask.method].grouped  # others count rows, not units
    end, length = facts.spells or (None, "")

    def of_linked_rows() -> _Form:
        linked.check_linked_width(job, averaged, units)
        sizes = _numbers(job, facts.sizes, True)
        layout = UnitLayout(*columns, sizes, complete, True, averaged, end=end, length=length, counted=facts.counted)
        try:
            return _Form.of(job, facts, layout, None)
        except JobError as error:
            raise JobError(f"{error}. {_of_overlapping(facts.overlapping)}") if facts.overlapping else error from None

    wide = fits_side_by_side(job, most, units)
    last = able or not wide
    if able and facts.spells:  # side by side sums of gaps and lengths lead beyond the last end
        with contextlib.suppress(JobError):
            yield of_linked_rows()
            last = False
    if wide:
        known = _numbers(job, facts.sizes)
        if facts.times and (table := _timetable(job, facts.times, known)):
            layout = UnitLayout(*columns, table.numbers, complete, timed=True, counted=facts.counted)
            yield _Form.of(job, facts, replace(layout, empty=facts.empty(job, layout.most)), table)
        layout = UnitLayout(*columns, known, complete, empty=facts.empty(job, known[-1]), counted=facts.counted)
        by_shares = bool(len(facts.sequences)) and _prefers_shares(job, facts.sequences, known)
        yield _Form.of(job, facts, replace(layout, by_shares=by_shares), None)
    if last:
        yield of_linked_rows()


def _chosen(job: Job, facts: _Facts, forms: Iterator[_Form]) -> tuple[_Form, str]:
    """The first form within the limit, else the first of all, which the mask then refuses; and a sentence on it."""
    masker = None if job.mask is None else MASKERS[job.mask.method]
    limit = job.limits["membership_auc"] if masker and (masker.grouped or masker.link == "none") else None
    tried: list[_Form] = []
    others = ""
    try:
        for form in forms:
            tried.append(form)
            if form.within(limit):
                break
        else:
            form = next((each for each in tried if each.within(None)), tried[0])
    except JobError as error:  # rows that cannot be linked are the last form
        if not tried:
            raise
        form, others = tried[0], f"; linked rows are not possible: {error}"
        if not form.within(None):
            raise JobError(
                f"categories side by side make about {form.dummies} feature columns, more than {MOST_DUMMIES}{others}; "
                "or join categories, or drop columns that have many"
            ) from None
    too_wide = not any(each.within(None) for each in tried if not each.layout.linked)
    cause = ", as side by side they have too many columns" * (form.layout.linked and not form.layout.end and too_wide)
    others = "".join(f"; {each.name}: {each.expected:.3f}" for each in tried if each is not form) + others
    why = f", with an expected AUC of membership of {form.expected:.3f} (limit {limit:g}{others})" if limit else ""
    why += "" if form.within(limit) else _of_fewer_rows(job, facts, form.layout, limit)
    return form, f"form of the release: {form.name}{cause}{why}"


_LOOSE = "release loose rows (no release.unit)"


def _of_fewer_rows(job: Job, facts: _Facts, layout: UnitLayout, limit: float | None) -> str:
    """What to do about a form beyond the limit: how many rows of a unit are few enough, side by side."""

    def beyond(most: int) -> bool:
        known = (*(number for number in layout.numbers if number < most), most)
        shorter = replace(layout, numbers=known, timed=False, empty=facts.empty(job, most))
        return not _Form.of(job, facts, shorter, None).within(limit)

    most = 0 if layout.linked else bisect_left(range(1, layout.most), True, key=beyond)
    if not most:
        return f". It is beyond for any number of rows: drop columns, join categories, or {_LOOSE}"
    rows = f"the first {most} rows" if most > 1 else "the first row"
    return f". With {rows} of each unit it is within: leave out later ones in the input, or {_LOOSE}"


def _rows_in_strata(sizes: IntArray, most: int) -> list[IntArray]:
    """Of linked units of each number of rows those in each stratum, of strata that have any, by name."""
    rows = np.minimum(np.arange(len(sizes)), most)
    early = np.clip(rows, 1, linked.LATE_FROM - 1) - 1
    return [part for part in (early, np.minimum(rows, 1), np.maximum(rows - 1, 0) - early) if sizes @ part]


def _effective_rows(sizes: IntArray, parts: Sequence[IntArray], job: Job) -> int:
    """How many independent records linked rows are worth."""
    # A unit has one row in the first stratum and few in the second. Kish's effective sample size of each says what
    # its moments disclose of a unit; what several disclose adds up, and so do the reciprocals.
    shares = [(sizes @ part**2) / (sizes @ part) ** 2 for part in parts]
    return int((1.0 - job.measure.held_out) / sum(shares))


# --- What rows of a unit have to do with each other


def sums_of_records(names: Sequence[str], layout: UnitLayout, records: pa.RecordBatch) -> FloatArray:
    """`row_sums` of columns of records: rows side by side, or below each other."""
    if layout.linked:
        values = [numbers(records.column(name)) for name in names]
        return row_sums(values, records.column(linked.ROW).to_numpy() == 1)
    sides = [np.stack([numbers(side) for side in side_by_side(records, layout, name)], axis=1) for name in names]
    return row_sums([each.ravel() for each in sides], np.arange(len(records) * layout.most) % layout.most == 0)


def side_by_side(records: pa.RecordBatch, layout: UnitLayout, name: str) -> list[pa.Array]:
    """A column in each row of the units; nulls where the layout has none."""
    kind = records.schema.field(layout.wide_names(name)[0]).type
    none = pa.nulls(len(records), kind)
    return [none if side in layout.empty else records.column(side) for side in layout.every_name(name)]


def row_sums(columns: Sequence[FloatArray], first: BoolArray) -> FloatArray:
    """Sums of rows of units from which correlations of these follow, shape (n_columns, `SUMS`).

    Of pairs of following rows: their number, sums, squares and products. Of rows: units, rows, squared rows of a unit,
    sum, squares, and squared sums of a unit over its rows. Then products of pairs as differences from the unit's mean.
    """
    found, starts = np.zeros((len(columns), SUMS)), np.flatnonzero(first)
    for at, column in enumerate(columns):
        there = ~np.isnan(column)
        values, pairs = np.where(there, column, 0.0), there[:-1] & there[1:] & ~first[1:]
        x, y = values[:-1][pairs], values[1:][pairs]
        rows, total = np.add.reduceat(there.astype(np.int64), starts), np.add.reduceat(values, starts)
        known = rows > 0
        mean = np.divide(total, rows, out=np.zeros(len(rows)), where=known)[np.cumsum(first) - 1][1:][pairs]
        found[at, :6] = len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y
        between = (np.square(total[known]) / rows[known]).sum()
        found[at, 6:12] = known.sum(), rows.sum(), np.square(rows).sum(), total.sum(), values @ values, between
        found[at, 12] = (x - mean) @ (y - mean)
    return found


def correlations_of_rows(sums: FloatArray) -> FloatArray:
    """Correlations of the rows of a unit by their sums, shape (n_names, 3)."""
    # Lag one; intraclass by analysis of variance (Fisher 1925); lag one of differences from the unit's mean.
    pairs, sx, sy, sxx, syy, sxy, units, rows, squared, total, squares, between, apart = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        lag = (sxy - sx * sy / pairs) / np.sqrt((sxx - sx**2 / pairs) * (syy - sy**2 / pairs))
        among = (between - total**2 / rows) / (units - 1)
        within = (squares - between) / (rows - units)
        mean_rows = (rows - squared / rows) / (units - 1)
        lag_within = (apart / pairs) / ((squares - between) / rows)
        return np.stack([lag, (among - within) / (among + (mean_rows - 1) * within), lag_within], axis=1)
