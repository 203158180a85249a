"""Write the output files in random order as Parquet, measure them, and compare values with the original's."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.columns import Role
from anonpipe.encoding.disclosure import counted_rows
from anonpipe.encoding.row_hash import row_numbers
from anonpipe.encoding.rules import base_of, with_differences
from anonpipe.encoding.values import grid_of, numbers
from anonpipe.encoding.weights import RELEASED, WeightCounts
from anonpipe.errors import EngineError, InputError
from anonpipe.files import make_private
from anonpipe.job.linked import unpublished
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.pipeline.arrays import ADDED, FILES, MEASURE_ROWS, SYNTHETIC, VALUES, released_array, routed_array
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.storage import sealed
from anonpipe.storage.release import sha256
from anonpipe.types import BoolArray, FloatArray, IntArray
from anonpipe.verify.original_values import NEIGHBOURS, Chances, Fineness, chances, coarsest_grid, means_lie_on

# Files in the staging, by partition or input split
_COMBINATIONS = "combinations/{}.record"


def write_file(work: Work, fitted: Fitted, cut: Cut, file_rows: list[list[int]], index: int) -> dict[str, Any]:
    """Write one output file in random order, then measure it as a reader."""
    rows, added = _gathered(work, fitted, cut, file_rows, index)
    name = _file_name(work, cut, index)
    written = _write_parquet(work, fitted, name, rows, added)
    path = work.staging.root / name
    sealed.sync_folders(work.staging.root, [name])
    try:
        result = measure_file(work, fitted, index, path)
    except Exception:  # a damaged file may lead to anything
        if sha256(path) == written:
            raise
    else:
        if result["sha256"] == written:
            return result
    path.unlink()
    raise EngineError(f"{path.name} was damaged on the disk before it was measured; check the disk, then --resume")


def _file_name(work: Work, cut: Cut, index: int) -> str:
    """Where an output file lies; those of the copies of a release are numbered through."""
    return f"{FILES}/part-{work.place * cut.files + index:05d}.parquet"


def written_files(work: Work, cut: Cut) -> list[Path]:
    """The output files of all copies, in their order."""
    return [work.staging.root / _file_name(one, cut, index) for one in work.copies for index in range(cut.files)]


def written_results(work: Work, cut: Cut, *kinds: type) -> list[dict[str, Any]]:
    """The task results of these files."""
    return [result for one in work.copies for result in one.staging.results("write").read_all(cut.files, *kinds)]


def _gathered(
    work: Work, fitted: Fitted, cut: Cut, file_rows: list[list[int]], index: int
) -> tuple[FloatArray, FloatArray | None]:
    """The rows of an output file in random order, and the added columns."""
    pieces = []
    for partition, counts in enumerate(file_rows):
        begin = sum(counts[:index])
        pieces.append((partition, begin, begin + counts[index]))
    rows = released_array(work, cut, SYNTHETIC, len(fitted.cells.names)).gather(pieces)
    order = work.rng("order", index).permutation(len(rows))
    if not fitted.added:
        return rows[order], None
    return rows[order], released_array(work, cut, ADDED, len(fitted.added)).gather(pieces)[order]


def _write_parquet(work: Work, fitted: Fitted, name: str, rows: FloatArray, added: FloatArray | None) -> str:
    """Write the file, whole or not at all; returns its SHA-256."""
    step = fitted.job.release.row_group_rows
    with (
        work.staging.renamed(name) as draft,
        Hashing(draft) as out,
        pq.ParquetWriter(out, fitted.schema, compression="zstd", store_schema=True) as writer,
    ):
        for at in range(0, len(rows), step):
            ends = None if added is None else added[at : at + step]
            batch = _released_batch(fitted, rows[at : at + step], ends, work.place)
            writer.write_batch(batch, row_group_size=step)
    return out.digest.hexdigest()


def _released_batch(fitted: Fitted, rows: FloatArray, added: FloatArray | None, place: int) -> pa.RecordBatch:
    """Released rows as they are written; `place`: of their copy."""
    arrays, intervals = list(fitted.cells.from_cells(rows).columns), fitted.procedure.decoder.intervals
    if intervals is not None and added is not None:
        arrays += intervals.arrays(added)
    if fitted.probabilities is not None and added is not None:
        arrays = fitted.probabilities.in_place(arrays, added)
    if fitted.weight is not None and fitted.replicates is not None:
        groups = arrays[fitted.cells.names.index(fitted.replicates.cluster)].cast(pa.int64()).to_numpy()
        arrays += map(pa.array, fitted.replicates.weights(rows[:, fitted.weight.position], groups).T)
    if fitted.job.release.copies > 1:
        arrays.append(pa.array(np.full(len(rows), place + 1, dtype=np.int32)))
    return pa.RecordBatch.from_arrays(arrays, schema=fitted.worked_schema).select(fitted.schema.names)


class Hashing(io.FileIO):
    """A file that is hashed while it is written, and synced when it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "wb")
        self.digest = hashlib.sha256()

    def write(self, content: Any) -> int:
        """Write all of it."""
        view, done = memoryview(content).cast("B"), 0
        while done < len(view):
            done += super().write(view[done:])
        self.digest.update(view)
        return done

    def close(self) -> None:
        """Sync, then close."""
        if not self.closed:
            os.fsync(self.fileno())
        super().close()


