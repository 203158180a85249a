"""Whether a row is a person: how often the values of an identifier repeat, counted on disk.

A scan leaves, of each identifier, runs of keyed 128-bit digests of its values in the private staging: a run has each
digest once, with its rows, in ascending order. All runs are then counted together, one range of digests after the
other, so that memory depends on neither the rows nor on how often one repeats.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Column
from anonpipe.encoding.values import is_date, plain, plain_type
from anonpipe.errors import LOWER_K, InputError, plural
from anonpipe.partition.strata import Units
from anonpipe.rng import keyed, number_keys
from anonpipe.storage.sketch import HashArray
from anonpipe.types import BoolArray, IntArray

Digests = npt.NDArray[np.void]

Save = Callable[[str, Digests], None]

FOLDER = "identifiers"  # Where runs lie in the staging
RUN_ROWS = 2**20  # Values that are sorted at once
RANGE_ROWS = 2**21  # Entries of all runs that are counted at once, in expectation

_ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("rows", "<i8")])


@dataclass(frozen=True)
class Repeats:
    """How often the values of one identifier occur."""

    name: str  # The column
    rows: int  # All rows
    nulls: int  # Those without a value, whose persons nobody can tell
    distinct: int = 0  # Different values
    most: int = 0  # Rows of the value with most
    largest: tuple[int, ...] = ()  # Rows of each of the values with most, as many as were asked for, descending
    squares: int = 0  # Sum over the values of their rows squared

    @property
    def repeated(self) -> bool:
        """Whether some value occurs in several rows."""
        return self.most > 1


def digests(name: str, array: pa.Array, key: bytes) -> tuple[Digests, int]:
    """Each distinct value of an array by its keyed digest, and the number of nulls."""
    # Numbers and dates are turned one to one; texts and bytes by 128 bits, of which two in 10^8 agree by 1.5e-23.
    high, low, there = keyed_values(name, array, key)
    entries = np.zeros(len(high), dtype=_ENTRY)
    entries["high"], entries["low"], entries["rows"] = high, low, 1
    return merged([entries]), int(np.count_nonzero(~there))


def keyed_values(
    name: str, array: pa.Array, key: bytes, lanes: Sequence[str] = ("high", "low")
) -> tuple[HashArray, HashArray, BoolArray]:
    """The two halves of each value's digest (zeros for a lane that was not requested), and which values exist."""
    values = _comparable(name, array)
    there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
    values = values.drop_null()
    found = {lane: np.zeros(len(values), dtype=np.uint64) for lane in ("high", "low")}
    if pa.types.is_integer(values.type):
        found["high"] = number_keys(key, values.to_numpy(zero_copy_only=False).view(np.int64))
    elif len(values):
        from pandas.util import hash_array

        objects = values.to_numpy(zero_copy_only=False).astype(object)
        for lane in lanes:
            found[lane] = hash_array(objects, hash_key=keyed(key, lane).hex()[:16], categorize=False)
    return found["high"], found["low"], there


def _comparable(name: str, array: pa.Array) -> pa.Array:
    """The values as 64-bit integers, texts or bytes, two of them equal where the values are."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    with suppress(pa.ArrowException, NotImplementedError):
        if pa.types.is_binary(array.type) or pa.types.is_fixed_size_binary(array.type):
            return array.cast(pa.binary())
        if pa.types.is_large_binary(array.type) or pa.types.is_null(array.type):
            return array
        values = plain(array)
        kind = plain_type(values.type)
        if kind == pa.uint64():
            return values.view(pa.int64())
        if pa.types.is_date32(kind) or pa.types.is_time32(kind):
            return values.view(pa.int32()).cast(pa.int64())
        if is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
            return values.view(pa.int64())
        if pa.types.is_floating(kind):
            filled = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # one zero
            return pa.array(filled.view(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))
        return values.cast(pa.int64() if pa.types.is_integer(kind) else pa.string())
    raise InputError(
        f"column {name!r} has role identifier, and its values (nested, or of a rare type) cannot be compared; "
        "convert it to text or numbers, or give it role dropped if it names no person"
    )


def merged(parts: Sequence[Digests]) -> Digests:
    """Entries of several lists together, each digest once, ascending."""
    together = np.concatenate(parts) if len(parts) > 1 else parts[0]
    together = together[np.lexsort((together["low"], together["high"]))]
    if not len(together):
        return together
    first = np.append(True, (np.diff(together["high"]) != 0) | (np.diff(together["low"]) != 0))
    starts = np.flatnonzero(first)
    out = together[starts].copy()
    out["rows"] = np.add.reduceat(together["rows"], starts)
    return out


class DigestWriter:
    """Collects the digests of one identifier in one unit, and writes a run whenever enough have come."""

    def __init__(self, save: Save, stem: str, name: str, key: bytes) -> None:
        self._save, self._stem, self._name, self._key = save, stem, name, key
        self._held: list[Digests] = []
        self._runs = self._rows = self._nulls = 0

    def add(self, array: pa.Array) -> None:
        """Take the next values."""
        found, nulls = digests(self._name, array, self._key)
        self._held.append(found)
        self._rows += len(array)
        self._nulls += nulls
        if sum(map(len, self._held)) >= RUN_ROWS:
            self._write()

    def close(self) -> Repeats:
        """Write what is left; rows and nulls of the unit."""
        if self._held:
            self._write()
        return Repeats(self._name, self._rows, self._nulls)

    def _write(self) -> None:
        self._save(f"{self._stem}-{self._runs}.npy", merged(self._held))
        self._held.clear()
        self._runs += 1


def digest_writers(save: Save, names: Sequence[str], key: bytes, unit: int) -> dict[str, DigestWriter]:
    """A writer for each identifier of one unit; names stand in the files' names by their place."""
    return {name: DigestWriter(save, f"{FOLDER}/{place}-{unit}", name, key) for place, name in enumerate(names)}


