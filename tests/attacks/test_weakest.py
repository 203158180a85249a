"""Masks set to nearly nothing: what an intruder finds who knows the originals, and that no verdict is a plain *passed*.

On tables of few categories nearest records and their likes find little, as most records have equals; but the table of
all columns can be read off the release. On others the limits on risk refuse.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anonpipe import anonymize
from anonpipe.verify import gates

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)
K, ROWS = 5, 3_000
SHARES = {"sex": [0.5, 0.5], "ill": [0.5, 0.3, 0.192, 0.008], "site": [0.6, 0.39, 0.01]}


def few_categories(seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.choice(list("abcd")[: len(p)], ROWS, p=p) for name, p in SHARES.items()})


def with_amounts(seed):
    rng = np.random.default_rng(seed)
    return few_categories(seed).assign(income=rng.lognormal(9, 1, ROWS).round(), age=rng.integers(18, 90, ROWS))


def misplaced(released):
    """Share of the records that the table of all columns has elsewhere than the original's."""
    before, after = (frame.value_counts(list(SHARES)) for frame in (few_categories(1), released))
    before, after = before.align(after, fill_value=0)
    return (before - after).abs().sum() / 2 / ROWS


def masked(frame, **method):
    kinds = {name: {"kind": "categorical" if name in SHARES else "integer"} for name in frame}
    loose = {"category_share": 1, "mean": 9, "covariance": 9}
    measure = {"utility": False, "queries": 100, "hold_out": 0}
    return anonymize(frame, {"k": K, "columns": kinds, "measure": measure, "gates": loose} | method)


WEAK = [
    {"method": "pram", "retain": 0.999},
    {"method": "rank_swap", "percent": 0.001},
    {"method": "noise", "amount": 1e-9},
    {"method": "noise"},  # as usual: categories stay
]


@pytest.mark.parametrize("mask", WEAK, ids=str)
def test_a_mask_that_leaves_records_as_they_were_is_refused(mask, monkeypatch):
    with monkeypatch.context() as open_gate:
        open_gate.setattr(gates, "MOST_KEPT", 1.0)
        made = masked(few_categories(1), mask=mask)
    (kept,) = [check.measured for check in made.verdict.checks if check.key == "records.kept"]
    assert misplaced(made.table) < 0.25 * misplaced(few_categories(2)) and kept > gates.MOST_KEPT


def test_what_is_refused_names_the_share_and_what_helps():
    made = masked(few_categories(1), mask=WEAK[0])
    assert made.table is None and [check.key for check in made.verdict.failed] == ["records.kept"]
    assert "lower mask.retain" in made.remedies[0] and "role: key" in made.remedies[0]


@pytest.mark.parametrize(
    ("mask", "told"), [({"method": "pram", "retain": 0.9}, True), ({"method": "spectral_swap"}, False)], ids=str
)
def test_a_verdict_says_how_many_records_are_as_they_were(mask, told):
    made = masked(few_categories(1), mask=mask)
    assert made.passed and ("% of the records are as they were" in made.verdict.word) == told
    assert misplaced(made.table) > 0.25 * misplaced(few_categories(2))


@pytest.mark.parametrize(
    "method",
    [
        {"mask": {"method": "noise", "amount": 1e-9}},
        {"mask": {"method": "pram", "retain": 0.999, "amount": 1e-9}},
        {"mask": {"method": "rank_swap", "percent": 0.001}},
        {"cluster": {"method": "mdav"}, "synthesize": {"method": "centroid"}, "k": 2},
    ],
    ids=str,
)
def test_where_records_differ_limits_on_risk_refuse(method):
    made = masked(with_amounts(1), **method)
    linked = {check.key for check in made.verdict.failed} & {"risk.reidentification_rate", "records.unchanged"}
    assert linked or "an attacker links up to" in made.verdict.word
