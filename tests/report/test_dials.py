"""The head of a report: verdict, four dials and pictures before any table."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace

import pytest

from anonpipe.report import external, internal, render, words
from anonpipe.report.figures import dial
from anonpipe.verify import words as terminal
from anonpipe.verify.catalogue import Withheld, held
from anonpipe.verify.verdict import Verdict
from tests.report import made

CHECKS = (
    held("risk.reidentification_rate", 0.0123, 0.09, point=0.0101, high=0.0123, records=2_000),
    held("risk.membership_auc", 0.7, 0.6, records=2_000),
    held("utility.column_shapes", 0.25, None, records=2_000, compared=9),
)


def test_dials_tell_estimate_limit_and_outcome():
    first, second, third, fourth = words.dials(CHECKS)
    assert (first.shown, first.estimate, first.upper, first.limit) == ("1.01 %", 0.0101, 0.0123, 0.09)
    assert first.outcome == "passed" and "links 1.01 % of the records" in first.sentence
    assert (second.outcome, second.upper, second.shown) == ("failed", None, "0.7")
    assert third.outcome == "no limit set" and third.limit is None
    assert (fourth.outcome, fourth.shown, fourth.estimate) == ("not checked", "–", None)


def test_a_dial_names_columns_unknown_to_attackers():
    (shown, *_) = words.dials(CHECKS, ["income", "{0} of {name}"])
    assert "has the original, but not income, {0} of {name}, links 1.01 % of" in shown.sentence


def test_a_dial_of_a_hidden_figure_says_that_it_passed():
    hidden = replace(CHECKS[0], withheld=Withheld.FEW_OF_SHARE, about={"k": 5})
    (shown, *_) = words.dials((hidden,))
    assert shown.sentence == "Fewer than 5 rows; at most 0.09: passed." and shown.shown == "–"


@pytest.mark.parametrize("figure, side", [(0.0123, -1), (0.08, -1), (0.12, 1), (7.0, 1)])
def test_the_needle_crosses_the_middle_at_the_limit(figure, side):
    shown = words.dials((held("risk.reidentification_rate", figure, 0.09),))[0]
    tip = re.search(r'd="M100 96L(\S+) (\S+)" class="needle"', str(dial(shown)))
    assert tip is not None
    assert (float(tip[1]) - 100) * side > 0 and float(tip[2]) <= 96


def test_dials_and_pictures_come_before_tables():
    facts = dataclasses.replace(made.facts(), verdict=Verdict(CHECKS))
    for report in (internal(facts, "v"), external(facts)):
        page = render(report)
        places = [page.index(part) for part in ("<h1>", 'class="dials"', 'id="columns"', '<div id="gates">')]
        assert places == sorted(places)
        assert "<table" not in re.sub(r"<details[^>]*>.*?</details>", "", page[: places[-1]], flags=re.DOTALL)
        assert ("INTERNAL" in page) == (report.audience == "internal")


@pytest.mark.parametrize("end, said", [("upper", "up to 0.3 "), ("lower", "at least 0.3 "), ("estimate", " 0.3 ")])
def test_a_dial_without_estimate_names_end_of_interval(end, said):
    check = held("utility.column_shapes", 0.3, 1.0, records=2_000, compared=9, about={"end": end})
    known = replace(check, point=0.2, high=0.3)
    without, with_estimate = (words.dials((one,))[2].sentence for one in (check, known))
    assert f"differs {said.strip()} times as much" in without and "differs 0.2 times as much" in with_estimate


def test_dial_figures_are_those_of_the_terminal():
    verdict = Verdict((replace(CHECKS[0], about={"end": "upper"}),))
    row = dict(terminal.figures(verdict))["risk"][0]
    (shown, *_) = (report := internal(dataclasses.replace(made.facts(), verdict=verdict), "v")).dials
    assert row[1:] == ("1.01 %", "1.23 %", "9 %") and shown.shown == "1.01 %"
    assert "Limit 9 %, 95 % upper 1.23 %: passed." in render(report)


def test_remedies_of_failed_checks_are_for_the_steward():
    failed = dataclasses.replace(made.facts(), verdict=Verdict(CHECKS))
    (advice,) = internal(failed, None).remedies
    page = render(internal(failed, None))
    assert advice.startswith("membership inference") and page.index("What helps") < page.index('class="dials"')
    assert external(failed).remedies == () and "What helps" not in render(internal(made.facts(), "v"))


def test_recipients_see_no_dial_that_is_withheld():
    few = (held("risk.membership_auc", 0.51234, 0.6, records=9),)
    facts = dataclasses.replace(made.facts(), verdict=Verdict(few))
    assert internal(facts, "v").dials[1].estimate == 0.51234
    assert external(facts).dials[1].estimate is None and "0.512" not in external(facts).model_dump_json()
