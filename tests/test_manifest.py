"""The checks as recipients see them: no count under k, and nothing that with the release gives the original."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anonpipe.report import read_report, render
from anonpipe.storage import release
from anonpipe.verify.catalogue import KINDS, Check, held, worst_entry
from anonpipe.verify.output_control import released_checks
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import line
from tests import small


def told(check: Check) -> str:
    (shown,) = released_checks(Verdict((replace(check, about={**ABOUT, **check.about}),)), 5, 1000)
    assert shown.columns == () and (shown.measured is None) == (shown.withheld is not None)
    return line(shown).measured


ABOUT = {"files": 1, "names": "c", "inside": "group", "analysis": "s", "coefficients": 1}


@pytest.mark.parametrize("rows", [0, 4, 5, 1234])
def test_counts_under_k(rows):
    assert told(held("keys.rare", rows, 9999)) == ("fewer than 5" if 0 < rows < 5 else f"{rows:,}")
    assert told(held("local_suppression", rows / 1e3, 9)) == (
        "fewer than 5 rows" if 0 < rows < 5 else line(held("local_suppression", rows / 1e3, 9)).measured
    )


def test_overlaps_of_intervals_lead_to_those_of_the_original():
    overlap = held("analysis.overlap", 0.8137, 0.6, records=1000, of=1000)
    assert told(overlap) == "within the limit"
    outside = held("analysis.outside", 0.25, 0.3, records=1000, of=1000)
    assert told(outside) == "0.25"


@pytest.mark.parametrize("records", [19, 99, 100, 1500])
def test_risks_and_analyses_on_few_records(records):
    given = {"records": records, "of": 2000, "about": {"end": True}}
    for key in ("risk.membership_auc", "analysis.outside"):
        assert told(held(key, 0.5263, 0.6, **given)) == ("within the limit" if records < 100 else "0.526")
        assert told(held(key, 0.5263, None, **given)) == ("not reported" if records < 100 else "0.526")


def test_differences_of_one_or_two_columns_give_their_moments():
    """Of one column, the released mean and how far the original's is from it are the original's."""
    mean = held("mean.stratum", 0.0123, 0.02, records=1000, compared=5)
    assert told(mean) == "0.0123 sd" and told(replace(mean, compared=2)) == "within the limit"
    share = held("category_share", 0.0031, 0.05, records=1000, compared=4)
    assert told(replace(share, compared=1)) == "within the limit" and told(share) == "0.0031"
    none = held("null_share", 0, 0.05, records=1000, compared=0)
    assert told(none) == "0" and told(replace(none, compared=1)) == "within the limit"


def test_compared_columns_are_counted_not_their_entries():
    names = ["a", "a", "b", "", ""]
    off = np.array([0.1, 0.2, 0.3, 0.4, 0.1])
    assert told(worst_entry("mean", off, 1.0, (names,), records=1000)) == "within the limit"
    assert told(worst_entry("mean", off, 1.0, ([*names[:3], "c", "c"],), records=1000)) == "0.4 sd"
    assert told(worst_entry("mean", off, 1.0, records=1000)) == "within the limit"  # nobody says of how many


def test_earlier_releases_are_verified_and_their_reports_drawn(tmp_path):
    """Their checks were words without a key."""
    given = small.job(tmp_path, small.plain_table(300), gates={"mean": 1, "covariance": 1, "local_suppression_rate": 1})
    version = Path(small.run(given).version)
    for name in ("_report.json", "_manifest.json"):
        content = json.loads((version / name).read_text())
        for check in content.get("verdict", content)["checks"]:
            assert KINDS[check.pop("key")]
        if name == "_manifest.json":
            report = (version / "_report.json").read_bytes()
            (entry,) = [entry for entry in content["documents"] if entry["name"] == "_report.json"]
            entry |= {"bytes": len(report), "sha256": hashlib.sha256(report).hexdigest()}
        (version / name).write_text(json.dumps(content))
    assert release.check(given.output) == []
    report = read_report(version / "_report.json")
    assert {line.key for line in report.checks} == {""} and "smallest group" in render(report)
