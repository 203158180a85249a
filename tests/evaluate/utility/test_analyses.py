from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t

from anonpipe.errors import JobError
from anonpipe.evaluate.utility import Analysis, CoefficientChange, Estimate, fit_models, shares_changed
from tests.analyses import compare_models
from tests.naive import models as naive

SURVIVAL = Analysis("survival", "cox", "months ~ age + stage", event="status == 'Dead'")
MONTHS = Analysis("months", "linear", "months ~ age + stage", subset="status == 'Dead'")
LONG = Analysis("long", "logistic", "I(months >= 10) ~ age + stage")
ALL = (MONTHS, LONG, SURVIVAL)


def registry(rows=300, seed=0):
    """Patients of whom the old and those of late stage die early; whole months, so with ties."""
    rng = np.random.default_rng(seed)
    age, stage = rng.normal(65, 10, rows).round(), rng.choice(["I", "II", "III"], rows)
    hazard = np.exp(0.03 * (age - 65) + pd.Series(stage).map({"I": 0.0, "II": 0.5, "III": 1.2}).to_numpy())
    months, lost = rng.exponential(20 / hazard), rng.uniform(0, 60, rows)
    return pd.DataFrame(
        {
            "months": np.ceil(np.minimum(months, lost)),
            "status": np.where(months <= lost, "Dead", "Alive"),
            "age": age,
            "stage": stage,
        }
    )


def values(fit):
    return [estimate.value for estimate in fit.estimates.values()]


def dummies(frame, intercept):
    return [
        [*([1.0] if intercept else []), float(stage == "II"), float(stage == "III"), float(age)]
        for stage, age in zip(frame["stage"], frame["age"], strict=True)
    ]


def assert_estimates(fit, coefficients, errors, law):
    assert fit.problem is None
    assert list(fit.estimates) == ["Intercept", "stage[T.II]", "stage[T.III]", "age"][-len(coefficients) :]
    for found, value, error in zip(fit.estimates.values(), coefficients, errors, strict=True):
        reach = law.ppf(0.975) * error
        wanted = [value, value - reach, value + reach, 2 * law.sf(abs(value) / error)]
        np.testing.assert_allclose([found.value, found.low, found.high, found.p], wanted, rtol=1e-6, atol=1e-12)


def test_a_linear_model_is_least_squares():
    frame = registry(60)
    dead = frame[frame["status"] == "Dead"]
    coefficients, errors, degrees = naive.linear(dummies(dead, True), dead["months"].tolist())
    (model,) = fit_models(frame, [MONTHS])
    assert_estimates(model.fit, coefficients, errors, t(degrees))
    assert (model.fit.rows, model.fit.left_out) == (len(dead), 0)


def test_a_logistic_model_is_at_the_maximum():
    frame = registry(60)
    coefficients, errors = naive.logistic(dummies(frame, True), (frame["months"] >= 10).astype(float).tolist())
    assert_estimates(fit_models(frame, [LONG])[0].fit, coefficients, errors, norm())


def test_a_cox_model_is_at_efrons_maximum():
    frame = registry(60)
    assert frame.loc[frame["status"] == "Dead", "months"].duplicated().sum() > 5
    coefficients, errors = naive.cox(
        dummies(frame, False), frame["months"].tolist(), (frame["status"] == "Dead").tolist()
    )
    assert_estimates(fit_models(frame, [SURVIVAL])[0].fit, coefficients, errors, norm())


def estimate(low, high, p=0.5):
    return Estimate((low + high) / 2, low, high, p)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ((0.0, 2.0), (1.0, 5.0), (1 / 2 + 1 / 4) / 2),
        ((0.0, 2.0), (0.0, 2.0), 1.0),
        ((0.0, 4.0), (1.0, 2.0), (1 / 4 + 1) / 2),
        ((0.0, 1.0), (1.0, 2.0), 0.0),
        ((0.0, 1.0), (3.0, 4.0), 0.0),
        ((0.0, 4.0), (1.0, 1.0), 0.5),
        ((1.0, 1.0), (1.0, 1.0), 1.0),
        ((1.0, 1.0), (2.0, 3.0), 0.0),
    ],
)
def test_overlap_of_intervals(before, after, wanted):
    assert CoefficientChange("a", estimate(*before), estimate(*after)).overlap == pytest.approx(wanted)