def joined(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """The values of several columns of each row as one."""
    parts = []
    for name in names:
        values = _comparable(name, batch.column(name))
        values = values.cast(pa.string()) if pa.types.is_integer(values.type) else values
        parts.append(pc.fill_null(values.cast(pa.binary()), b"\0null"))
    return pc.binary_join_element_wise(*parts, pa.scalar(b"\x1f"))


def keep_in(folder: Path) -> Save:
    """Keep runs as files of a folder."""

    def save(name: str, run: Digests) -> None:
        (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
        np.save(folder / name, run)

    return save


def runs_in(folder: Path, names: Sequence[str]) -> list[list[Path]]:
    """The runs of each identifier that were kept in a folder."""
    return [sorted((folder / FOLDER).glob(f"{place}-*.npy")) for place in range(len(names))]


def is_run(file: str, place: int) -> bool:
    """Whether a file is a run of the identifier at this place."""
    return file.startswith(f"{FOLDER}/{place}-")


def repeats_in(runs: Sequence[Sequence[Path]], counted: Sequence[Sequence[Repeats]], largest: int = 0) -> list[Repeats]:
    """Of each identifier, how often its values occur in all units."""
    return [count_repeats(units, files, largest) for files, units in zip(runs, zip(*counted, strict=True), strict=True)]


def count_repeats(counted: Sequence[Repeats], runs: Sequence[Path], largest: int = 0) -> Repeats:
    """How often the values of one identifier occur in all units together."""
    whole = replace(counted[0], rows=sum(one.rows for one in counted), nulls=sum(one.nulls for one in counted))
    distinct, squares, counts = 0, 0, np.empty(0, dtype=np.int64)
    for entries in _ranges([np.load(path, mmap_mode="r") for path in runs]):
        distinct, squares = distinct + len(entries), squares + int(np.square(entries["rows"]).sum())
        counts = np.sort(np.concatenate([counts, entries["rows"]]))[::-1][: max(1, largest)]
    top = tuple(counts[:largest].tolist())
    return replace(whole, distinct=distinct, most=int(counts.max(initial=0)), largest=top, squares=squares)


def _ranges(runs: Sequence[Digests]) -> Iterator[Digests]:
    """All digests once, in ranges of bounded size: digests are as good as random, so that all are about as full."""
    ranges = -(-sum(map(len, runs)) // RANGE_ROWS)
    begins = [0] * len(runs)
    for place in range(1, ranges + 1):
        limit = 2**64 * place // ranges
        ends = [bisect.bisect_left(run["high"], limit) if limit < 2**64 else len(run) for run in runs]
        yield merged([np.asarray(run[low:high]) for run, low, high in zip(runs, begins, ends, strict=True)])
        begins = ends


def check_repeats(counted: Sequence[Repeats], k: int, rows_per_unit: str, unit: str | None = None) -> list[str]:
    """Refuse a table of which nobody says whose rows they are where persons have several."""
    nameless = [one for one in counted if one.nulls]
    repeated = [one for one in counted if one.repeated]
    if rows_per_unit == "one" and unit is None and repeated:
        raise InputError("\n".join(_refused(one, k, len(counted)) for one in repeated))
    problems = [_not_a_unit(one, k) for one in repeated if one.name == unit and (one.nulls or one.distinct < k)]
    if problems:
        raise InputError("\n".join(problems))
    found = [
        f"column {one.name!r} (which names persons) has {rows_of(one.nulls)} without a value, which count as rows of "
        "different persons"
        for one in nameless
    ]
    if rows_per_unit == "many":
        found.append(f"rows_per_unit is many: {many_rows(k)}")
    return found + [_counts(one) + (f"; k={k} counts persons" if one.name == unit else "") for one in repeated]


def _not_a_unit(one: Repeats, k: int) -> str:
    if one.nulls:
        return (
            f"{_counts(one)}, and {rows_of(one.nulls)} without a value, whose units cannot be counted; fill the "
            "column, leave these rows out, or say rows_per_unit: many (k counts rows)"
        )
    return f"{_counts(one)}; k={k} counts units, and there are fewer; add units, or {LOWER_K}"


def many_rows(k: int) -> str:
    """What k means where a person may have several rows."""
    return (
        f"k={k} counts rows, not persons: a person may have several rows, and the {k} rows of a group, a category or a "
        "combination may be those of one person; what is said of k protects rows"
    )


def _refused(one: Repeats, k: int, columns: int) -> str:
    """Several columns name persons, and nobody says which of them is what k counts."""
    return (
        f"{_counts(one)}; a group of {k} rows may hold one person only, and of {columns} columns with role identifier "
        "none is declared as what k counts: give the one that names the person (household, enterprise) role: unit. Or "
        "make one row of each person (aggregate the rows, or lay repeated measurements side by side as columns); or "
        "say rows_per_unit: many, and the verdict and the reports state that k counts rows; or, if several persons "
        "share the value by right (a household, a surname), give the column role dropped"
    )


def _counts(one: Repeats) -> str:
    return (
        f"column {one.name!r} (which names persons) repeats: {rows_of(one.rows - one.nulls)} with a value hold "
        f"{one.distinct:,} distinct identifiers, and one of them has {rows_of(one.most)}"
    )


rows_of = partial(plural, what="row")


# --- The unit of protection: a person, a household or an enterprise, which may have several rows ----------------------

_SHIFT = np.uint64(11)


@dataclass(frozen=True)
class UnitColumn:
    """What k counts where units have several rows."""

    name: str  # The column that names the unit
    # rows, distinct, most: rows, units, and the rows of the unit with most
    rows: int
    distinct: int
    most: int
    sure: int  # Rows that hold k units, whichever rows they are: one more than the k - 1 units with most have
    mean_rows: float  # Rows of the unit that a row belongs to, on average over the rows
    constant: tuple[str, ...] = ()  # Masked columns with one value in all rows of a unit
    effective_rows: int = 0  # Kish's effective sample sizes of the strata, whose reciprocals add up; 0 for not known
    sure_in_strata: tuple[int, ...] = ()  # `sure` of each stratum, where it is known

    @classmethod
    def of(cls, found: Repeats) -> UnitColumn:
        """The unit that repeats so often."""
        mean_rows = found.squares / max(1, found.rows - found.nulls)
        return cls(found.name, found.rows, found.distinct, found.most, 1 + sum(found.largest), mean_rows)

    def independent(self, rows: int) -> int:
        """Records that tell as much as so many rows, were those of a unit all equal (Kish's effective sample size)."""
        return max(self.effective_rows, int(rows / self.mean_rows))

    def coarse(self, k: int) -> int:
        """`sure` for what recipients see: as it is, it would be a count of the rows of fewer than k units."""
        return doubled(k, self.sure)

    def with_constant(self, batches: Sequence[pa.RecordBatch], columns: Mapping[str, Column]) -> Self:
        """The same with the masked columns that have one value in all rows of a unit, by `some_units`."""
        import pandas as pd  # imported here as it is slow to load

        table = pa.Table.from_batches(batches)
        pairs = pairs_of(table.column(table.num_columns - 1).to_numpy())
        masked = [name for name, column in columns.items() if column.role.synthesized]
        codes = {name: pd.factorize(table.column(name).to_pandas())[0] for name in masked}
        return replace(self, constant=tuple(name for name in masked if agree(codes[name], *pairs)))

    @property
    def apart(self) -> str:
        """What becomes of the rows of a unit."""
        differ = (
            f". In the input all rows of a unit have one value of {', '.join(map(repr, self.constant))}; in the "
            "release they differ. Release whole units (release.unit: pseudonym), or tell the recipients"
        )
        return f"rows of one unit ({self.name!r}) do not belong together in the release{differ * bool(self.constant)}"


def doubled(k: int, least: int) -> int:
    """The smallest of k, 2 k, 4 k and so on that is not below a number: how large it is, and no more."""
    rows = k
    while rows < least:
        rows *= 2
    return rows


def units_meaning(k: int) -> str:
    """What k means where units may have several rows, without a name or count of the data."""
    return (
        f"k={k} counts units (persons, households, enterprises), which may have several rows: no group, stratum, "
        f"category or combination of key variables is of fewer than {k} of them"
    )


_UNIT_ROWS = 20_000  # Rows of whole units that are looked at
AGREES = 0.98  # Share of the pairs of rows of one value in which another column is equal, where it is of the unit
_COMMON = 0.8  # Where more than this share of any two rows agree, nearly all pairs may do so by chance
_BY_CHANCE = 1e-6  # Probability with which all pairs agree by chance, at most


def some_units(batch: pa.RecordBatch, units: Units, of: int) -> pa.RecordBatch:
    """All rows of a keyed choice of units, about `_UNIT_ROWS` of so many in all; the last column holds the units."""
    chosen = (units > 0) & (units <= np.uint64(min(1.0, _UNIT_ROWS / max(1, of)) * 2**53))
    return batch.append_column("", pa.array(units.astype(np.int64))).filter(pa.array(chosen))


def pairs_of(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Each row and the next one of the same value, of all values but null."""
    order = np.argsort(codes, kind="stable")
    same = (codes[order][1:] == codes[order][:-1]) & (codes[order][1:] >= 0)
    return order[:-1][same], order[1:][same]


def duplicated(columns: Sequence[IntArray]) -> BoolArray:
    """Which rows equal an earlier one in all columns; columns of codes, each (n_rows,)."""
    import pandas as pd  # imported here as it is slow to load

    return pd.DataFrame(dict(enumerate(columns))).duplicated().to_numpy()


def copied_rows(columns: Sequence[IntArray]) -> int:
    """How many rows equal an earlier one in all columns, where these are far more than chance has it; else 0."""
    # By chance: of the rows that are equal but for the column that tells most, as many as agree in it
    bits, copies = [_bits_of(column) for column in columns], int(duplicated(columns).sum()) if columns else 0
    if copies < FEWEST or len(columns) < 2:
        return 0
    most = int(np.argmax(bits))
    others = int(duplicated([column for at, column in enumerate(columns) if at != most]).sum())
    return copies if copies >= 10 * others * 2.0 ** -bits[most] else 0


def agree(values: IntArray, first: IntArray, second: IntArray) -> bool:
    """Whether a column is equal in all pairs but few, of one common value in all, and not by chance."""
    shares = np.bincount(values + 1) / len(values)
    chance = float(np.square(shares).sum())
    if len(first) * np.log(chance) > np.log(_BY_CHANCE):
        return False
    return bool(np.mean(values[first] == values[second]) >= (AGREES if chance <= _COMMON else 1.0))


def unit_line(unit: UnitColumn, k: int) -> str:
    """How `anonpipe plan` tells of the unit; counts for the steward."""
    return (
        f"column {unit.name!r}: {unit.rows:,} rows of {unit.distinct:,} units, up to {unit.most:,} rows each; k={k} "
        f"counts units. Distributions and other figures that count rows rest on {unit.sure:,} or more, which are of "
        f"{k} units whichever rows they are; for recipients, who do not see this number, on {unit.coarse(k):,}"
    )


def unit_numbers(name: str, array: pa.Array, key: bytes) -> Units:
    """A keyed number of 53 bits for the unit of each row; 0 without a value. Two of 10^7 agree in one table of 180."""
    high, _, there = keyed_values(name, array, key, ("high",))
    numbers = np.zeros(len(array), dtype=np.uint64)
    numbers[there] = high >> _SHIFT
    return numbers


# --- Whether rows repeat in most columns: a sign of several rows a person where no identifier says so -----------------
# Of n sampled rows (`SAMPLED_ROWS` at most), the columns with two or more values are taken, of those that have the same
# order the first alone: w of them; and of each the share p of pairs of rows that agree in it. Two rows are a *pair*
# where they agree in more than w/2 columns that are not null, and the sum of -log2(p) over these is 2·log2(n) + 2 or
# more: were the columns independent, n rows would have such a pair by chance once in eight tables. Not all pairs are
# looked at, only neighbours in `ORDERS` sorted orders, by columns in a keyed random order each.
#
# What several rows of a person share is always the same: the columns that do not change. So pairs count only where more
# than w/2 columns agree in `ALWAYS` of all pairs. Then `REPEATED` of the rows must have one, less in a sample of a
# larger table, where fewer of a person's rows meet, but never fewer than `FEWEST` rows.

SAMPLED_ROWS = 20_000
ORDERS = 12
ALWAYS = 0.9
REPEATED = 0.05
FEWEST = 20
SPARE_BITS = 2


def repeated_rows(codes: IntArray, rng: np.random.Generator) -> int:
    """How many rows are repeated in the sense of this module; codes (n_rows, n_columns)."""
    codes = codes[:, _without_copies(codes)]
    bits = np.array([_bits_of(column) for column in codes.T])
    rows, width = codes.shape
    if rows < 2 or width < 2:
        return 0
    found, needed = np.zeros(rows, dtype=bool), 2 * np.log2(rows) + SPARE_BITS
    agreed, pairs = np.zeros(width, dtype=np.int64), 0
    for _ in range(ORDERS):
        order = np.lexsort(codes[:, rng.permutation(width)].T)
        ordered = codes[order]
        alike = (ordered[1:] == ordered[:-1]) & (ordered[1:] >= 0)
        pair = (2 * np.count_nonzero(alike, axis=1) > width) & (alike @ bits >= needed)
        found[order[1:][pair]] = found[order[:-1][pair]] = True
        agreed += np.count_nonzero(alike[pair], axis=0)
        pairs += int(np.count_nonzero(pair))
    always = np.count_nonzero(agreed >= ALWAYS * pairs)
    return int(np.count_nonzero(found)) if 2 * always > width else 0


def _without_copies(codes: IntArray) -> list[int]:
    """The columns of two or more values, without those that have the order of an earlier one, up or down."""
    left: dict[bytes, int] = {}
    for place, column in enumerate(codes.T):
        values, which = np.unique(column, return_inverse=True)
        up, down = (hashlib.sha256(order.tobytes()).digest() for order in (which, len(values) - 1 - which))
        if len(values) > 1 and down not in left:
            left.setdefault(up, place)
    return list(left.values())


def _bits_of(column: IntArray) -> float:
    """-log2 of the share of pairs that agree; 0 for a column of one value."""
    counts = np.unique(column, return_counts=True)[1].astype(np.float64)
    total = counts.sum()
    pairs = total * (total - 1)
    agreeing = max(float((counts * (counts - 1)).sum()), 1.0)  # of unique values: less than one pair
    return float(np.log2(pairs / agreeing)) if pairs > agreeing else 0.0


COPIED = (
    "{copies:,} of {rows:,} sampled rows equal another row in all columns: copies by error, or several rows of one "
    "person. Each counts as a person. Delete copies in the input (SELECT DISTINCT); where persons have several rows, "
    "add their number with role: unit"
)


def warn_of_repeats(sample: Sequence[pa.RecordBatch], rows: int, key: bytes) -> list[str]:
    """A warning where rows of a sample repeat in most columns."""
    table = pa.Table.from_batches(sample)
    rng = np.random.default_rng(np.frombuffer(key[:16], dtype=np.uint64))
    if table.num_rows < FEWEST:
        return []
    chosen = np.sort(rng.permutation(table.num_rows)[:SAMPLED_ROWS])
    codes = np.stack([_codes(column.take(chosen)) for column in table.columns], axis=1)
    repeated = repeated_rows(codes, rng)
    limit = max(FEWEST, REPEATED * min(1.0, len(codes) / max(1, rows)) * len(codes))
    if repeated < limit:
        copies = copied_rows(list(codes.T))
        return [COPIED.format(copies=copies, rows=len(codes))] if copies else []
    return [
        f"{repeated:,} of {len(codes):,} sampled rows agree with another one in more than half of the columns, far "
        "beyond chance, and no column has role unit or identifier: where one person has several rows, k counts rows "
        "and protects no person; declare the number of the person with role unit, or make one row of each person "
        "(columns that follow from each other, as year and month from a date, look alike: drop them)"
    ]


def _codes(column: pa.ChunkedArray) -> IntArray:
    values = pa.concat_arrays([plain(chunk) for chunk in column.chunks])
    if values.null_count == len(values):
        return np.full(len(values), -1)
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), ranks.to_numpy().astype(np.int64), -1)
