import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from anonpipe.evaluate.measurement import Measurement
from anonpipe.evaluate.risk._tails import SHARES, tail_linkage
from anonpipe.pipeline.evaluation.measures import gated


def outer(column, share):
    """The records of one column that are beyond all but a share of the others, by counting."""
    known = [value for value in column if not math.isnan(value)]
    found = set()
    for sign in (1, -1):
        for at, value in enumerate(column):
            if not math.isnan(value) and sum(sign * other >= sign * value for other in known) <= int(
                share * len(known)
            ):
                found.add(at)
    return found


def far(columns):
    """Sum over columns of squared normal scores of mean ranks."""
    total = [0.0] * len(columns[0])
    for column in columns:
        known = [value for value in column if not math.isnan(value)]
        for at, value in enumerate(column):
            if not math.isnan(value):
                below, equal = sum(other < value for other in known), sum(other == value for other in known)
                total[at] += norm.ppf((below + equal / 2) / len(known)) ** 2
    return total


def twin(columns, linked):
    found = []
    for share in SHARES:
        each = [outer(column, share) for column in columns]
        distances = far(columns)
        room = int(share * len(distances))
        together = {at for at, one in enumerate(distances) if sum(other >= one for other in distances) <= room}
        sums = [math.fsum(linked[at] for at in which) for which in (*each, set().union(*each), together)]
        count = list(zip(sums, map(len, (*each, set().union(*each), together)), strict=True))
        found.append(count)
    return found


@settings(deadline=None, max_examples=30)
@given(
    st.integers(20, 130), st.integers(1, 3), st.sampled_from(["normal", "heaped", "zeros", "nulls"]), st.integers(0, 9)
)
def test_as_the_twin(rows, width, kind, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, width))
    if kind == "heaped":
        values = np.round(values)
    elif kind == "zeros":
        values = np.where(values < 0.5, 0.0, values)
    elif kind == "nulls":
        values[rng.random(values.shape) < 0.4] = np.nan
    linked = rng.choice([0.0, 0.2, 1.0], rows)
    names = [f"c{at}" for at in range(width)]
    order = rng.permutation(rows)
    found, again = (tail_linkage(values[at], linked[at], names, of=rows) for at in (np.arange(rows), order))
    assert [(one.name, one.records) for one in again] == [(one.name, one.records) for one in found]
    assert [one.value for one in again] == pytest.approx([one.value for one in found])
    counted = {one.name: one for one in found}
    for share, counts in zip(SHARES, twin([column.tolist() for column in values.T], linked.tolist()), strict=True):
        for what, (hits, count) in zip(("columns", "together"), counts[width:], strict=True):
            one = counted.pop(f"tails.{what}_{100 * share:g}", None)
            assert (one is None) == (count == 0)
            if one is not None:
                assert (one.value * count, one.records) == (pytest.approx(hits), count)
                columns = [
                    (name, hits / count) for name, (hits, count) in zip(names, counts[:width], strict=True) if count
                ]
                assert what == "together" or dict(one.parts) == pytest.approx(dict(columns))
    assert not counted


def test_extremes_that_are_found_are_not_hidden_by_all_others():
    rng = np.random.default_rng(1)
    income = rng.lognormal(10, 2, 2_000)
    found = tail_linkage(income[:, None], 1.0 * (income >= np.sort(income)[-15]), ["income"], of=90_000)
    measured = {one.name: one for one in found}
    one = measured["tails.columns_1"]
    assert one.baseline == pytest.approx(0.0075)
    assert one.value == 15 / 40 and one.parts == (("income", 15 / 40),)
    assert measured["tails.together_1"].value == pytest.approx(0.5, abs=0.3)
    assert one.low < one.value < one.high and (one.records, one.of) == (40, 90_000)


def test_the_value_of_many_is_no_extreme():
    assert tail_linkage(np.zeros((300, 1)), np.ones(300), ["visits"], of=300) == []
    few = tail_linkage(np.arange(40.0)[:, None], np.ones(40), ["x"], of=40)
    assert [one.name for one in few] == ["tails.columns_5", "tails.together_5"]
    assert "100.0 % of them are led" in few[0].note and few[0].low is None


def test_the_limit_on_extreme_records_is_held_against_linkage():
    linked = Measurement("tails.columns_1", "-", 0.1, "share", "lower", "-", 9, 300)
    mass = Measurement("tails.mass", "-", 0.9, "share", "lower", "-", 300, 300)
    assert gated("tail_linkage", (mass, linked)) is linked
    assert gated("tail_linkage", (mass,)) is None
