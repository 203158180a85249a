"""Encoding a partition: its cells become the features that the method begins with, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from anonpipe.encoding.missing import fill_predicted
from anonpipe.encoding.tally import Tally
from anonpipe.moments import Moments
from anonpipe.pipeline.channels import FEATURES, channel_array
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.decoder import Draws
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.partitioning import Cut
from anonpipe.pipeline.staged import partition_rows, verified_moments
from anonpipe.threads import one_thread
from anonpipe.types import FloatArray, IntArray


def encode_partition(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Turn the cells of a partition into features, and count both."""
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
    """Features, what they are drawn given, codes of classes and of units, shape (n_rows, fitted.width).

    Missing numbers stand at the mean, unless the method has them filled first:
    then they are filled from records of which the other columns predict about
    the same. `draws(stream)` is the partition's generator of a stream.

    Equal values get scores at random where records stay of one person or
    group, who would be told by them, and the middle one, which loses nothing
    of how columns go together, where they are of no person.
    """
    features, conditioning = fitted.features, fitted.conditioning.encode(cells)
    split = fitted.procedure.same_person
    encoded = np.concatenate([features.encode(cells, rng=draws("ties") if split else None), conditioning], axis=1)
    if fitted.procedure.fills_first and np.isnan(cells[:, list(features.numeric_positions)]).any():
        own = {block.position: range(block.start, block.stop) for block in features.numbers}
        with one_thread():  # the bits must not follow the machine's cores
            filled = fill_predicted(cells, own, encoded, draws("fill"))
        scored = features.encode(cells, filled, draws("ties") if split else None)
        encoded = np.concatenate([scored, conditioning], axis=1)
    codes = [each.codes(cells)[:, None].astype(np.float64) for each in fitted.procedure.codes]
    if units is not None:  # from 0 in each partition: what leads to the unit goes no further
        codes.append(np.unique(units, return_inverse=True)[1].reshape(-1, 1).astype(np.float64))
    return np.concatenate([encoded, *codes], axis=1)
