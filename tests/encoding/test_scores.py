"""Values to normal scores and back, by ranks inside strata."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder
from anonpipe.encoding.quantiles import Radix
from anonpipe.encoding.scan import merge_scans, scan_batch
from anonpipe.encoding.scores import Ranks, Scores
from anonpipe.errors import InputError
from anonpipe.partition.strata import build_strata

SCORED = {"transform": "normal_scores"}
VALUES = st.lists(st.integers(-4, 9), min_size=2, max_size=40).map(lambda v: np.array(v, dtype=float))


@settings(deadline=None, max_examples=150)
@given(VALUES)
def test_positions_are_middle_ranks(values):
    found = Ranks.of(Radix.of(values))
    assert np.allclose(found.positions(values), (rankdata(values) - 0.5) / len(values))


@settings(deadline=None, max_examples=150)
@given(VALUES, st.integers(0, 9))
def test_ties_are_split_inside_what_they_share(values, seed):
    found = Ranks.of(Radix.of(values)).positions(values, np.random.default_rng(seed)) * len(values)
    low, high = rankdata(values, "min") - 1, rankdata(values, "max")
    assert (found >= low).all() and (found <= high).all()
    assert (found[high - low > 1] != rankdata(values)[high - low > 1] - 0.5).any() == (high - low > 1).any()


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_the_middle_is_the_mean_score_of_a_value(values):
    found, n = Ranks.of(Radix.of(values)), len(values)
    if found.constant:
        assert (found.mean_scores(values) == 0).all()
        return
    for value in np.unique(values):
        share = (
            np.searchsorted(np.sort(values), value) + (np.arange(20_000) + 0.5) / 20_000 * (values == value).sum()
        ) / n
        assert np.isclose(found.mean_scores(np.array([value]))[0], norm.ppf(share).mean(), atol=5e-3)
    assert np.isclose(found.mean_scores(values).mean(), 0.0, atol=1e-9)


def test_coarse_bins_hold_the_order_and_nearly_the_ranks():
    values = np.exp(np.random.default_rng(0).normal(size=5_000))
    found = Ranks.of(Radix.of(values, most=500)).positions(np.sort(values))
    assert (np.diff(found) >= 0).all()
    assert np.abs(found - (np.arange(5_000) + 0.5) / 5_000).max() < 0.01


def fitted(batch, columns, by=(), k=3, parts=1):
    """Cells, scan, strata and scores of a batch that is scanned in parts."""
    timed = [name for name, column in columns.items() if column.role.value == "survival_status"]
    scored_by = [*by, *(name for name in timed if name not in by)]
    edges = np.linspace(0, batch.num_rows, parts + 1).astype(int)
    pieces = (batch.slice(a, b - a) for a, b in itertools.pairwise(edges))
    scan = merge_scans(scan_batch(one, columns, 0, by, strata_by=by, scored_by=scored_by) for one in pieces)
    cells = ColumnEncoder.fit(batch.schema, columns, scan)
    counts = scan.combination_counts(cells, by) if by else np.array([scan.rows])
    sizes = [cells.code_count(name) for name in by]
    positions = [cells.names.index(name) for name in by]
    strata = build_strata(counts, positions, sizes, k, "merge", None, False, by)
    return cells, scan, strata, Scores.fit(cells, scan, strata, k)


def test_strata_have_runs_of_as_many_as_each_needs():
    rng = np.random.default_rng(4)
    batch = pa.record_batch({"x": rng.normal(size=900), "part": np.repeat(["a", "b", "c"], [400, 480, 20])})
    columns = {"x": Column(kind="continuous", **SCORED), "part": Column(kind="categorical", role="key")}
    cells, scan, strata, alike = fitted(batch, columns, ("part",), k=60)
    apart = Scores.fit(cells, scan, strata, 60, least=(3, 60)).columns[0].quantiles
    assert strata.rows == (400, 500)  # the small one is part of the second
    assert len(apart[0].centres) > len(alike.columns[0].quantiles[0].centres)
    assert np.diff(apart[1].edges).min() >= 60 > np.diff(apart[0].edges).min() >= 3
    few = Scores.fit(cells, scan, strata, 60, least=(3, 501)).columns[0]  # joins the first, and both need k
    assert len(few.quantiles) == 1 and np.diff(few.quantiles[0].edges).min() >= 60


def survival(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    dead = rng.random(rows) < 0.4
    place = rng.choice(["n", "s"], rows)
    months = np.round(rng.exponential(np.where(dead, 10, 60) * np.where(place == "n", 1, 2)), 1)
    return pa.record_batch({"months": months, "place": place, "status": np.where(dead, "d", "a")})


COLUMNS = {
    "months": Column(kind="continuous", role="survival_time", **SCORED),
    "place": Column(kind="categorical", role="key"),
    "status": Column(kind="categorical", role="survival_status", event=("d",)),
}


@pytest.mark.parametrize("by", [(), ("place",), ("place", "status")])
def test_survival_times_are_ranked_by_event_in_every_stratum(by):
    batch = survival()
    cells, scan, _strata, scores = fitted(batch, COLUMNS, by, parts=4)
    features = FeatureEncoder.fit(cells, scan, scores).encode(cells.to_cells(batch))[:, 0]
    frame = batch.to_pandas()
    groups = frame.groupby([*dict.fromkeys((*by, "status"))], sort=False).months
    rows, equal = groups.transform("size"), frame.groupby([*dict.fromkeys((*by, "status", "months"))]).transform("size")
    below = groups.rank(method="min") - 1  # a value has the mean of the scores of its records
    density = norm.pdf(norm.ppf(below / rows)) - norm.pdf(norm.ppf((below + equal) / rows))
    assert np.allclose(features, density * rows / equal)
    assert len(scores.columns[0].ranks) == (4 if by else 2)


def test_each_class_gets_its_own_distribution_back():
    batch = survival()
    cells, _scan, _, scores = fitted(batch, COLUMNS, ("place",), parts=3)
    table = cells.to_cells(batch)
    made = table.copy()
    made[:, 0] = np.random.default_rng(1).normal(size=len(made)) ** 3  # whatever a method makes
    counted = scores.count(made[:100]).merge(scores.count(made[100:]))
    for part in (made[:100], made[100:]):
        scores.put_values(part, counted, np.random.default_rng(2))
    for place in (0, 1):
        for status in (0, 1):
            inside = (table[:, 1] == place) & (table[:, 2] == status)
            before, after = np.sort(table[inside, 0]), np.sort(made[inside, 0])
            assert np.abs(after.mean() - before.mean()) < 0.05 * before.std()
            apart = np.abs(np.searchsorted(after, before) - np.arange(len(before))) / len(before)
            assert apart.max() <= 8 / len(before)


@pytest.mark.parametrize(("others", "classes"), [(9, [[0, 1, 2], [3, 4, 5]]), (2, [[0, 1, 1], [2, 3, 4]])])
def test_times_of_competing_events_are_ranked_apart(others, classes):
    """Fewer than k of them join the most frequent outcome of their stratum."""
    status = [*"a" * 6, *"d" * 7, *"o" * others, *"a" * 8, *"d" * 8, *"o" * 8]
    place = ["n"] * (13 + others) + ["s"] * 24
    batch = pa.record_batch({"months": np.arange(len(status)) + 0.5, "place": place, "status": status})
    competing = COLUMNS["status"].model_copy(update={"competing": ("o",)})
    *_, scores = fitted(batch, COLUMNS | {"status": competing}, ("place",), k=5)
    assert scores.columns[0].classes.tolist() == classes


def test_small_class_joins_other_status_or_largest_stratum():
    months = [*range(20), 5.5, 6.5, *[None] * 10, 7.5]
    place = ["n"] * 22 + ["s"] * 11
    status = ["d"] * 20 + ["a"] * 2 + ["d"] * 10 + ["a"]
    batch = pa.record_batch({"months": pa.array(months, pa.float64()), "place": place, "status": status})
    *_, scores = fitted(batch, COLUMNS, ("place",), k=5)
    [column] = scores.columns
    assert column.classes.tolist() == [[0, 0], [0, 0]] and column.quantiles[0].rows == 23


def test_fewer_than_k_values_are_refused():
    batch = pa.record_batch({"x": pa.array([1.0, 2.0, None, None, None, None])})
    with pytest.raises(InputError, match="fewer than k=3 values"):
        fitted(batch, {"x": Column(kind="continuous", **SCORED)})


def test_nulls_stand_at_the_middle_and_stay_nulls():
    batch = pa.record_batch({"x": pa.array([1.0, 2.0, 3.0, 4.0, None])})
    cells, scan, _, scores = fitted(batch, {"x": Column(kind="continuous", **SCORED)})
    features = FeatureEncoder.fit(cells, scan, scores).encode(cells.to_cells(batch))
    assert features[4].tolist() == [0.0, 1.0] and (features[:4, 1] == -1).all()
    made = np.array([[0.3], [np.nan], [-1.0], [2.0], [0.1]])
    scores.put_values(made, scores.count(made), None)
    assert np.isnan(made[1, 0]) and np.isfinite(made[[0, 2, 3, 4], 0]).all()


@pytest.mark.parametrize(("begin", "step"), [(0.5, 1.0), (0.0, 1.0), (0.25, 0.5), (-0.7, 1.0)])
def test_steps_begin_where_the_values_do(begin, step):
    values = begin + step * np.random.default_rng(0).integers(0, 300, 400)
    batch = pa.record_batch({"x": values})
    cells, *_ = fitted(batch, {"x": Column(kind="continuous", step=step, **SCORED)}, parts=3)
    made = cells.from_cells(values[:, None] + 0.2 * step).column(0).to_numpy()
    assert np.allclose(made, values)


def test_steps_begin_at_zero_where_values_differ():
    batch = pa.record_batch({"x": np.array([0.5, 1.5, 2.0, 7.5])})
    cells, *_ = fitted(batch, {"x": Column(kind="continuous", step=1.0, **SCORED)})
    assert cells.grid(0).origin == 0.0
