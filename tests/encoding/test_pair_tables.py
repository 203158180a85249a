"""Small cells of two-way tables are drawn; margins, empty cells and large tables stay."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import ConditioningEncoder, FeatureEncoder
from anonpipe.encoding.scan import scan_batch
from anonpipe.encoding.shares import Rounding, SmallCells, factors_of, fit_margins, likely_means
from anonpipe.moments import Moments

COLUMNS = {
    "score": Column(kind="continuous"),
    "stage": Column(kind="categorical"),
    "relapse": Column(kind="binary"),
    "region": Column(kind="categorical", role="key"),
    "seen": Column(kind="integer", role="key"),
}


def registry(rows, seed):
    rng = np.random.default_rng(seed)
    shares = [0.6, 0.2, 0.1, 0.06, 0.04]
    stage = rng.choice([*"abcd", None], rows, p=shares)
    return pa.record_batch(
        {
            "score": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.1),
            "stage": pa.array(stage.tolist()),
            "relapse": pa.array(rng.choice(["no", "yes"], rows, p=[0.9, 0.1])),
            "region": pa.array(rng.choice([*"uvwxy"], rows, p=shares)),
            "seen": pa.array(rng.integers(1, 4, rows), mask=rng.random(rows) < 0.1),
        }
    )


def fitted(batch, k=5, rounding=None):
    scan = scan_batch(batch, COLUMNS, 0, [])
    encoder = ColumnEncoder.fit(batch.schema, COLUMNS, scan)
    features, unchanged = FeatureEncoder.fit(encoder, scan), ConditioningEncoder.fit(encoder, scan, ["region", "seen"])
    cells = encoder.to_cells(batch)
    channels = np.concatenate([features.encode(cells), unchanged.encode(cells)], axis=1)
    return SmallCells(factors_of(encoder, features, unchanged), k, rounding), channels


def levels(batch):
    """Of each column what it counts as, by a loop: of numbers whether there is one."""
    told = {name: batch[name].to_pylist() for name in COLUMNS}
    return {name: ["null" if v is None else "there" if name in ("score", "seen") else v for v in column]
            for name, column in told.items()}  # fmt: skip


def literal(batch):
    """Sorted counts of every two columns of which one is masked, by a loop over the records."""
    told, found = levels(batch), {}
    for one, other in itertools.combinations(COLUMNS, 2):
        if {one, other} != {"region", "seen"}:
            pairs = list(zip(told[one], told[other], strict=True))
            found[frozenset((one, other))] = sorted(pairs.count(pair) for pair in set(pairs))
    return found


@given(st.integers(30, 200), st.integers(0, 10**6))
def test_tables_are_those_of_the_records(rows, seed):
    batch = registry(rows, seed)
    cells, channels = fitted(batch)
    tables = {
        frozenset((one.name, other.name)): sorted(table[table > 0].tolist())
        for one, other, table in cells._tables(Moments.of(channels))
    }
    wanted = {pair: counts for pair, counts in literal(batch).items() if pair in tables}
    assert tables == wanted
    some = {name for name, column in levels(batch).items() if len(set(column)) > 1}
    assert set(tables) == {pair for pair in literal(batch) if pair <= some}


def fit_literally(mass, table):
    """Iterative proportional fitting, cell by cell."""
    fitted_mass = [[float(value) for value in row] for row in mass]
    rows, columns = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
    for _ in range(3_000):
        for j, total in enumerate(columns):
            held = sum(row[j] for row in fitted_mass)
            for row in fitted_mass:
                row[j] *= total / held if held else 0.0
        for i, total in enumerate(rows):
            held = sum(fitted_mass[i])
            fitted_mass[i] = [value * (total / held if held else 0.0) for value in fitted_mass[i]]
    return fitted_mass


@given(st.integers(0, 10**6))
def test_a_table_fitted_to_its_margins(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 40, (3, 4))
    mass = rng.uniform(0.5, 40.0, (3, 4))
    assert np.allclose(
        fit_margins(mass, table.sum(axis=1), table.sum(axis=0)), fit_literally(mass.tolist(), table.tolist()), atol=1e-4
    )


@example(60, 133737)  # Converges slowly
@given(st.integers(60, 300), st.integers(0, 10**6))
def test_margins_stay(rows, seed):
    batch = registry(rows, seed)
    cells, channels = fitted(batch)
    moments = Moments.of(channels)
    changes = cells.changes(moments, np.random.default_rng(seed))
    assert np.array_equal(changes, changes.T)
    for one, other, table in cells._tables(moments):
        change = changes[one.start : one.stop, other.start : other.stop]
        kept = table[: len(one.levels), : len(other.levels)]
        assert (kept + change > -1e-6).all()
        if other.complete:
            assert np.abs(change.sum(axis=1)).max() < 1e-3
        if one.complete:
            assert np.abs(change.sum(axis=0)).max() < 1e-3


def test_a_table_without_small_cells_is_kept():
    batch = registry(4_000, 3)
    cells, channels = fitted(batch, k=2)
    assert not cells.changes(Moments.of(channels), np.random.default_rng(1)).any()
    few, _ = fitted(batch, k=10**6)
    assert few.changes(Moments.of(channels), np.random.default_rng(1)).any()


def sampled(dependent, seed, rows=20_000):
    """A table of 90 x 60 categories, independent or four in five of them determined by the other."""
    rng = np.random.default_rng(seed)
    one, other = (rng.choice(size, rows, p=(p := np.arange(1, size + 1) ** -0.8) / p.sum()) for size in (90, 60))
    other = np.where(rng.random(rows) < dependent, one * 60 // 90, other)
    return np.bincount(60 * one + other, minlength=5_400).reshape(90, 60)


@pytest.mark.parametrize("dependent", [0.0, 0.8])
def test_means_of_cells_are_those_of_other_samples(dependent):
    table = sampled(dependent, 0)
    [means], others = likely_means([table], 5), np.mean([sampled(dependent, seed) for seed in range(1, 31)], axis=0)
    for count in range(5):
        cells = table == count
        assert means[cells].mean() == pytest.approx(others[cells].mean(), rel=0.15)
        errors = ((estimate - others)[cells] for estimate in (means, table))
        ours, of_counts = (np.sqrt(np.square(each).mean()) for each in errors)
        assert ours < 0.5 * of_counts
    assert np.array_equal(means[table >= 5], table[table >= 5])


def test_pairs_that_cannot_occur_stay_empty():
    nested = np.zeros((6, 24), dtype=int)
    nested[np.arange(24) // 4, np.arange(24)] = 10 * np.arange(1, 25)
    assert not likely_means([nested], 5)[0][nested == 0].any()
    [means, _] = likely_means([nested, sampled(0.0, 0)], 5)
    assert means[nested == 0].sum() < 0.01 * nested.sum()  # beside a table with many single records


def test_tables_of_few_small_cells_are_estimated_together():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet([2.0, 4.0, 6.0, 4.0, 1.0], (400, 2))
    true = 400.0 * shares[:, 0, :, None] * shares[:, 1, None, :]
    tables = rng.poisson(true)
    means = np.stack(likely_means(list(tables), 5))
    for count in range(5):
        cells = tables == count
        assert means[cells].mean() == pytest.approx(true[cells].mean(), rel=0.4)


def test_a_register_that_grows_has_one_answer_a_cell():
    batch = registry(400, 6)
    cells, channels = fitted(batch, rounding=Rounding(5, b"k" * 16))
    moments = Moments.of(channels)
    first, again = (cells.changes(moments, np.random.default_rng(seed)) for seed in (1, 2))
    assert first.any() and np.array_equal(first, again)
    other, _ = fitted(batch, rounding=Rounding(5, b"o" * 16))
    assert not np.array_equal(first, other.changes(moments, np.random.default_rng(1)))


def test_a_register_that_grows_has_pairs_that_nobody_has():
    """In cells that were empty a base is released as often as their means say, and more records never lower a cell."""
    table, base = sampled(0.8, 0), 5
    [means] = likely_means([table], base)
    names = [("one", *map(str, range(90))), ("other", *map(str, range(60)))]
    found = np.array([Rounding(base, bytes([key]) * 16).of_two(means, *names) for key in range(40)])
    empty = (table == 0) & (means > 0)
    assert empty.any() and not (found % base).any()
    assert found[:, empty].sum() == pytest.approx(40 * means[empty].sum(), rel=0.1)
    counts = np.arange(12.0)[:, None]
    rounded = [Rounding(base, b"k" * 16).of_two(np.full((90, 60), c), *names) for c in (*[[0.3]], *counts)]
    assert (np.diff(rounded, axis=0)[1:] >= 0).all() and (rounded[2] >= rounded[0]).all()
    assert np.mean(rounded[3:], axis=(1, 2)) == pytest.approx(counts[2:, 0], rel=0.05)


@pytest.mark.parametrize("counts", [[[3, 2, 0], [4, 90, 60], [30, 20, 10]]])
def test_a_row_of_small_cells_drawn_empty_keeps_its_records(counts):
    table = np.array(counts)
    drawn = table.astype(float)
    drawn[0, :2] = 1e-3
    fitted_table = fit_margins(drawn, table.sum(axis=1), table.sum(axis=0))
    assert np.allclose(fitted_table.sum(axis=1), table.sum(axis=1), atol=1e-3) and fitted_table[0, 2] == 0.0