@given(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4, unique=True))
def test_overlap_is_symmetric_and_a_share(ends):
    first, second = sorted(ends[:2]), sorted(ends[2:])
    there = CoefficientChange("a", estimate(*first), estimate(*second)).overlap
    back = CoefficientChange("a", estimate(*second), estimate(*first)).overlap
    assert 0.0 <= there <= 1.0 and there == pytest.approx(back)
    assert there == pytest.approx(naive.overlap(first, second), abs=1e-12)


def test_changes_of_single_coefficients():
    strong, weak = Estimate(2.0, 1.0, 3.0, 0.01), Estimate(0.5, -1.0, 2.0, 0.3)
    opposite = Estimate(-2.0, -3.0, -1.0, 0.01)

    def told(before, after):
        change = CoefficientChange("a", before, after)
        return change.changed_significance, change.changed_direction, change.outside

    assert told(strong, strong) == (False, False, False)
    assert told(strong, weak) == (True, False, True)
    assert told(weak, strong) == (True, False, False)
    assert told(strong, opposite) == (False, True, True)
    assert told(weak, Estimate(-0.5, -2.0, 1.0, 0.3)) == (False, False, False)
    assert told(strong, None) == (True, True, True)
    assert told(weak, None) == (False, False, True)


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.model)
def test_the_original_against_itself_changes_nothing(analysis):
    frame = registry()
    before = frame.copy(deep=True)
    (found,) = compare_models(frame, frame, [analysis])
    pd.testing.assert_frame_equal(frame, before)
    shares = found.shares
    assert (shares.coefficients, shares.lost, shares.overlap) == (3, 0, 1.0)
    assert shares.significant >= 2
    assert (shares.changed_significance, shares.changed_direction, shares.outside) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.model)
def test_a_shuffled_release_has_no_relations_left(analysis):
    frame = registry(1_000)
    rng = np.random.default_rng(3)
    shuffled = frame.assign(age=rng.permutation(frame["age"]), stage=rng.permutation(frame["stage"]))
    (found,) = compare_models(frame, shuffled, [analysis])
    assert found.released.problem is None
    age = next(change for change in found.coefficients if change.name == "age")
    assert age.changed_significance and age.outside and age.overlap < 0.2


def test_a_mirrored_column_changes_direction():
    frame = registry()
    turned = frame.assign(age=130 - frame["age"])
    for found in compare_models(frame, turned, ALL):
        changed = {change.name: change.changed_direction for change in found.coefficients if change.name != "Intercept"}
        (age,) = (change for change in found.coefficients if change.name == "age")
        assert age.released.value == pytest.approx(-age.original.value, rel=1e-6)
        assert changed == {"stage[T.II]": False, "stage[T.III]": False, "age": age.original.significant}
    assert found.shares.changed_direction == pytest.approx(1 / found.shares.significant)


def test_shares_of_several_models_count_coefficients():
    frame = registry()
    several = compare_models(frame, frame.assign(age=130 - frame["age"]), ALL)
    together = shares_changed(several)
    assert together.coefficients == 9
    assert together.significant == sum(one.shares.significant for one in several)
    assert together.outside == pytest.approx(np.mean([one.shares.outside for one in several]))
    assert np.isnan(shares_changed([]).outside)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-6, 0.1, 365.25, 1e6]), st.sampled_from(ALL))
def test_units_and_row_order_do_not_matter(seed, unit, analysis):
    frame = registry(120, seed)
    (plain,) = fit_models(frame, [analysis])
    turned = frame.sample(frac=1, random_state=seed % 1000).assign(age=lambda f: f["age"] * unit)
    (other,) = fit_models(turned, [analysis])
    assert (plain.fit.problem is None) == (other.fit.problem is None)
    for name, before in plain.fit.estimates.items():
        after = other.fit.estimates[name]
        assert after.value * (unit if name == "age" else 1.0) == pytest.approx(before.value, rel=1e-5, abs=1e-7)
        assert after.p == pytest.approx(before.p, rel=1e-4, abs=1e-9)


