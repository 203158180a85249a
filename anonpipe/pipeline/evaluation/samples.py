"""Samples of a run's records, original and released side by side, kept privately for what measures them.

Which records are drawn follows from the run's key and the number of records alone. Each partition leaves the part of
every sample that lies in it, before its released rows are shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.row_hash import added, counted, looked_up, row_numbers
from anonpipe.evaluate.risk import ASSIGNED, Predicates, assigned_cells, candidates, drawn_cells, outermost, rows_of
from anonpipe.evaluate.risk import fewest_alike as count_alike
from anonpipe.job.model import Job
from anonpipe.methods.grouping import ClassDisclosure, class_disclosure
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation import known
from anonpipe.pipeline.evaluation.known import key_columns, known_features, links_own
from anonpipe.pipeline.tasks.scan import FEWEST_HELD, held_cells
from anonpipe.rng import generator, keyed, number_keys
from anonpipe.types import FloatArray, IntArray

MODEL_ROWS = 1_000_000  # Most records that the recipient's models are fitted to; of larger tables a sample

# Most classes of a scenario that are counted, each of them whole; of larger tables a random share
COUNTED_CLASSES = 2_000_000

RANKED_ROWS = 20_000  # Records that ranks are taken from

FOLDER = "assessed"  # Of all that is kept for the measures, inside the staging

_QUERIES, _GUESSED, _UNITS, _PREDICATES = (
    f"{FOLDER}/{name}.record" for name in ("queries", "guessed", "units", "predicates")
)


@dataclass(frozen=True, eq=False)
class SampleRows:
    """The rows of a partition, original and released side by side."""

    # original, released: cells before and after, probabilities after these; shapes (n_rows, n_columns)
    original: FloatArray
    released: FloatArray
    members: IntArray | None  # The group of each in the whole table; None where there are no groups
    order: IntArray  # The order in which they go to the output files, shape (n_rows,)
    # The unit of each, by a number that is its own in the whole table; None where each is one
    units: IntArray | None = None

    @property
    def labels(self) -> IntArray:
        """The group of each; -1 where there are no groups."""
        return np.full(len(self.original), -1) if self.members is None else self.members

    @property
    def places(self) -> IntArray:
        """Where each lies among those of the partition that go to the output files."""
        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = np.arange(len(self.order))
        return places


@dataclass(frozen=True, eq=False)
class Queries:
    """Records that are looked for in the whole release."""

    features: FloatArray  # What an intruder knows of them, shape (n_queries, width)
    # own_row, own_original: number of each in the release (partition by partition, in the order of the output files),
    # and in the original
    own_row: IntArray
    own_original: IntArray
    # own_group, own_size: its group and how many records that has; -1 and 0 for no groups
    own_group: IntArray
    own_size: IntArray
    own_alike: IntArray  # A number of its group and its unchanged columns; see `alike_numbers`
    own_strata: IntArray  # Of each column that makes the strata a number of its value, shape (n_queries, n_columns)
    own_numbers: FloatArray  # Its cells of `masked_numbers`, shape (n_queries, n_columns)
    # own_classes, own_blocks: of each scenario a number of what it holds in the columns known, and in the unchanged
    # ones of these, shape (n_queries, n_scenarios)
    own_classes: IntArray
    own_blocks: IntArray
    # Of each scenario, side by side, the numbers of `known_features` that it knows, within its limits
    own_known: FloatArray
    own_cells: FloatArray  # Cells of all columns where a scenario knows some within limits; else of none
    # ranked_original, ranked_released: some records of both tables, to take ranks from
    ranked_original: FloatArray
    ranked_released: FloatArray


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Where the rows of the units are that are looked for, each pair of unit and place once."""

    # units, places: the unit, and the number of a group (or of records alike), shape (n,)
    units: IntArray
    places: IntArray
    # rows, sizes: rows of the unit there, and of all, shape (n,)
    rows: IntArray
    sizes: IntArray

    def found(self, units: IntArray, places: IntArray) -> tuple[IntArray, IntArray]:
        """Rows that each of some units has at some places, 0 for none, and rows there of all, 1 where it has none."""
        pairs = np.stack([np.append(self.units, units), np.append(self.places, places)])
        which = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        rows, sizes = np.zeros(len(which), dtype=np.int64), np.ones(len(which), dtype=np.int64)
        rows[which[: len(self.units)]], sizes[which[: len(self.units)]] = self.rows, self.sizes
        asked = which[len(self.units) :]
        return rows[asked], sizes[asked]

    def all_sizes(self, units: IntArray) -> IntArray:
        """Rows of all places that have a row of each of some units."""
        found, which = np.unique(self.units, return_inverse=True)
        return looked_up(found, np.bincount(which.reshape(-1), weights=self.sizes).astype(np.int64), units)


