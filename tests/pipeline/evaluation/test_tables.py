"""Typed tables and links: what models and attacks are given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe.evaluate.risk import EquivalenceClasses, Nearest, NearestMatches
from anonpipe.evaluate.risk._linkage import expected_links
from anonpipe.evaluate.utility import Analysis
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.evaluation.measures import load_assessment
from tests import small
from tests.analyses import compare_models

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {
    "months": {"kind": "continuous", "bounds": [0, None], "role": "survival_time"},
    "age": {"kind": "integer"},
    "stage": {"kind": "ordinal", "levels": ["I", "II", "III"]},
    "ward": {"kind": "integer", "role": "key"},
    "smoker": {"kind": "binary"},
    "seen": {"kind": "date"},
    "status": {"kind": "binary", "role": "survival_status", "event": [1]},
}
ANALYSES = (
    {"name": "cox", "model": "cox", "formula": "months ~ age + stage + smoker", "event": "status == 1"},
    {"name": "part", "model": "linear", "formula": "months ~ ward + stage", "subset": "ward >= 2 and age > 30"},
    {"name": "odds", "model": "logistic", "formula": "status ~ age + ward"},
)


def table(rows=900):
    rng = np.random.default_rng(2)
    age, ward = rng.integers(20, 90, rows), rng.integers(1, 4, rows)
    truths = rng.random(rows) < 0.4
    return pa.table(
        {
            "months": rng.exponential(1000.0 / age),
            "age": pa.array(age, mask=rng.random(rows) < 0.1),
            "stage": rng.choice(["I", "II", "III"], rows),
            "ward": ward.astype(np.int32),
            "smoker": pa.array(truths, mask=rng.random(rows) < 0.1),
            "seen": pa.array(rng.integers(9_000, 12_000, rows).astype("int32")).cast(pa.date32()),
            "status": (rng.random(rows) < age / 120).astype(np.int8),
        }
    )


def plain(frame):
    """As a reader has it, levels in the job's order."""
    return frame.assign(stage=pd.Categorical(frame["stage"], ["I", "II", "III"], ordered=True))


def test_models_of_the_run_are_those_of_the_two_tables(tmp_path, monkeypatch):
    """Input and written files, read by pandas alone, give the coefficients that the run found."""
    gates = {name: 5.0 for name in ("mean", "covariance", "covariance_with_keys")}
    given = small.job(
        tmp_path, table(), COLUMNS, analyses=ANALYSES, gates=gates, partition={"rows": 1_000, "sample_rows": 500}
    )
    seen = {}
    look = lambda run, _: seen.update(found=load_assessment(run.context.work))  # noqa: E731
    monkeypatch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES, look))
    assert small.run(given).version
    before, after = plain(table().to_pandas()), plain(small.released(given).to_pandas())
    wanted = compare_models(before, after, [Analysis(**each) for each in ANALYSES])
    for one, other in zip(seen["found"].analyses, wanted, strict=True):
        assert one.records == one.of == 900
        for mine, theirs in ((one.comparison.original, other.original), (one.comparison.released, other.released)):
            assert mine.problem is None and theirs.problem is None and list(mine.estimates) == list(theirs.estimates)
            assert mine.rows == theirs.rows and mine.left_out == theirs.left_out
            for name, estimate in mine.estimates.items():
                assert estimate.value == pytest.approx(theirs.estimates[name].value, rel=1e-6, abs=1e-9), name


def links(hits, sizes, records):
    """Expected links of records of which some are led to their own group of so many."""
    found = Nearest(np.zeros((len(hits), 1)), np.zeros((len(hits), 1), dtype=np.int64))
    led = NearestMatches(found, np.where(hits, 1, 2)[:, None])
    return expected_links(
        EquivalenceClasses(led, np.ones(len(hits), dtype=np.int64), np.asarray(sizes)), records=records
    )


def test_expected_links_by_hand():
    hits, sizes, values = np.array([True, False, True, True]), [4, 5, 10, 5], [1 / 4, 0.0, 1 / 10, 1 / 5]
    told, whole = (links(hits, sizes, records) for records in (50, 4))
    assert told.value == whole.value == pytest.approx(sum(values) / 4)
    for end in (told.low, told.high):  # Wilson's: where a share of this variance would differ by 1.96 deviations
        spread = np.var(values) / 4 * end * (1 - end) / (told.value * (1 - told.value))
        assert (end - told.value) ** 2 == pytest.approx(1.959964**2 * spread, rel=1e-5)
    assert whole.low is None is whole.high
    alike = links(np.ones(9, dtype=bool), np.full(9, 5), 50)
    assert alike.low == alike.value == alike.high


@pytest.mark.parametrize(("rows", "chance"), [(300, 0.0005), (300, 0.01), (1_000, 0.002), (1_000, 0.3)])
def test_upper_ends_of_expected_links_hold(rows, chance):
    rng, held = np.random.default_rng(1), 0
    for _ in range(300):
        told = links(rng.random(rows) < chance, rng.integers(5, 10, rows), 10 * rows)
        held += told.high >= chance * np.mean(1 / np.arange(5, 10))
    assert held >= 0.95 * 300
