"""Records of what was measured, and the lines of the verdict that follow from them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Audience, Curve, Measurement, Reason
from anonpipe.evaluate.utility import Analysis, CoefficientChange, Estimate, ModelComparison, ModelFit
from anonpipe.pipeline.evaluation.measures import checks, gated, notes, warnings
from anonpipe.storage.records import from_bytes, to_bytes
from anonpipe.verify import words
from anonpipe.verify.output_control import released_check, released_measures
from anonpipe.verify.verdict import RECORDS, AnalysisOutcome, Assessment, NotChecked

NAN = float("nan")


def measured(name, value, **more):
    return Measurement(name, name.title(), value, "share", "lower", "-", 100, 900, **more)


def fit(**estimates):
    return ModelFit(90, 10, estimates, None)


def outcome(limits, before, after):
    original, released = fit(**before), fit(**after)
    changes = tuple(
        CoefficientChange(name, one, released.estimates.get(name)) for name, one in before.items() if one is not None
    )
    return AnalysisOutcome(ModelComparison(Analysis("m", "linear", "y ~ x"), original, released, changes), limits, 9, 9)


STRONG, WEAK, TURNED = Estimate(2.0, 1.0, 3.0, 0.001), Estimate(0.1, -1.0, 1.2, 0.9), Estimate(-2.0, -3.0, -1.0, 0.001)


def test_a_record_survives_its_file():
    curve = Curve("c", "x", "y", (0.0, 1.0), (0.5, NAN), (0.1, 0.2))
    whole = Assessment(
        (
            measured(
                "a",
                0.1 + 0.2,
                low=0.0,
                high=1.0,
                parts=(("p", 1 / 3),),
                curves=(curve,),
                audience=Audience.SEVERAL,
                columns=2,
            ),
        ),
        (measured("b", NAN, baseline=0.5, baseline_is="chance"), measured("c", 0.2, note="why")),
        (outcome({"overlap": 0.5}, {"x": STRONG, "z": None}, {"x": Estimate(2.0, -math.inf, math.inf, 1.0)}),),
        (NotChecked("unmeasured.risk", Reason.REFUSED, {"said": "why"}),),
    )
    read = from_bytes(to_bytes(whole), RECORDS)
    assert to_bytes(read) == to_bytes(whole) and repr(read) == repr(whole)
    assert read.analyses == whole.analyses
    assert math.isnan(read.measurement("b").value)
    with pytest.raises(JobError, match="measured were: a, b, c"):
        read.measurement("d")


@pytest.mark.parametrize(
    ("value", "high", "limit", "told"),
    [
        (0.1, None, 0.1, "passed"),
        (0.1, None, 0.0999, "failed"),
        (0.1, 0.2, 0.15, "failed"),  # the upper end counts
        (0.1, 0.2, 0.2, "passed"),
        (NAN, None, 1.0, "failed"),
        (0.1, 0.2, None, "no limit set"),
        (NAN, None, None, "not checked"),
    ],
)
def test_a_gate_of_risk_holds_the_upper_end(value, high, limit, told):
    one = measured("reidentification_rate", value, low=None if high is None else 0.0, high=high)
    (line,) = checks(Assessment(risk=(one,)), {"reidentification_rate": limit})
    assert line.outcome == told


def test_worst_column_is_named_with_measure_not_to_recipients():
    one = measured("attribute_inference", 0.31, low=0.1, high=0.84, worst=("income",), columns=4)
    (line,) = checks(Assessment(risk=(one,)), {"attribute_inference": None})
    assert line.measured == 0.84 and "most in column 'income', where 0.31 was measured" in words.named(line)
    assert words.worst_in(released_check(line, 5, 10**6)) == ""
    assert words.worst_in(replace(line, measured=0.31)) == "most in column 'income'"  # the estimate itself


def test_gate_fails_if_unmeasured_and_judges_worst_class():
    (line,) = checks(Assessment(), {"membership_auc": 0.6})
    assert line.outcome == "failed" and words.measured(line) == "not measured"
    assert checks(Assessment(), {"membership_auc": None}) == ()
    undefined = Assessment(risk=(measured("attribute_inference", float("nan"), note="All is guessed."),))
    (line,) = checks(undefined, {"attribute_inference": 0.1})
    assert (line.outcome, words.measured(line)) == ("failed", "not defined")
    told = notes(undefined, {"attribute_inference": 0.1})[0]
    assert "attribute_inference failed, as what it limits is not defined" in told and told.endswith("All is guessed.")
    risk = (
        measured("sensitive.a.homogeneity", 0.1),
        measured("sensitive.b.homogeneity", 0.3),
        measured("sensitive.b.t", 0.9),
    )
    assert gated("homogeneity", risk).name == "sensitive.b.homogeneity"


@pytest.mark.parametrize(
    ("limits", "after", "told"),
    [
        ({"changed_significance": 0.0}, {"x": STRONG}, ["passed"]),
        ({"changed_significance": 0.4}, {"x": WEAK}, ["failed"]),  # half of two
        ({"changed_direction": 0.9}, {"x": TURNED}, ["failed"]),
        ({"outside": 0.5, "overlap": 0.9}, {"x": TURNED}, ["passed", "failed"]),
        ({"outside": 0.5}, {}, ["failed"]),  # both lost
        ({}, {"x": TURNED}, ["no limit set"]),
    ],
)
def test_limits_of_an_analysis(limits, after, told):
    whole = Assessment(analyses=(outcome(limits, {"x": STRONG, "w": WEAK}, {"w": WEAK, **after} if after else {}),))
    assert [line.outcome.value for line in checks(whole, {})] == told


def test_no_significant_coefficient_cannot_change_direction():
    whole = Assessment(analyses=(outcome({"changed_direction": 0.0}, {"w": WEAK}, {"w": TURNED}),))
    (line,) = checks(whole, {})
    assert line.outcome == "passed"


@pytest.mark.parametrize(
    ("gate", "figure", "limit"),
    [
        ("column_shapes", "column_shapes", 1),
        ("pair_shapes", "pair_shapes", 1),
        ("survival_curves", "survival_curves", 1),
        ("distinguishability", "distinguishability", 0.6),
        ("stratum_inference", "stratum_inference", 0.5),
    ],
)
def test_gates_on_distributions_and_strata_hold_the_upper_end(gate, figure, limit):
    told = {"audience": Audience.SEVERAL, "columns": 4, "worst": ("age",)}
    for high, expected in ((0.99 * limit, "passed"), (1.01 * limit, "failed")):
        found = measured(figure, 0.9 * limit, low=0.8 * limit, high=high, **told)
        (line,) = checks(Assessment(utility=(found,)), {gate: limit})
        assert line.outcome.value == expected and line.measured == high and line.limit == limit
        assert (line.columns, line.compared) == (("age",), 4)
        assert "'age'" in words.line(line).on and "'age'" not in words.line(released_check(line, 1, 900)).on
    (infinite,) = checks(Assessment(utility=(measured(figure, math.inf, **told),)), {gate: limit})
    assert infinite.outcome.value == "failed"
    (missing,) = checks(Assessment(utility=(measured(figure, NAN, **told),)), {gate: limit})
    assert missing.outcome.value == "failed"
    without = checks(Assessment(utility=(measured(figure, NAN, **told),)), {gate: None})
    assert len(without) == (0 if gate == "survival_curves" else 1)  # a job without survival is told of no curves


def test_recipients_are_not_told_which_column_has_worst_figure():
    one = measured("column_shapes", 0.4, audience=Audience.SEVERAL, columns=4, worst=("age",))
    (told,) = released_measures([one], 1)
    assert told.value == 0.4 and told.worst == ()
    assert released_measures([replace(one, columns=2)], 1) == ()


def test_pairs_not_going_together_are_told_where_no_limit_does():
    pair = measured("pair_shapes", 40.0, worst=("admitted", "discharged"), then=(("total", "part"),))
    (text,) = warnings(Assessment((pair,)), {"pair_shapes": None})
    assert text.startswith("recipients must not relate columns 'admitted' and 'discharged'; 'total' and 'part' to each")
    assert "they go together up to 40 times further" in text
    assert warnings(Assessment((pair,)), {"pair_shapes": 50.0}) == ()
    assert warnings(Assessment((replace(pair, value=1.0),)), {}) == warnings(Assessment(), {}) == ()


@pytest.mark.parametrize(("area", "limit", "warned"), [(0.977, None, True), (0.89, None, False), (0.977, 0.99, False)])
def test_records_that_are_recognized_as_released_are_warned_of(area, limit, warned):
    trees = measured("distinguishability", area)
    texts = warnings(Assessment((trees,)), {"distinguishability": limit})
    assert [f"AUC {area}" in text and "recipients can use single columns" in text for text in texts] == [True] * warned