# --- Measuring a written file


def measure_file(work: Work, fitted: Fitted, index: int, path: Path) -> dict[str, Any]:
    """Read a written file: rows, moments by stratum, combinations, limits and checksum."""
    parquet = pq.ParquetFile(str(path))
    if not parquet.schema_arrow.equals(fitted.schema, check_metadata=True):
        raise InputError(f"{path.name}: the written schema differs from the input's; nothing is released")
    moments: dict[int, list[PairwiseMoments]] = {}
    keys, rows, beyond = [fitted.cells.names.index(name) for name in fitted.unchanged_names], 0, 0
    of_keys: list[FloatArray] = []
    weights: list[WeightCounts] = []
    outside = {name: [0, 0] for name in _unbounded_names(fitted)}
    rules = fitted.job.parsed_rules
    broken = np.zeros(len(rules), dtype=np.int64)
    for batch in parquet.iter_batches(batch_size=MEASURE_ROWS):
        batch = with_differences(batch, rules)
        broken += 0 if fitted.rules is None else fitted.rules.count_broken(batch)
        cells, shares, out_of_range = _read_back(fitted, batch)
        stratum, measured = fitted.strata.assign(cells), fitted.view.measure(cells, shares)
        for at in np.unique(stratum):
            moments.setdefault(int(at), []).append(PairwiseMoments.of(measured[stratum == at]))
        of_keys.append(cells[:, keys])
        if fitted.weight is not None:
            weights.append(fitted.weight.count_table(RELEASED, cells))
        rows += len(cells)
        beyond += out_of_range + _beyond_limits(fitted, cells)
        for name, counted in outside.items():
            counts = _beyond_original(fitted, name, cells[:, fitted.cells.names.index(name)])
            counted[:] = [counted[0] + counts[0], counted[1] + counts[1]]
    work.staging.write_record(_COMBINATIONS.format(index), counted_rows(np.concatenate(of_keys)))
    return {
        "rows": rows,
        "name": path.name,
        "sha256": sha256(path),
        "bytes": path.stat().st_size,
        "released": {at: merge_all(parts) for at, parts in moments.items()},
        "beyond_limits": beyond,
        "beyond_original": outside,
        "rules_broken": broken.tolist(),
        "weights": reduce(WeightCounts.merge, weights) if weights else None,
    }