def test_other_types_of_columns_give_the_same():
    frame = registry()
    other = frame.assign(
        age=frame["age"].astype("Int64"),
        stage=pd.Categorical(frame["stage"], categories=["I", "II", "III", "IV"], ordered=True),
        status=frame["status"].astype("category"),
        months=frame["months"].astype("Float32"),
    )
    other.index = np.random.default_rng(0).permutation(len(other))
    for analysis in ALL:
        for first, second in ((frame, other), (other, frame), (other, other)):
            (found,) = compare_models(first, second, [analysis])
            assert found.shares.lost == 0 and found.shares.overlap == pytest.approx(1.0)


def test_records_with_nulls_are_left_out_and_counted():
    frame = registry()
    holes = frame.assign(age=frame["age"].astype("Int64"), stage=frame["stage"].astype(object))
    holes.loc[:4, "age"] = pd.NA
    holes.loc[3:9, "stage"] = None
    holes.loc[20:21, "status"] = None
    (cox,) = fit_models(holes, [SURVIVAL])
    assert (cox.fit.rows, cox.fit.left_out) == (len(frame) - 12, 12)
    (wanted,) = fit_models(frame.drop(index=[*range(10), 20, 21]), [SURVIVAL])
    assert values(cox.fit) == pytest.approx(values(wanted.fit))
    (linear,) = fit_models(holes, [MONTHS])
    dead = (frame["status"] == "Dead") & ~frame.index.isin([20, 21])
    assert linear.fit.left_out == dead[:10].sum() and linear.fit.rows == dead[10:].sum()


def test_a_release_of_other_length_is_compared():
    frame = registry()
    (found,) = compare_models(frame, pd.concat([frame] * 3), [MONTHS])
    assert found.released.rows == 3 * found.original.rows
    assert values(found.released) == pytest.approx(values(found.original))


def test_the_release_is_coded_as_the_original():
    frame = registry()
    analysis = Analysis("a", "linear", "months ~ center(age) + stage")
    (found,) = compare_models(frame, frame.assign(age=frame["age"] + 10), [analysis])
    name = "center(age)"
    assert values(found.released)[-1] == pytest.approx(values(found.original)[-1])
    shift = found.released.estimates["Intercept"].value - found.original.estimates["Intercept"].value
    assert shift == pytest.approx(-10 * found.original.estimates[name].value)


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.model)
def test_a_level_that_the_release_lost_is_lost(analysis):
    frame = registry()
    (found,) = compare_models(frame, frame[frame["stage"] != "II"], [analysis])
    assert found.released.problem is None
    assert found.released.estimates["stage[T.II]"] is None and found.shares.lost == 1
    (alone,) = fit_models(frame[frame["stage"] != "II"], [analysis])
    assert found.released.estimates["age"].value == pytest.approx(alone.fit.estimates["age"].value, rel=1e-6)
    assert found.released.estimates["stage[T.III]"].value == pytest.approx(
        alone.fit.estimates["stage[T.III]"].value, rel=1e-6
    )


@pytest.mark.parametrize("analysis", ALL, ids=lambda analysis: analysis.model)
def test_without_the_first_level_nothing_can_be_held_against_it(analysis):
    frame = registry()
    (found,) = compare_models(frame, frame[frame["stage"] != "I"], [analysis])
    lost = {change.name for change in found.coefficients if change.released is None}
    assert lost - {"Intercept"} == {"stage[T.II]", "stage[T.III]"}
    assert found.shares.lost == 2 and found.shares.outside >= 2 / 3


def test_constant_and_doubled_columns_are_not_determined():
    frame = registry().assign(one=1.0)
    frame["twice"] = 2 * frame["age"]
    analyses = [
        Analysis("constant", "linear", "months ~ age + one"),
        Analysis("doubled", "linear", "months ~ age + twice + stage"),
        Analysis("constant cox", "cox", "months ~ age + one", event="status == 'Dead'"),
        Analysis("nothing", "cox", "months ~ one", event="status == 'Dead'"),
    ]
    constant, doubled, cox, nothing = (model.fit for model in fit_models(frame, analyses))
    assert constant.estimates["one"] is None and constant.estimates["age"] is not None
    assert [name for name, found in doubled.estimates.items() if found is None] == ["age", "twice"]
    assert [name for name, found in cox.estimates.items() if found is None] == ["one"]
    assert "constant" in nothing.problem
    (found,) = compare_models(frame, frame.assign(age=50.0), [analyses[0]])
    assert found.shares.lost == 1 and found.shares.changed_significance == 1.0


