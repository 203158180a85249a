"""Differences beside those of two halves of the original: as the literal twin, as sdmetrics, and as often as said."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Kind
from anonpipe.evaluate.utility import _shapes
from anonpipe.evaluate.utility._shapes import (
    COLUMN_SHAPES,
    PAIR_SHAPES,
    SPLITS,
    Places,
    Splits,
    correlations_apart,
    split_half_ratio,
)
from anonpipe.evaluate.utility._tables import typed_tables
from tests.naive import shapes as naive

KINDS = {"x": Kind.CONTINUOUS, "y": Kind.INTEGER, "c": Kind.CATEGORICAL, "d": Kind.ORDINAL}


def fixed(shift):
    """Two numbers and two categories without a draw."""
    i = np.arange(60)
    return pd.DataFrame(
        {
            "x": ((i * 7 + shift) % 23) / 2.0,
            "y": ((i * 5 + 3 * shift) % 17) * 1.0 + (i % 4),
            "c": np.array(list("abcd"))[(i * i + shift) % 4],
            "d": np.array(list("uvw"))[(i // 7 + shift * (i % 5 == 0)) % 3],
        }
    )


def drawn(rows, seed, nulls=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    frame = pd.DataFrame(
        {
            "x": np.exp(x),
            "y": np.where(rng.random(rows) < 0.5, 0.0, np.rint(9 + 3 * x)),
            "c": rng.choice(list("abcdefgh"), rows, p=[0.5, 0.3, 0.1, 0.05, 0.02, 0.015, 0.01, 0.005]),
            "d": rng.choice(list("uvw"), rows),
        }
    )
    return frame.mask(rng.random(frame.shape) < nulls) if nulls else frame


def measured(measure, old, new, kinds=KINDS, least=5, seed=0):
    tables = typed_tables(old, new, kinds, least=least)
    return {one.name: one for one in measure.of(tables, np.random.default_rng(seed))}


def test_as_sdmetrics_has_them():
    """Figures of sdmetrics 0.32.0: KSComplement, TVComplement, CorrelationSimilarity, ContingencySimilarity."""
    old, new = fixed(0), fixed(5).iloc[:50]
    assert measured(COLUMN_SHAPES, old, new)["shapes.similarity"].value == pytest.approx(
        np.mean([0.98, 0.97, 0.5, 0.97]), abs=1e-6
    )
    crossed = [0.42333333333333323, 0.66, 0.41666666666666663, 0.78, 0.42666666666666675]
    assert measured(PAIR_SHAPES, old, new)["pairs.similarity"].value == pytest.approx(
        np.mean([0.820797253435997, *crossed])
    )


def listed(column):
    return [None if value is None or value != value else value for value in column.astype(object)]


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(20, 40), st.integers(15, 40))
def test_as_the_twins(seed, rows, released):
    old, new = drawn(rows, seed, nulls=0.15), drawn(released, seed + 1, nulls=0.15)
    assert old.notna().any().all() and new.notna().any().all()
    apart = [naive.columns_apart(listed(old[name]), listed(new[name]), name in "xy") for name in KINDS]
    assert measured(COLUMN_SHAPES, old, new)["shapes.similarity"].value == pytest.approx(1 - np.mean(apart))
    sides = [{name: listed(frame[name]) for name in KINDS} for frame in (old, new)]
    known = {name: [value for value in sides[0][name] if value is not None] for name in "xy"}
    codes = [{n: naive.binned(v, known[n]) if n in "xy" else v for n, v in side.items()} for side in sides]
    pairs = [("x", "c"), ("x", "d"), ("y", "c"), ("y", "d"), ("c", "d")]
    scores = [1 - naive.cross_tables_apart(*([side[a], side[b]] for side in codes)) for a, b in pairs]
    linear = naive.correlations_apart(*([side["x"], side["y"]] for side in sides))
    expected = np.mean([1 - linear / 2, *scores])
    assert measured(PAIR_SHAPES, old, new)["pairs.similarity"].value == pytest.approx(expected)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(0.1, 3))
def test_the_limit_is_the_twins(seed, count, scale):
    rng = np.random.default_rng(seed)
    splits, found = np.abs(rng.normal(size=(SPLITS, count))), np.abs(rng.normal(size=count))
    made = split_half_ratio(found, splits, scale)
    value, each = naive.split_half_ratio(found.tolist(), splits.tolist(), scale)
    assert made.value == pytest.approx(value) and made.each.tolist() == pytest.approx(each)
    assert made.interval[0] < made.value < made.interval[1]
    # in no unit: neither that of a difference nor that of all
    assert split_half_ratio(found * 7, splits * 7, scale).value == pytest.approx(made.value)
    units = rng.uniform(0.1, 9, count)
    assert split_half_ratio(found * units, splits * units, scale).value == pytest.approx(made.value)


def test_splits_are_halves_and_distances_are_of_the_halves():
    old = drawn(101, 3, nulls=0.1)
    tables = typed_tables(old, old, KINDS)
    splits = Splits.draw(101, 50, np.random.default_rng(0))
    assert (splits.first.sum(axis=1) == 50).all() and len({tuple(each) for each in splits.first}) == SPLITS
    assert splits.scale == pytest.approx(math.sqrt((1 / 101 + 1 / 50) / (1 / 50 + 1 / 51)))
    halves = [(old[half], old[~half]) for half in splits.first[:5]]
    for column in tables.columns:
        places = _shapes.places_of(column)
        expected = [naive.columns_apart(*(listed(h[column.name]) for h in both), places.ordered) for both in halves]
        assert places.between_halves(splits.first[:5]).tolist() == pytest.approx(expected)
    both = [column.old for column in tables.numbers]
    _, linear = correlations_apart(np.column_stack(both), np.column_stack(both), splits)
    expected = [naive.correlations_apart(*([listed(half["x"]), listed(half["y"])] for half in both)) for both in halves]
    assert linear[:5, 0, 1].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("law", "count", "most"), [("bridge", 10, 0.003), ("normal", 3, 0.006), ("normal", 20, 0.004)])
def test_another_sample_is_beyond_the_limit_as_seldom_as_said(law, count, most):
    """Laws of the differences: of distribution functions, and of correlations."""
    rng = np.random.default_rng(5)

    def differences(*size):
        if law == "normal":
            return np.abs(rng.normal(size=size))
        walk = rng.normal(size=(*size, 32)).cumsum(axis=-1) / math.sqrt(32)
        return np.abs(walk - np.arange(1, 33) / 32 * walk[..., -1:]).max(axis=-1)

    ends = [
        split_half_ratio(new, splits, 1.0).interval[1] or math.inf
        for splits in (differences(SPLITS, count) for _ in range(150))
        for new in differences(20, count)
    ]
    assert np.mean(np.array(ends) > 1) <= most
    assert np.mean(np.array(ends) > math.sqrt(2)) == 0  # half the variance: made from the original itself
    assert np.mean(np.array(ends) > 0.5) > 0.05  # and it is no limit that nothing can reach


def test_another_sample_passes_and_another_population_does_not():
    old = drawn(3_000, 0)
    for seed in range(1, 9):
        same = drawn(2_000, seed)
        for measure, name in ((COLUMN_SHAPES, "column_shapes"), (PAIR_SHAPES, "pair_shapes")):
            one = measured(measure, old, same, seed=seed)[name]
            assert one.high < 1 and one.low < one.value < one.high and 0 < one.baseline < 1
    shifted = measured(COLUMN_SHAPES, old, same.assign(x=same["x"] * 1.3))["column_shapes"]
    assert shifted.low > 1 and shifted.worst == ("x",)
    other = measured(COLUMN_SHAPES, old, same.assign(c=same["c"].replace("a", "b")))["column_shapes"]
    assert other.low > 1 and other.worst == ("c",)
    apart = same.assign(x=np.random.default_rng(0).permutation(same["x"]))
    assert measured(COLUMN_SHAPES, old, apart)["column_shapes"].high < 1
    found = measured(PAIR_SHAPES, old, apart)["pair_shapes"]
    assert found.low > 1 and found.worst == ("x", "y")
    in_order = same.sort_values("c").assign(d=np.sort(same["d"]))
    crossed = measured(PAIR_SHAPES, old, in_order)["pair_shapes"]
    assert crossed.low > 1 and crossed.worst == ("c", "d")


def test_a_copy_is_no_further_than_nothing():
    old = drawn(200, 7, nulls=0.2)
    for measure in (COLUMN_SHAPES, PAIR_SHAPES):
        similarity, beyond = measured(measure, old, old.copy()).values()
        assert similarity.value == 1 and beyond.value == 0 and beyond.worst == ()
        assert 0.5 < similarity.baseline < 1


def test_a_lost_column_and_a_constant_one():
    old = drawn(300, 9)
    lost = measured(COLUMN_SHAPES, old, old.assign(x=np.nan))["column_shapes"]
    assert lost.value > 1 and lost.worst == ("x",)
    constant = measured(PAIR_SHAPES, old, old.assign(x=1.0))["pair_shapes"]
    assert constant.value == math.inf and constant.worst == ("x", "y")
    still = old.assign(x=1.0)
    assert measured(COLUMN_SHAPES, still, still)["column_shapes"].value == 0
    moved = measured(COLUMN_SHAPES, still, still.assign(x=[*[1.0] * 299, 2.0]))["column_shapes"]
    assert moved.value == math.inf and moved.worst == ("x",)  # nothing differs there between any two halves


def test_places_are_those_among_the_original():
    old, new = pd.DataFrame({"x": [3.0, 1.0, 3.0, np.nan, 9.0]}), pd.DataFrame({"x": [0.0, 3.0, 4.0, np.nan]})
    before, after = _shapes.grades(typed_tables(old, new, {"x": Kind.CONTINUOUS}))
    assert before[:, 0].tolist() == pytest.approx([0.5, 0.125, 0.5, np.nan, 0.875], nan_ok=True)
    assert after[:, 0].tolist() == pytest.approx([0.0, 0.5, 0.75, np.nan], nan_ok=True)


def test_one_extreme_record_decides_no_pair():
    """As an ordinary correlation of heavy tails would, which two halves of one table do not tell."""
    old, new = drawn(2_000, 0), drawn(2_000, 1)
    new.loc[0, ["x", "y"]] = 1e6
    assert measured(PAIR_SHAPES, old, new)["pair_shapes"].high < 1


def test_rare_categories_count_as_one():
    places = Places("c", np.array([0] * 50 + [1] * 4 + [2] * 3 + [-1]), np.array([0] * 50 + [1] * 7), 3, False)
    assert places.pooled(5).distance() == 0 and places.distance() > 0
    assert places.pooled(5).cells == 2 and places.pooled(1).distance() == places.distance()


def test_a_column_without_values():
    old = drawn(80, 3).assign(x=np.nan, c=None)
    assert measured(COLUMN_SHAPES, old, old)["column_shapes"].value == 0
    assert measured(PAIR_SHAPES, old, old)["pair_shapes"].value == 0
    for measure in (COLUMN_SHAPES, PAIR_SHAPES):
        nothing = list(measured(measure, old[["x", "c"]], old, {"x": KINDS["x"], "c": KINDS["c"]}).values())[1]
        assert not nothing.value > 0


def test_what_nobody_can_measure():
    tiny = drawn(3, 0)
    for measure in (COLUMN_SHAPES, PAIR_SHAPES):
        beyond = list(measured(measure, tiny, tiny).values())[1]
        assert math.isnan(beyond.value) and "Not defined" in beyond.note and beyond.baseline is None
    lone = measured(PAIR_SHAPES, drawn(50, 1), drawn(50, 2), {"x": Kind.CONTINUOUS})
    assert all(math.isnan(one.value) and "Not defined" in one.note for one in lone.values())


def test_many_columns_are_crossed_in_part():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{at}": rng.choice(list("ab"), 60) for at in range(25)})
    found = measured(PAIR_SHAPES, frame, frame, dict.fromkeys(frame, Kind.BINARY))
    assert found["pairs.similarity"].note == f"Mean over {_shapes.MOST_TABLES} pairs."
