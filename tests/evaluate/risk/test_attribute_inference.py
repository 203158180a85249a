"""Inference of attributes and of strata."""

import math
from functools import reduce
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import difference, exact
from anonpipe.evaluate.risk import Coding, Guesses, StratumGuesses, _inference, guess_nearest
from anonpipe.evaluate.risk._guesses import nearest_but_one
from anonpipe.evaluate.risk._inference import risk_of_column, stratum_inference, stratum_risks
from tests.evaluate.risk.tasks import task
from tests.naive import attacks as naive


def attribute_inference(*tables, tolerance=0.1, of=None, **about):
    return _inference.attribute_inference(task(*tables, **about), tolerance=tolerance, of=of)


def people(rng, n):
    """A number, a number that follows it, a category that follows both loosely, and one at random."""
    a = rng.normal(size=n)
    b = a + 0.2 * rng.normal(size=n)
    c = (a + b + rng.normal(size=n) > 0).astype(float)
    return np.column_stack([a, b, c, rng.integers(0, 5, n)])


def by_trees(released, members, controls, categories, columns, **options):
    """The same attack with the guesses of a forest for these columns, which is no closest record."""
    asked = np.concatenate([members, controls])
    coding = Coding.of(released, asked, categories)
    sides = [coding.each(table) for table in (released, asked)]
    values = np.full((*asked.shape, 1), np.nan)
    for at in columns:
        features, queries = (np.hstack([part for other, part in enumerate(side) if other != at]) for side in sides)
        rows = np.arange(len(released)) if at in categories else np.flatnonzero(~np.isnan(released[:, at]))
        levels, codes = np.unique(released[rows, at], return_inverse=True)
        forest = ExtraTreesClassifier if at in categories else ExtraTreesRegressor
        grown = forest(50, min_samples_leaf=3, random_state=0)
        if at in categories:
            values[:, at, 0] = levels[grown.fit(features[rows], codes).predict(queries)]
        else:
            values[:, at, 0] = grown.fit(features[rows], released[rows, at]).predict(queries)
    found = Guesses(values, np.zeros_like(values))
    return attribute_inference(
        released, members, controls, categories=categories, columns=columns, found=found, **options
    )


def literal_spread(values):
    """The middle half's width in a normal column's; of what leaves out less where that is 0; else the deviation."""
    told = sorted(value for value in values if value == value)
    for outer in (1 / 4, 1 / 8, 1 / 16, 1 / 32):
        width = np.quantile(told, 1 - outer) - np.quantile(told, outer)
        if width > 0:
            return width / (2 * NormalDist().inv_cdf(1 - outer))
    return np.std(told, ddof=1)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(3, 25))
def test_nearest_as_the_twin(seed, n):
    rng = np.random.default_rng(seed)
    tables = [np.column_stack([rng.random((m, 2)), rng.integers(0, 3, (m, 2))]) for m in (n, 12, 9)]
    found = attribute_inference(*tables, categories=[2, 3], tolerance=0.5)
    rows = [table.tolist() for table in tables]
    for secret, column in enumerate(found.columns):
        values = [row[secret] for row in rows[0]]
        allowed = 0.0 if secret > 1 else 0.5 * literal_spread(values)
        for who, share in ((rows[1], column.members), (rows[2], column.controls)):
            guesses = naive.attribute_guesses(rows[0], who, secret, {2, 3})
            assert share == pytest.approx(
                np.mean([abs(g - q[secret]) <= allowed for g, q in zip(guesses, who, strict=True)])
            )
        best = max(
            np.mean([constant - 1e-12 <= x <= constant + 2 * allowed + 1e-12 for x in values]) for constant in values
        )
        # The constant is chosen on the release, where it is the best of all.
        own = attribute_inference(rows[0], rows[0], rows[2], categories=[2, 3], tolerance=0.5)
        assert own.columns[secret].constant == pytest.approx(best, abs=1e-9)


