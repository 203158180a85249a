"""What a verdict says as a whole."""

from __future__ import annotations

import math

import pytest

from anonpipe.evaluate.measurement import Reason
from anonpipe.report import words as report_words
from anonpipe.verify.catalogue import UNMEASURED, Check, Outcome, held
from anonpipe.verify.output_control import released_checks
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import figures

ROWS = held("rows.lost", 0, 0)
RISKS = {
    "reidentification_rate": ("linkage", 0.05, 0.09),
    "membership_auc": ("membership", 0.51, 0.6),
    "attribute_inference": ("attribute_inference", 0.02, 0.1),
    "singling_out": ("singling_out", 0.03, 0.1),
    "linkability": ("linkability", 0.04, 0.1),
}
ALL = {name: held(f"risk.{name}", value, limit) for name, (_, value, limit) in RISKS.items()}
TITLES = {name: UNMEASURED[f"unmeasured.{key}"] for name, (key, _, _) in RISKS.items()}
LINKED_ANYHOW = held("risk.reidentification_rate", 0.05, None)
OPEN = "passed, with no limit on reidentification_rate"
DISTINGUISHED = "but released records are distinguished from original ones (AUC 0.93)"
LINKS = "but an attacker links up to {} % of the records"


def not_measured(key, reason):
    return Check(f"unmeasured.{key}", Outcome.NOT_CHECKED, reason=reason)


def judged(*others, without=()):
    """All risks within their limits, but for some; other checks take the place of those of the same key."""
    checks = {check.key: check for name, check in ALL.items() if name not in without}
    return Verdict((ROWS, *(checks | {check.key: check for check in others}).values()))


@pytest.mark.parametrize("name", RISKS)
def test_silent_pass_only_if_risks_have_figure_or_cannot_apply(name):
    key = RISKS[name][0]
    missing = f"passed, {TITLES[name]} not measured"
    assert judged().word == "passed"
    assert judged(without=[name]).word == missing  # nobody recorded why
    assert judged(held(f"risk.{name}", math.nan, None)).word == missing  # measured, and not defined
    assert judged(held(f"risk.{name}", math.inf, None)).word.startswith("passed, ")
    assert judged(held(f"risk.{name}", math.nan, 0.1)).word == "failed"
    for reason in Reason:
        applies = reason not in (Reason.NO_LINK, Reason.ONE_COLUMN, Reason.ONLY_PROBABILITIES)
        assert judged(not_measured(key, reason), without=[name]).word == (missing if applies else "passed")


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (judged(LINKED_ANYHOW), OPEN),
        (Verdict((ROWS, not_measured("risk", Reason.RISK_OFF))), "passed, disclosure risk not measured"),
        (Verdict((ROWS,)), "passed, disclosure risk not measured"),
        (judged(held("risk.stratum_inference", 0.1, None)), "passed, with no limit on stratum_inference"),
        (
            judged(LINKED_ANYHOW, not_measured("membership", Reason.NO_HOLD_OUT), without=["singling_out"]),
            f"{OPEN}; membership inference and singling out not measured",
        ),
        (judged(held("risk.reidentification_rate", 0.05, 1.0)), OPEN),
        (judged(held("risk.reidentification_rate", 0.153, 0.2)), f"passed, {LINKS.format(15)}"),
        (judged(held("risk.reidentification_rate", 0.4, None)), f"{OPEN}; {LINKS.format(40)}"),
        (judged(held("utility.distinguishability", 0.79, None)), "passed"),
        (judged(held("utility.distinguishability", 0.95, None, point=0.93)), f"passed, {DISTINGUISHED}"),
        (judged(held("utility.distinguishability", math.nan, None)), "passed"),
        (Verdict((LINKED_ANYHOW,)), "not checked"),
        (judged(held("risk.reidentification_rate", 0.3, 0.2)), "failed"),
    ],
)
def test_it_says_what_is_beyond_plain(verdict, word):
    assert verdict.word == word


@pytest.mark.parametrize(("limit", "word"), [(0.09, "passed"), (0.2, f"passed, {LINKS.format(20)}")])
def test_recipients_learn_the_limit_where_the_share_is_withheld(limit, word):
    few = held("risk.reidentification_rate", 0.08, limit, records=30, of=9_000)
    checks = released_checks(judged(few), 5, 9_000)
    assert [check.measured for check in checks if check.key == few.key] == [None]
    assert Verdict(checks).word.startswith(word)


@pytest.mark.parametrize(
    ("end", "shown"), [("upper", "0.527"), ("estimate", "0.527"), ("lower", "0.527"), ("expected", "expected")]
)
def test_summary_has_upper_interval_end_whichever_end_is_held(end, shown):
    given = {} if end == "expected" else {"point": 0.509, "high": 0.527}
    check = held(
        "risk.membership_auc", {"estimate": 0.509, "lower": 0.48}.get(end, 0.527), 0.6, **given, about={"end": end}
    )
    assert figures(Verdict((check,)))[0][1][1][2] == shown


def test_a_risk_that_passes_at_the_lower_end_alone_is_uncertain():
    sure = held("risk.membership_auc", 0.527, 0.6, point=0.509, high=0.527)
    unsure = held("risk.singling_out", 0.02, 0.1, point=0.159, high=0.3, about={"end": "lower"})
    verdict = Verdict((sure, unsure))
    assert verdict.passed
    assert verdict.uncertain == ("singling out uncertain: estimate above the limit, too few records to tell",)
    assert verdict.uncertain[0] in verdict.word
    assert figures(verdict)[0][1][3][1:] == ("15.9 %", "30 %", "10 % ?")
    assert "Singling out uncertain" in report_words.headline(verdict, "768 rows", ())
    assert Verdict.from_dict(verdict.to_dict()).word == verdict.word
    failed = held("risk.singling_out", 0.12, 0.1, point=0.159, high=0.2)
    assert Verdict((sure, failed)).uncertain == () and Verdict((sure,)).uncertain == ()


def test_uncertain_where_the_interval_reaches_beyond_the_limit():
    estimate = held("risk.membership_auc", 0.593, 0.6, point=0.593, high=0.654, about={"end": "estimate"})
    lower = held("risk.linkability", 0.02, 0.1, point=0.09, high=0.3, about={"end": "lower"})
    above = held("risk.singling_out", 0.02, 0.1, point=0.159, high=0.3, about={"end": "lower"})
    verdict = Verdict((estimate, lower, above))
    end = "uncertain: too few records to tell"
    assert verdict.passed and verdict.uncertain[1:] == (f"membership inference and linkability {end}",)
    assert verdict.uncertain[0].startswith("singling out uncertain: estimate above")
    assert figures(verdict)[0][1][1][1:] == ("0.593", "0.654", "0.6 ?")
    assert f"Membership inference and linkability {end}." in report_words.headline(verdict, "60 rows", ())


def test_what_was_not_measured_has_own_sentence_in_report():
    few = judged(not_measured("membership", Reason.NO_HOLD_OUT))
    text = report_words.headline(few, "768 rows", ())
    assert text == "Released: 768 rows. No check failed. Not measured: membership inference."
