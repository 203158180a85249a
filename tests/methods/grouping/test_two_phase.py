import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.methods.grouping import cluster, information_loss
from anonpipe.methods.grouping._mdav import mdav_1
from anonpipe.methods.grouping._two_phase import by_falling_scatter, decompose, scatter_times_size
from tests.methods.grouping.data import grouping_problems, standardized
from tests.naive import two_phase as naive


def run(features, k, method):
    return cluster(features, k, method, rng=np.random.default_rng(0))


def twin(features, k, method):
    return naive.labels_of(getattr(naive, method)(features, k), len(features))


def same_groups(a, b):
    """Whether two labellings differ in the numbers of the groups only."""
    pairs = np.unique(np.stack([a, b]), axis=1)
    return pairs.shape[1] == a.max() + 1 == b.max() + 1


def test_same_as_the_naive_twin_where_neighbours_run_out():
    """A dense cloud in a thin one: most records lose all the neighbours that are kept for them."""
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(70, 2)) * 0.01, rng.normal(size=(30, 2))])
    assert (run(features, 4, "dba_1") == twin(features, 4, "dba_1")).all()


def test_the_densest_go_first():
    features = np.array([[0.0], [3.0], [10.0], [10.5], [20.0], [21.0]])
    assert run(features, 2, "dba_1").tolist() == [2, 2, 0, 0, 1, 1]


def test_density_is_by_the_mean_of_the_neighbourhood():
    """Both neighbourhoods have one sum of squared distances to their record, 2; the scatters are 2 and 4/3."""
    features = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [50.0, 0.0], [51.0, 0.0], [50.0, 1.0]])
    assert run(features, 3, "dba_1").tolist() == [1, 1, 1, 0, 0, 0]


def test_ties_of_dba_go_to_the_lower_row():
    features = np.array([[1.0], [-1.0], [1.0], [-1.0], [0.0], [0.0]])
    assert run(features, 2, "dba_1").tolist() == [0, 1, 0, 1, 2, 2]
    assert run(np.zeros((7, 2)), 3, "dba_1").tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_scatter_of_a_few_records():
    rng = np.random.default_rng(0)
    features, rows = rng.normal(size=(20, 3)) + 1e6, np.array([3, 17, 4, 0])
    expected = len(rows) * float(naive.scatter(features, rows))
    assert scatter_times_size(features, rows, np.empty(3)) == pytest.approx(expected, rel=1e-13)
    equal = np.full((4, 2), 0.1)
    assert scatter_times_size(equal, np.arange(4), np.empty(2)) == 0.0


@pytest.mark.parametrize(("method", "rows"), [("dba_1", 27), ("dba_2", 27), ("tfrp_1", 40), ("tfrp_2", 40)])
def test_many_columns_and_large_offset(method, rows):
    features = np.random.default_rng(2).normal(size=(rows, 50))
    assert same_groups(run(features, 4, method), twin(features, 4, method))
    assert (run(features + 1e5, 4, method) == run(features, 4, method)).all()


@pytest.mark.parametrize(("family", "most"), [("dba", 1.5), ("tfrp", 1.25)])
def test_losses_on_generated_tables(family, most):
    """Neither phase is far from MDAV; dense groups first leave ragged remains, and so more loss."""
    features = standardized(np.random.default_rng(7).normal(size=(2000, 5)))
    methods = (f"{family}_1", f"{family}_2", "mdav")
    first, second, mdav = (information_loss(features, run(features, 5, method)) for method in methods)
    assert second <= first < most * mdav


@pytest.mark.parametrize("family", ["dba", "tfrp"])
@settings(deadline=None, max_examples=60)
@given(grouping_problems())
def test_second_phase_never_loses(family, problem):
    features, k = problem
    methods = (f"{family}_1", f"{family}_2")
    before, after = (information_loss(features, run(features, k, method)) for method in methods)
    assert after <= before + 1e-9