def test_a_copy_gives_away_and_a_fresh_sample_does_not():
    rng = np.random.default_rng(0)
    table, outside, fresh = (people(rng, 500) for _ in range(3))
    copied = attribute_inference(table, table, outside, categories=[2, 3])
    # Who looks a person up in a copy reads the last column off, whatever the others say of it.
    assert all(column.members > 0.95 and column.risk > 0.9 for column in copied.columns)
    assert copied.worst.low > 0.85 and copied.success[0] > 0.95 > copied.control
    new = attribute_inference(fresh, table, outside, categories=[2, 3])
    assert all(column.low < 0.05 and column.high > -0.05 for column in new.columns)
    assert abs(new.success[0] - new.control) < 0.05
    # The category that follows the others is guessed better than by its commonest value, for everybody.
    assert new.columns[2].controls > new.columns[2].constant + 0.1
    assert new.columns[3].controls == pytest.approx(0.2, abs=0.08)


def test_trees_learn_the_population_and_not_the_person():
    rng = np.random.default_rng(1)
    table, outside = people(rng, 400), people(rng, 600)
    asked = {"categories": [2, 3], "columns": [1, 2], "of": 600}
    trees, again = (by_trees(table, table[:300], outside, **asked) for _ in range(2))
    closest = attribute_inference(people(rng, 600), table[:300], outside, **asked)
    assert trees.columns[1].controls > closest.columns[1].controls
    assert trees.columns[1].controls > trees.columns[1].constant + 0.2
    assert trees == again
    assert trees.of == 600 and [c.name for c in trees.columns] == ["column 1", "column 2"]


@pytest.mark.parametrize("held", [40, 400])
def test_the_worst_column_of_a_release_of_others_shows_no_gain(held):
    """40 releases of other persons, 12 columns: at 2.5 % more than 4 have a chance of 3e-3; one interval alone: 13."""
    gains, alone = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        released, members, controls = (rng.integers(0, 3, (rows, 12)) * 1.0 for rows in (60, 300, held))
        found = attribute_inference(released, members, controls, categories=range(12))
        risk = found.measurements()[0]
        gains += risk.low > 0
        assert (risk.low, risk.high) == found.worst_interval and risk.low <= risk.value <= risk.high
        columns, worst = {column.name: column for column in found.columns}, found.worst
        assert risk.worst[0] == worst.name and risk.high == columns[risk.worst[-1]].high  # of whom the figures are
        above = difference((worst.members * 300, 300), (worst.controls * held, held))[0] > 0
        alone += above
    assert gains <= 4 < alone


