from __future__ import annotations

import numpy as np

from anonpipe.kernels.points import turn_rows


def test_records_are_turned_in_the_same_bits_in_any_part():
    rng = np.random.default_rng(1)
    features, before, matrix, after = (
        rng.normal(size=(50, 7)),
        rng.normal(size=7),
        rng.normal(size=(7, 4)),
        rng.normal(size=4),
    )
    whole = turn_rows(features, matrix, before=before, after=after)
    parts = [
        turn_rows(features[a:b], matrix, before=before, after=after) for a, b in ((0, 0), (0, 1), (1, 34), (34, 50))
    ]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.allclose(whole, (features - before) @ matrix + after, rtol=0, atol=1e-13)


def test_no_columns_in_or_out():
    assert turn_rows(np.zeros((3, 0)), np.zeros((0, 2)), after=np.ones(2)).tolist() == [[1, 1]] * 3
    assert turn_rows(np.zeros((3, 2)), np.zeros((2, 0))).shape == (3, 0)
