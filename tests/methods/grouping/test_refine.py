from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import AnonpipeError
from anonpipe.kernels.points import by_first_row, mix, sort_groups
from anonpipe.methods.grouping import cluster, information_loss, refine
from anonpipe.methods.grouping._refine import (
    EVERY,
    EXACT,
    MOVE,
    NONE,
    anneal,
    best_step,
    both_ways,
    combine,
    create,
    descend,
    dissolve,
    group_scatter,
    near_records,
    open_groups,
    reform,
    scatter,
    split_large,
    take,
    temperatures,
)
from tests.methods.grouping.data import grouping_problems, tarragona
from tests.naive import cluster as naive_cluster
from tests.naive import refine as naive


def mdav(features, k, **options):
    return cluster(features, k, "mdav", rng=np.random.default_rng(0), **options)


def arbitrary_labels(rng, rows, k):
    """Groups of k to many records, in no order that has to do with the points."""
    cuts = [0]
    while rows - cuts[-1] >= 2 * k:
        cuts.append(cuts[-1] + int(rng.integers(k, min(4 * k, rows - cuts[-1] - k) + 1)))
    labels = np.searchsorted(cuts, np.arange(rows), side="right").astype(np.int64) - 1
    return labels[rng.permutation(rows)]


@settings(deadline=None, max_examples=50)
@given(
    grouping_problems(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["quick", "normal"]),
    st.sampled_from([1, 30, 4000]),
)
def test_never_worse_and_never_under_k(problem, seed, effort, block_rows):
    features, k = problem
    labels = arbitrary_labels(np.random.default_rng(seed), len(features), k)
    before, given_labels = features.copy(), labels.copy()
    refined = refine(features, labels, k, effort=effort, block_rows=block_rows)
    sizes = np.bincount(refined)
    assert sizes.sum() == len(features)
    assert k <= sizes.min() <= sizes.max() < 2 * k
    worst = naive_cluster.within_scatter(features, labels)
    assert naive_cluster.within_scatter(features, refined) <= worst * (1 + 1e-9) + 1e-12
    assert (features == before).all()
    assert (labels == given_labels).all()
    assert (refine(features, labels, k, effort=effort, block_rows=block_rows) == refined).all()


def test_finds_the_obvious():
    features = np.repeat([[0.0], [10.0], [20.0]], 4, axis=0) + np.arange(12)[:, None] * 0.01
    labels = np.tile([0, 1, 2], 4)
    refined = refine(features, labels, 4)
    assert len(set(refined[:4])) == len(set(refined[4:8])) == len(set(refined[8:])) == 1
    assert refined.max() == 2


def test_dissolves_a_group_between_two():
    features = np.array([[-10.0], [-10.0], [10.0], [10.0], [-9.0], [9.0]])
    refined = refine(features, np.array([0, 0, 1, 1, 2, 2]), 2)
    assert refined.tolist() == [0, 0, 1, 1, 0, 1]


def test_splits_what_is_large_enough_for_two():
    features = np.random.default_rng(0).normal(size=(600, 3))
    one = refine(features, np.zeros(600, np.int64), 4)
    assert np.bincount(one).max() < 8
    assert information_loss(features, one) < information_loss(features, mdav(features, 4))


def test_begins_a_group_of_records_to_spare():
    features = np.array([[0.0], [0.1], [5.0], [10.0], [10.1], [5.1]])
    assert refine(features, np.array([0, 0, 0, 1, 1, 1]), 2).tolist() == [0, 0, 1, 2, 2, 1]


def test_every_record_alone_where_k_is_one():
    assert refine(np.array([[1.0], [1.0], [2.0]]), np.zeros(3, np.int64), 1).tolist() == [0, 1, 2]


@settings(deadline=None, max_examples=20)
@given(grouping_problems(most_rows=50), st.integers(0, 2**32 - 1))
def test_ends_where_no_step_lowers_the_scatter(problem, seed):
    """Of the tables drawn here, all groups but of the largest are near each other: every pair is a candidate."""
    features, k = problem
    k = max(k, 5)
    if len(features) < 2 * k:
        return
    labels = refine(features, arbitrary_labels(np.random.default_rng(seed), len(features), k), k)
    groups = [np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)]
    slack = 1e-9 * naive_cluster.within_scatter(features, np.zeros(len(features), np.int64)) + 1e-12
    for a, b in combinations(range(len(groups)), 2):
        assert min(naive.all_steps(features, groups, k, a, b))[0] > -slack


