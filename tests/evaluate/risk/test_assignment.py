"""Assignment of all at once: against all orders of a few, its cells, its law, and what it adds to the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import JobError
from anonpipe.evaluate.risk import _linkage, assigned_cells, drawn_cells, rows_of
from anonpipe.evaluate.risk._linkage import assignment
from tests.naive import assignment as naive


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_as_the_best_of_all_orders(seed, rows):
    rng = np.random.default_rng(seed)
    original, released = rng.normal(size=(rows, 2)), rng.normal(size=(rows, 2))
    alike = rng.integers(0, 3, rows)
    sizes = np.bincount(alike)[alike]
    cells = drawn_cells(original, released, np.zeros(rows, dtype=np.int64), 1.0, rng)
    ((hits, nearest, looked),) = assigned_cells(original, released, cells, alike, alike, sizes, rng)
    order = naive.least_assignment(original.tolist(), released.tolist())
    assert hits == pytest.approx(sum((alike[at] == alike[to]) / sizes[at] for at, to in enumerate(order)))
    first = ((original[:, None] - released[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert nearest == pytest.approx(((alike == alike[first]) / sizes).sum()) and looked == rows


@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 40), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_cells_part_the_table_and_its_blocks(seed, rows, blocks, width):
    rng = np.random.default_rng(seed)
    original, released = (rng.integers(0, 3, (rows, width)).astype(float) for _ in range(2))
    of_rows = rng.integers(0, blocks, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_linkage, "LARGEST_CELL", 20)
        cells = drawn_cells(original, released, of_rows, 1.0, rng)
        some = drawn_cells(original, released, of_rows, 0.3, rng)
    assert sorted(np.concatenate([cell.originals for cell in cells])) == list(range(rows))
    assert set(np.concatenate([cell.released for cell in cells])) == set(range(rows))
    for cell in cells:
        assert len(set(of_rows[cell.originals]) | set(of_rows[cell.released])) == 1
        assert len(cell.originals) <= 20
    assert 0.3 * len(cells) - 2 <= len(some)


def test_of_equal_released_records_none_is_found_by_its_place():
    """400 originals, all released records equal: one of 400 is right, whichever way rows lie."""
    rng = np.random.default_rng(1)
    original, released = rng.normal(size=(400, 2)), np.zeros((400, 2))
    hits = []
    for _ in range(40):
        cells = drawn_cells(original, released, np.zeros(400, dtype=np.int64), 1.0, rng)
        hits.append(
            assigned_cells(original, released, cells, np.arange(400), np.arange(400), np.ones(400, dtype=int), rng)[
                0, 0
            ]
        )
    assert np.mean(hits) < 2.5  # Poisson of mean 1 in each of 40


def test_knowing_everybody_finds_more_than_taking_nearest():
    rng = np.random.default_rng(2)
    original = rng.normal(size=(900, 4))
    released = original + 0.4 * rng.normal(size=original.shape)
    cells = drawn_cells(original, released, rng.integers(0, 3, 900), 1.0, rng)
    table = assigned_cells(original, released, cells, np.arange(900), np.arange(900), np.ones(900, dtype=int), rng)
    found = assignment(table, of=9_000)
    assert found.value > 1.2 * found.baseline > 0.3 and found.low < found.value < found.high
    assert (found.records, found.of) == (900, 9_000)
    assert assignment(table, of=900).low is None


def test_no_cell_is_refused():
    with pytest.raises(JobError, match="no cell"):
        assignment(np.empty((0, 3)), of=9)


def test_what_is_drawn_alone_gives_the_same_as_the_whole_table():
    rng = np.random.default_rng(3)
    original = rng.normal(size=(300, 3))
    released, alike = original + rng.normal(size=original.shape), rng.integers(0, 60, 300)
    sizes = np.bincount(alike)[alike]
    cells = drawn_cells(original, released, rng.integers(0, 20, 300), 0.3, rng)
    ours, theirs, named = rows_of(cells)
    assert 0 < len(ours) < 200
    whole, part = (
        assigned_cells(*given, np.random.default_rng(1))
        for given in (
            (original, released, cells, alike, alike, sizes),
            (original[ours], released[theirs], named, alike[ours], alike[theirs], sizes[ours]),
        )
    )
    assert (whole == part).all() and whole[:, 2].sum() == len(ours)
