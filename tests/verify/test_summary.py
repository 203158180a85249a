"""The summary of a run is one screen: 20 lines of 80 columns, with those on where the release lies."""

from __future__ import annotations

from anonpipe.verify.check import held
from anonpipe.verify.summary import RISKS, UTILITIES, RunFacts, summary_lines
from anonpipe.verify.verdict import Verdict

PLACES = 6  # lines that `demo` prints besides: table, release, report, details, picture, next command


def test_summary_is_one_screen():
    keys = [*(f"risk.{name}" for name in RISKS), *(f"utility.{name}" for name in UTILITIES)]
    checks = [held(key, 0.123456, 0.6, point=0.0123456, columns=("a long name of a column",)) for key in keys]
    checks.append(held("group.smallest", 123_456, 5, about={"groups": 1_234}))
    facts = RunFacts("local_synthesis", ("vital_status",), 0.05)
    lines = summary_lines(Verdict(tuple(checks)), 123_456_789, facts)
    assert lines[0].startswith("RELEASED") and len(lines) == 13 and len(lines) + PLACES <= 20
    assert max(map(len, lines)) <= 80