def test_more_effort_is_worth_it():
    features = np.random.default_rng(0).normal(size=(500, 5)) ** 3
    labels = mdav(features, 5)
    quick, normal = (information_loss(features, refine(features, labels, 5, effort)) for effort in ("quick", "normal"))
    assert normal < quick < 0.95 * information_loss(features, labels)


@pytest.mark.parametrize(("k", "loss"), [(3, 14.95), (4, 17.51), (5, 20.60), (10, 30.80)])
def test_reference_figures(k, loss):
    features = tarragona()
    assert information_loss(features, refine(features, mdav(features, k), k)) <= loss


def test_better_than_mdav_over_the_whole_table():
    features = np.random.default_rng(0).normal(size=(6000, 6)) ** 3
    whole = information_loss(features, mdav(features, 5))
    refined = information_loss(features, refine(features, mdav(features, 5, block_rows=1000), 5))
    assert refined < 0.95 * whole


def test_large_groups_cost_no_quadratic_time():
    features = np.random.default_rng(0).normal(size=(40_000, 2))
    labels = np.r_[np.zeros(20_000, np.int64), np.ones(19_995, np.int64), np.full(5, 2)]
    sizes = np.bincount(refine(features, labels, 5))
    assert sizes.min() >= 5


def test_no_records():
    assert refine(np.empty((0, 3)), np.empty(0, np.int64), 5).tolist() == []


def test_wrong_input_is_refused():
    features = np.zeros((6, 1))
    with pytest.raises(AnonpipeError, match=r"1 of 2 groups under k=3"):
        refine(features, np.array([0, 0, 1, 1, 1, 1]), 3)
    with pytest.raises(AnonpipeError, match="without a group"):
        refine(features, np.array([0, 0, -1, 0, 0, 0]), 3)
    with pytest.raises(AnonpipeError, match="shape"):
        refine(features, np.zeros(5, np.int64), 3)
    with pytest.raises(ValueError, match=r"quick, normal$"):
        refine(features, np.zeros(6, np.int64), 3, effort="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NaN"):
        refine(np.full((6, 1), np.nan), np.zeros(6, np.int64), 3)
    with pytest.raises(ValueError, match="block_rows 0"):
        refine(features, np.zeros(6, np.int64), 3, block_rows=0)


def some_groups(rng, n_groups, k, width=3):
    """(features, labels) of groups of k to 2k - 1."""
    sizes = rng.integers(k, 2 * k, n_groups)
    labels = rng.permutation(np.repeat(np.arange(n_groups), sizes)).astype(np.int64)
    return rng.normal(size=(len(labels), width)) ** 3, labels


def lists(groups):
    return [groups.members[g, : groups.sizes[g]].tolist() for g in range(len(groups.sizes))]


def all_near(n_groups):
    near = np.array([[b for b in range(n_groups) if b != a] for a in range(n_groups)], dtype=np.int32)
    return both_ways(near)


def is_consistent(groups):
    """Everything in the state follows from `home`."""
    fresh = open_groups(groups.x, groups.home.copy(), groups.k)
    assert (groups.sizes == fresh.sizes).all()
    for g, rows in enumerate(lists(groups)):
        assert sorted(rows) == sorted(lists(fresh)[g])
        assert [groups.place[i] for i in rows] == list(range(len(rows)))
        if rows:
            assert np.allclose(groups.centroids[g], fresh.centroids[g])
            assert np.isclose(groups.radius[g], fresh.radius[g])
    assert np.allclose(groups.reach, fresh.reach)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from([-1e-9, 0.5, 5.0]))
def test_best_step_is_the_best_of_all(seed, k, limit):
    rng = np.random.default_rng(seed)
    features, labels = some_groups(rng, 2, k)
    groups = open_groups(features, labels, k)
    steps = naive.all_steps(features, lists(groups), k, 0, 1)
    added, i, partner = best_step(groups, 0, 1, limit)
    least = min(steps)[0]
    if least < limit:
        assert added == pytest.approx(least)
        before, twin = scatter(groups), lists(groups)
        assert naive.take_best_step(features, twin, k, 0, 1, limit)
        take(groups, 0, 1, i, partner)
        assert scatter(groups) == pytest.approx(before + added)
        # Between two groups of two, a swap is also that of the two others.
        assert k == 2 or [set(rows) for rows in lists(groups)] == [set(rows) for rows in twin]
        assert (partner == MOVE) == (min(steps)[1] == "move")
        is_consistent(groups)
    else:
        assert (added, partner) == (limit, NONE)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(2, 6), st.sampled_from([0.0, 1.0, 100.0]))
