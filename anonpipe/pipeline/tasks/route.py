"""Send rows to their partitions, by the tree of their stratum, and encode the partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anonpipe.encoding.cells import Tally
from anonpipe.encoding.missing import fill_predicted
from anonpipe.encoding.row_hash import Contents, add_fingerprints, fingerprint, row_lanes
from anonpipe.encoding.weights import HELD_OUT, INPUT, WeightCounts
from anonpipe.environment import one_thread
from anonpipe.errors import InputError
from anonpipe.moments import Moments
from anonpipe.partition.strata import Units, UnitSets
from anonpipe.partition.tree import route
from anonpipe.pipeline.arrays import (
    CHUNK_ROWS,
    FEATURES,
    channel_array,
    chunk_rows,
    partition_rows,
    routed_array,
    verified_moments,
)
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.procedure.record import Draws
from anonpipe.pipeline.tasks.scan import (
    CHANGED,
    comparable_cells,
    drawn_held,
    keep_held,
    route_keys,
    unit_contents,
    units_in,
)
from anonpipe.source import read_batches
from anonpipe.storage.staging import StagedArray
from anonpipe.types import FloatArray, IntArray

# Files in the staging, by partition or input split
_UNITS = "units/{}.record"
ROUTED_WEIGHTS = "weights/routed-{}.record"

Routed = tuple[FloatArray, IntArray]
Keys = npt.NDArray[np.uint64]


def route_unit(work: Work, fitted: Fitted, index: int) -> dict[str, Any]:
    """Send each row of an input split to its leaf: chunks sorted by leaf."""
    unit, contents, aside = work.source.units[index], unit_contents(work, index), HoldOut(work, fitted)
    staged, region = routed_array(work, fitted), sum(len(chunks) for chunks in chunk_rows(work.source)[:index])
    leaf_rows: list[list[int]] = []
    held: list[Routed] = []
    leaf_units = UnitSets.none(work.job.k)
    read, fingerprints = 0, (0, 0)
    name, needed = work.job.unit_column, fitted.unit is not None or work.job.measure.held_out > 0
    names = [*fitted.cells.names, *([name] if name is not None and needed else [])]
    for first_row, batch in read_batches(work.source, unit, names):
        fingerprints = add_fingerprints(fingerprints, fingerprint(row_lanes(batch, work.job.columns), first_row))
        for low, high in _cuts(read, batch.num_rows):
            held.append(_routed_cells(fitted, aside.without(batch.slice(low - read, high - low), contents[low:high])))
            if fitted.unit is not None:
                leaf_units = leaf_units.merge(_units_of(fitted, *held[-1]))
            if high % CHUNK_ROWS == 0 or high == unit.rows:
                leaf_rows.append(_write_chunk(staged, region + len(leaf_rows), held, fitted.leaves))
                held.clear()
        read += batch.num_rows
    if fingerprints != work.staging.results("scan").read(index)["fingerprint"]:
        raise InputError(CHANGED.format(path=unit.path))
    aside.keep(index)
    if fitted.unit is not None:
        work.staging.write_record(_UNITS.format(index), leaf_units)
    return {"rows": unit.rows, "leaf_rows": leaf_rows}


def leaf_units(work: Work, fitted: Fitted) -> UnitSets | None:
    """The units of each leaf in all input splits, up to k; None where each row is a unit."""
    if fitted.unit is None:
        return None
    return reduce(UnitSets.merge, work.of_splits(_UNITS, UnitSets), UnitSets.none(fitted.job.k))


class KeptRows(NamedTuple):
    """Rows of the input, the keys that break ties where a tree splits, and their units, if needed."""

    batch: pa.RecordBatch
    keys: Keys
    units: Units | None


@dataclass
class HoldOut:
    """Separates the hold-out while an input split is routed, and keeps a sample of it."""

    work: Work
    fitted: Fitted
    held: list[FloatArray] = field(default_factory=list)
    # Where there are weights: of all that are held out, and of the input where calibrated columns are suppressed
    weights: list[WeightCounts] = field(default_factory=list)

    def without(self, batch: pa.RecordBatch, contents: Contents) -> KeptRows:
        """The rows that are not held out."""
        keys, units = route_keys(self.work, contents), units_in(self.work.job, self.work.start_key, batch)
        batch = batch.select(list(self.fitted.cells.names))
        if self.fitted.weight is not None and self.fitted.suppresses_calibrated:
            every = comparable_cells(self.fitted, batch, np.ones(batch.num_rows, dtype=bool), suppressed=False)
            self.weights.append(self.fitted.weight.count_table(INPUT, every))
        if not self.work.job.measure.held_out:
            return KeptRows(batch, keys, units)
        held, controls, asked = drawn_held(self.work, contents, units)
        extra = [asked] if self.fitted.unit is None or units is None else [asked, units]
        self.held.append(comparable_cells(self.fitted, batch, controls, *extra))
        kept = ~held
        if self.fitted.weight is not None:
            self.weights.append(self.fitted.weight.count_table(HELD_OUT, comparable_cells(self.fitted, batch, ~kept)))
        return KeptRows(batch.filter(pa.array(kept)), keys[kept], None if units is None else units[kept])

    def keep(self, unit: int) -> None:
        """Write the sample of an input split, and the weights of its records."""
        if self.weights:
            self.work.staging.write_record(ROUTED_WEIGHTS.format(unit), reduce(WeightCounts.merge, self.weights))
        if self.work.job.measure.held_out:
            keep_held(self.work, self.fitted, unit, self.held)


def _cuts(read: int, rows: int) -> list[tuple[int, int]]:
    """The ranges of rows read..read+rows, cut where a chunk ends."""
    borders = [read, *range((read // CHUNK_ROWS + 1) * CHUNK_ROWS, read + rows, CHUNK_ROWS), read + rows]
    return list(pairwise(borders))


def _routed_cells(fitted: Fitted, kept: KeptRows) -> Routed:
    """Cells of rows, of small strata and rare categories as they are released, and the leaf of each; -1 for none."""
    # Where k counts units, these are a last column.
    cells = fitted.cells.to_cells(kept.batch)
    stratum = fitted.strata.assign(cells)
    fitted.strata.recode(cells)
    fitted.suppression.apply(cells, fitted.cells.names, stratum)
    fitted.extremes.apply(cells, fitted.cells.names, stratum)
    if fitted.whole_units and kept.units is not None:  # a place by the unit's keyed number is one for all its rows
        leaf = _leaf_of_units(fitted, stratum, kept.units)
    else:
        leaf = _leaf(fitted, cells, stratum, kept.keys)
    if fitted.unit is None or kept.units is None:
        return cells, leaf
    return np.column_stack([cells, kept.units.astype(np.float64)]), leaf


def _units_of(fitted: Fitted, cells: FloatArray, leaf: IntArray) -> UnitSets:
    """The units of each leaf."""
    routed = leaf >= 0
    return UnitSets.of(leaf[routed], cells[routed, -1].astype(np.uint64), fitted.job.k)


def _leaf_of_units(fitted: Fitted, stratum: IntArray, units: Units) -> IntArray:
    """A leaf of the stratum, by the unit alone; -1 for records that are left out."""
    leaves = np.array([*(tree.leaves for tree in fitted.trees), 1])
    first = np.array([*np.cumsum([0, *leaves[:-2]]), -1])
    return np.asarray(first[stratum] + (units % leaves[stratum].astype(np.uint64)).astype(np.int64))


def _leaf(fitted: Fitted, cells: FloatArray, stratum: IntArray, keys: Keys) -> IntArray:
    offsets = np.cumsum([0] + [tree.leaves for tree in fitted.trees])
    leaf = np.full(len(cells), -1, dtype=np.int64)
    splitting = [at for at, tree in enumerate(fitted.trees) if tree.leaves > 1]
    leaf[stratum >= 0] = offsets[stratum[stratum >= 0]]
    if splitting:
        features = fitted.features.encode(cells) * np.sqrt(fitted.procedure.weights)
        for at in splitting:
            inside = stratum == at
            leaf[inside] = offsets[at] + route(fitted.trees[at], features[inside], keys[inside])
    return leaf


def _write_chunk(staged: StagedArray, region: int, held: list[Routed], leaves: int) -> list[int]:
    rows = np.concatenate([cells for cells, _ in held])
    leaf = np.concatenate([part for _, part in held])
    order = np.argsort(leaf.astype(np.int32), kind="stable")
    order = order[np.count_nonzero(leaf < 0) :]
    staged.write(region, rows[order])
    counts: list[int] = np.bincount(leaf[order], minlength=leaves).tolist()
    return counts


# --- Encoding


def encode_partition(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Encode the cells of a partition as features, and count both."""
    cells, units = partition_rows(work, fitted, cut, index)
    encoded = encoded_cells(fitted, cells, work.draws(index), units)
    channel_array(work, fitted, cut, FEATURES, fitted.width).write(index, encoded)
    return {
        "rows": len(cells),
        "stratum": cut.partitions[index].stratum,
        "original": verified_moments(fitted.view, cells),
        "tally": Tally.of(cells, fitted.cells),
        "features": Moments.of(encoded[:, : fitted.features.width + fitted.conditioning.width]),
    }


