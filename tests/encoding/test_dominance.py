"""Extremes of columns on a scale of their own: which are drawn in, and that the scan says so of any cut of the rows."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.api import anonymize
from anonpipe.columns import Column
from anonpipe.encoding.columns import Outermost, most_for
from anonpipe.encoding.rare import code_extremes, drawn_to
from anonpipe.encoding.scan import merge_scans, scan_batch
from anonpipe.errors import InputError
from tests import small

SHARE = 0.1
WHOLE = st.lists(st.sampled_from([-3.0, 0.0, 1.0, 2.0, 7.5, 1e3, 1e6]), max_size=40)


@settings(max_examples=50)
@given(WHOLE, st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_outermost_of_parts_are_those_of_the_whole(values, most, random):
    places = [random.randrange(3) for _ in values]
    cut = random.randrange(len(values) + 1)
    parts = [
        Outermost.of(np.array(values[part]), np.array(places[part], dtype=np.int64), 3, most)
        for part in (slice(0, cut), slice(cut, None))
    ]
    for found in (parts[0].merge(parts[1]), parts[1].merge(parts[0])):
        moved = found.moved(np.array([1, -1, 1]), 2)
        for which, at in (({0}, 0), ({1}, 1), ({2}, 2)):
            assert_outermost(found, at, [v for v, p in zip(values, places, strict=True) if p in which], most)
        assert_outermost(moved, 1, [v for v, p in zip(values, places, strict=True) if p != 1], most)
        assert moved.counts[0] == 0


def assert_outermost(found, at, values, most):
    there = sorted(values)
    kept = there if len(there) <= 2 * most else there[:most] + there[-most:]
    assert found.at(at).tolist() == kept and found.counts[at] == len(there)


def literal(values, least):
    """`drawn_to` of all values, by loops."""
    n = len(values)
    roomy = n >= 3 * least
    run = least if roomy else n // 2
    if run == 0:
        return 0
    border = values[run]
    lowest = values[n - 1 - (run if roomy else (n - run - 1) // 2)]
    excess = [value - border for value in values[:run]]
    if excess[0] <= border - lowest:
        return 0
    few = 0
    for number in range(1, min(run, least - 1) + 1):
        last, following = excess[number - 1], excess[number] if number < run else 0.0
        beside = border - values[2 * run - 1] if roomy else border - lowest
        others = sum(excess[number:])
        if SHARE * last > max(beside, following) and others < SHARE * sum(excess[:number]) and last > border - lowest:
            few = number
    if not roomy:
        return few
    for number in range(few + 1, run - 1):
        if sum(excess[number + 1 :]) >= SHARE * number * excess[number - 1]:
            return number - 1
    return run


@settings(max_examples=200)
@given(st.lists(st.integers(0, 30) | st.integers(0, 10**6), min_size=1, max_size=40), st.integers(3, 6))
def test_who_is_drawn_in_is_who_is_by_loops(values, least):
    values = sorted(map(float, values), reverse=True)
    assert drawn_to(np.array(values), len(values), least) == literal(values, least)


@pytest.mark.parametrize(
    "values, drawn",
    [
        ([], 0),
        ([8.0], 0),  # a count that is two beyond a heap
        ([1e9], 1),
        ([9e8, 8e8, 7e8, 6e8], 4),
        ([9e8, 8e8, 7e8, 6e8, 5e8], 0),  # k of them
        ([9e8, 5e8, 4e7, 2e6], 4),
        ([9e4, 30.0, 20.0, 18.0, 16.0, 15.0], 1),
        ([90.0, 40.0, 16.5, 16.2, 16.1, 16.0, 15.9], 5),  # the first is given away to the second, neither is apart
    ],
)
def test_fewer_than_k_giants_are_drawn_in(values, drawn):
    crowd = np.repeat([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 10)
    every = np.append(values, crowd)
    assert (every > every[drawn_to(every, len(every), 5)]).sum() == drawn


@pytest.mark.parametrize("rows", range(5, 20))
def test_giants_at_both_ends_of_stratum_do_not_hide_each_other(rows):
    """A mean of the five on a side would tell the giant of this side, as all others are near 0."""
    rng = np.random.default_rng(rows)
    every = np.sort(np.append(rng.uniform(0, 10, rows - 2), [-1_000.0, 1_100.0]))[::-1]
    for values, giant in ((every, 1_100.0), (-every[::-1], 1_000.0)):
        assert (values > values[drawn_to(values, rows, 5)]).sum() >= 1
        mean = np.minimum(values, values[drawn_to(values, rows, 5)])[:5].mean()
        assert abs(5 * mean - giant) > 0.9 * giant


COLUMNS = {
    "x": Column(kind="continuous", transform="none"),
    "cost": Column(kind="continuous", transform="log", bounds=(0, None), step=0.01),
    "kept": Column(kind="continuous", transform="none", extremes="keep"),
    "status": Column(kind="categorical", role="key"),
}


def giants():
    rng = np.random.default_rng(3)
    x = rng.normal(size=200)
    x[[3, 50]] = 1e9, -4e8
    cost = rng.lognormal(0, 2, 200).round(2)  # among logarithms the three are no giants
    cost[[7, 8, 10]] = 1e5, 9e4, 8e4
    cost[9] = 0.0
    status = np.where(np.arange(200) % 2, "alive", "dead")
    return pa.record_batch({"x": x, "cost": cost, "kept": x, "status": status})


def scanned(batch, cuts=()):
    edges = [0, *cuts, batch.num_rows]
    parts = [batch.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    starts = edges[:-1]
    return merge_scans([scan_batch(part, COLUMNS, at, ["status"], k=5) for at, part in zip(starts, parts, strict=True)])


def test_scan_of_drawn_in_data_is_scan_of_table_without():
    batch, stratum = giants(), np.array([0, 1])
    scan, extremes = code_extremes(scanned(batch), COLUMNS, stratum, 2, 5)
    cells = np.column_stack([batch["x"], batch["cost"], batch["kept"]])
    extremes.apply(cells, ("x", "cost", "kept"), np.where(np.arange(200) % 2, 0, 1))
    assert set(extremes.limits) == {"x", "cost"}
    assert np.abs(cells[:, 0]).max() < 5 and cells[:, 1].max() < 2_000 and np.abs(cells[:, 2]).max() == 1e9
    drawn = [pa.array(column) for column in cells.T]
    again = scanned(pa.record_batch([*drawn, batch["status"]], names=batch.schema.names))
    for name in ("x", "cost", "kept"):
        known, found = scan.columns[name], again.columns[name]
        assert (known.mean, known.m2, known.log_mean, known.log_m2) == (
            found.mean, found.m2, found.log_mean, found.log_m2
        )  # fmt: skip
        assert (known.least, known.most, known.constant) == (found.least, found.most, found.constant)
        np.testing.assert_allclose(scan.by_combination[name][1], again.by_combination[name][1], atol=1e-5)
    assert extremes.moved["x"] == pytest.approx((1e9 - 4e8) / -200, rel=1e-6)
    cut = code_extremes(scanned(batch, (20, 51, 130)), COLUMNS, stratum, 2, 5)
    assert cut[1] == extremes and cut[0].columns["x"].mean == scan.columns["x"].mean


def test_units_of_more_rows_than_were_kept_are_refused():
    with pytest.raises(InputError, match="fewer rows"):
        code_extremes(scanned(giants()), COLUMNS, np.array([0, 1]), 2, most_for(5, False))


@pytest.mark.secret("5c1f" * 16)  # means of runs are moved at random
def test_warning_on_an_outlier_in_a_mean_of_k_says_so():
    tail = [399, 126, 112, 108, 98, 96]  # 399 is less than ten times the range of the others away
    frame = pd.DataFrame({"size": [*tail, *np.random.default_rng(0).gamma(4, 6, 994).clip(1, 90).round().astype(int)]})
    job = {"k": 5, "columns": {"size": {"kind": "integer"}}, "measure": small.OFF, "gates": {"membership_auc": None}}
    made = anonymize(frame, job)
    assert any("1 record lies far from all others" in one and "in a mean of k" in one for one in made.warnings)
    assert 126 < made.table["size"].max() < 399  # among the others it is not