def test_dissolve_and_create_do_as_their_twins(seed, k, n_groups, limit):
    rng = np.random.default_rng(seed)
    features, labels = some_groups(rng, n_groups, k)
    features = np.vstack(
        [features, rng.normal(scale=0.01, size=(k, 3))]
    )  # room for one more group; equal ones would tie
    labels = np.r_[labels, rng.integers(0, 1, k)]
    large = np.bincount(labels) >= 2 * k
    labels[np.flatnonzero(labels == 0)[: k if large[0] else 0]] = n_groups
    groups = open_groups(features, labels, k)
    near = np.array([b for b in range(len(groups.sizes)) if b != 0], dtype=np.int32)
    moved, partners = np.empty(2 * k, np.int64), np.empty(2 * k, np.int64)

    twin, before, was = lists(groups), scatter(groups), groups.home.copy()
    done = naive.dissolve(features, twin, k, 0, near.tolist(), limit)
    count = dissolve(groups, 0, near, limit, moved, partners)
    assert (count > 0) == done
    assert lists(groups) == twin if done else (groups.home == was).all()
    assert scatter(groups) < before + limit + 1e-9
    is_consistent(groups)

    free = [g for g in range(len(groups.sizes)) if groups.sizes[g] == 0]
    donors = np.flatnonzero(groups.sizes > k)
    if not free or not len(donors):
        return
    seed_record = int(groups.members[donors[0], 0])
    near = np.setdiff1d(np.arange(len(groups.sizes)), donors[:1]).astype(np.int32)
    twin, before, was = lists(groups), scatter(groups), groups.home.copy()
    done = naive.create(features, twin, k, seed_record, free[0], near.tolist(), limit)
    count = create(groups, seed_record, free[0], near, limit, moved, partners)
    assert count == (k if done else 0)
    assert lists(groups) == twin if done else (groups.home == was).all()
    assert scatter(groups) < before + limit + 1e-9
    is_consistent(groups)


def test_hosts_that_take_several_records_ask_less_for_each():
    """Alone each of the four would add 0.8; three that join one host, and one that joins the other, add 2.51."""
    groups = open_groups(np.repeat([0.0, 0.0, 1.0], 4)[:, None], np.repeat([0, 1, 2], 4), 4)
    moved, hosts, near = np.empty(8, np.int64), np.empty(8, np.int64), np.array([0, 1], dtype=np.int32)
    assert dissolve(groups, 2, near, 2.5, moved, hosts) == 0
    assert dissolve(groups, 2, near, 2.7, moved, hosts) == 4
    is_consistent(groups)


@settings(deadline=None, max_examples=12)  # of thousands of steps each
@given(st.integers(0, 2**32 - 1), st.integers(3, 4), st.sampled_from([0.1, 1.0]))
def test_annealing_goes_as_its_twin(seed, k, hot):
    rng = np.random.default_rng(seed)
    features, labels = some_groups(rng, 7, k)
    groups = open_groups(features, labels, k)
    starts, others = all_near(7)
    starts = np.r_[starts, np.full(len(groups.sizes) - 7, starts[-1])]
    near = [others[starts[a] : starts[a + 1]].tolist() for a in range(len(groups.sizes))]
    heat = temperatures(groups)
    twin, twin_heat, key = lists(groups), heat.tolist(), int(rng.integers(2**63))
    schedule = np.geomspace(hot, hot / 10, 16)
    naive.anneal(features, twin, k, near, twin_heat, schedule.tolist(), EVERY, key)
    anneal(groups, starts, others, heat, schedule, np.uint64(key))
    assert lists(groups) == twin
    assert heat.tolist() == twin_heat
    assert groups.sizes[groups.sizes > 0].min() >= k
    is_consistent(groups)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 5))
