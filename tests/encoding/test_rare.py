from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.encoding.rare import Suppression, released_codes
from anonpipe.storage.records import from_bytes, to_bytes


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(lambda c: max(c) >= 10),
    st.integers(0, 20),
    st.integers(2, 10),
    st.booleans(),
)
def test_nothing_released_is_under_k_and_little_is_changed(counts, nulls, k, nullable):
    counts, nulls = np.array(counts), nulls if nullable else 0
    codes = released_codes(counts, nulls, k, nullable)
    before = np.append(counts, nulls)
    after = np.bincount(codes, weights=before, minlength=len(before)).astype(int)
    assert after.sum() == before.sum()
    assert all(count == 0 or count >= k for count in after)
    for code, count in enumerate(before[:-1]):
        assert (codes[code] != code) == (0 < count < k)
    assert nullable or after[-1] == 0


def test_cells_are_changed_in_place_nan_counts_as_null():
    cells = np.array([[0.0, 5.0], [1, 6], [np.nan, 7], [0, 8]])
    Suppression({"a": [(0, 0, 1), (0, 2, 1)]}, {"a": 2}).apply(cells, ("a", "b"), np.array([0, 0, 0, 1]))
    assert cells.tolist() == [[1, 5], [1, 6], [1, 7], [0, 8]]


def test_suppressed_ordinals_become_nan():
    cells = np.array([[0.0], [1.0], [1.0]])
    plan = Suppression({"a": [(0, 1, 2)]}, {"a": 2}, ("a",))
    from_bytes(to_bytes(plan), [Suppression]).apply(cells, ("a",), np.array([0, 0, -1]))
    assert cells[0, 0] == 0 and np.isnan(cells[1, 0]) and cells[2, 0] == 1