def test_the_interval_covers_the_risk():
    """Of a release that gives every second member away: drawn as shares, of members 0.6 and of controls 0.2 right."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(100):
        members, controls = rng.random(200) < 0.6, rng.random(50) < 0.2
        column = risk_of_column("x", members, controls, 0.0, 0.025)
        covered += column.low <= 0.5 <= column.high
    assert 92 <= covered < 100


def test_the_largest_upper_end_covers_the_largest_risk():
    """Of 12 columns of which three give half of what others do not know away, the rest nothing: as one column would."""
    rng, below = np.random.default_rng(5), 0
    for _ in range(200):
        members, controls = rng.random((12, 200)) < 0.2, rng.random((12, 50)) < 0.2
        members[:3] = rng.random((3, 200)) < 0.6
        columns = [risk_of_column("x", *sides, 0.0, 0.025 / 12) for sides in zip(members, controls, strict=True)]
        below += max(column.high for column in columns) < 0.5
        alone = [risk_of_column("x", *sides, 0.0, 0.025) for sides in zip(members, controls, strict=True)]
        assert all(one.high == each.high and one.low < each.low for one, each in zip(columns, alone, strict=True))
    assert below <= 5


def test_risk_by_hand():
    """Members 3 of 4 right, held-out 1 of 4: of the other 3 / 4, the release gives 2 / 3 away."""
    released = np.column_stack([np.arange(4.0), [0.0, 1, 0, 1]])
    members = np.column_stack([np.arange(4.0), [0.0, 1, 0, 0]])
    controls = np.column_stack([np.arange(4.0), [1.0, 0, 0, 0]])
    found = attribute_inference(released, members, controls, categories=[1], columns=[1], names=["x", "y"])
    (column,) = found.columns
    assert (column.members, column.controls, column.constant) == (0.75, 0.25, 0.75)
    assert column.risk == pytest.approx(2 / 3) and column.low < 0.6 < column.high <= 1
    risk, success = found.measurements()  # four guesses have no surest ones
    assert risk.value == column.risk and "'y'" in risk.note and dict(risk.parts) == {"y": column.risk}
    assert (success.value, success.baseline) == (0.75, 0.25)
    assert dict(success.parts) == {"y, members": 0.75, "y, hold-out": 0.25, "y, best constant": 0.75}


def surest_by_hand(values, squared, truth, allowed, share):
    """Whether the surest guesses are right, by lists: most neighbours that agree first, then the nearer."""
    told = []
    for row, apart, own in zip(values.tolist(), squared.tolist(), truth.tolist(), strict=True):
        known = [value for value, far in zip(row, apart, strict=True) if far < math.inf]
        agree = [sum(same(one, other, allowed) for other in known) for one in known]
        best = agree.index(max(agree))
        told.append((-agree[best], apart[0], same(known[best], own, allowed)))
    told.sort(key=lambda one: one[:2])
    return [right for _, _, right in told[: max(1, math.ceil(share * len(told)))]]


def same(one, other, allowed):
    return (one != one and other != other) or abs(one - other) <= allowed


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(3, 40))
def test_the_surest_guesses_are_those_of_the_hand(seed, rows):
    rng = np.random.default_rng(seed)
    released, members, controls = (
        np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 9, n)]) for n in (rows, 60, 50)
    )
    released[rng.random(released.shape) < 0.1] = np.nan
    asked = np.concatenate([members, controls])
    found = guess_nearest(released, asked, Coding.of(released, asked, [1]))
    outcome = attribute_inference(released, members, controls, categories=[1])
    assert [each.share for each in outcome.surest] == [0.1]  # 1 and 5 % of 50 are fewer than five
    for at, column in enumerate(outcome.surest[0].columns):
        values = released[:, at]
        single = at == 1 or np.isfinite(values).sum() < 2
        allowed = 0.0 if single else 0.1 * literal_spread(values) * (1 + 1e-9)
        for share, side in ((column.members, slice(0, 60)), (column.controls, slice(60, 110))):
            expected = surest_by_hand(found.values[side, at], found.squared[side, at], asked[side, at], allowed, 0.1)
            assert share == np.mean(expected)


def test_what_guesses_hide_is_shown_where_neighbours_agree():
    """A tenth of the members have five copies in the release: all guesses hide them, the surest do not."""
    rng = np.random.default_rng(8)
    members, controls, others = (
        np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 3, n)]) for n in (1500, 1200, 900)
    )
    released = np.concatenate([np.repeat(members[:150], 5, axis=0), others])
    found = attribute_inference(released, members, controls, categories=[2], columns=[2], names=["x", "y", "stage"])
    (column,) = found.columns
    named = {one.name: one for one in found.measurements()}
    risk, sure = named["attribute_inference"], named["attribute_inference.surest_10"]
    assert column.risk < 0.25 and sure.value > 0.9 and sure.low > column.risk
    assert risk.value == max(each.columns[0].risk for each in found.surest) and "of the surest" in risk.note
    assert risk.low > 0.5 and (sure.records, sure.of) == (150, 1500) and "'stage'" in sure.note


def test_a_release_of_others_has_no_surer_guesses():
    """Where all persons are of one population, hardly ever do the surest guesses take the place of all."""
    above = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        released, members, controls = (people(rng, rows) for rows in (300, 600, 500))
        found = attribute_inference(released, members, controls, categories=[2, 3])
        assert len(found.surest) == 3 and found.agree is not None
        above += bool(found.worse_where_sure)
    assert above <= 3


def test_nulls_told_by_another_column_no_sure_sign_of_members():
    """A value is null where another is, of one record in 20: few controls have more or fewer of these by chance."""
    refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tables = []
        for rows in (1_500, 1_500, 200):
            values = rng.normal(size=(rows, 3))
            values[rng.random(rows) < 0.06, 1:] = np.nan
            tables.append(values)
        found = attribute_inference(*tables, columns=[1])
        refused += bool(found.worse_where_sure)
    assert refused == 0


def test_what_is_always_guessed_has_no_risk():
    table = np.column_stack([np.arange(6.0), np.ones(6)])
    found = attribute_inference(table, table[:3], table[3:], columns=[1])
    assert math.isnan(found.worst.risk) and found.worst.low is None
    assert found.measurements()[0].note.startswith("Not defined")
    both = attribute_inference(table, table[:3], table[3:], tolerance=0.0)
    assert both.worst.name == "column 0"
    trees = by_trees(table, table[:3], table[3:], [], [1])
    assert trees.worst.members == 1.0


def test_nulls_are_values_too():
    rng = np.random.default_rng(2)
    table = np.column_stack([rng.normal(size=200), rng.integers(0, 3, 200).astype(float)])
    table[table[:, 0] > 1, 1] = np.nan
    table[::10, 0] = np.nan
    for found in (
        attribute_inference(table, table, table[:50], categories=[1]),
        by_trees(table, table, table[:50], [1], [0, 1]),
    ):
        assert found.columns[1].members > 0.4
    copied = attribute_inference(table, table[table[:, 0] > 1], table[:50], categories=[1], columns=[1])
    assert copied.columns[0].members == 1.0
    empty = np.column_stack([np.arange(5.0), np.full(5, np.nan)])
    assert attribute_inference(empty, empty, empty, columns=[1]).columns[0].constant == 1.0


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 1100), st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_nearest_but_one_as_one_search_for_each(seed, n, widths):
    rng = np.random.default_rng(seed)
    # Whole numbers, so that equal distances are equal and the lower row has to win.
    features, queries = (rng.integers(-2, 3, (rows, sum(widths))).astype(float) for rows in (n, 7))
    ends = np.cumsum(widths)
    jumps = rng.integers(0, 2, len(widths)) * 3.0
    wanted = 3
    found, least = nearest_but_one(features, queries, ends, jumps, wanted)
    apart = (queries[:, None] - features[None]) ** 2
    apart = np.where(np.repeat(jumps, widths) > 0, 3.0 * (apart > 0), apart)
    for a, end in enumerate(ends):
        rest = np.r_[0 : end - widths[a], end : ends[-1]].astype(int)
        squared = apart[:, :, rest].sum(axis=2)
        order = np.argsort(squared, axis=1, kind="stable")[:, :wanted]
        there = order.shape[1]  # a table of fewer points is filled up
        assert (found[:, a, :there] == order).all() and np.isinf(least[:, a, there:]).all()
        assert (least[:, a, :there] == np.take_along_axis(squared, order, 1)).all()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_a_release_is_searched_in_parts(seed, lengths):
    """Any cut of it gives the guesses of the whole, ties included."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 4, (sum(lengths), 3)).astype(float)
    whole[rng.random(whole.shape) < 0.1] = np.nan
    members, controls = (rng.integers(0, 4, (rows, 3)).astype(float) for rows in (9, 5))
    asked = np.concatenate([members, controls])
    coding = Coding.of(whole, asked, [1])
    within = guess_nearest(whole[::2], asked, coding).squared[..., -1]
    parts = [guess_nearest(part, asked, coding, within) for part in np.split(whole, np.cumsum(lengths)[:-1])]
    found = reduce(Guesses.merge, parts)
    alone = guess_nearest(whole, asked, coding)
    assert np.array_equal(found.squared, alone.squared)
    assert np.array_equal(found.values[np.isfinite(found.squared)], alone.values[np.isfinite(found.squared)], True)
    given_found = attribute_inference(whole, members, controls, categories=[1], found=found)
    assert repr(given_found) == repr(attribute_inference(whole, members, controls, categories=[1]))


