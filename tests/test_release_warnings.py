"""What a first run tells the steward: bounds that lack or cut, times below 0, tables of repeated rows."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from anonpipe.columns import Column
from anonpipe.evaluate.utility import Analysis
from anonpipe.pipeline.preview import preview
from anonpipe.storage import release
from anonpipe.verify.original_values import rows_without_spread
from tests import small
from tests.analyses import compare_models

pytestmark = pytest.mark.secret("5e" * 32)

NUMBER = {"kind": "continuous"}
TIME = {"kind": "continuous", "role": "survival_time"}
LOOSE = {"mean": 1.0, "covariance": 1.0, "unchanged_record_rate": 1.0, "mean_in_unit": 1e9}


def beyond(outcome):
    told = [each for each in outcome.warnings if "all original ones" in each]
    return dict(pair for each in told for pair in re.findall(r"'(\w+)' \(([^)]*)\)", each.partition(":")[0]))


def not_kept(job):
    return release.read_manifest(release.resolve(job.output)).get("not_kept", [])


def months(rows=400):
    """Times of which many are nearly 0, and a number that goes with them."""
    rng = np.random.default_rng(0)
    time = rng.exponential(10.0, rows)
    return pa.table({"surv_mm": time, "size": time + rng.normal(0, 5.0, rows), "far": rng.normal(0, 1.0, rows)})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, (0.0, None)),
        ({"bounds": (None, 9)}, (0.0, 9.0)),
        ({"bounds": (-2, 9)}, (-2.0, 9.0)),
        ({"bounds": (3, None)}, (3.0, None)),
    ],
)
def test_a_survival_time_is_not_below_0_unless_a_bound_says_so(given, wanted):
    assert Column(**TIME, **given).numeric_bounds == wanted
    low = None if "bounds" not in given else given["bounds"][0]
    assert Column(**NUMBER, **given).numeric_bounds == (low, wanted[1])


@pytest.mark.parametrize(
    ("largest", "bounds", "reasons"),
    [
        (300.0, [0, None], []),
        (987_654_321.0, [0, None], ["few records make up much of its mean"]),
        (987_654_321.0, [0, 300], ["values outside its bounds make up much of its mean"]),
        (300.0, [30, None], ["values outside its bounds make up much of its mean"]),
    ],
)
def test_a_mean_that_is_not_kept_is_told_to_the_steward(tmp_path, largest, bounds, reasons):
    income = np.append(np.random.default_rng(0).lognormal(3.0, 1.0, 999), largest)
    table = pa.table({"income": income, "other": np.random.default_rng(1).normal(size=1_000)})
    column = {**NUMBER, "transform": "normal_scores"}
    job = small.job(tmp_path, table, {"income": column | {"bounds": bounds}, "other": column}, gates=LOOSE)
    outcome = small.run(job)
    for told in (
        preview(job).warnings,
        outcome.verdict.notes,
    ):  # a verdict is read when nobody has the terminal any more
        named = [line for line in told if "of its mean" in line]
        assert [
            line.split(": ")[1].split(". ")[0].split(";")[0].split(",")[0].split(" and are")[0] for line in named
        ] == reasons
        assert all("'income'" in line and "987" not in line for line in named)
    page = (Path(job.output) / "release" / "_report.html").read_text()  # and, by name alone, to the recipients
    assert ("Do not add up income, and take no mean of it" in page) == bool(reasons) and "987" not in page
    assert ("&#39;income&#39;: mean not preserved" in page) == bool(reasons)


@pytest.mark.parametrize(
    ("share", "bounds", "told"),
    [(0.08, [0, None], "top or bottom coding"), (0.0, [0, 150], "bounds"), (0.02, [0, None], "")],
)
def test_a_mean_that_moves_by_some_per_cent_is_told(tmp_path, share, bounds, told):
    """One cost of 1,500 has a share of the sum, less than a tenth of a standard deviation; 2 % may be chance."""
    costs = np.random.default_rng(0).lognormal(3.0, 1.0, 1_500)
    costs = np.append(costs, costs.sum() * share / (1 - share))
    table = pa.table({"cost": costs, "other": np.random.default_rng(1).normal(size=1_501)})
    columns = {"cost": NUMBER | {"transform": "normal_scores", "bounds": bounds}, "other": NUMBER}
    job = small.job(tmp_path, table, columns, gates=LOOSE)
    found = [re.search(r"the original's: 'cost' (.*)% \((.*)\);", each) for each in preview(job).warnings]
    assert [each.group(2) for each in found if each] == [told] * bool(told)
    if told:
        assert small.run(job).version
        moved = small.released(job)["cost"].to_numpy().mean() / costs.mean() - 1
        assert abs(float(next(filter(None, found)).group(1)) / 100 - moved) < 0.005 and -0.1 < moved < -0.02
        [line] = [each for each in not_kept(job) if "sum of cost" in each]
        assert line.startswith("Mean and sum of cost are not preserved") and not re.search("[0-9]", line)


@pytest.mark.parametrize(("spread", "lost"), [(0.5, False), (2.5, True)])
def test_a_variance_that_is_not_kept_is_told_though_its_mean_is(tmp_path, spread, lost):
    """The check holds the release against what its quantile function is known to release, and passes."""
    income = np.random.default_rng(0).lognormal(3.0, spread, 600)
    table = pa.table({"income": income, "other": np.random.default_rng(1).normal(size=600)})
    column = {**NUMBER, "bounds": [0, None], "transform": "normal_scores"}
    job = small.job(tmp_path, table, {"income": column, "other": column}, k=20, gates=LOOSE)
    outcome = small.run(job)
    assert outcome.version
    made = small.released(job)["income"].to_numpy()
    assert (made.std() < 0.85 * income.std()) == lost and abs(made.mean() - income.mean()) < 0.1 * made.std()
    for told in (preview(job).warnings, outcome.verdict.notes):
        (named,) = [line for line in told if "of its standard deviation" in line] or [""]
        assert ("'income'" in named) == lost


@pytest.mark.parametrize(
    ("codes", "bounds", "told"),
    [
        ([], None, ""),
        ([7_777], None, "1 record lies"),
        ([7_777] * 3, None, "3 records lie"),
        ([-7_777, 7_777], None, "2 records lie"),
        ([7_777] * 3, [0, 120], ""),  # they are outside their bounds, which is told
        ([7_777] * 5, None, ""),  # k records have it: it is released as it is
        ([130] * 3, None, ""),  # none is further out than the others are wide
    ],
)
def test_few_that_stand_far_apart_are_told_in_any_large_table(tmp_path, codes, bounds, told):
    """Of 12,000 ages three codes move the mean by less than a tenth of its standard deviation."""
    ages = np.append(np.random.default_rng(3).integers(18, 100, 12_000), codes)
    columns = {"age": {"kind": "integer", "bounds": bounds}, "other": NUMBER}
    job = small.job(tmp_path, pa.table({"age": ages, "other": np.arange(float(len(ages)))}), columns)
    found = [line for line in preview(job).warnings if "far from all others" in line]
    assert [line.split(" far")[0] for line in found] == ([f"column 'age': {told}"] if told else [])
    assert "7777" not in str(found) and "7,777" not in str(found)


@pytest.mark.parametrize(
    ("code", "rows", "asked"),
    [(999, 40, True), (99, 80, True), (-1, 160, True), (999, 4, False), (101, 80, False), (99, 1, False)],
)
def test_remaining_codes_for_unknown_told_by_column_not_value(tmp_path, code, rows, asked):
    ages = np.append(np.clip(np.random.default_rng(3).normal(50, 12, 6_000).round(), 18, 98), np.repeat(code, rows))
    columns = {"age": {"kind": "integer", "bounds": [-10_000, 10_000]}, "other": NUMBER}
    job = small.job(tmp_path, pa.table({"age": ages.astype(int), "other": np.arange(float(len(ages)))}), columns)
    found = [line for line in preview(job).warnings if "looks like a code" in line]
    assert [line.split(":")[0] for line in found] == (["column 'age'"] if asked else [])
    assert not any(str(code) in line for line in found)


def test_values_beyond_original_are_told_to_steward_alone(tmp_path):
    table = months()
    columns = small.unscored({"surv_mm": TIME, "size": NUMBER, "far": {**NUMBER, "bounds": [-50, 50]}})
    job = small.job(tmp_path, table, columns, gates=LOOSE, mask={"method": "noise"})
    plan = preview(job)
    assert any("surv_mm" in line and "lower bound 0, as none is declared" in line for line in plan.lines(details=True))
    assert any("'surv_mm' (above), 'size' have no bounds" in line for line in plan.warnings)
    outcome = small.run(job)
    assert outcome.version
    made, told = small.released(job).to_pandas(), beyond(outcome)
    far = table["far"].to_numpy()
    assert made["surv_mm"].min() >= 0 and (made["surv_mm"] == 0).any()
    assert ((made["far"] < far.min()) | (made["far"] > far.max())).any()
    assert set(told) <= {"surv_mm", "size"} and "size" in told
    size = table["size"].to_numpy()
    share = ((made["size"] < size.min()) | (made["size"] > size.max())).mean()
    assert told["size"] == f"{100 * share:.1f} %"
    above = (made["surv_mm"] > table["surv_mm"].to_numpy().max()).mean()
    assert ("surv_mm" in told) == (above > 0)
    where = release.resolve(job.output)
    assert "original ones" not in json.dumps(release.read_manifest(where))
    for path in (tmp_path / "out").rglob("_report*"):
        assert b"original ones" not in path.read_bytes()


def test_a_lower_bound_that_cuts_the_data_fails_the_mean(tmp_path):
    cost = np.exp(np.random.default_rng(0).normal(3.0, 1.0, 400))
    table = pa.table({"cost": cost, "age": np.arange(400.0)})
    columns = {"cost": {**NUMBER, "bounds": [100, 10_000], "transform": "log"}, "age": NUMBER}
    gates = {"mean_in_unit": 1e9, "unchanged_record_rate": 1.0}
    outcome = small.run(small.job(tmp_path, table, columns, gates=gates))
    assert outcome.version is None
    assert "mean" in [check.name for check in outcome.verdict.lines if check.outcome == "failed"]
    fitting = {**columns, "cost": {**columns["cost"], "bounds": [0.01, 10_000]}}
    assert small.run(small.job(tmp_path, table, fitting, gates=gates)).verdict.passed


def test_only_what_has_no_logarithm_is_lifted():
    from anonpipe.verify.expectations import build_view

    column = Column(kind="integer", bounds=(0, None), transform="log")
    view = build_view({"a": column}, {"a": 0.0}, {"a": 1.0}, {}, log_mean={"a": 0.0}, log_sd={"a": 1.0})
    measured = view.measure(np.array([[3.0], [-0.5], [-1.0], [-7.0], [np.nan]]))[:, 0]
    assert measured[:4].tolist() == [np.log(4.0), np.log(0.5), 0.0, 0.0] and np.isnan(measured[4])


def followed(rows=300):
    rng = np.random.default_rng(1)
    age = rng.normal(60, 10, rows)
    return pd.DataFrame({"months": np.floor(rng.exponential(9, rows)), "dead": rng.random(rows) < 0.7, "age": age})


COX = Analysis("survival", "cox", "months ~ age", event="dead == 1")


def test_times_below_0_are_the_reason_and_times_of_0_are_none():
    frame = followed()
    assert (frame["months"] == 0).any()
    moved = frame.assign(months=frame["months"].where(frame.index >= 7, -1.0))
    (there,) = compare_models(frame, moved, [COX])
    assert there.original.problem is None
    assert there.released.problem == "7 released times are below 0; declare bounds"
    (back,) = compare_models(moved, frame, [COX])
    assert back.original.problem.startswith("7 original times are below 0; leave such records out")


def test_a_model_without_fit_is_a_note_of_the_verdict():
    from anonpipe.pipeline.evaluation.measures import notes
    from anonpipe.verify.verdict import AnalysisOutcome, Assessment

    frame = followed()
    lost = compare_models(frame, frame.assign(months=frame["months"] - 1), [COX])
    kept = compare_models(frame, frame, [COX])
    told = [notes(Assessment(analyses=(AnalysisOutcome(one, {}, 300, 300),)), {}) for (one,) in (lost, kept)]
    below = int((frame["months"] == 0).sum())
    fit = "analysis 'survival' has no fit to the release: "
    assert told == [(f"{fit}{below} released times are below 0; declare bounds",), ()]


@pytest.mark.parametrize(
    ("method", "repeated", "warned", "transform"),
    [
        ("micro_perturbation", 40, "100 %", "none"),
        ("micro_perturbation", 40, "99 %", "normal_scores"),  # equal values have different scores: one group is mixed
        ("micro_perturbation", 30, "75 %", "normal_scores"),
        ("gaussian", 30, "75 %", "normal_scores"),
        ("gaussian", 30, "75 %", "none"),
        ("gaussian", 10, None, "normal_scores"),
    ],
)
def test_tables_of_repeated_rows_are_told(tmp_path, method, repeated, warned, transform):
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(repeated, 2)), 10, axis=0)
    rows = np.concatenate([rows, 50 + rng.normal(size=(400 - len(rows), 2))])
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1]})
    columns = dict.fromkeys("ab", NUMBER | {"transform": transform})
    how = {"cluster": {"method": "mdav"}, "synthesize": {"method": method}}
    job = small.job(tmp_path, table, columns, gates=LOOSE, **how)
    told = [each for each in small.run(job).warnings if "without any spread" in each]
    assert len(told) == (warned is not None)
    if warned is not None:
        assert told[0].startswith(f"{warned} of the rows") and "one row per person" in told[0]
        assert ("noise" in told[0]) == (method == "micro_perturbation" and warned != "100 %")


def test_rows_without_spread_like_a_plain_count():
    rng = np.random.default_rng(3)
    for _ in range(20):
        cells = rng.choice([0.0, np.nan], (30, 2), p=[0.7, 0.3])
        starts = np.array([0, 3, 5, 9, 17, 25, 28, 30])
        order = rng.permutation(30)
        groups = [cells[order[a:b]] for a, b in pairwise(starts)]
        naive = sum(len(g) for g in groups if all(np.array_equal(row, g[0], equal_nan=True) for row in g))
        assert rows_without_spread(cells, order, starts) == naive


def test_many_columns_with_long_tails_share_a_line_each(tmp_path):
    """Of a dozen, five are named; those that nobody may add up are all named."""
    rng = np.random.default_rng(7)
    tails = {f"tail{at:02d}": np.append(rng.normal(9.0, 1.0, 3_000), [9.0 + 51.0 * (at % 2), 60.0]) for at in range(12)}
    sums = {f"sum{at}": np.append(rng.lognormal(3.0, 1.0, 3_001), 9e8) for at in range(7)}
    table = pa.table(tails | sums)
    told = preview(small.job(tmp_path, table, dict.fromkeys(table.column_names, NUMBER), gates=LOOSE)).warnings
    (apart,) = [line for line in told if "far from all others" in line]
    assert apart.startswith(
        "each of the columns 'tail00', 'tail01', 'tail02', 'tail03', 'tail04' and 7 more: up to 2 records lie far"
    )
    (lost,) = [line for line in told if "of its mean" in line]
    assert all(f"'{name}'" in lost for name in sums)
    assert len([line for line in told if "tail" in line and "all original ones" not in line]) <= 2
    plain = {name: NUMBER | {"transform": "none"} for name in table.column_names}
    (tmp_path / "plain").mkdir()
    drawn = [one for one in preview(small.job(tmp_path / "plain", table, plain)).warnings if "top-coded" in one]
    assert len(drawn) == 2 and sum("and 7 more" in one for one in drawn) == 1


def test_columns_left_out_are_named_at_the_end(tmp_path, monkeypatch, capsys):
    """By `init`, which proposes it, on standard error, and by the summary of a run."""
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "age": rng.integers(18, 90, 400),
            "income": rng.lognormal(9.0, 1.0, 400),
            "remark": [f"{small.CANARY} {at}" for at in rng.integers(0, 250, 400)],
        }
    )
    path = small.write_table(tmp_path, table)
    call = small.commands(capsys, monkeypatch)
    proposed = call("init", path)
    assert "left out by role: dropped" in proposed.err and "remark" in proposed.err
    assert small.CANARY not in proposed.out + proposed.err and yaml.safe_load(proposed.out)["columns"]
    columns = {"age": {"kind": "integer"}, "income": {"kind": "continuous"}, "remark": {"role": "dropped"}}
    done = small.run(small.job(tmp_path, table, columns, gates=LOOSE))
    assert done.version and done.summary[-1] == "dropped  remark"


def test_one_warning_for_columns_of_the_same_cause(tmp_path):
    rng = np.random.default_rng(3)
    ages = {f"age{at}": rng.integers(20, 90, 400) for at in range(12)}
    columns = {name: {"kind": "integer", "bounds": [30, None]} for name in ages}
    kinds = {name: {"kind": "categorical"} for name in "ab"}
    rare = {name: ["rare"] * 2 + ["usual"] * 398 for name in kinds}
    planned = preview(small.job(tmp_path, pa.table(ages | rare), columns | kinds, gates=LOOSE))
    (outside,) = [each for each in planned.warnings if "the declared bounds" in each]
    rows = int((ages["age0"] < 30).sum())
    assert (
        outside.startswith(f"columns 'age0' ({rows} rows, {rows / 400:.1%}), 'age1' (") and " and 2 more: " in outside
    )
    (suppressed,) = [each for each in planned.warnings if "fewer than k=5 records have" in each]
    assert suppressed.startswith("columns 'a' (2 records), 'b' (2 records): categories, or none,")


@pytest.mark.parametrize(
    ("values", "step", "off"),
    [
        (np.arange(400) * 2.5, 10, 300),
        (np.arange(400) + 0.99, 1, 0),  # all as far from it: released values are, too
        ((np.arange(400) * 0.1).astype(np.float32), 0.1, 0),
        (np.arange(400) * 3, 2, 200),
    ],
)
def test_values_off_the_declared_step_are_counted(tmp_path, values, step, off):
    kind = "integer" if values.dtype == int else "continuous"
    columns = {"x": {"kind": kind, "step": step}, "y": NUMBER}
    table = pa.table({"x": values, "y": np.random.default_rng(1).normal(size=400)})
    told = [each for each in preview(small.job(tmp_path, table, columns, gates=LOOSE)).warnings if "step" in each]
    assert len(told) == bool(off)
    assert all(each.startswith(f"column 'x' ({off} rows, {off / 400:.1%}): values that are no mult") for each in told)


def test_bounds_of_whole_numbers_are_whole():
    with pytest.raises(ValueError, match="bounds and spike of kind integer are whole"):
        Column(kind="integer", bounds=(0.5, 110))
    assert Column(kind="integer", bounds=(0.0, 110)).bounds == (0.0, 110)
