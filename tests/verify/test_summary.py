"""The summary of a run is one screen: 20 lines of 80 columns, with those on where the release lies."""

from __future__ import annotations

import pytest

from anonpipe.verify.catalogue import held
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import RISKS, UTILITIES, RunFacts, failures, first_lines, table

PLACES = 6  # lines that `demo` prints besides: table, release, report, details, picture, next command
ADVICE = "mean: for a column with many values at a bound that it cannot cross, " + "transform it, or " * 30 + "drop it"


def lines_of(checks, facts=None, remedies=()):
    verdict = Verdict(tuple(checks))
    lines = first_lines(verdict, 123_456_789, facts or RunFacts("mdav + pca"))
    lines += table(verdict) if verdict.passed else failures(verdict, remedies)
    places = PLACES if lines[0].startswith("RELEASED") else 4  # table, report, details, error
    places -= 3 * bool(facts and facts.units)  # which the demonstration has none of
    assert len(lines) + places <= 20 and max(map(len, lines)) <= 80
    return lines


def figures():
    keys = [*(f"risk.{name}" for name in RISKS), *(f"utility.{name}" for name in UTILITIES)]
    checks = [held(key, 0.0823456, 0.6, point=0.0123456, columns=("a long name of a column",)) for key in keys]
    return [*checks, held("risk.linkability", 0.01, 0.1), held("group.smallest", 123_456, 5, about={"groups": 1_234})]


def test_summary_is_one_screen():
    lines = lines_of(figures(), RunFacts("local_synthesis", ("vital_status",), 0.05))
    assert lines[0].startswith("RELEASED") and lines[1] == "verdict  passed" and len(lines) == 14


def test_headline_counts_copies_and_tells_the_longest_steps():
    times = {"scan": 0.4, "mask": 21.2, "search for records": 13.0, "measure": 1.2}
    facts = RunFacts("local_synthesis", held_out=0.05, copies=3, times=times)
    assert lines_of(figures(), facts)[0] == "RELEASED 3 copies of 41,152,263 rows (5 % held out) in 36 s: mask 21 s"
    whole = lines_of(figures(), RunFacts("local_synthesis", held_out=0.05, units="2 rows", times={"scan": 0.4}))
    assert whole[0] == "RELEASED 123,456,789 rows (5 % of the units held out) in 0 s"


def test_a_question_mark_is_explained_in_the_verdict():
    lines = lines_of([*figures(), held("risk.singling_out", 0.05, 0.1, point=0.05, high=0.16, records=90)])
    assert lines[1].endswith("uncertain (?): too few records to tell")
    assert any(line.endswith("10 % ?") for line in lines)


def test_the_verdict_says_what_is_not_plain():
    linked = held("risk.reidentification_rate", 0.1623, 0.2, point=0.153)
    lines = lines_of([linked, *figures()[1:]])
    assert lines[1] == "verdict  passed, but an attacker links up to 16 % of the records" and len(lines) == 14


def test_long_method_line_is_cut():
    lines = lines_of(figures(), RunFacts("additive_cluster_recursive + local_synthesis", ("a_long_stratum",) * 9))
    assert lines[2].endswith("…") and len(lines) == 14


@pytest.mark.parametrize("failures", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("remedies", [0, 1, 3, 9])
def test_refusal_is_one_screen(failures, remedies):
    names = ("a long name of a column", "another long name of a column")
    checks = [held("mean", 0.3, 0.1, columns=names), *[held("category_share", 0.2, 0.005)] * (failures - 1)]
    lines = lines_of(checks, remedies=[ADVICE] * remedies)
    assert lines[0] == f"NOT RELEASED: {failures} of {failures} checks failed"
    assert lines[3].startswith("failed: mean 0.3 sd (at most 0.1 sd), worst: a long name of a column")
    shown = [line for line in lines if line.startswith("failed: ")]
    assert len(shown) == failures or lines[-1].startswith("more     ")
    assert sum(line.startswith("remedy: ") for line in lines) == remedies or lines[-1].startswith("more     ")


def test_short_refusal_is_shown_whole():
    lines = lines_of([held("mean", 0.3, 0.1)], remedies=["mean: declare a finer step"])
    assert lines[3:] == ["failed: mean 0.3 sd (at most 0.1 sd)", "remedy: declare a finer step"]