def test_more_categories_than_dummies():
    rng = np.random.default_rng(3)
    codes = np.r_[np.arange(150), np.repeat(np.arange(60), 5)].astype(float)
    table = np.column_stack([rng.permutation(len(codes)).astype(float), codes])
    found = attribute_inference(table, table, table[:100], categories=[1], tolerance=1e-6)
    # Each of the sixty has records of its own to point to; all beyond the 64 commonest point to one.
    assert found.columns[1].members == 1.0
    assert found.columns[0].members == pytest.approx(65 / len(codes), abs=1e-9)


@pytest.mark.parametrize("zeros", [0.0, 0.6, 0.9])
def test_giants_do_not_make_every_guess_right(zeros):
    """Three giants make a tenth of the standard deviation wider than all other values together."""
    rng = np.random.default_rng(4)
    tables = [np.column_stack([rng.lognormal(10, 1, 900) * (rng.random(900) >= zeros), people(rng, 900)[:, 0]])] * 2
    tables.append(np.column_stack([rng.lognormal(10, 1, 900) * (rng.random(900) >= zeros), people(rng, 900)[:, 0]]))
    calm = attribute_inference(*tables, columns=[0]).columns[0]
    tables[0] = tables[0].copy()
    tables[0][:3, 0] = [98.8e6, 87.7e6, 76.5e6]
    wild = attribute_inference(*tables, columns=[0]).columns[0]
    assert abs(wild.controls - calm.controls) < 0.02 and wild.constant < 0.95 and wild.controls < 0.95