def _read_back(fitted: Fitted, batch: pa.RecordBatch) -> tuple[FloatArray, dict[int, FloatArray], int]:
    """Cells of written rows, their probabilities by position and code, and how many are out of range."""
    if fitted.probabilities is None:
        return fitted.cells.to_cells(batch), {}, 0
    cells, shares = fitted.probabilities.read(fitted.cells, batch)
    return cells, fitted.probabilities.by_code(shares), fitted.probabilities.beyond_limits(shares)


def combinations(work: Work, cut: Cut) -> tuple[FloatArray, FloatArray]:
    """Combinations of unchanged columns in the written rows, each once, and the rows of each."""
    parts = [work.staging.read_record(_COMBINATIONS.format(index)) for index in range(cut.files)]
    cells, rows = (np.concatenate(side) for side in zip(*parts, strict=True))
    _, first, which = np.unique(row_numbers(cells), return_index=True, return_inverse=True)
    return cells[first], np.bincount(which.reshape(-1), weights=rows).astype(np.float64)


def _beyond_limits(fitted: Fitted, cells: FloatArray) -> int:
    """Synthetic numbers outside their declared bounds or between their declared steps."""
    count, times = 0, fitted.procedure.decoder.times
    for position, column in enumerate(fitted.cells.columns):
        if column.role.unchanged or column.kind.coded:
            continue
        values = cells[:, position]
        values = values[~np.isnan(values)]
        low, high = column.numeric_bounds
        slack = 1e-6 * np.maximum(1.0, np.abs(values))
        count += int(np.sum(values < low - slack)) if low is not None else 0
        count += int(np.sum(values > high + slack)) if high is not None else 0
        restored = times is not None and times.position == position
        if column.resolution is not None and not restored:
            steps = (values - fitted.cells.grid(position).origin) / column.resolution
            count += int(np.sum(np.abs(steps - np.round(steps)) > 1e-6 * np.maximum(1.0, np.abs(steps))))
    return count


def _unbounded_names(fitted: Fitted) -> list[str]:
    """Synthetic numbers and dates, computed ones too, that have no bound on at least one side."""
    return [
        name
        for name, column in zip(fitted.cells.names, fitted.cells.columns, strict=True)
        if (column.can_be_scored or (column.role is Role.DERIVED and not column.kind.coded))
        and None in column.numeric_bounds
        and name not in fitted.job.differences
        and column.role is not Role.SAMPLING_WEIGHT  # inside its range, which records held out may expand
    ]


def _beyond_original(fitted: Fitted, name: str, values: FloatArray) -> tuple[int, int]:
    """How many values lie outside the original range on a side without bound; and all values."""
    column, scanned = fitted.job.columns[name], fitted.scan.columns[name]
    low, high = column.numeric_bounds
    values = values[~np.isnan(values)]
    slack = (column.resolution or 0.0) / 2 + 1e-6 * np.maximum(1.0, np.abs(values))
    beyond = np.zeros(len(values), dtype=np.bool_)
    if low is None:
        beyond |= values < scanned.least - slack
    if high is None:
        beyond |= values > scanned.most + slack
    return int(np.count_nonzero(beyond)), len(values)


# --- Written values against original ones


Runs = list[npt.NDArray[np.void]]

RUN_ROWS = 2**19
RANGE_ENTRIES = 2**19  # Entries of the original runs that are compared at once, about

_SAMPLED = 20_000  # Released values that tell whether rounded values or means are released

_ENTRY = np.dtype([("value", "<f8"), ("unit", "<f8"), ("rows", "<i8")])  # The unit is 0 where each row is one


def compared_names(work: Work) -> list[str]:
    """Published columns of numbers and dates whose values are replaced; not those computed from published ones."""
    gone = frozenset() if work.folded is None else unpublished(work.folded.layout)
    for rule in (each for each in work.job.parsed_rules if each.factors or each.kind in ("linear", "limit", "spike")):
        kinds = [(work.job.columns[name], work.source.schema.field(name).type) for name in rule.names]
        # Ratios of steps, and sums of heaps, recur by chance
        if rule.kind in ("linear", "product", "spike") or all(grid_of(*kind).step for kind in kinds):
            gone |= {rule.gap or rule.target}
    columns = {name: column for name, column in work.job.released.items() if name not in gone}
    return [name for name, column in columns.items() if column.role.synthesized and not column.kind.coded]


