from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from anonpipe.partition.strata import Strata, build_strata
from anonpipe.storage.records import from_bytes, to_bytes


def naive_rows(counts, k):
    return [int(c) for c in counts if c >= k]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=6), st.integers(2, 10))
def test_dropping_keeps_exactly_the_large_strata(counts, k):
    expected = naive_rows(counts, k)
    if not expected:
        with pytest.raises(InputError):
            build_strata(np.array(counts), [0], [len(counts)], k, "drop", None, False, ["a"])
        return
    strata = build_strata(np.array(counts), [0], [len(counts)], k, "drop", None, False, ["a"])
    assert list(strata.rows) == expected
    assert sum(strata.rows) + strata.dropped == sum(counts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=4, max_size=4), st.integers(2, 10))
def test_merging_loses_nobody_and_respects_the_event(counts, k):
    happened = np.array([1, 1, 2, 0])
    try:
        strata = build_strata(np.array(counts), [0], [4], k, "merge", (0, happened), False, ["status"])
    except InputError:
        assert any(0 < c < k for c in counts) or not any(counts)
        return
    assert sum(strata.rows) == sum(counts) and strata.dropped == 0 and min(strata.rows) >= k
    for code in range(4):
        if counts[code]:
            assert happened[strata.recoded[code]] == happened[code]
            assert counts[strata.recoded[code]] >= min(k, max(counts))


@pytest.mark.parametrize("small", ["merge", "drop"])
def test_what_a_method_needs_counts_where_it_is_more_than_k(small):
    counts, need = np.array([50, 12, 60]), (20, "20, which a method needs")
    strata = build_strata(counts, [0], [3], 5, small, None, False, ["a"], need)
    assert strata.rows == ((50, 72) if small == "merge" else (50, 60))
    assert strata.least == "20, which a method needs"
    assert build_strata(counts, [0], [3], 15, small, None, False, ["a"], (3, "3")).least == "k=15"


def test_small_stratum_message_names_column_rows_and_remedies():
    with pytest.raises(InputError) as caught:
        build_strata(np.array([100, 4]), [0], [2], 20, "error", None, False, ["status"])
    text = str(caught.value)
    assert all(word in text for word in ("'status'", "4 rows", "k=20", "merge", "drop", "lower k"))


def test_event_split_and_recoding_of_cells():
    counts = np.array([50, 3, 60, 40])
    happened = np.array([0, 0, 1, 1])
    strata = build_strata(counts, [1], [4], 5, "merge", (0, happened), True, ["status"])
    assert strata.rows == (53, 100)
    competing = build_strata(counts, [1], [4], 5, "merge", (0, np.array([0, 0, 1, 2])), True, ["status"])
    assert competing.rows == (53, 60, 40)
    cells = np.array([[9.0, 0], [9, 1], [9, 2], [9, 3]])
    assert strata.assign(cells).tolist() == [0, 0, 1, 1]
    plain = build_strata(counts, [1], [4], 5, "merge", (0, happened), False, ["status"])
    plain.recode(cells)
    assert cells[:, 1].tolist() == [0, 0, 2, 3] and (cells[:, 0] == 9).all()


def test_merged_records_take_commonest_values_of_new_stratum():
    counts = np.array([20, 50, 60, 2, 1, 30])  # (2 regions) x (censored, lost, dead); 3 of region 1 have no event
    happened = np.array([False, False, True])
    strata = build_strata(counts, [0, 1], [2, 3], 5, "merge", (1, happened), True, ["region", "status"])
    cells = np.array([[1.0, 0], [1, 1], [1, 2], [0, 0]])
    strata.recode(cells)
    assert cells.tolist() == [[0, 1], [0, 1], [1, 2], [0, 0]]


def test_two_columns_in_mixed_radix():
    counts = np.array([10, 0, 20, 30, 2, 40])  # (2 codes) x (3 codes)
    strata = build_strata(counts, [0, 1], [2, 3], 5, "drop", None, False, ["a", "b"])
    cells = np.array([[0.0, 0], [0, 2], [1, 0], [1, 1], [1, 2]])
    assert strata.assign(cells).tolist() == [0, 1, 2, -1, 3]
    assert from_bytes(to_bytes(strata), [Strata]) == strata


def test_no_strata_is_one_stratum():
    strata = build_strata(np.array([7]), [], [], 5, "error", None, False, [])
    assert strata.assign(np.zeros((3, 2))).tolist() == [0, 0, 0] and strata.rows == (7,)
    cells = np.zeros((3, 2))
    strata.recode(cells)