def test_same_as_the_naive_twin_where_records_are_moved():
    """A table on which groups are given up and others split again; on most small ones neither happens."""
    rng = np.random.default_rng(4)
    features = np.concatenate([rng.normal(size=(40, 2)) * 0.1, rng.normal(size=(40, 2)) * 5])
    first, second = run(features, 3, "tfrp_1"), run(features, 3, "tfrp_2")
    assert second.max() != first.max()
    assert same_groups(second, twin(features, 3, "tfrp_2"))


def test_reference_points_are_of_the_whole_table():
    """The second column alone decides: its 100 is the largest value of the table, its 0 the smallest."""
    features = np.array([[1.0, 0.0], [2.0, 100.0], [1.5, 0.0], [2.0, 99.0], [1.0, 50.0]])
    assert run(features, 2, "tfrp_1").tolist() == [1, 0, 1, 0, 0]


def test_ties_go_to_the_lower_row():
    features = np.array([[1.0], [-1.0], [1.0], [-1.0], [0.0], [0.0]])
    assert run(features, 2, "tfrp_1").tolist() == [0, 1, 0, 1, 2, 2]
    assert run(np.zeros((7, 2)), 3, "tfrp_1").tolist() == [0, 0, 0, 1, 1, 1, 0]
    assert (run(np.full((7, 2), 0.1), 3, "tfrp_2") == run(np.zeros((7, 2)), 3, "tfrp_2")).all()


def test_group_is_given_up_where_others_take_records_cheaply():
    features = np.array([[0.0], [1.0], [1.5], [8.5], [9.0], [10.0]])
    labels = np.array([0, 0, 1, 1, 2, 2])
    assert by_falling_scatter(features, labels).tolist() == [1, 0, 2]
    for most, expected in [(6, [0, 0, 0, 1, 1, 1]), (3, [0, 0, 0, 1, 1, 1]), (2, labels.tolist())]:
        assert decompose(features, labels, np.array([1, 0, 2]), most=most).tolist() == expected


def test_a_full_group_sends_records_to_the_next_nearest():
    features = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [0.15], [0.16], [-7.9], [-8.0], [-8.1], [-8.2]])
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3])
    only = np.array([2])
    assert decompose(features, labels, only, most=5).tolist() == [0, 0, 0, 1, 1, 0, 0, 2, 2, 2, 2]
    assert decompose(features, labels, only, most=4).tolist() == [0, 0, 0, 1, 1, 0, 1, 2, 2, 2, 2]
    assert decompose(features, labels, only, most=3).tolist() == labels.tolist()


@settings(deadline=None, max_examples=40)
@given(grouping_problems(most_rows=30))
def test_decompose_is_as_the_naive_twin_at_any_limit(problem):
    features, k = problem
    features = np.round(features * 4)
    labels = np.arange(len(features)) % max(1, len(features) // k)
    groups = [np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)]
    turn = np.random.default_rng(k).permutation(len(groups))
    for most in (2 * k, 4 * k - 1, len(features)):
        expected = naive.labels_of(naive.decompose(features, groups, turn, most), len(features))
        assert (decompose(features, labels, turn, most=most) == expected).all()


def first_phase(features, k):
    return mdav_1(features, k, rng=np.random.default_rng(0))


@settings(deadline=None, max_examples=60)
@given(grouping_problems())
def test_never_loses_more_than_mdav_1(problem):
    features, k = problem
    assert (
        information_loss(features, run(features, k, "mdav_2"))
        <= information_loss(features, first_phase(features, k)) + 1e-9
    )


def test_same_as_the_naive_twin_where_large_groups_are_split():
    """Three tight pairs of sites with scattered records between: some groups are given up to few others."""
    rng = np.random.default_rng(1)
    sites = np.repeat(rng.normal(size=(6, 2)) * 9, 13, axis=0)
    features = np.concatenate([sites + rng.normal(size=sites.shape) * 0.2, rng.normal(size=(20, 2)) * 9])
    found, first = run(features, 3, "mdav_2"), first_phase(features, 3)
    assert found.max() != first.max()
    assert same_groups(found, twin(features, 3, "mdav_2"))