def test_what_is_refused():
    table = np.arange(8.0).reshape(4, 2)
    for tables, columns in (((table[:, :1],) * 3, [0]), ((table,) * 3, [])):
        with pytest.raises(InputError, match="it takes a masked column and another one"):
            attribute_inference(*tables, columns=columns)


def guesses(members, controls, rows=400, linked=None, seed=0, held=False):
    rng = np.random.default_rng(seed)
    right = rng.random(rows) < members
    return StratumGuesses(right, rng.random(rows) < controls, linked, 0.6, held)


def test_the_figure_is_what_others_do_not_tell_anyway():
    told = {"status": guesses(0.9, 0.6), "region": guesses(0.3, 0.3, seed=1)}
    columns = stratum_risks(told)
    for one, (name, each) in zip(columns, told.items(), strict=True):
        s, c = each.members.mean(), each.controls.mean()
        assert one.name == name and one.risk == pytest.approx((s - c) / (1 - c))
        assert one.low < one.risk < one.high
        # of a share of controls that is known the interval is that of the members alone, and this one is wider
        low, high = (exact(int(each.members.sum()), 400, tail)[at] for at, tail in enumerate((0.0125, 0.025)))
        assert one.low < 1 - (1 - low) / (1 - c) and one.high > 1 - (1 - high) / (1 - c)
    risk, success = stratum_inference(told, 9_000)
    assert risk.value == columns[0].risk and risk.worst == ("status",)
    assert success.value == told["status"].members.mean() and success.baseline == told["status"].controls.mean()
    assert "closest other original record" in success.baseline_is and (risk.records, risk.of) == (400, 9_000)


def test_who_is_found_is_known():
    linked = np.arange(400) < 100
    one = guesses(0.5, 0.5, linked=linked)
    one.members[:100] = True
    note = stratum_inference({"status": one}, 400)[1].note
    assert note.startswith("Who is found is known: of 25.0 % of the persons") and "100.0 % of these have" in note
    nobody = stratum_inference({"status": guesses(0.5, 0.5, linked=np.zeros(400, bool))}, 400)
    assert "Who is found" not in nobody[1].note
    unlinked = stratum_inference({"status": guesses(0.5, 0.5, held=True)}, 400)
    assert "Who is found" not in unlinked[1].note and unlinked[1].baseline_is == "held-out persons"


def test_a_release_that_tells_no_more_seldom_shows_a_risk():
    """The interval of the worst of two columns lies above 0 in no more than 2.5 % of such releases, but for chance."""
    above = sum(
        max(
            one.low
            for one in stratum_risks(
                {"a": guesses(0.7, 0.7, 200, seed=2 * at), "b": guesses(0.4, 0.4, 200, seed=2 * at + 1)}
            )
        )
        > 0
        for at in range(400)
    )
    assert above <= 20


def test_control_that_is_always_right_leaves_nothing_to_give():
    found = stratum_inference({"status": guesses(1.0, 1.1)}, 400)[0]
    assert math.isnan(found.value) and found.note.startswith("Not defined")