def encoded_cells(fitted: Fitted, cells: FloatArray, draws: Draws, units: IntArray | None = None) -> FloatArray:
    """Features, conditioning columns, codes of classes and of units, shape (n_rows, fitted.width).

    Missing numbers stand at the mean, unless the method has them filled first: then all but ordinals are filled from
    records of which the other columns predict about the same. `draws(stream)` is the partition's generator of a stream.

    Tied values get random scores where a released row belongs to a person or group, as a shared score would identify
    it; else their mean score, which preserves associations.
    """
    features, conditioning = fitted.features, fitted.conditioning.encode(cells)
    split = fitted.procedure.row_for_row
    encoded = np.empty((len(cells), features.width + conditioning.shape[1]))  # the largest array here: made once
    own, encoded[:, features.width :] = encoded[:, : features.width], conditioning
    features.encode(cells, rng=draws("ties") if split else None, out=own)
    if not fitted.procedure.forms_groups and np.isnan(cells[:, list(features.numeric_positions)]).any():
        # Nulls of ordinals stay at the mean, where decoding has them when it seeks the covariances of these features
        columns_of = {each.position: range(each.start, each.stop) for each in features.numbers if not each.ordinal}
        dummies = [range(each.start, each.stop) for each in features.categories]
        with one_thread():  # the bits must not follow the machine's cores
            filled = fill_predicted(cells, columns_of, encoded, draws("fill"), dummies)
        features.encode(cells, filled, draws("ties") if split else None, own)
    codes = [column.codes(cells)[:, None].astype(np.float64) for column in fitted.procedure.codes]
    if units is not None and fitted.stages_units:  # from 0 in each partition: what leads to the unit goes no further
        codes.append(np.unique(units, return_inverse=True)[1].reshape(-1, 1).astype(np.float64))
    return np.concatenate([encoded, *codes], axis=1) if codes else encoded