def compare_values(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Count the rare original values, of fewer than k records or units, that a masked column reproduces."""
    names = compared_names(work)
    name = names[index]
    if any(rule.gap == name and fitted.grid(rule.target).heaps is not None for rule in work.job.parsed_rules):
        return {"rows": cut.rows, "beyond": 0}  # differences of heaps recur by chance; both columns are compared
    # no task but this one reads the runs: they go with it, and are not sealed
    with tempfile.TemporaryDirectory(dir=make_private(work.staging.root / VALUES)) as folder:
        originals = _write_runs(_original(work, fitted, cut, name), Path(folder), "original")
        released = _write_runs(_released(work, fitted, cut, name), Path(folder), "released")
        chance = _compare(fitted, name, originals, released)
    return {"rows": cut.rows, "beyond": chance.beyond(len(names))}


def _compare(fitted: Fitted, name: str, originals: Runs, released: Runs) -> Chances:
    fineness = _fineness(fitted, name, originals, released)
    ends = [bound for bound in fitted.job.columns[name].numeric_bounds if bound is not None]
    bounds = fitted.grid(name).scaled(np.array(ends, dtype=np.float64))
    total = Chances.none()
    for values, rows, around in ranges(originals, released):
        rare = values[rows < fitted.job.k]
        if len(bounds):  # what is cut off at a declared bound takes its value from the job
            rare = rare[np.abs(rare[:, None] - bounds).min(axis=1) > fineness.rounding(rare)]
        total = total.merge(chances(rare, around, fineness))
    return total


def _original(work: Work, fitted: Fitted, cut: Cut, name: str) -> Iterator[FloatArray]:
    staged, position = routed_array(work, fitted), fitted.cells.names.index(name)
    for chunk, counts in enumerate(cut.chunk_leaf_rows):
        if rows := sum(counts):
            cells = staged.read(chunk, 0, rows)
            values = fitted.grid(name).scaled(cells[:, position])
            yield _entries(values, 0.0 if fitted.unit is None else cells[:, len(fitted.cells.names)])


def _released(work: Work, fitted: Fitted, cut: Cut, name: str) -> Iterator[FloatArray]:
    own = [rule for rule in fitted.job.parsed_rules if rule.gap and name in (rule.gap, rule.target)]
    for at in range(cut.files):
        parquet = pq.ParquetFile(work.staging.root / _file_name(work, cut, at))
        for batch in parquet.iter_batches(batch_size=MEASURE_ROWS, columns=list(own[0].names) if own else [name]):
            values = numbers(with_differences(batch, own).column(name))
            if own and name == own[0].target:  # equal to the column before, which is compared on its own step
                values[values == base_of(own[0], batch)] = np.nan
            yield _entries(fitted.grid(name).scaled(values))


def _entries(values: FloatArray, units: FloatArray | float = 0.0) -> FloatArray:
    """The values that are there, each with its unit, shape (n, 2)."""
    there = ~np.isnan(values)
    return np.stack(np.broadcast_arrays(values + 0.0, units), axis=1)[there]


def _first_of_equal(*ordered: FloatArray | IntArray) -> BoolArray:
    """Whether each place of sorted arrays differs from the one before in any of them."""
    return np.asarray(np.any([np.diff(each, prepend=np.nan) != 0 for each in ordered], axis=0))


def _write_runs(parts: Iterator[FloatArray], folder: Path, stem: str) -> Runs:
    """Distinct entries with their frequencies, in memory-mapped runs of bounded length."""
    paths: list[Path] = []
    held: list[FloatArray] = []

    def write() -> None:
        values, units = np.concatenate(held).T
        order = np.lexsort((units, values))
        starts = np.flatnonzero(_first_of_equal(values[order], units[order]))
        run = np.empty(len(starts), dtype=_ENTRY)
        run["value"], run["unit"] = values[order[starts]], units[order[starts]]
        run["rows"] = np.diff(np.append(starts, len(order)))
        paths.append(folder / f"{stem}-{len(paths)}.npy")
        np.save(paths[-1], run)
        held.clear()

    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= RUN_ROWS:
            write()
    if held:
        write()
    return [np.load(path, mmap_mode="r") for path in paths]


def _fineness(fitted: Fitted, name: str, originals: Runs, released: Runs) -> Fineness:
    scanned, lattice = fitted.scan.columns[name], fitted.grid(name)
    if lattice.heaps is not None:  # values are places among them
        gaps = np.diff(lattice.heaps)
        gaps = np.concatenate([[np.median(gaps)], gaps, [np.median(gaps)]])  # see `Grid.scaled`
        return Fineness(float(len(lattice.heaps)), grid=1.0, between=(lattice.step or 0.0) / gaps)
    step, kind = lattice.step or 0.0, fitted.cells.schema.field(name).type
    relative = float(np.finfo(np.float32).eps) if pa.types.is_float32(kind) else 0.0
    relative = float(np.finfo(np.float16).eps) if pa.types.is_float16(kind) else relative
    grid = coarsest_grid(lambda: [np.asarray(run["value"]) for run in originals], step, relative)
    meets = bool(step or not grid) or means_lie_on(grid, _some(released), relative)
    return Fineness(scanned.sd + abs(scanned.mean), step, grid, relative, meets)


def _some(runs: Runs) -> FloatArray:
    """Values of all runs, about `_SAMPLED` of them, evenly."""
    step = max(1, sum(map(len, runs)) // _SAMPLED)
    return np.concatenate([run["value"][::step] for run in runs] or [np.empty(0)])


def ranges(originals: Runs, released: Runs) -> Iterator[tuple[FloatArray, npt.NDArray[np.int64], FloatArray]]:
    """By range of values: distinct originals, the rows or units that have them, and distinct released values around."""
    edges = _edges(originals)
    for low, high in pairwise(edges):
        inside = np.concatenate([run[slice(*_place(run, low, high))] for run in originals])
        values, which = np.unique(inside["value"], return_inverse=True)
        units, rows = inside["unit"], np.zeros(len(values), dtype=np.int64)
        order = np.lexsort((units, which))
        once = _first_of_equal(which[order], units[order])
        np.add.at(rows, which[order], np.where(units[order] == 0.0, inside["rows"][order], once))
        around = []
        for run in released:
            begin, end = _place(run, low, high)
            around.append(run["value"][max(0, begin - NEIGHBOURS - 1) : end + NEIGHBOURS + 1])
        yield values, rows, np.unique(np.concatenate(around)) if around else np.empty(0)


def _edges(runs: Runs) -> FloatArray:
    """Borders of ranges with about equally many entries."""
    entries = sum(map(len, runs))
    count = max(1, -(-entries // RANGE_ENTRIES))
    sampled = np.concatenate([run["value"][:: max(1, len(run) // 256)] for run in runs] or [np.empty(0)])
    inner = np.quantile(sampled, np.arange(1, count) / count, method="lower") if len(sampled) else np.empty(0)
    return np.concatenate([[-np.inf], np.unique(inner), [np.inf]])


def _place(run: npt.NDArray[np.void], low: float, high: float) -> tuple[int, int]:
    """The slice of a run that holds a half-open range of values."""
    begin, end = np.searchsorted(run["value"], [low, high])
    return int(begin), int(end)


def handed_on(work: Work, results: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """The most values that a column reproduces above chance, and its name; empty where none does."""
    counted = {name: result["beyond"] for name, result in zip(compared_names(work), results, strict=True)}
    worst = max(counted, key=lambda name: counted[name], default="")
    return (counted[worst], worst) if worst and counted[worst] else (0, "")
