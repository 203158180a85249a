from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import ConditioningEncoder
from anonpipe.encoding.scan import scan_batch
from anonpipe.errors import InputError


def encoded(batch, columns):
    columns = {name: Column(role="key", **options) for name, options in columns.items()}
    scan = scan_batch(batch, columns, 0, [])
    cells = ColumnEncoder.fit(batch.schema, columns, scan)
    encoder = ConditioningEncoder.fit(cells, scan, list(columns))
    numbers = encoder.encode(cells.to_cells(batch))
    assert numbers.shape == (batch.num_rows, encoder.width) and np.isfinite(numbers).all()
    return numbers


def test_numbers_dates_ordinals_are_scores_mean_0_variance_1():
    days = [datetime.date(2020, 1, day) for day in (1, 3, 8, 1)]
    batch = pa.record_batch({"n": [1.5, 4.0, 4.0, 9.0], "d": days, "o": ["low", "high", "low", "middle"]})
    numbers = encoded(
        batch,
        {
            "n": {"kind": "continuous"},
            "d": {"kind": "date"},
            "o": {"kind": "ordinal", "levels": ["low", "middle", "high"]},
        },
    )
    assert numbers.mean(axis=0) == pytest.approx(0.0, abs=1e-12) and numbers.std(axis=0) == pytest.approx(1.0)
    assert np.argsort(numbers[:, 1]).tolist()[-1] == 2 and np.argmax(numbers[:, 2]) == 1


def test_dummies_and_a_constant_tell_all_categories():
    batch = pa.record_batch({"c": ["x", "y", None, "z", "x", "y"], "one": ["a"] * 6})
    numbers = encoded(batch, {"c": {"kind": "categorical"}, "one": {"kind": "categorical"}})
    assert numbers.shape[1] == 3 and set(np.unique(numbers)) == {-1.0, 1.0}
    assert len(np.unique(numbers, axis=0)) == 4
    assert np.linalg.matrix_rank(np.column_stack([np.ones(6), numbers])) == 4


def test_too_many_categories_are_refused():
    batch = pa.record_batch({"c": [f"c{at}" for at in range(500)]})
    with pytest.raises(InputError, match="499 columns of numbers, more than 400"):
        encoded(batch, {"c": {"kind": "categorical"}})
