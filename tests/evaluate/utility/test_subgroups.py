import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Kind
from anonpipe.evaluate.utility._distances import SUBGROUPS, subgroup_changes, tail_changes
from anonpipe.evaluate.utility._tables import typed_tables
from tests.naive import utility as naive

records = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.integers(0, 9))), min_size=2, max_size=14
)


def arrays(rows):
    return tuple(
        np.array([np.nan if cell is None else cell for cell in side], float) for side in zip(*rows, strict=True)
    )


def changes_of_one(original, released, least):
    sides = [(np.asarray(codes, float), np.asarray(values, float)[:, None]) for codes, values in (original, released)]
    (changes,) = subgroup_changes(*sides, least)
    return changes


@settings(deadline=None, max_examples=25)
@given(records, records, st.integers(1, 3))
def test_as_the_twin(old, new, least):
    if len({b for a, b in old if a is not None and b is not None}) < 2:
        return
    sides = [list(zip(*rows, strict=True)) for rows in (old, new)]
    expected = naive.subgroup_changes(*sides, least)
    deviations, errors = changes_of_one(arrays(old), arrays(new), least=least)
    assert deviations == pytest.approx([first for first, _ in expected.values()])
    assert errors == pytest.approx([second for _, second in expected.values()], nan_ok=True)


def test_two_samples_of_population_differ_by_113_errors():
    rng = np.random.default_rng(0)
    codes, values = rng.integers(0, 200, 40_000), rng.normal(size=40_000)
    found = changes_of_one((codes[::2], values[::2]), (codes[1::2], values[1::2]), least=50)[1]
    assert found.mean() == pytest.approx(math.sqrt(2) * math.sqrt(2 / math.pi), rel=0.12)


def test_constant_and_missing():
    deviations, errors = changes_of_one(([0, 0, 1, 1], [3.0, 3.0, 1.0, 2.0]), ([0, 0], [4.0, 4.0]), least=2)
    assert math.isnan(errors[0]) and deviations[0] > 0
    assert deviations[1] == errors[1] == math.inf
    assert np.isnan(changes_of_one(([0, 0], [3.0, 3.0]), ([0], [4.0]), least=1)[0]).all()
    assert len(changes_of_one(([np.nan], [1.0]), ([0], [4.0]), least=1)[0]) == 0


def test_numbers_that_are_counted_together_are_as_each_alone():
    """Each has nulls of its own, one is null in a whole category, and one category is in the original only."""
    rng = np.random.default_rng(3)
    names, kinds = ("a", "b", "c"), {"a": Kind.CONTINUOUS, "b": Kind.CONTINUOUS, "c": Kind.CONTINUOUS, "g": Kind.BINARY}

    def table(rows, levels):
        frame = pd.DataFrame(np.exp(rng.normal(size=(rows, 3))), columns=list(names))
        frame = frame.mask(rng.random((rows, 3)) < 0.2).assign(g=rng.choice(levels, rows))
        frame.loc[frame["g"] == "u", "b"] = np.nan
        return frame.assign(g=frame["g"].mask(rng.random(rows) < 0.1))

    old, new = table(300, ["s", "t", "u", "v"]), table(200, ["s", "t", "u"])
    found = {one.name: one for one in SUBGROUPS.of(typed_tables(old, new, kinds, least=5))}
    codes = [side["g"].map({"s": 0.0, "t": 1.0, "u": 2.0, "v": 3.0}) for side in (old, new)]
    alone = [changes_of_one((codes[0], old[name]), (codes[1], new[name]), least=5) for name in names]
    for at, name in enumerate(("subgroups.sd", "subgroups.standard_errors")):
        means = [changes[at][np.isfinite(changes[at])].mean() for changes in alone]
        assert found[name].value == pytest.approx(np.mean(means), rel=1e-12)
    assert "3 means of the original" in found["subgroups.sd"].note and len(alone[1][0]) == 3


def test_tails_by_hand():
    old = np.arange(101.0)  # quantiles at 5 and 95, 5 records beyond either, mean excess 3
    spread = old.std(ddof=1)
    new = np.concatenate([old, [0.0, 200.0]])
    found = tail_changes(old, new, least=5)
    assert found[0] == pytest.approx([6 / 103 - 5 / 101, (20 / 6 - 3) / spread])
    assert found[1] == pytest.approx([6 / 103 - 5 / 101, (120 / 6 - 3) / spread])
    assert (tail_changes(old, old[::-1], least=5) == 0).all()
    assert np.isnan(tail_changes(old, new, least=6)).all()
    clipped = tail_changes(old, np.clip(old, 5, 95), least=5)
    assert clipped[:, 0] == pytest.approx([5 / 101] * 2)
    assert np.isinf(clipped[:, 1]).all()
    assert np.isnan(tail_changes(np.ones(50), old, least=1)).all()
