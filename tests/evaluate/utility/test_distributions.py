import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Kind
from anonpipe.evaluate.utility import correlation_changes, distributions
from anonpipe.evaluate.utility._pictures import _round_step
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.verify.output_control import bins_for_recipients, bins_for_steward


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 9),
    st.sampled_from([1, 10, 1e6]),
    st.booleans(),
)
def test_no_bin_is_small_and_every_record_is_in_one(seed, rows, others, least, scale, releasable):
    rng = np.random.default_rng(seed)
    old, new = (
        pd.DataFrame(
            {
                "x": np.where(rng.random(n) < 0.1, np.nan, rng.standard_t(2, n) * scale),
                "n": rng.poisson(3, n) * int(scale),
                "d": pd.Timestamp("1960-05-05") + pd.to_timedelta(rng.integers(0, 30_000, n), unit="D"),
                "c": rng.choice([None, *"abcdefgh"], n, p=[0.1, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05]),
            }
        )
        for n in (rows, others)
    )
    kinds = {"x": Kind.CONTINUOUS, "n": Kind.INTEGER, "d": Kind.DATE, "c": Kind.CATEGORICAL}
    for shown in distributions(
        typed_tables(old, new, kinds), bins_for_recipients(least) if releasable else bins_for_steward(least)
    ):
        values = [frame[shown.name].dropna() for frame in (old, new)]
        enough = len(values[0]) >= least and (not releasable or len(values[1]) >= least)
        assert bool(shown.original) == enough
        assert bool(shown.note) != enough
        assert len(shown.original) == len(shown.released) <= 40
        assert all(count >= least for count in shown.original)
        nulls = rows - len(values[0])
        assert (shown.original_nulls is None) == (0 < nulls < least)
        assert shown.released_nulls == others - len(values[1])
        if not enough:
            continue
        assert sum(shown.released) == len(values[1])
        if releasable:
            assert all(count >= least for count in shown.released)
            assert all(count % least == 0 for count in (*shown.original, shown.original_records))
        else:
            assert sum(shown.original) == len(values[0])
            assert shown.original_records == rows
        if shown.name == "c":
            assert len(shown.labels) == len(shown.original)
            counted = values[1].value_counts()
            for label, count in zip(shown.labels, shown.released, strict=True):
                assert label == "(other)" or count == counted.get(label, 0)
            continue
        assert len(shown.edges) == len(shown.original) + 1
        assert shown.edges[0] is None and shown.edges[-1] is None
        numbers = [(v - pd.Timestamp("1970-01-01")).dt.days if shown.name == "d" else v for v in values]
        bins = [-np.inf, *shown.edges[1:-1], np.inf]
        assert np.histogram(numbers[1], bins)[0].tolist() == list(shown.released)
        exact = np.histogram(numbers[0], bins)[0]
        assert np.abs(exact - shown.original).max() <= (least / 2 if releasable else 0)


def test_the_releasable_edges_do_not_depend_on_the_original():
    rng = np.random.default_rng(0)
    new = pd.DataFrame({"x": rng.normal(size=2000)})
    kinds = {"x": Kind.CONTINUOUS}
    first, second = (
        distributions(typed_tables(pd.DataFrame({"x": old}), new, kinds), bins_for_recipients(1))[0].edges
        for old in (np.linspace(-3, 3, 5000), np.linspace(-3.1, 3.3, 6001))
    )
    assert first == second and len(first) > 20


def test_whole_numbers_have_bins_of_their_own():
    frame = pd.DataFrame({"n": np.repeat(np.arange(7), 5)})
    (shown,) = distributions(typed_tables(frame, frame, {"n": Kind.INTEGER}), bins_for_steward(5))
    assert shown.edges == (None, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, None)
    assert shown.original == (5,) * 7
    (joined,) = distributions(typed_tables(frame, frame, {"n": Kind.INTEGER}), bins_for_steward(6))
    assert joined.original == (10, 10, 15)


def test_one_value_outliers_and_extremes():
    for values, bins in (([3.0] * 9, 1), ([0.0] * 999 + [1e300], 2), ([-1.7e308, 1.7e308] * 9, 2)):
        frame = pd.DataFrame({"x": values})
        (shown,) = distributions(typed_tables(frame, frame, {"x": Kind.CONTINUOUS}), bins_for_steward(1))
        assert len(shown.original) <= bins and sum(shown.original) == len(values)


def test_rare_categories_take_a_common_one_with_them():
    old = pd.DataFrame({"c": ["a"] * 9 + ["b"] * 5 + ["rare"]})
    (shown,) = distributions(typed_tables(old, old, {"c": Kind.CATEGORICAL}), bins_for_steward(3))
    assert (shown.labels, shown.original) == (("a", "(other)"), (9, 6))
    levels = pd.DataFrame({"c": np.repeat(np.arange(90), 3)})
    (many,) = distributions(typed_tables(levels, levels, {"c": Kind.ORDINAL}), bins_for_steward(3))
    assert (len(many.labels), many.original[-1], many.labels[:3]) == (40, 3 * 51, ("0", "1", "2"))


def test_an_empty_text_has_a_name():
    frame = pd.DataFrame({"c": ["", "a", "", "b"] * 5})
    (shown,) = distributions(typed_tables(frame, frame, {"c": Kind.CATEGORICAL}), bins_for_recipients(5))
    assert shown.labels == ("(empty text)", "a", "b") and shown.original == (10, 5, 5)


def test_round_steps():
    assert [_round_step(least) for least in (0.011, 0.2, 0.3, 5.0, 5.1, 1000.0)] == [0.02, 0.2, 0.5, 5, 10, 1000]


def test_correlation_changes():
    rng = np.random.default_rng(1)
    old = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc")).assign(a=lambda f: f.b + f.a, k="v", one=1.0)
    new = old.assign(a=-old.a)
    kinds = {**dict.fromkeys(["a", "b", "c", "one"], Kind.CONTINUOUS), "k": Kind.CATEGORICAL}
    found = correlation_changes(typed_tables(old, new, kinds))
    assert found.names == ("a", "b", "c", "one")
    assert found.original[:3, :3] == pytest.approx(old[["a", "b", "c"]].corr().to_numpy())
    assert found.released[0, 1] == pytest.approx(-found.original[0, 1])
    assert np.isnan(found.original[3]).all()
    assert correlation_changes(typed_tables(old, new, {"k": Kind.CATEGORICAL})).names == ()


@pytest.mark.parametrize("releasable", [False, True])
def test_codes_that_are_whole_numbers_have_no_point(releasable):
    old = pd.DataFrame({"code": [7.0, 6.0, 7.0, 6.0, np.nan], "dose": [0.5, 2.0, 0.5, 2.0, 2.0]})
    code, dose = distributions(
        typed_tables(old, old, {"code": Kind.CATEGORICAL, "dose": Kind.CATEGORICAL}),
        bins_for_recipients(2) if releasable else bins_for_steward(2),
    )
    assert set(code.labels) == {"7", "6"} and set(dose.labels) == {"0.5", "2"}
