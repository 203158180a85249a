"""Sending rows to their partitions: each to its leaf of the tree of its stratum, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anonpipe.encoding.contents import Contents
from anonpipe.encoding.row_hash import add_fingerprints, fingerprint, row_lanes
from anonpipe.errors import InputError
from anonpipe.partition.tree import route
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.holdout import comparable_cells, drawn_held, held_in, keep_held
from anonpipe.pipeline.scan import route_keys, unit_contents
from anonpipe.pipeline.staged import CHUNK_ROWS, chunk_rows, routed_array
from anonpipe.source import read_batches
from anonpipe.storage.staging import StagedArray
from anonpipe.types import FloatArray, IntArray

Routed = tuple[FloatArray, IntArray]
Keys = npt.NDArray[np.uint64]


def route_unit(work: Work, fitted: Fitted, index: int) -> dict[str, Any]:
    """Send each row of a unit to its leaf: chunks sorted by leaf.

    Raises
    ------
    InputError
        The rows are not those that were scanned: a mixture of two inputs
        would be released, under statistics of the first.
    """
    unit, contents, aside = work.source.units[index], unit_contents(work, index), Aside(work, fitted)
    staged, region = routed_array(work, fitted), sum(len(chunks) for chunks in chunk_rows(work.source)[:index])
    leaf_rows: list[list[int]] = []
    held: list[Routed] = []
    read, fingerprints = 0, (0, 0)
    for first_row, batch in read_batches(work.source, unit, list(fitted.cells.names)):
        fingerprints = add_fingerprints(fingerprints, fingerprint(row_lanes(batch, work.job.columns), first_row))
        for low, high in _cuts(read, batch.num_rows):
            held.append(routed_cells(fitted, *aside.without(batch.slice(low - read, high - low), contents[low:high])))
            if high % CHUNK_ROWS == 0 or high == unit.rows:
                leaf_rows.append(_write_chunk(staged, region + len(leaf_rows), held, fitted.leaves))
                held.clear()
        read += batch.num_rows
    if fingerprints != work.staging.results("scan").read(index)["fingerprint"]:
        raise InputError(_CHANGED.format(path=unit.path))
    aside.keep(index)
    return {"rows": unit.rows, "leaf_rows": leaf_rows}


_CHANGED = (
    "the input changed while it was read: {path} holds other rows than in the first pass; "
    "run again when nobody writes to it"
)


@dataclass
class Aside:
    """Sets the hold-out aside while a unit is routed, and keeps a sample of it."""

    work: Work
    fitted: Fitted
    held: list[FloatArray] = field(default_factory=list)

    def without(self, batch: pa.RecordBatch, contents: Contents) -> tuple[pa.RecordBatch, Keys]:
        """The rows that are not held out, and by what they are told apart where a tree splits."""
        keys = route_keys(self.work, contents)
        if not self.work.job.measure.hold_out:
            return batch, keys
        self.held.append(comparable_cells(self.fitted, batch, drawn_held(self.work, contents)))
        kept = ~held_in(self.work, contents)
        return batch.filter(pa.array(kept)), keys[kept]

    def keep(self, unit: int) -> None:
        """Leave the sample of a unit."""
        if self.work.job.measure.hold_out:
            keep_held(self.work, self.fitted, unit, self.held)


def _cuts(read: int, rows: int) -> list[tuple[int, int]]:
    """The rows read..read+rows of a unit, cut where a chunk ends."""
    borders = [read, *range((read // CHUNK_ROWS + 1) * CHUNK_ROWS, read + rows, CHUNK_ROWS), read + rows]
    return list(pairwise(borders))


def routed_cells(fitted: Fitted, batch: pa.RecordBatch, keys: Keys) -> tuple[FloatArray, IntArray]:
    """Cells of rows, of small strata and rare categories as they are released, and the leaf of each; -1 for none."""
    cells = fitted.cells.to_cells(batch)
    stratum = fitted.strata.assign(cells)
    fitted.strata.recode(cells)
    fitted.suppression.apply(cells, fitted.cells.names, stratum)
    return cells, _leaf(fitted, cells, stratum, keys)


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
