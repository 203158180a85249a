"""The checks as recipients see them: no count under k, and nothing that with the release gives the original."""

from __future__ import annotations

import pytest

from anonpipe.manifest import releasable_checks
from anonpipe.verify.verdict import Check, Outcome, Verdict, at_least, at_most

MANY = {"mean": 5, "mean, in its own unit": 0, "covariance": 5, "share of a category": 4, "share of nulls": 3}


def told(check: Check, **columns: int) -> str:
    many = MANY | {name.replace("_", " "): number for name, number in columns.items()}
    return str(releasable_checks(Verdict((check,)), 5, 1000, many)[0]["measured"])


@pytest.mark.parametrize("rows", [0, 4, 5, 1234])
def test_counts_under_k(rows):
    assert told(at_most("rows whose ...", rows, 9999, "-")) == ("fewer than 5" if 0 < rows < 5 else f"{rows:,}")
    assert told(at_most("share of rows ...", rows / 1e3, 9, "-")) == (
        "fewer than 5 rows" if 0 < rows < 5 else at_most("", rows / 1e3, 9, "-").measured
    )


def test_overlaps_of_intervals_lead_to_those_of_the_original():
    overlap = at_least("analysis 's': mean overlap of the 95 % intervals", 0.8137, 0.6, "1 coefficients")
    assert told(overlap) == "within the limit"
    outside = at_most("analysis 's': share of coefficients outside of the original's 95 % interval", 0.25, 0.3, "-")
    assert told(outside) == "0.25"


@pytest.mark.parametrize("records", [19, 99, 100, 1500])
def test_risks_and_analyses_on_few_records(records):
    on = f"{records:,} of 2,000 records, upper end of the 95 % interval"
    for name in ("risk, membership_auc: members told from others (AUC)", "analysis 's': share outside"):
        assert told(at_most(name, 0.5263, 0.6, on)) == ("within the limit" if records < 100 else "0.526")
        assert told(Check(name, Outcome.NOT_CHECKED, "0.526", "no limit", on)) == (
            "not told" if records < 100 else "0.526"
        )


def test_differences_of_one_or_two_columns_give_their_moments():
    """Of one column, the released mean and how far the original's is from it are the original's."""
    mean = at_most("mean in each stratum", 0.0123, 0.02, "1 written file", unit="sd", mandatory=True)
    assert told(mean) == "0.0123 sd" and told(mean, mean=2) == "within the limit"
    share = at_most("share of a category", 0.0031, 0.05, "-")
    assert told(share, share_of_a_category=1) == "within the limit" and told(share, mean=1) == "0.0031"
    none = at_most("share of nulls", 0, 0.05, "-")
    assert told(none, share_of_nulls=0) == "0" and told(none, share_of_nulls=1) == "within the limit"
