"""What a job that says nothing is: its method, whom it sets aside, and the limits that its release must meet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Measurement, Reason
from anonpipe.job.model import load_job, parse_job
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.evaluation.measures import checks, limits_of
from anonpipe.pipeline.preview import preview
from anonpipe.storage import release
from anonpipe.verify.verdict import Assessment
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {"age": {"kind": "integer"}, "income": {"kind": "continuous"}, "site": {"kind": "categorical"}}
KEY = {"site": {"kind": "categorical", "role": "key"}}
SAID_NOTHING = {"input": "in.parquet", "output": "out", "k": 5, "columns": COLUMNS}


def table(rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(2)
    age = rng.integers(18, 90, rows)
    income = np.exp(rng.normal(9 + age / 60, 1, rows)).round(2)
    return pa.table({"age": age, "income": income, "site": rng.choice(["a", "b", "c"], rows)})


def silent(folder, data=None, **changes):
    """A job as a user writes it who leaves all to anonpipe."""
    path = small.write_table(folder, table() if data is None else data)
    measure = {"utility": False, "queries": 300}
    return parse_job(SAID_NOTHING | {"input": path, "output": str(folder / "out"), "measure": measure} | changes)


@pytest.mark.parametrize(
    ("changes", "mask"),
    [
        ({}, "local_synthesis"),
        ({"mask": None, "cluster": None}, "local_synthesis"),
        ({"columns": {"site": {"kind": "categorical"}, "age": {"role": "identifier"}}}, "spectral_swap"),
        ({"columns": COLUMNS | KEY}, None),
        ({"columns": COLUMNS | KEY, "strata": {"by": ["site"]}}, "local_synthesis"),
        ({"columns": COLUMNS | {"firm": {"role": "unit"}}}, "local_synthesis"),
        ({"columns": {"site": {"kind": "categorical"}, "firm": {"role": "unit"}}}, None),
        ({"columns": COLUMNS | {"firm": {"role": "identifier"}}}, "local_synthesis"),
        ({"decode": {"categories": "histogram"}}, None),
        ({"cluster": {}}, None),
        ({"synthesize": {"method": "centroid"}}, None),
        ({"sensitive": {}}, None),
        ({"mask": {"method": "noise"}}, "noise"),
    ],
)
def test_the_method_of_a_job_that_names_none(changes, mask):
    job = parse_job(SAID_NOTHING | changes)
    assert (job.mask and job.mask.method) == mask and (job.cluster is None) == (mask is not None)
    assert parse_job(job.model_dump(mode="json")) == job  # as workers read it
    if mask is None and "synthesize" not in changes:
        assert (job.cluster.method, job.synthesize.method) == ("mdav", "micro_perturbation")


def test_groups_by_default_say_why():
    of_categories = {"columns": {"site": {"kind": "categorical"}, "firm": {"role": "unit"}}}
    assert "no masked column is a number or a date: so records are replaced in groups" in "\n".join(
        parse_job(SAID_NOTHING | of_categories).warnings()
    )
    assert "in groups" not in "\n".join(
        parse_job(SAID_NOTHING | {"columns": COLUMNS | {"firm": {"role": "unit"}}}).warnings()
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"columns": 3},
        {"columns": {"a": 3}},
        {"columns": {"a": {"role": ["key"]}}},
        {"strata": {"by": 5}},
        {"strata": {"by": [["site"]]}, "columns": COLUMNS | KEY},
        {"decode": "histogram"},
        {"columns": {"a": {"kind": ["integer"]}}},
    ],
)
def test_what_is_no_job_is_told_as_such(odd):
    with pytest.raises(JobError, match="the job is not valid"):
        parse_job(SAID_NOTHING | odd)


def test_command_line_settings_choose_before_the_usual_ones(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("input: a.parquet\noutput: out\nk: 5\ncolumns: {age: {kind: integer}}")
    assert load_job(path).mask.method == "local_synthesis"
    assert load_job(path, {"cluster.method": "kmeans"}).mask is None


@pytest.mark.parametrize(
    ("changes", "linked", "member"),
    [
        ({}, 0.09, 0.6),
        ({"cluster": {"method": "mdav"}}, 0.2, 0.6),  # 1 in k is what groups of k promise
        ({"cluster": {"method": "mdav"}, "k": 20}, 0.09, 0.6),
        ({"mask": {"method": "noise"}}, 0.09, 0.6),
        ({"mask": {"method": "generalize"}}, 0.2, 0.6),  # sets of k that are alike
        ({"gates": {"reidentification_rate": None, "membership_auc": None}}, None, None),
        ({"gates": {"reidentification_rate": 0.3, "membership_auc": 0.7}}, 0.3, 0.7),
        ({"gates": {"reidentification_rate": "default"}}, 0.09, 0.6),
        ({"measure": {"risk": False}}, None, None),
    ],
)
def test_limits_that_a_job_leaves_to_the_usual_ones(changes, linked, member):
    job = parse_job(SAID_NOTHING | changes)
    assert (job.limits["reidentification_rate"], job.limits["membership_auc"]) == (linked, member)
    assert job.limits["scenario_risk"] is job.limits["stratum_inference"] is None  # no scenario, no strata
    assert parse_job(job.model_dump(mode="json")).limits == job.limits


def test_limits_of_what_a_job_names():
    known = {"measure": {"scenarios": [{"name": "neighbour", "knows": ["age"]}]}}
    job = parse_job(SAID_NOTHING | known | {"columns": COLUMNS | KEY, "strata": {"by": ["site"]}})
    assert (job.limits["scenario_risk"], job.limits["stratum_inference"]) == (0.09, 0.85)
    of_controls = ("attribute_inference", "singling_out", "linkability")
    assert [job.limits[name] for name in of_controls] == [0.1] * 3 and job.limits["tail_linkage"] == 0.2
    assert not any(parse_job(SAID_NOTHING | {"measure": {"hold_out": 0}}).limits[name] for name in of_controls)
    assert parse_job(SAID_NOTHING | {"cluster": {"method": "mdav"}}).limits["tail_linkage"] is None  # 1 in k at most
    assert job.limits["collusion"] is None


@pytest.mark.parametrize(
    ("rows", "changes", "share"),
    [
        (2_000, {}, 0.1),
        (19_999, {}, 0.1),
        (20_000, {}, 0.05),
        (1_999, {}, 0.0),
        (2_000, {"measure": {"hold_out": 0}}, 0),
        (100, {"measure": {"hold_out": 0.2}}, 0.2),
        (2_000, {"measure": {"risk": False}}, 0.0),
        (2_000, {"repeat": {"growing": True}, "columns": COLUMNS | {"nr": {"role": "identifier"}}}, 0.0),
    ],
)
def test_whom_a_job_sets_aside(rows, changes, share):
    job = parse_job(SAID_NOTHING | changes)
    assert job.of_rows(rows).measure.hold_out == share
    assert job.of_rows(rows).of_rows(1) == job.of_rows(rows)
    assert (job.of_rows(rows).digest() == job.digest()) == (job.measure.hold_out == share or share == 0)


def test_limit_needing_absent_hold_out_is_refused_before_work(tmp_path):
    job = silent(tmp_path, gates={"singling_out": 0.1})
    for look in (small.run, preview):
        with pytest.raises(
            JobError, match=r"gates.singling_out needs held-out records, and of 600 rows, fewer than 2,0"
        ):
            look(job)
    assert small.left_behind(tmp_path) == []


def test_silent_job_is_released_within_limits_and_verdict_says(tmp_path):
    outcome = small.run(silent(tmp_path))
    (linked,) = [check for check in outcome.verdict.checks if check.key == "risk.reidentification_rate"]
    assert outcome.version is not None and outcome.verdict.word.startswith("passed, membership inf")
    assert linked.measured < linked.limit == 0.09
    reasons = {check.key: check.reason for check in outcome.verdict.checks}
    assert reasons["unmeasured.membership"] is Reason.NO_HOLD_OUT


def test_mask_handing_on_records_is_refused_without_job_words(tmp_path):
    outcome = small.run(silent(tmp_path, mask={"method": "noise", "amount": 0.01}))
    assert outcome.version is None
    assert [check.key for check in outcome.verdict.failed] == ["risk.reidentification_rate", "risk.tail_linkage"]


@pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)
def test_members_are_not_told_from_hold_out_of_many_records(tmp_path, monkeypatch):
    monkeypatch.setattr("anonpipe.job.measure.HELD_OUT", {600: 0.2})
    verdict, _ = pipeline.assess_only(silent(tmp_path))
    checks = {check.key: check for check in verdict.checks}
    assert checks["risk.membership_auc"].limit == 0.6
    assert verdict.passed and not verdict.unlimited and not verdict.unmeasured
    assert checks["risk.membership_auc"].about["end"] != "upper"  # of 120 it would reach the limit by chance
    assert checks["rows.lost"].measured == 0
    assert any("of 600 rows were held out (measure.hold_out)" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("value", "half", "judged", "outcome"),
    [
        (0.55, 0.03, 0.58, "passed"),
        (0.575, 0.03, 0.605, "failed"),
        (0.57, 0.05, 0.57, "passed"),  # of wider intervals the estimate
        (0.61, 0.05, 0.61, "failed"),
        (0.63, 0.08, 0.55, "passed"),  # of still wider ones only what is certain
        (0.8, 0.19, 0.61, "failed"),
        (0.65, 0.08, 0.65, "failed"),  # or the estimate, where something is certainly disclosed
    ],
)
def test_default_limit_is_held_against_end_few_controls_allow(value, half, judged, outcome):
    job, ends = parse_job(SAID_NOTHING), {"low": value - half, "high": value + half}
    found = Measurement("membership_auc", "-", value, "-", "-", "-", 100, 2_000, **ends)
    expected = Measurement("membership.expected", "-", 0.51, "-", "-", "-", 2_000, 2_000)
    assessment = Assessment(risk=(found, expected))
    (line,) = checks(assessment, limits_of(job, assessment) | {"tail_linkage": None}, job.gates.at_default)
    assert (round(line.measured, 9), line.outcome.value, line.point) == (judged, outcome, value)
    own = parse_job(SAID_NOTHING | {"gates": {"membership_auc": 0.7}})
    (line,) = checks(assessment, limits_of(own, assessment), own.gates.at_default)
    assert line.measured == value + half and line.limit == 0.7
    assert limits_of(job, Assessment(risk=(expected,)))["membership_auc"] == 0.6  # without a hold-out


def test_the_plan_says_which_limits_are_usual(tmp_path):
    text = " ".join(" ".join(preview(silent(tmp_path)).lines(details=True)).split())
    assert (
        "reidentification_rate 0.09 default" in text
        and "membership_auc 0.6 default" in text
        and ", 0 % held out" in text
    )


def test_recipients_are_told_number_set_aside_and_wider_limits(tmp_path):
    wider = {"gates": {"reidentification_rate": 0.3, "membership_auc": None}}
    job = silent(tmp_path, measure={"utility": False, "hold_out": 0.2}, **wider)
    assert small.run(job).version is not None
    where = release.resolve(job.output)
    assert release.read_manifest(where)["held_out"] == 0.2
    (page,) = (tmp_path / "out" / "versions").glob("*/_report.html")
    text = page.read_text()
    assert "20 of 100 records of the table were held out at random" in text and "take 1.25 times" in text
    assert "records linked correctly 0.3 (default 0.09)" in text


@pytest.mark.parametrize("limit", [True, False, float("inf"), float("nan")])
def test_a_limit_is_a_number(limit):
    with pytest.raises(JobError, match=r"gates: mean is (true|false|inf|nan)"):
        parse_job(SAID_NOTHING | {"gates": {"mean": limit}})


def test_a_limit_that_nothing_can_be_beyond_is_none(tmp_path):
    verdict, _ = pipeline.assess_only(silent(tmp_path, gates={"reidentification_rate": 1}))
    assert verdict.word.startswith("passed, with no limit on reidentification_rate; membership inference")


def test_mask_of_own_values_is_measured_or_the_job_says_why(tmp_path):
    """Noise of a thousandth of the deviation protects nothing: without measures it comes out with a reason alone."""
    noise = {"mask": {"method": "noise", "amount": 0.001}, "gates": {"unchanged_record_rate": 1}}
    unmeasured = silent(tmp_path, **noise, measure={"risk": False, "utility": False})
    for trial in (False, True):
        with pytest.raises(JobError, match=r"mask noise keeps much of each person's.*measure\.allow"):
            pipeline.try_out(unmeasured) if trial else pipeline.execute(unmeasured, cluster=False)
    assert preview(unmeasured).exit_code == JobError.exit_code
    assert any("runs are refused: measure.risk is off" in warning for warning in unmeasured.warnings())
    said = silent(tmp_path, **noise, measure={"risk": False, "utility": False, "allow": "published before"})
    outcome = pipeline.execute(said, cluster=False)
    assert outcome.version and outcome.verdict.word == "passed, disclosure risk not measured"
    assert any("published before" in note for note in outcome.verdict.notes)
    assert silent(tmp_path, measure={"risk": False}).unmeasured is None  # local synthesis keeps no person's values
    with pytest.raises(JobError, match=r"measure\.allow says why risk need not be measured, and it is"):
        silent(tmp_path, measure={"allow": "no reason"})
