import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder, Groups
from anonpipe.encoding.missing import fill_missing
from anonpipe.encoding.scan import scan_batch
from anonpipe.kernels.points import sort_groups

COLUMNS = {
    "n": Column(kind="continuous"),
    "whole": Column(kind="integer", bounds=(0, 9)),
    "holes": Column(kind="continuous", step=0.5),
    "o": Column(kind="ordinal", levels=("low", "mid", "high")),
    "two": Column(kind="binary"),
    "many": Column(kind="categorical"),
    "one": Column(kind="categorical"),
    "kept": Column(kind="categorical", role="key"),
    "flat": Column(kind="continuous"),
}
GROUPS = 30


def table(rows, seed=0):
    rng = np.random.default_rng(seed)

    def holes(values, share):
        return [None if hole else value for value, hole in zip(values, rng.random(rows) < share, strict=True)]

    return pa.record_batch(
        {
            "n": rng.normal(10, 3, rows),
            "whole": rng.integers(0, 10, rows),
            "holes": holes((rng.integers(0, 40, rows) / 2).tolist(), 0.3),
            "o": holes(rng.choice(["low", "mid", "high"], rows).tolist(), 0.1),
            "two": rng.choice(["f", "m"], rows, p=[0.9, 0.1]),
            "many": holes(rng.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1]).tolist(), 0.2),
            "one": ["x"] * rows,
            "kept": rng.choice(["p", "q"], rows),
            "flat": [7.0] * rows,
        }
    )


@pytest.fixture(scope="module")
def case():
    batch = table(600)
    scan = scan_batch(batch, COLUMNS, 0, [])
    cells = ColumnEncoder.fit(batch.schema, COLUMNS, scan)
    labels = np.random.default_rng(1).permutation(np.arange(600) % GROUPS)
    return cells, FeatureEncoder.fit(cells, scan), cells.to_cells(batch), *sort_groups(labels)


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


def test_layout(case):
    _, features, values, *_ = case
    # n, whole, holes + indicator, o + indicator, flat, two, many with null
    assert features.width == 1 + 1 + 2 + 2 + 1 + 1 + 4
    encoded = features.encode(values)
    assert encoded.shape == (600, 12) and encoded.flags.c_contiguous and np.isfinite(encoded).all()
    assert features.numeric_positions == (0, 1, 2, 3, 8)
    names = {block.name for block in (*features.numbers, *features.categories)}
    assert names == set(COLUMNS) - {"kept"}


def test_undisturbed_points_decode_to_the_original(case):
    _, encoder, values, order, starts = case
    before = values.copy()
    filled = fill_missing(values, encoder.numeric_positions, order, starts, 3, np.random.default_rng(3))
    for full in (None, filled):
        features = encoder.encode(values, full)
        decoded = encoder.decode(features, values, Groups(order, starts), rng=np.random.default_rng(0))
        assert np.allclose(decoded, values, equal_nan=True, atol=1e-9)
        assert same(decoded[:, 1:], values[:, 1:])
    assert same(values, before)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.floats(0.1, 20))
def test_calibrated_decoding_keeps_group_counts_bounds_steps(seed, noise):
    batch = table(200, seed)
    scan = scan_batch(batch, COLUMNS, 0, [])
    cells = ColumnEncoder.fit(batch.schema, COLUMNS, scan)
    encoder, values = FeatureEncoder.fit(cells, scan), cells.to_cells(batch)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(200) % 12)
    order, starts = sort_groups(labels)
    features = encoder.encode(values) + noise * rng.normal(size=(200, encoder.width))
    decoded = encoder.decode(features, values, Groups(order, starts), rng=rng)
    for group in range(12):
        inside = labels == group
        for position, name in enumerate(cells.names):
            if name in ("two", "many", "one"):
                assert sorted(decoded[inside, position]) == sorted(values[inside, position])
            assert np.isnan(decoded[inside, position]).sum() == np.isnan(values[inside, position]).sum()
    assert same(decoded[:, 7], values[:, 7])
    back = cells.to_cells(cells.from_cells(decoded))
    assert np.allclose(back, decoded, equal_nan=True)
    assert back[:, 1].min() >= 0 and back[:, 1].max() <= 9 and same(back[:, 1], np.rint(back[:, 1]))


