"""Records whose columns are guessed, as a run gives them to attacks."""

from __future__ import annotations

import numpy as np

from anonpipe.evaluate.risk import Coding, InferenceTask, guess_nearest


def task(released, members, controls, categories=(), *, columns=None, names=None, found=None):
    """All columns, and what a search of the released records given finds, unless something else is given."""
    tables = [np.asarray(table, dtype=float) for table in (released, members, controls)]
    asked, width = np.concatenate(tables[1:]), tables[0].shape[1]
    found = found or guess_nearest(tables[0], asked, Coding.of(tables[0], asked, categories))
    columns, names = range(width) if columns is None else columns, names or [f"column {at}" for at in range(width)]
    return InferenceTask(*tables, found, names, columns, categories)