def separated(frame):
    return frame.assign(age=np.where(frame["months"] >= 10, 80.0, 40.0) + np.arange(len(frame)) % 7)


def test_perfect_separation_is_told():
    frame = registry()
    (there,) = compare_models(separated(frame), frame, [LONG])
    assert "did not converge" in there.original.problem and "age" in there.original.problem
    assert there.coefficients == () and np.isnan(there.shares.outside)
    (back,) = compare_models(frame, separated(frame), [LONG])
    assert "did not converge" in back.released.problem and back.released.estimates == {}
    assert back.shares.lost == back.shares.coefficients == 3
    assert back.shares.outside == 1.0 and back.shares.overlap == 0.0
    assert back.shares.changed_direction == 1.0
    assert back.shares.changed_significance == back.shares.significant / 3


def test_a_level_of_one_outcome_is_told():
    frame = registry(2_000)
    frame.loc[frame["stage"] == "II", "months"] = 5.0
    assert "stage" in fit_models(frame, [LONG])[0].fit.problem


def test_a_level_without_events_is_told():
    frame = registry(2_000)
    frame.loc[frame["stage"] == "II", "status"] = "Alive"
    problem = fit_models(frame, [SURVIVAL])[0].fit.problem
    assert "did not converge" in problem and "stage" in problem


def test_what_has_no_fit_is_told_and_does_not_stop_the_others():
    frame = registry()
    frame["zero"] = 0
    analyses = [
        Analysis("nobody", "linear", "months ~ age", subset="age > 999"),
        Analysis("one value", "logistic", "I(months > 999) ~ age"),
        Analysis("no event", "cox", "months ~ age", event="status == 'Gone'"),
        Analysis("numbers", "logistic", "months ~ age"),
        Analysis("infinite", "linear", "months ~ log(zero) + age"),
        Analysis("few", "linear", "months ~ age + stage", subset="index_number < 3"),
        MONTHS,
    ]
    found = compare_models(frame.assign(index_number=range(300)), frame.assign(index_number=range(300)), analyses)
    problems = [one.original.problem for one in found]
    for problem, words in zip(
        problems, ["no record", "one value", "event", "other than 0 and 1", "log(zero)", "too few"], strict=False
    ):
        assert words in problem
    assert problems[-1] is None and found[-1].shares.overlap == 1.0
    assert all(np.isnan(one.shares.overlap) for one in found[:-1])


def test_a_release_in_another_form_has_no_fit():
    frame = registry()
    (recoded,) = compare_models(frame, frame.assign(stage="I-II"), [MONTHS])
    assert recoded.released.problem.startswith("stage has categories")
    (intervals,) = compare_models(frame, frame.assign(age="60-70"), [MONTHS])
    assert intervals.released.problem.startswith("age has categories or a type")
    assert intervals.shares.lost == 3
    (empty,) = compare_models(frame, frame.assign(age=np.nan), [MONTHS])
    assert "null" in empty.released.problem