def test_bounds_keep_the_sums_of_groups_up_to_rounding():
    batch = pa.record_batch({"x": np.random.default_rng(0).integers(0, 4, 300)})
    columns = {"x": Column(kind="continuous", bounds=(0, None))}
    columns["x"] = columns["x"].model_copy(update={"step": 0.001})
    batch = pa.record_batch({"x": batch.column(0).cast(pa.float64())})
    scan = scan_batch(batch, columns, 0, [])
    cells = ColumnEncoder.fit(batch.schema, columns, scan)
    encoder, values = FeatureEncoder.fit(cells, scan), cells.to_cells(batch)
    order, starts = sort_groups(np.arange(300) % 20)
    noise = np.random.default_rng(1).normal(size=(300, 1))
    noise -= (np.bincount(np.arange(300) % 20, weights=noise[:, 0]) / 15)[np.arange(300) % 20, None]
    features = encoder.encode(values) + noise
    assert (encoder.decode(features, values, Groups(order, starts), rng=np.random.default_rng(0)) >= 0).all()
    decoded = encoder.decode(features, values, Groups(order, starts), rng=np.random.default_rng(0))
    sums, wanted = (np.bincount(np.arange(300) % 20, weights=x[:, 0]) for x in (decoded, values))
    assert np.abs(sums - wanted).max() <= 15 * 0.0005 + 1e-9
    assert (np.clip(features * encoder.numbers[0].sd + encoder.numbers[0].mean, 0, None).sum() - wanted.sum()) > 10


def test_identical_groups_get_identical_rows(case):
    _, encoder, values, order, starts = case
    filled = fill_missing(values, encoder.numeric_positions, order, starts, 3, np.random.default_rng(3))
    features = encoder.encode(values, filled)
    means = np.add.reduceat(features[order], starts[:-1]) / np.diff(starts)[:, None]
    features[order] = np.repeat(means, np.diff(starts), axis=0)
    for how in ("calibrated", "most_probable", "sampled"):
        decoded = encoder.decode(
            features, values, Groups(order, starts, True), rng=np.random.default_rng(5), categories=how
        )
        synthetic = np.delete(decoded, 7, axis=1)[order]
        assert same(synthetic, np.repeat(synthetic[starts[:-1]], np.diff(starts), axis=0))
    decoded = encoder.decode(features, values, Groups(order, starts, True), rng=np.random.default_rng(5))
    for position in (4, 5):
        before, after = (np.bincount(x[:, position].astype(int), minlength=4) for x in (values, decoded))
        assert np.abs(before - after).max() <= 20 * 2  # groups of 20: each of the rarer is off by half a group
    assert abs(np.isnan(decoded[:, 2]).sum() - np.isnan(values[:, 2]).sum()) <= 10


def test_every_column_weighs_like_one_number(case):
    _, encoder, values, *_ = case
    weighted = encoder.encode(values) * np.sqrt(encoder.distance_weights())
    variances = weighted.var(axis=0)
    for block in (*encoder.numbers, *encoder.categories):
        wanted = 0.0 if block.name in ("one", "flat") else 1.0
        assert variances[block.start : block.stop].sum() == pytest.approx(wanted, rel=0.005), block.name


def test_declared_and_response_weights():
    columns = {
        "t": Column(kind="continuous", role="survival_time"),
        "a": Column(kind="continuous", weight=3),
        "c": Column(kind="categorical"),
    }
    batch = pa.record_batch({"t": [1.0, 2.0, 4.0], "a": [1.0, 5.0, 2.0], "c": ["x", "y", "y"]})
    scan = scan_batch(batch, columns, 0, [])
    encoder = FeatureEncoder.fit(ColumnEncoder.fit(batch.schema, columns, scan), scan)
    plain = encoder.distance_weights()
    assert plain.tolist() == pytest.approx([1.0, 3.0, 1 / (4 * 2 / 9)])
    assert (encoder.distance_weights(("t", 0.6)) / plain).tolist() == pytest.approx([0.6, 0.2, 0.2])
    with pytest.raises(ValueError, match="'z'"):
        encoder.distance_weights(("z", 0.5))


def test_only_sampling_draws_and_the_same_seed_gives_the_same(case):
    _, encoder, values, order, starts = case
    features = encoder.encode(values)
    results = {
        how: [
            encoder.decode(features, values, Groups(order, starts), rng=np.random.default_rng(s), categories=how)
            for s in (1, 1, 2)
        ]
        for how in ("calibrated", "most_probable", "sampled")
    }
    for how, (once, again, other) in results.items():
        assert same(once, again)
        assert same(once, other) == (how != "sampled")
    with pytest.raises(ValueError, match="calibrated, most_probable, sampled"):
        encoder.decode(features, values, Groups(order, starts), rng=np.random.default_rng(1), categories="best")


@pytest.mark.parametrize("size", [1, 2])
def test_smallest_tables(size):
    columns = {"x": Column(kind="continuous"), "c": Column(kind="categorical")}
    batch = pa.record_batch({"x": [1.0, None][:size], "c": ["a", None][:size]})
    scan = scan_batch(batch, columns, 0, [])
    cells = ColumnEncoder.fit(batch.schema, columns, scan)
    encoder, values = FeatureEncoder.fit(cells, scan), cells.to_cells(batch)
    order, starts = sort_groups(np.zeros(size, dtype=np.int64))
    decoded = encoder.decode(encoder.encode(values), values, Groups(order, starts), rng=np.random.default_rng(0))
    assert same(decoded, values)
    assert cells.from_cells(decoded).equals(batch)