def test_combine_takes_the_better_of_every_region(seed, k, n_regions):
    """Records of each region are shuffled among its groups, so that regions are at most those."""
    rng = np.random.default_rng(seed)
    features, labels = some_groups(rng, 2 * n_regions, k)
    other = labels.copy()
    for region in range(n_regions):
        rows = np.flatnonzero(labels // 2 == region)
        if rng.random() < 0.8:
            other[rows] = rng.permutation(other[rows])
    first, second = open_groups(features, labels, k), open_groups(features, other, k)
    combined = by_first_row(combine(labels, group_scatter(first), other, group_scatter(second)))
    twin = np.array(naive.combine(features, labels.tolist(), other.tolist()))
    assert len(set(zip(combined.tolist(), twin.tolist(), strict=True))) == combined.max() + 1 == twin.max() + 1
    assert k <= np.bincount(combined).min() <= np.bincount(combined).max() < 2 * k
    found = naive_cluster.within_scatter(features, combined)
    assert found <= min(scatter(first), scatter(second)) * (1 + 1e-9)


def test_splitmix64_as_published():
    """First number of the generator for the seed 0, and for the seeds that follow from it."""
    assert int(mix(np.uint64(0))) == 0xE220A8397B1DCDAF
    assert int(mix(np.uint64(0x9E3779B97F4A7C15))) == 0x6E789E6AA1B965F4


@settings(deadline=None, max_examples=25)
@given(grouping_problems(most_rows=50), st.integers(0, 2**32 - 1))
def test_descent_ends_where_no_step_lowers_the_scatter(problem, seed):
    features, k = problem
    k = max(2, k)
    if len(features) < 2 * k:
        return
    n_groups = len(features) // k
    labels = np.random.default_rng(seed).permutation(np.arange(len(features)) % n_groups)
    groups = open_groups(features, labels, k)
    starts, others = all_near(n_groups)
    before = scatter(groups)
    least = 1e-14 * float(np.square(features - features.mean(axis=0)).sum()) / len(features)
    changed = np.ones(n_groups, dtype=np.int64)
    descend(groups, starts, others, changed, least)
    reform(groups, starts, others, changed, least)
    changed[:] = 1
    descend(groups, starts, others, changed, least)
    assert scatter(groups) <= before * (1 + 1e-12)
    is_consistent(groups)
    rows = lists(groups)
    slack = 1e-9 * naive.scatter(features, [list(range(len(features)))]) + 1e-12
    alive = [g for g in range(n_groups) if rows[g]]
    for a in alive:
        for b in alive:
            if a < b:
                assert min(naive.all_steps(features, rows, k, a, b))[0] > -slack


@settings(deadline=None, max_examples=60)
@given(grouping_problems(), st.integers(0, 2**32 - 1))
def test_split_parts_lie_inside_their_groups(problem, seed):
    features, k = problem
    cut = int(np.random.default_rng(seed).integers(0, len(features) + 1))
    labels = (np.arange(len(features)) >= cut).astype(np.int64)
    if min(cut, len(features) - cut) < k:
        labels[:] = 0
    parts = split_large(features, *sort_groups(labels), k)
    sizes = np.bincount(parts)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    assert all(len(set(labels[parts == part])) == 1 for part in range(len(sizes)))
    total = naive_cluster.within_scatter(features, labels)
    assert naive_cluster.within_scatter(features, parts) <= total * (1 + 1e-9) + 1e-12


def test_split_cuts_across_the_longest_side():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3)) * [1.0, 30.0, 1.0]
    parts = split_large(features, *sort_groups(np.zeros(40, np.int64)), 20)
    assert set(np.argsort(features[:, 1])[:20]) in ({*np.flatnonzero(parts == 0)}, {*np.flatnonzero(parts == 1)})


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=80), st.integers(1, 12))
def test_near_points_of_few_are_exact(problem, count):
    features, _ = problem
    assert near_records(features, count, 5).tolist() == naive.near_records(features, count)


def test_near_points_of_many_are_nearly_exact():
    features = np.random.default_rng(0).normal(size=(3 * EXACT, 5))
    near = near_records(features, 16, 64)
    sample = range(0, len(features), 30)
    hits = 0
    for i in sample:
        distances = np.square(features - features[i]).sum(axis=1)
        distances[i] = np.inf
        assert len(set(near[i].tolist())) == 16
        assert i not in near[i]
        assert (np.diff(distances[near[i]]) >= 0).all()
        hits += len(np.intersect1d(near[i], np.argsort(distances, kind="stable")[:16]))
    assert hits > 0.9 * 16 * len(sample)


@pytest.mark.parametrize(
    "features", [np.ones((2 * EXACT, 2)), np.round(np.random.default_rng(0).normal(size=(2000, 1)))]
)
def test_near_points_among_duplicates(features):
    near = near_records(features, 8, 32)
    assert near.min() >= 0
    assert all(len(set(row)) == 8 and i not in row for i, row in enumerate(near.tolist()))


@settings(deadline=None, max_examples=60)
@given(grouping_problems(most_rows=60), st.integers(1, 6))
def test_both_ways_is_the_union_of_naming_and_being_named(problem, count):
    features, _ = problem
    near = near_records(features, count, 5)
    starts, others = both_ways(near)
    for i in range(len(features)):
        found = others[starts[i] : starts[i + 1]].tolist()
        named_by = {j for j in range(len(features)) if i in near[j]}
        assert len(found) == len(set(found))
        assert found[: near.shape[1]] == near[i].tolist()
        assert set(found) == set(near[i].tolist()) | named_by
