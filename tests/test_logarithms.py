"""Columns masked by their logarithms: the job, the way there and back, the gates, and merged counts."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe import anonymize
from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.columns import merge_columns, scan_numbers
from anonpipe.encoding.features import FeatureEncoder, Groups
from anonpipe.encoding.scan import scan_batch
from anonpipe.errors import JobError
from anonpipe.job.model import parse_job
from anonpipe.propose.propose import propose_job
from tests.small import OFF

pytestmark = pytest.mark.secret("5e" * 32)

COST = {"kind": "continuous", "bounds": [0.01, 1e6], "step": 0.01, "transform": "log"}
DAYS = {"kind": "integer", "bounds": [0, None], "transform": "log"}
AGE = {"kind": "integer", "bounds": [0, 130]}
COLUMNS = {"cost": COST, "days": DAYS, "age": AGE}
JOB = {"k": 8, "columns": COLUMNS, "measure": OFF}


def skewed(rows=2_500):
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    return pd.DataFrame(
        {
            "cost": np.exp(7 + 1.2 * x).round(2),
            "days": np.floor(rng.gamma(0.7, 5, rows) * np.exp(0.3 * x)).astype(int),
            "age": (50 + 10 * x + rng.normal(size=rows) * 8).round().astype(int),
        }
    )


@pytest.mark.parametrize("how", [{"mask": {"method": "spectral_swap"}}, {}], ids=["mask", "groups"])
def test_skewed_columns_keep_shape_and_moments_of_logarithms(how):
    """Whole days move the mean of their logarithm by 0.020 sd, 0.002 more or less by the draws: 0.03 are allowed."""
    frame = skewed()
    made, verdict, _ = anonymize(frame, {**JOB, "gates": {"mean": 0.03}, **how})
    assert verdict.passed, [check for check in verdict.lines if check.outcome == "failed"]
    assert any("in original units" in check.name for check in verdict.lines)
    for name, offset in (("cost", 0.0), ("days", 1.0)):
        before, after = np.log(frame[name] + offset), np.log(made[name] + offset)
        assert abs(after.mean() - before.mean()) < 0.03 * before.std()
        assert 0.95 < after.std() / before.std() < 1.05
    assert made["cost"].min() > 1 and made["days"].min() == 0  # not at the bound, where plain masking piles up
    assert (
        abs(
            np.corrcoef(np.log(made["cost"]), made["age"])[0, 1]
            - np.corrcoef(np.log(frame["cost"]), frame["age"])[0, 1]
        )
        < 0.05
    )


def test_a_mean_that_the_logarithm_moves_too_far_fails_its_gate():
    job = {**JOB, "mask": {"method": "noise"}, "gates": {"mean_in_unit": 1e-6}}
    made, verdict, _ = anonymize(skewed(600), job)
    failed = [check.name for check in verdict.lines if check.outcome == "failed"]
    assert made is None and len(failed) == 1
    assert failed[0].startswith("mean in original units (transformed columns)")


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(0, 2**32))
def test_values_come_back_from_their_points(values, seed):
    batch = pa.record_batch({"days": pa.array(values, pa.int64())})
    columns = {"days": Column(**DAYS)}
    scan = scan_batch(batch, columns, 0, [])
    encoder = ColumnEncoder.fit(batch.schema, columns, scan)
    features, cells = FeatureEncoder.fit(encoder, scan), encoder.to_cells(batch)
    rows = len(values)
    groups = Groups(np.arange(rows), np.arange(rows + 1))
    back = features.decode(features.encode(cells), cells, groups, rng=np.random.default_rng(seed))
    assert np.array_equal(back, cells)
    naive = [np.log(value + 1.0) for value in values]
    assert np.isclose(scan.columns["days"].log_mean, np.mean(naive))
    assert np.isclose(scan.columns["days"].log_m2, np.sum((np.array(naive) - np.mean(naive)) ** 2), atol=1e-9)


def test_counts_of_logarithms_merge():
    column = Column(**DAYS)
    parts = [scan_numbers(pa.array(part, pa.int64()), column) for part in ([1, 5, 900], [], [None, 0], [7])]
    merged = parts[0]
    for part in parts[1:]:
        merged = merge_columns("days", merged, part)
    whole = scan_numbers(pa.array([1, 5, 900, None, 0, 7], pa.int64()), column)
    assert np.isclose(merged.log_mean, whole.log_mean) and np.isclose(merged.log_m2, whole.log_m2)
    assert merged.log_sd > 0


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({**COST, "bounds": None}, "needs a lower bound"),
        ({**COST, "bounds": [None, 5]}, "needs a lower bound"),
        ({**COST, "bounds": [-1, 5]}, "needs a lower bound"),
        ({"kind": "continuous", "bounds": [0, 5], "transform": "log"}, "together with a step"),
        ({"kind": "categorical", "transform": "log"}, "continuous and integer"),
        ({"kind": "date", "transform": "log"}, "continuous and integer"),
        ({**COST, "role": "key"}, "continuous and integer"),
        ({**COST, "transform": "root"}, "log"),
    ],
)
def test_what_has_no_logarithm_is_refused(column, text):
    with pytest.raises(JobError, match=text):
        parse_job({"input": "x", "output": "y", "k": 5, "columns": {"cost": column}})


def test_steps_of_intervals_and_logarithms_contradict_each_other():
    job = {"k": 8, "columns": COLUMNS, "mask": {"method": "generalize", "steps": {"cost": 10}}}
    with pytest.raises(JobError, match="no one width"):
        anonymize(skewed(100), job)


def test_too_few_records_to_mix_masked_ones_are_refused():
    frame = skewed(60).assign(site=["a"] * 56 + ["b"] * 4)
    columns = {**COLUMNS, "site": {"kind": "categorical", "role": "sensitive"}}
    job = {"k": 4, "columns": columns, "strata": {"by": ["site"]}, "mask": {"method": "spectral_swap"}}
    with pytest.raises(JobError, match=r"smallest stratum has 4 records, and mask\.method spectral_swap needs 5 for 3"):
        anonymize(frame, job)
    with pytest.raises(JobError, match="the table has 4 records"):
        anonymize(skewed(4), {"k": 2, "columns": COLUMNS, "mask": {"method": "data_shuffle"}})


def test_the_proposal_leaves_long_tails_to_normal_scores(tmp_path):
    path = tmp_path / "table.parquet"
    skewed(500).to_parquet(path)
    text = propose_job(str(path), "out", 5)
    assert "# transform: normal_scores, which masked numbers and dates have" in text
    job = parse_job(yaml.safe_load(text))
    assert all(job.columns[name].scored for name in COLUMNS)