CANARY = "Kestrel-Quagmire"
WRONG = [
    (dict(model="linear", formula="months ~ weight"), "weight"),
    (dict(model="linear", formula="months ~ age", subset="weight > 3"), "weight"),
    (dict(model="linear", formula="months ~ __import__('os')"), "__import__"),
    (dict(model="linear", formula="months ~ age +"), "no formula"),
    (dict(model="linear", formula="months"), "one response"),
    (dict(model="linear", formula="months + age ~ stage"), "one response"),
    (dict(model="linear", formula="months - age ~ stage"), r"write I(...) around it"),
    (dict(model="linear", formula="months / 12 ~ age"), r"write I(...) around it"),
    (dict(model="linear", formula="months ~ age", subset="age = 3"), "write == for equals"),
    (dict(model="linear", formula="months ~ 1"), "no predictor"),
    (dict(model="linear", formula="months ~ np.log(stage)"), "np.log(stage)"),
    (dict(model="linear", formula="stage ~ age"), "one number"),
    (dict(model="logistic", formula="stage ~ age"), "categories"),
    (dict(model="linear", formula="months ~ age", subset="stage > 3"), "no condition"),
    (dict(model="linear", formula="months ~ age", subset="age"), "no condition"),
    (dict(model="linear", formula="months ~ age", subset="age >"), "cannot be read"),
    (dict(model="linear", formula="months ~ day"), "day is a date"),
    (dict(model="linear", formula="months ~ name"), "name"),
    (dict(model="cox", formula="months ~ 0 + age", event="status == 'Dead'"), "intercept"),
    (dict(model="cox", formula="months ~ age", event="months"), "no condition"),
    (dict(model="cox", formula="months ~ age"), "event"),
    (dict(model="linear", formula="months ~ age", event="status == 'Dead'"), "event"),
    (dict(model="probit", formula="months ~ age"), "logistic"),
]


@pytest.mark.parametrize(("given", "words"), WRONG, ids=[f"{w}-{n}" for n, (_, w) in enumerate(WRONG)])
def test_errors_name_the_place_and_no_value(given, words, monkeypatch):
    monkeypatch.setattr("anonpipe.evaluate.utility._design.MOST_COEFFICIENTS", 100)
    frame = registry().assign(
        stage=[f"{CANARY}-{i % 3}" for i in range(300)],
        name=[f"{CANARY} {i}" for i in range(300)],
        day=pd.Timestamp("2001-02-03"),
    )
    with pytest.raises(JobError) as caught:
        fit_models(frame, [Analysis("the study", **given)])
    text = str(caught.value)
    assert words in text and "the study" in text and CANARY not in text
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_problems_have_no_value():
    frame = registry().assign(stage=[f"{CANARY}-{i % 3}" for i in range(300)])
    other = frame.assign(stage=[f"{CANARY}-{i % 5}" for i in range(300)])
    (found,) = compare_models(frame, other, [SURVIVAL])
    assert found.released.problem is not None and CANARY not in found.released.problem
    frame["status"] = np.where(frame["stage"].str.endswith("1"), "Alive", "Dead")
    (model,) = fit_models(frame, [SURVIVAL])
    assert "stage" in model.fit.problem and CANARY not in model.fit.problem


def test_names_of_analyses_differ():
    with pytest.raises(JobError, match="several analyses are called months"):
        fit_models(registry(), [MONTHS, MONTHS])


def test_conditions_know_the_order_of_categories():
    frame = registry()
    ordered = frame.assign(stage=pd.Categorical(frame["stage"], categories=["III", "I", "II"], ordered=True))
    analysis = Analysis("late", "linear", "months ~ age + stage", subset="stage >= 'I'")
    (found,) = compare_models(ordered, ordered, [analysis])
    assert found.original.rows == found.released.rows == (frame["stage"] != "III").sum()
    assert list(found.released.estimates) == ["Intercept", "stage[T.II]", "age"]


def test_truths_with_and_without_nulls_are_the_same_column():
    frame = registry().assign(smoker=lambda f: f["age"] % 3 == 0)
    holes = frame.assign(smoker=frame["smoker"].astype("boolean"))
    holes.loc[:9, "smoker"] = pd.NA
    analyses = [Analysis("a", "logistic", "smoker ~ months"), Analysis("b", "linear", "months ~ smoker + age")]
    for first, second in ((frame, holes), (holes, frame)):
        for found in compare_models(first, second, analyses):
            assert found.released.problem is None and found.shares.lost == 0
            assert found.shares.overlap > 0.9


def test_names_that_are_no_words():
    frame = registry().rename(columns={"age": "age at diagnosis"})
    analysis = Analysis("a", "linear", "months ~ Q('age at diagnosis')", subset="`age at diagnosis` > 60")
    (model,) = fit_models(frame, [analysis])
    assert model.fit.rows == (frame["age at diagnosis"] > 60).sum() and model.fit.problem is None