@dataclass(frozen=True, eq=False)
class AskedUnits:
    """Of the records that are looked for their units, and where these have rows: in groups, and among records alike."""

    own: IntArray
    groups: UnitRows
    alike: UnitRows


def samples(job: Job) -> bool:
    """Whether anything is measured that needs samples."""
    return job.measure.utility or job.measure.risk or bool(job.analyses)


def wanted_rows(job: Job, rows: int) -> int:
    """Records of the paired sample of a release of so many rows; 0 where nothing is measured on it."""
    return min(job.measure.rows, rows) if job.measure.utility or job.measure.risk else 0


def wanted_queries(job: Job, rows: int) -> int:
    """Records that are looked for; 0 for none."""
    return min(job.measure.queries, rows) if job.measure.risk else 0


def model_columns(fitted: Fitted) -> tuple[str, ...]:
    """Columns that the recipient's models need, in the table's order."""
    used = {name for each in fitted.job.analyses for name in fitted.job.columns_of(each)}
    return tuple(name for name in fitted.cells.names if name in used)


def keep_samples(work: Work, fitted: Fitted, cut: Cut, index: int, rows: SampleRows) -> dict[str, Any]:
    """Keep the sampled records of a partition; what its task result is to tell of them."""
    if not samples(fitted.job):
        return {}
    begin, job = cut.rows_before(index), fitted.job
    at = _drawn(work, cut, index, "pairs", wanted_rows(job, cut.rows))
    kept = sampled(rows, at) | ({} if rows.units is None else {"units": rows.units[at]})
    if columns := [fitted.cells.names.index(name) for name in model_columns(fitted)]:
        at = _drawn(work, cut, index, "models", min(MODEL_ROWS, cut.rows))
        kept |= {"model_original": rows.original[at][:, columns], "model_released": rows.released[at][:, columns]}
    if wanted := wanted_queries(job, cut.rows):
        at = _drawn(work, cut, index, "queries", wanted)
        if rows.units is not None and fitted.unit is not None:
            at = _of_drawn_units(work, rows.units, wanted / fitted.unit.distinct)
            kept |= {"query_units": rows.units[at], **_rows_of_units(fitted, rows, rows.units[at])}
        kept |= _class_counts(fitted, rows, cut.rows)
        if job.measure.held_out:  # without, nothing is tried that singles out
            kept["outermost"] = outermost(rows.released[:, : len(fitted.cells.names)])
        if can_be_assigned(fitted):
            kept["assigned"] = _assigned(work, fitted, rows, index, cut.rows)
        kept |= queried(fitted, rows, at, work.rng("assess scenarios", index))
        kept |= {"own_row": begin + rows.places[at], "own_original": begin + at}
        kept |= _spanning_counts(fitted, rows) if fitted.procedure.spans_parts else {}
        at = _rows_of_groups(work, fitted, cut, index, rows.members)
        kept |= {f"group_{name}": array for name, array in sampled(rows, at).items()}
    work.staging.write_record(_sample_file(index), kept)
    return {"fewest_in_group": _fewest(fitted, rows)}


def sampled(rows: SampleRows, at: IntArray) -> dict[str, npt.NDArray[Any]]:
    """Some rows before and after, with their groups."""
    return {"original": rows.original[at], "released": rows.released[at], "labels": rows.labels[at]}


