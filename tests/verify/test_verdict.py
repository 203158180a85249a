"""What a verdict says as a whole."""

from __future__ import annotations

import math

import pytest

from anonpipe.evaluate.reason import Reason
from anonpipe.report import words as report_words
from anonpipe.verify.check import Check, Outcome, held
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import figures

ROWS = held("rows.lost", 0, 0)
LINKED = held("risk.reidentification_rate", 0.05, 0.09)
LINKED_ANYHOW = held("risk.reidentification_rate", 0.05, None)
STRATUM = held("risk.stratum_inference", 0.1, None)
NO_LINK = Check("unmeasured.linkage", Outcome.NOT_CHECKED, reason=Reason.NO_LINK)
NO_MEMBERS = Check("unmeasured.membership", Outcome.NOT_CHECKED, reason=Reason.NO_HOLD_OUT)
RISK_OFF = Check("unmeasured.risk", Outcome.NOT_CHECKED, reason=Reason.RISK_OFF)
MEMBERS = held("risk.membership_auc", 0.51, 0.6)
OPEN = "passed, with no limit on reidentification_rate"


@pytest.mark.parametrize(
    ("checks", "word"),
    [
        ((ROWS, LINKED), "passed"),
        ((ROWS, LINKED_ANYHOW), OPEN),
        ((ROWS, RISK_OFF), "passed, disclosure risk not measured"),
        ((ROWS, LINKED, STRATUM), "passed, with no limit on stratum_inference"),
        ((ROWS, NO_LINK), "passed"),
        ((ROWS, NO_LINK, NO_MEMBERS), "passed, membership inference not measured"),
        ((ROWS, LINKED_ANYHOW, NO_MEMBERS), f"{OPEN}; membership inference not measured"),
        ((ROWS, held("risk.reidentification_rate", 0.05, 1.0)), OPEN),
        ((ROWS, NO_LINK, MEMBERS), "passed"),
        ((LINKED_ANYHOW,), "not checked"),
        ((ROWS, held("risk.reidentification_rate", math.nan, 0.09)), "failed"),
    ],
)
def test_it_passes_without_a_word_only_where_known_risks_have_limits(checks, word):
    assert Verdict(checks).word == word


@pytest.mark.parametrize(
    ("end", "shown"), [("upper", "0.527"), ("estimate", "wide"), ("lower", "wide"), ("expected", "expected")]
)
def test_the_summary_says_what_a_figure_without_upper_end_is(end, shown):
    point = None if end == "expected" else 0.509
    check = held("risk.membership_auc", 0.527, 0.6, point=point, about={"end": end})
    assert figures(Verdict((check,)))[0][1][1][2] == shown


def test_what_was_not_measured_has_a_sentence_of_its_own_in_the_report():
    text = report_words.headline(Verdict((ROWS, LINKED, NO_MEMBERS)), 768, ())
    assert text == "Released: 768 rows. Nothing that was checked failed. Not measured: membership inference."
