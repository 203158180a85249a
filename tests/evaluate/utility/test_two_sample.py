"""Classifiers that distinguish released records from original ones."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from anonpipe.errors import InputError
from anonpipe.evaluate.utility import auc
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.evaluate.utility._two_sample import (
    CLASSIFIERS,
    _narrowest,
    discriminator,
    fit_logistic,
    relations,
    tree_propensity,
)
from tests.benchmarks._propensity import interaction_terms, propensity, scaled
from tests.evaluate.utility.tables import pairs
from tests.naive import measure as naive_measure
from tests.naive import utility as naive


@settings(deadline=None, max_examples=25)
@given(pairs(least_rows=25, most_rows=40, widths=(1, 2)), st.sampled_from([(1, True), (2, False), (2, True)]))
def test_as_the_twin(tables, given_terms):
    order, powers = given_terms
    found = propensity(*tables, order=order, powers=powers)
    terms = naive_measure.terms_of(tables[0].shape[1], order, powers)
    assert found.value == pytest.approx(naive_measure.propensity(*tables, terms), rel=1e-6, abs=1e-12)
    assert found.rank == 1 + len(terms) and not found.separated


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_terms_as_the_twin(width, order, powers):
    found = interaction_terms(range(width), order, powers=range(width) if powers else ())
    assert list(found) == naive_measure.terms_of(width, order, powers)


def test_as_statsmodels():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(200, 2)), 0.3 + 1.2 * rng.normal(size=(150, 2))
    both = np.r_[old, new]
    design = sm.add_constant(np.c_[both, both[:, 0] * both[:, 1], both**2])
    fit = sm.Logit(np.repeat([0, 1], [200, 150]), design).fit(disp=0)
    expected = np.mean((fit.predict() - 150 / 350) ** 2)
    assert propensity(old, new, order=2).value == pytest.approx(expected, rel=1e-7)


def test_hand_made():
    # Ones are 1 of 4 in the original and 3 of 8 in the release: p̂ is 3/4 for ones and 5/8 for zeros.
    old, new = np.array([[1.0], [0], [0], [0]]), np.array([[1.0]] * 3 + [[0]] * 5)
    found = propensity(old, new)
    value = (4 * (3 / 4 - 2 / 3) ** 2 + 8 * (5 / 8 - 2 / 3) ** 2) / 12
    assert found.value == pytest.approx(value)
    assert scaled(old, new) == pytest.approx(24 * value)
    assert found.expected == pytest.approx((1 / 3) ** 2 * (2 / 3) / 12)
    assert found.ratio == pytest.approx(value / found.expected)
    assert found.rank == 2


def test_categories_are_compared_by_their_shares():
    rng = np.random.default_rng(1)
    old, new = rng.integers(0, 4, size=(300, 1)).astype(float), rng.integers(0, 3, size=(200, 1)).astype(float)
    counts = [np.bincount(t[:, 0].astype(int), minlength=4) for t in (old, new)]
    chances = counts[1] / (counts[0] + counts[1])
    found = propensity(old, new, categories=[0])
    assert found.value == pytest.approx(np.sum((counts[0] + counts[1]) * (chances - 0.4) ** 2) / 500, abs=1e-8)
    assert found.rank == 4
    # The fourth category is in the original only.
    assert found.separated


@settings(deadline=None, max_examples=20)
@given(pairs(least_rows=30, most_rows=60, widths=(2, 3)), st.integers(0, 2**32 - 1))
def test_origin_scale_and_order_do_not_matter(tables, seed):
    rng = np.random.default_rng(seed)
    old, new = tables
    before = old.copy(), new.copy()
    width = old.shape[1]
    scale, shift, order = rng.uniform(-3, 3, width), rng.normal(size=width) * 100, rng.permutation(width)
    value = propensity(old, new, order=2).value
    moved = propensity(*((t * scale + shift)[::-1][:, order] for t in tables), order=2).value
    assert moved == pytest.approx(value, rel=1e-6, abs=1e-10)
    assert (old == before[0]).all() and (new == before[1]).all()
    # Which of the two is called released does not matter either.
    assert propensity(new, old, order=2).value == pytest.approx(value, rel=1e-6, abs=1e-10)


def test_a_copy_cannot_be_told_apart():
    table = np.random.default_rng(2).gamma(1.0, size=(200, 3)) ** 3
    found = propensity(table, table[::-1])
    assert found.value == pytest.approx(0, abs=1e-15)
    assert found.rank == 20 and not found.separated


def test_dependent_and_constant_columns_add_nothing():
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=(80, 2)), rng.normal(0.3, 1.0, size=(80, 2))
    plain = propensity(old, new, order=1)
    wide = [np.c_[t, t[:, 0] - 2 * t[:, 1], np.full(80, 0.1)] for t in (old, new)]
    found = propensity(*wide, order=1)
    assert found.value == pytest.approx(plain.value, rel=1e-9)
    assert found.rank == 3
    nothing = propensity(np.ones((4, 2)), np.ones((5, 2)))
    assert (nothing.value, nothing.rank) == (pytest.approx(0, abs=1e-30), 1)
    assert math.isnan(nothing.ratio)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(5, 40), st.integers(5, 40))
def test_complete_separation_has_the_largest_value(seed, rows, others):
    rng = np.random.default_rng(seed)
    found = propensity(rng.random((rows, 2)), 2 + rng.random((others, 2)), order=1)
    share = others / (rows + others)
    assert found.separated
    assert found.value == pytest.approx(share * (1 - share), rel=1e-6)


def test_records_that_are_told_apart_do_not_stop_the_others():
    rng = np.random.default_rng(4)
    old, new = rng.normal(size=(100, 1)), rng.normal(size=(100, 1)) + 0.5
    marked = np.r_[new, rng.normal(size=(20, 1))]
    both = np.c_[old, np.zeros(100)], np.c_[marked, np.repeat([0.0, 1.0], [100, 20])]
    found = propensity(*both, order=1)
    chances = fit_logistic(np.c_[np.ones(200), np.r_[old, new]], np.repeat([False, True], 100)).probabilities
    share = 120 / 220
    expected = (np.sum((chances - share) ** 2) + 20 * (1 - share) ** 2) / 220
    assert found.separated
    assert found.value == pytest.approx(expected, rel=1e-6)


def test_ratio_is_one_for_new_draws_and_two_for_other_sample():
    rng = np.random.default_rng(5)
    drawn, other = [], []
    for _ in range(60):
        old, second = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
        drawn.append(propensity(old, old[rng.integers(0, 400, 400)], order=2).ratio)
        other.append(propensity(old, second, order=2).ratio)
    # Nine columns: the standard error of a mean of 60 is about √(2/9/60) = 0.06, and twice that.
    assert np.mean(drawn) == pytest.approx(1, abs=0.2)
    assert np.mean(other) == pytest.approx(2, abs=0.4)


def test_powers_see_a_spread_that_products_do_not():
    rng = np.random.default_rng(6)
    old, new = rng.normal(size=(500, 2)), 0.7 * rng.normal(size=(500, 2))
    assert propensity(old, new, order=2, powers=False).ratio < 4
    assert propensity(old, new, order=2).ratio > 20


def test_heavy_tails_settle():
    rng = np.random.default_rng(7)
    old = np.exp(2 * rng.normal(size=(300, 4)))
    new = rng.multivariate_normal(old.mean(axis=0), np.cov(old.T), 300)
    found = propensity(old, new)
    assert 0 < found.value <= 0.25
    assert np.isfinite(propensity(old * 1e250, new * 1e250, order=1).value)


def test_terms_of_ones_own():
    rng = np.random.default_rng(8)
    old, new = rng.normal(size=(90, 2)), rng.normal(size=(90, 2))
    assert propensity(old, new, terms=[(0,), (1,), (0, 1)]) == propensity(old, new, order=2, powers=False)
    assert propensity(old, new, terms=[[1]]).rank == 2


scores = st.lists(st.integers(0, 6), min_size=2, max_size=9)


@settings(deadline=None, max_examples=25)
@given(scores, scores)
def test_auc_and_its_interval_as_the_twins(high, low):
    found = auc(high, low)
    assert found.value == pytest.approx(naive.auc(high, low))
    assert 0 <= found.low <= found.value <= found.high <= 1
    variance = naive.delong_variance(high, low)
    if variance > 1e-12 and 0 < found.value < 1:
        reach = 1.959964 * math.sqrt(variance) / (found.value * (1 - found.value))
        assert logit(found.high) - logit(found.value) == pytest.approx(reach, rel=1e-6)
    opposite = auc(low, high)
    assert opposite.value == pytest.approx(1 - found.value)
    assert (opposite.low, opposite.high) == pytest.approx((1 - found.high, 1 - found.low))


def test_auc_as_sklearn_and_its_interval_covers():
    rng = np.random.default_rng(0)
    labels, given_scores = rng.random(500) < 0.4, rng.normal(size=500).round(1)
    expected = roc_auc_score(labels, given_scores)
    assert auc(given_scores[labels], given_scores[~labels]).value == pytest.approx(expected)
    truth = 0.760250  # of normal scores one standard deviation apart: Φ(1/√2)
    covered = 0
    for _ in range(300):
        found = auc(rng.normal(1, size=40), rng.normal(size=60))
        covered += found.low <= truth <= found.high
    assert 0.91 < covered / 300 < 0.985


def test_auc_without_overlap_has_an_interval():
    found = auc([3.0] * 30, [1.0] * 60)
    assert (found.value, found.low, found.high) == (1, pytest.approx(0.9), 1)
    with pytest.raises(InputError, match="0 positive"):
        auc([], [1.0])
    with pytest.raises(InputError, match="not finite"):
        auc([np.nan], [1.0])


def test_tree_as_the_twin():
    rng = np.random.default_rng(1)
    old, new = rng.normal(size=(60, 2)), rng.normal(0.4, size=(80, 2))
    found = tree_propensity(old, new, rng=np.random.default_rng(2))
    both, ones = np.concatenate([old, new]), [False] * 60 + [True] * 80
    tree = DecisionTreeClassifier(min_samples_leaf=20, max_leaf_nodes=100, random_state=0).fit(both, ones)
    assert found.value == pytest.approx(naive.tree_pmse(tree.apply(both).tolist(), ones))
    assert found.ratio == pytest.approx(found.value / found.expected)
    assert found.low < found.ratio < found.high
    # Only the order of the values matters, also where float32 would not tell them apart.
    other = tree_propensity(1 + 1e-12 * old, 1 + 1e-12 * new, rng=np.random.default_rng(2))
    assert other == found


def test_tree_ratio_is_one_for_two_samples_large_for_repeats():
    rng = np.random.default_rng(3)
    old = rng.normal(size=(1500, 3))
    assert tree_propensity(old, rng.normal(size=(1500, 3)), rng=rng).ratio == pytest.approx(1, abs=0.25)
    assert tree_propensity(old, np.repeat(old[::5], 5, axis=0), rng=rng).ratio > 1.5
    assert tree_propensity(old, old[::-1], rng=rng).value == 0
    constant = tree_propensity(np.ones((50, 1)), np.ones((50, 1)), rng=rng)
    assert constant.value == 0 and math.isnan(constant.ratio)
    # All is told apart: the share of either is certain.
    assert tree_propensity(old, old + 100, rng=rng).value == pytest.approx(0.25)


def test_discriminator():
    rng = np.random.default_rng(4)
    old = rng.normal(size=(400, 2))
    chance = discriminator(old, rng.normal(size=(300, 2)), rng=rng)
    assert chance.low < 0.5 < chance.high
    # The same mean and variance, another shape: a logistic regression on the columns would not see it.
    assert discriminator(old, rng.choice([-1.0, 1.0], size=(400, 2)), rng=rng).low > 0.9
    assert discriminator(old, old, rng=rng, paired=True).value == 0.5
    codes = rng.integers(0, 5, size=(400, 1))
    others = np.where(codes == 4, 1, codes)
    found = [discriminator(codes, others, rng=np.random.default_rng(5), categories=[0]) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].low > 0.5


def ended(rows, seed, share=0.3, closing=10_000.0):
    """Days of entry and months, of some of which both end at one day; numbers that follow from nothing."""
    rng = np.random.default_rng(seed)
    entry = rng.integers(2_000, 9_000, rows).astype(float)
    months = (closing - entry) / 30.4375 * np.where(rng.random(rows) < share, 1.0, rng.random(rows) ** 3)
    age = rng.normal(60, 10, rows).round()
    months[rng.random(rows) < 0.05] = np.nan
    return pd.DataFrame({"age": age, "entry": entry, "months": months.round(1)})


def both(old, new):
    return typed_tables(old, new, dict.fromkeys(old.columns, "continuous"))


@pytest.mark.parametrize("seed", range(4))
def test_the_commonest_line_of_two_numbers_is_found(seed):
    old = ended(2_000, seed)
    related = relations(both(old, ended(2_000, seed + 50)), np.random.default_rng(seed))
    assert len(related) == 3
    (found,) = [each for each in related if {each.x.name, each.y.name} == {"entry", "months"}]
    slope = found.slope if found.y.name == "months" else 1 / found.slope
    assert slope == pytest.approx(-1 / 30.4375, rel=0.02)
    off = old[found.y.name] - found.slope * old[found.x.name]
    assert ((off >= found.low) & (off <= found.high)).mean() > 0.08
    assert max(each.lost() for each in related) < 0.02
    features = found.features(found.x.old, found.y.old)
    np.testing.assert_array_equal(np.isnan(features[:, 0]), old["months"].isna())


@pytest.mark.parametrize("kept", [True, False])
def test_a_release_without_the_line_of_two_numbers_is_named(kept):
    old, new = ended(3_000, 1), ended(3_000, 2)
    if not kept:  # each number as it was, and both related as before but for chance
        order = new["entry"].sort_values().index.to_numpy().reshape(-1, 20)
        new.loc[order.ravel(), "months"] = new["months"].to_numpy()[np.roll(order, 7, axis=1).ravel()]
    found = CLASSIFIERS.of(both(old, new), np.random.default_rng(0))[-1]
    assert set(found.worst) == (set() if kept else {"entry", "months"})
    assert found.low < 0.5 < found.high if kept else found.low > 0.55


def test_columns_that_rules_add_make_no_line():
    old = ended(500, 3)
    tables = both(old, old)
    assert len(relations(tables, np.random.default_rng(0))) == 3
    assert len(relations(replace(tables, differences=("months",)), np.random.default_rng(0))) == 1
    few = both(old[:3], old[:3])  # no line is sought in so few records
    assert relations(few, np.random.default_rng(0)) == []


def test_numbers_that_no_record_has_both_of_make_no_line():
    """Filters of a survey: hours of those in work, months of search of others. Ratios of only nulls stopped the run."""
    rng = np.random.default_rng(0)
    works = rng.random(1_000) < 0.6
    hours, months = (
        np.where(works, rng.normal(35, 8, 1_000), np.nan),
        np.where(works, np.nan, rng.exponential(9, 1_000)),
    )
    table = pd.DataFrame({"wage": np.where(works, 20.0 * hours, 0.0), "hours": hours, "months": months})
    (found,) = relations(both(table, table), np.random.default_rng(0))
    assert {found.x.name, found.y.name} == {"hours", "wage"}
    assert CLASSIFIERS.of(both(table, table), np.random.default_rng(0))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(-9, 9), min_size=17, max_size=17), min_size=1, max_size=4))
def test_the_narrowest_interval_is_that_of_the_twin(rows):
    low, width = _narrowest(np.array(rows, dtype=float))
    for at, row in enumerate(rows):
        ordered = sorted(row)
        spans = [ordered[begin + 2] - ordered[begin] for begin in range(15)]
        assert width[at] == min(spans) and low[at] == ordered[spans.index(min(spans))]