def queried(fitted: Fitted, rows: SampleRows, at: IntArray, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """What is looked for of some rows, and what is known of their groups."""
    own, labels, keys = rows.original[at], rows.labels[at], key_columns(fitted)
    none, tolerant = np.empty((len(at), 0), np.int64), any(each.tolerant for each in keys)
    features = known_features(fitted, own)
    seen = (each.as_known(fitted, own, features, rng) for each in keys)
    return {
        "features": features,
        "own_group": labels,
        "own_size": looked_up(*counted(rows.labels), labels),
        "own_alike": alike_numbers(fitted, own, labels),
        "own_strata": np.column_stack([none, *known.stratum_numbers(fitted, own).values()]),
        "own_numbers": own[:, masked_numbers(fitted)],
        "own_classes": np.column_stack([none, *(each.classes(own) for each in keys)]),
        "own_blocks": np.column_stack([none, *(each.blocks(own) for each in keys)]),
        "own_known": np.concatenate([np.empty((len(at), 0)), *seen], axis=1),
        "own_cells": own if tolerant else own[:, :0],
    }


def can_be_assigned(fitted: Fitted) -> bool:
    """Whether a record, or a group of one partition, stands for one record: not of units that have several."""
    grouped = fitted.procedure.members is not None and not fitted.procedure.spans_parts
    return fitted.unit is None and (links_own(fitted) or grouped)


def _assigned(work: Work, fitted: Fitted, rows: SampleRows, index: int, of: int) -> FloatArray:
    """Right links of some cells of a partition where all is assigned at once; see `assigned_cells`."""
    # Large blocks are cut by numbers as they lie in the table, so that only what is drawn becomes features.
    rng = work.rng("assess assignment", index)
    blocks = alike_numbers(fitted, rows.original, np.zeros(len(rows.original), dtype=np.int64))
    cells = drawn_cells(*_on_one_scale(fitted, rows), blocks, min(1.0, ASSIGNED / of), rng)
    ours, theirs, cells = rows_of(cells)
    if links_own(fitted):
        own, owners, sizes = ours, theirs, np.ones(len(ours), dtype=np.int64)
    else:
        alike = alike_numbers(fitted, rows.original, rows.labels)
        own, owners, sizes = alike[ours], alike[theirs], looked_up(*counted(alike), alike[ours])
    original, released = (known.masked_features(fitted, part) for part in (rows.original[ours], rows.released[theirs]))
    return assigned_cells(original, released, cells, own, owners, sizes, rng)


def _on_one_scale(fitted: Fitted, rows: SampleRows) -> tuple[FloatArray, FloatArray]:
    """Masked numbers of both tables (without any, codes) in deviations of the original, nulls at its mean."""
    places = masked_numbers(fitted) or list(fitted.synthesized)
    original = rows.original[:, places]
    present = ~np.isnan(original)
    counts = np.maximum(present.sum(axis=0), 1)
    centre = np.where(present, original, 0.0).sum(axis=0) / counts
    deviation = np.sqrt((np.where(present, original - centre, 0.0) ** 2).sum(axis=0) / counts)
    scale = np.where(deviation > 0, deviation, 1.0)
    return np.nan_to_num((original - centre) / scale), np.nan_to_num((rows.released[:, places] - centre) / scale)


def class_counts(numbers: IntArray, units: IntArray | None, of: int) -> IntArray:
    """Classes of some of a table's rows, and how many are in each; with units, each class and unit that go together."""
    # Of a table with more rows than `COUNTED_CLASSES` only classes whose numbers are below a border, which are the same
    # ones in every part.
    chosen = numbers < min(1.0, COUNTED_CLASSES / max(1, of)) * 2.0**63
    if units is None:
        return np.stack(counted(numbers[chosen]))
    return np.unique(np.stack([numbers[chosen], units[chosen]]), axis=1)


def all_class_counts(parts: Sequence[IntArray], of_units: bool) -> tuple[IntArray, IntArray]:
    """The classes of all parts, ascending, and persons or other units of each."""
    if of_units:
        return counted(np.unique(np.concatenate(parts, axis=1), axis=1)[0])
    return added([(part[0], part[1]) for part in parts])


def _class_counts(fitted: Fitted, rows: SampleRows, of: int) -> dict[str, npt.NDArray[Any]]:
    """Of each scenario the classes of a partition's originals, how many are in each, and the sum of their weights."""
    kept: dict[str, npt.NDArray[Any]] = {}
    for at, columns in enumerate(key_columns(fitted)):
        if columns.tolerant:
            continue
        numbers = columns.classes(rows.original)
        kept[f"scenario_{at}"] = class_counts(numbers, None if fitted.unit is None else rows.units, of)
        if fitted.weight is not None and fitted.unit is None:
            classes = kept[f"scenario_{at}"][0]
            there = np.isin(numbers, classes)
            weights = rows.original[there, fitted.weight.position]
            sums = np.bincount(np.searchsorted(classes, numbers[there]), weights, len(classes))
            kept[f"weights_{at}"] = sums.astype(np.float64)
    return kept


def read_class_counts(work: Work, fitted: Fitted, cut: Cut, at: int) -> tuple[IntArray, IntArray]:
    """The classes of a scenario in the whole original, ascending, and persons or other units of each."""
    return all_class_counts([file[f"scenario_{at}"] for file in _files(work, cut)], fitted.unit is not None)


def read_class_weights(work: Work, fitted: Fitted, cut: Cut, at: int, classes: IntArray) -> FloatArray | None:
    """Sums of the survey weights of these classes; None without weights, or where units have several rows."""
    if fitted.weight is None or fitted.unit is not None:
        return None
    sums = np.zeros(len(classes))
    for file in _files(work, cut):
        sums[np.searchsorted(classes, file[f"scenario_{at}"][0])] += file[f"weights_{at}"]
    return sums


def masked_numbers(fitted: Fitted) -> list[int]:
    """Places of the numbers and dates that are replaced."""
    return [at for at in fitted.synthesized if not fitted.cells.columns[at].kind.coded]


def alike_numbers(fitted: Fitted, cells: FloatArray, labels: IntArray) -> IntArray:
    """A number of each record: equal where groups are, and the unchanged columns that an intruder knows."""
    # Among such records nothing that is released tells who is who.
    return row_numbers(cells[:, [fitted.cells.names.index(name) for name in known.known_unchanged(fitted)]], labels)


def _spanning_counts(fitted: Fitted, rows: SampleRows) -> dict[str, npt.NDArray[Any]]:
    """Counts of a partition, by number of the group: records, records alike, and records of each class."""
    cells, labels = rows.original, rows.labels
    kept = dict(zip(("groups", "group_sizes"), counted(labels), strict=True))
    if own := fitted.own_positions:
        kept |= dict(zip(("alike", "alike_sizes"), counted(row_numbers(cells[:, own], labels)), strict=True))
    # Sets of equal rows also differ by unchanged columns, which any reader sees.
    groups = alike_numbers(fitted, cells, labels) if fitted.procedure.members == "alike" else labels
    for at, column in enumerate(fitted.classes):
        both, counts = np.unique(np.stack([groups, column.codes(cells)]), axis=1, return_counts=True)
        kept |= {f"class_{at}": np.concatenate([both, counts[None]]).T}
    return kept


def _fewest(fitted: Fitted, rows: SampleRows) -> int | None:
    """Fewest records of a group that are alike in what each keeps of one person; None where nobody counts here."""
    own, counts = fitted.own_positions, fitted.job.measure.risk and fitted.procedure.members == "part"
    if not own or not counts or rows.members is None:
        return None
    return count_alike(rows.members, rows.original[:, own])


def fewest_alike(work: Work, fitted: Fitted, cut: Cut) -> int | None:
    """Fewest records of a group that are alike in those columns; None where nobody counted."""
    if fitted.procedure.spans_parts:
        return int(_added(work, cut, "alike", "alike_sizes")[1].min()) if fitted.own_positions else None
    results = work.staging.results("decode").read_all(len(cut.partitions))
    found = [result["fewest_in_group"] for result in results if result["fewest_in_group"] is not None]
    return min(found) if found else None


def _drawn(work: Work, cut: Cut, index: int, what: str, count: int) -> IntArray:
    """Rows of a partition that are in a sample of `count` of the whole table, ascending."""
    begin, rows = cut.rows_before(index), cut.partitions[index].rows
    if count >= cut.rows:
        return np.arange(rows)
    chosen = generator(work.key, f"assess {what}", 0).choice(cut.rows, count, replace=False)  # in all copies the same
    return np.sort(chosen[(chosen >= begin) & (chosen < begin + rows)]) - begin


def _rows_of_units(fitted: Fitted, rows: SampleRows, drawn: IntArray) -> dict[str, npt.NDArray[Any]]:
    """In which groups of a partition, and among which records alike, some units have rows; as columns of `UnitRows`."""
    assert rows.units is not None  # where there are units
    chosen, found = np.isin(rows.units, drawn), {}
    alike = alike_numbers(fitted, rows.original, rows.labels)
    for name, places in (("units_in_groups", rows.labels), ("units_alike", alike)):
        pairs, own = np.unique(np.stack([rows.units[chosen], places[chosen]]), axis=1, return_counts=True)
        found[name] = np.column_stack([*pairs, own, looked_up(*counted(places), pairs[1])])
    return found


def _of_drawn_units(work: Work, units: IntArray, share: float) -> IntArray:
    """Rows of a partition, one of each unit of a keyed choice of so many of all; which one is drawn by its place."""
    border = np.uint64(min(2**64 - 1, int(share * 2**64)))
    chosen = number_keys(keyed(work.key, "assess units"), np.unique(units)) <= border
    at = np.flatnonzero(np.isin(units, np.unique(units)[chosen]))  # rows are in a keyed order: the first is drawn
    return np.sort(at[np.unique(units[at], return_index=True)[1]])


def one_of_each(work: Work, units: IntArray, what: str) -> IntArray:
    """One record of each unit, drawn among them, ascending."""
    drawn = work.rng(f"assess {what} of units", 0).permutation(len(units))
    return np.sort(drawn[np.unique(units[drawn], return_index=True)[1]])


def _rows_of_groups(work: Work, fitted: Fitted, cut: Cut, index: int, members: IntArray | None) -> IntArray:
    """Rows of a keyed choice of whole groups, whose expected records in all partitions are those of `queries`."""
    if members is None:
        return np.empty(0, dtype=np.int64)
    share, groups = wanted_queries(fitted.job, cut.rows) / cut.rows, np.unique(members)
    if fitted.procedure.spans_parts:  # every partition must draw the same groups
        border = np.uint64(min(2**64 - 1, int(share * 2**64)))
        drawn = number_keys(keyed(work.key, "assess groups"), groups) <= border
    else:
        drawn = work.rng("assess groups", index).random(len(groups)) < share
    return np.flatnonzero(np.isin(members, groups[drawn]))


def _sample_file(index: int) -> str:
    """Where the sampled records of a partition lie."""
    return f"{FOLDER}/sample-{index}.record"


def _files(work: Work, cut: Cut) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """What each partition left."""
    return (read_arrays(work, _sample_file(index)) for index in range(len(cut.partitions)))


@lru_cache(maxsize=8)
def read_arrays(work: Work, file: str) -> dict[str, npt.NDArray[Any]]:
    """Arrays that a partition left, read once for measures that need them one after the other; do not change them."""
    arrays: dict[str, npt.NDArray[Any]] = work.staging.read_record(file)
    return arrays


def read_samples(work: Work, cut: Cut, *names: str) -> list[npt.NDArray[Any]]:
    """Arrays of all partitions, each below each other in the order of the partitions."""
    # Of the paired sample, and with `group_` before these of whole groups: `original`, `released`, row for row, and
    # `labels`, the groups of the first grouping, -1 where there are none.
    parts = [[file[name] for name in names] for file in _files(work, cut)]
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def group_sizes(work: Work, cut: Cut) -> tuple[IntArray, IntArray]:
    """Numbers of the groups that span partitions, and how many records each has."""
    return _added(work, cut, "groups", "group_sizes")


def spanning_disclosures(work: Work, fitted: Fitted, cut: Cut) -> dict[str, tuple[ClassDisclosure, IntArray]]:
    """Of each class column what groups that span partitions tell of it, and their sizes."""
    found = {}
    for at, column in enumerate(fitted.classes):
        (counts,) = read_samples(work, cut, f"class_{at}")
        labels, codes = (np.repeat(counts[:, place], counts[:, 2]) for place in (0, 1))
        found[column.name] = class_disclosure(labels, codes, column.shares), counted(labels)[1]
    return found


def _added(work: Work, cut: Cut, *names: str) -> tuple[IntArray, IntArray]:
    """What all partitions counted under two names."""
    return added([(file[names[0]], file[names[1]]) for file in _files(work, cut)])


def gather_queries(work: Work, fitted: Fitted, cut: Cut) -> None:
    """Put the partitions' queries into one file, and rows that ranks are taken from; done once, by the driver."""
    # Records whose columns are to be guessed go into a file of their own.
    *names, _, _ = (field.name for field in fields(Queries))
    *queries, original, released = read_samples(work, cut, *names, "original", "released")
    own = original
    if fitted.unit is not None:  # attacks count units: one record of each is looked for
        asked_of, sampled_of, groups, alike = read_samples(
            work, cut, "query_units", "units", "units_in_groups", "units_alike"
        )
        once = one_of_each(work, asked_of, "queries")
        asked_units = AskedUnits(asked_of[once], UnitRows(*groups.T), UnitRows(*alike.T))
        work.staging.write_record(_UNITS, asked_units)
        queries, own = [each[once] for each in queries], original[one_of_each(work, sampled_of, "guesses")]
    if fitted.procedure.spans_parts:
        queries[names.index("own_size")] = looked_up(*group_sizes(work, cut), queries[names.index("own_group")])
    step = -(-len(original) // RANKED_ROWS)
    if len(held := held_cells(work, fitted)) >= FEWEST_HELD:
        members = own[:: -(-len(own) // wanted_queries(fitted.job, cut.rows))]
        of_copies = [read_samples(one, cut, "released")[0][::step, : len(fitted.cells.names)] for one in work.copies]
        work.staging.write_record(_GUESSED, GuessedCells(np.concatenate(of_copies), members, held))
        # Not on shares: one is two columns in one, and a predicate on it would count as one on a single column
        places = [at for at, name in enumerate(fitted.cells.names) if name not in fitted.job.shares]
        coded = [places.index(at) for at in known.coded_positions(fitted)]
        how = cut.rows, coded, fitted.job.measure.queries, work.rng("assess singling out", 0)
        found = candidates(released[:, places], read_samples(work, cut, "outermost")[0][:, places], *how)
        by_place = {name: replace(each, columns=np.array(places)[each.columns]) for name, each in found.items()}
        work.staging.write_record(_PREDICATES, by_place)
    ranked = (known_features(fitted, part[::step]) for part in (original, released))
    work.staging.write_record(_QUERIES, Queries(*queries, *ranked))


def read_predicates(work: Work) -> dict[str, Predicates]:
    """Predicates on `one` column and on `several`; none where nothing is held out."""
    if not work.staging.has(_PREDICATES):
        return {}
    found: dict[str, Predicates] = work.staging.read_record(_PREDICATES, Predicates)
    return found


def read_queries(work: Work) -> Queries:
    """The records that are looked for."""
    return work.staging.read_one(_QUERIES, Queries)


def read_units(work: Work) -> AskedUnits:
    """Their units."""
    return work.staging.read_one(_UNITS, AskedUnits, UnitRows)


@dataclass(frozen=True, eq=False)
class GuessedCells:
    """Records whose columns are guessed from the release."""

    released: FloatArray  # Cells of some released records, which the scale is taken of
    # members, controls: cells of original records that are looked for, and of held-out ones
    members: FloatArray
    controls: FloatArray

    @property
    def asked(self) -> FloatArray:
        """Members, then controls."""
        return np.concatenate([self.members, self.controls])


def read_guessed(work: Work) -> GuessedCells | None:
    """Whose columns are guessed; None where the hold-out is too small for a control, or there is none."""
    return work.staging.read_one(_GUESSED, GuessedCells) if work.staging.has(_GUESSED) else None
