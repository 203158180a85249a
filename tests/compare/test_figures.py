"""Averages over draws, the front, the choice, and what is drawn and written of them."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.compare import Axis, cells, grid, legend, pareto, reasons, summarise, write_study
from anonpipe.compare._results import FURTHEST
from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Measurement
from anonpipe.job.model import parse_job
from anonpipe.verify.catalogue import MEASURED
from tests import small
from tests.naive import compare as naive

LIMIT = {"gates": {"reidentification_rate": 0.2}}


def job(**changes):
    changes = {"measure": {"risk": True}, **changes}
    return parse_job(small.content(Path("/nowhere"), "data.parquet", **changes))


def measurement(name, value, better="lower", low=None, high=None, baseline=None):
    told = "chance" if baseline is not None else ""
    return Measurement(name, f"title of {name}", value, "share", better, "-", 9, 9, low, high, baseline, told)


def result(utility, risk, passed=True, problem=None):
    """What a trial tells; `utility` of None is no figure."""
    found = [measurement("overlap", utility, "higher")] if utility is not None else []
    found += [measurement("reidentification_rate", risk, low=risk - 0.01, high=risk + 0.02, baseline=0.001)]
    return {
        "problem": problem,
        "final": True,
        "passed": passed,
        "failed": [] if passed else [["mean: all", "0.3, limit 0.02"]],
        "measures": {one.name: one.to_dict() for one in found} if problem is None else {},
        "utility": ["overlap"],
        "risk": ["reidentification_rate"],
        "seconds": 1.0,
    }


def study(results, methods=("mdav+centroid", "mdav+pca", "mask:noise"), problems=None, axes=(None, None), **changes):
    return summarise(job(**changes), grid(job(), methods, [5]), results, problems or {}, axes)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_the_front_is_that_of_plain_loops(places):
    assert pareto(places) == naive.on_front(places)
    assert any(pareto(places)) == bool(places)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_averages_are_those_of_plain_loops(values):
    found = study([(0, result(value, 0.1)) for value in values], methods=["mdav+centroid"])
    figure = found.rows[0].figures["overlap"]
    mean, error = naive.mean_and_error(values)
    assert figure.mean == pytest.approx(mean)
    assert figure.error == pytest.approx(error, abs=1e-12) or (math.isnan(error) and math.isnan(figure.error))
    assert found.place(found.rows[0]) == pytest.approx((1 - mean, 0.1)) and found.draws == len(values)


def test_choice_passes_all_gates_in_all_draws_at_least_loss():
    results = [(0, result(0.9, 0.3)), (0, result(0.9, 0.3, passed=False)), (1, result(0.7, 0.1)), (1, result(0.7, 0.1))]
    found = study([*results, (2, result(0.5, 0.05)), (2, result(0.5, 0.05))], **LIMIT)
    assert found.choice is found.rows[1] and not found.rows[0].passes and found.rows[0].passed == 1
    assert [row.setting.method for row in found.front] == ["mdav+pca", "mask:noise"]  # the first fails in a draw
    assert legend(found)[1] == "bold: Pareto front of the settings that pass all gates"
    assert legend(found)[0].startswith("±: two standard errors over draws; [..]: the 95 % interval; (..): the baseline")
    assert found.risk.limits == (("gates.reidentification_rate", 0.2),) and found.notes == ()
    assert cells(found, found.rows[0])[2:] == ("1 of 2", "0.1 ±0", "0.3 ±0 [0.29, 0.32] (0.001)")
    assert reasons(found) == ("failed: mean: all - mdav+centroid k=5",)


def test_equal_losses_choose_lower_risk_and_none_if_none_pass():
    equal = [(0, result(0.7, 0.3)), (1, result(0.7, 0.1)), (2, result(0.7, 0.2))]
    assert study(equal).choice.setting.method == "mdav+pca"
    unlimited = {"gates": {"reidentification_rate": None}}
    none = study([(at, result(0.7, 0.1, passed=False)) for at in range(3)], **unlimited)
    assert none.choice is None and none.front and "tends to the least protection" in none.notes[0]
    assert none.notes[0].endswith(
        "set one by gates.reidentification_rate, as in --set gates.reidentification_rate=0.05"
    )
    assert legend(none)[1] == "bold: Pareto front of all: none passes" and "±" not in legend(none)[0]
    other = study([(0, result(0.7, 0.1))], methods=["mdav+pca"], axes=(None, "overlap"))
    assert f"limits can be set on {', '.join(MEASURED)}" in other.notes[0]


def test_no_further_than_other_sample_then_lower_risk_chosen():
    def told(furthest, risk):
        found = result(None, risk)
        return found | {"measures": found["measures"] | {FURTHEST: measurement(FURTHEST, furthest).to_dict()}}

    near = study([(0, told(0.2, 0.3)), (1, told(0.9, 0.1)), (2, told(1.4, 0.01))])
    assert near.choice.setting.method == "mdav+pca" and "as near to the original as another sample" in near.why
    assert [Axis(name, "", "", "lower").enough for name in ("column_shapes", "survival_curves")] == [1.0, 1.0]
    assert Axis("propensity.tree_ratio", "", "", "lower").enough == -math.inf
    far = study([(0, told(1.2, 0.3)), (1, told(1.9, 0.1)), (2, told(1.4, 0.01))])
    assert far.choice.setting.method == "mdav+centroid" and far.why == "least utility lost with all gates passed"


def test_what_is_not_feasible_and_what_has_no_figure_are_told(tmp_path):
    results = [(0, result(0.9, 0.3)), (1, result(None, 0.3))]
    found = study(results, problems={2: "k is too small"}, axes=("overlap", "reidentification_rate"))
    assert found.place(found.rows[1]) is None and found.place(found.rows[2]) is None
    assert "mdav+pca" in found.notes[0] and "mask:noise" not in found.notes[0]
    assert cells(found, found.rows[2])[2] == "not feasible"
    assert reasons(found) == ("k is too small - mask:noise k=5",)
    table, content, picture = write_study(found, tmp_path / "new" / "folder")
    lines = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [line["problem"] for line in lines] == ["", "", "k is too small"]
    assert lines[0]["overlap mean"] == "0.9" and lines[1]["utility_loss"] == "" and lines[0]["chosen"] == "1"
    told = json.loads(content.read_text())
    assert told["choice"]["set"] == ["k=5", "cluster={method: mdav, refine: false}", "synthesize={method: centroid}"]
    assert told["settings"][0]["measures"]["reidentification_rate"]["baseline"] == 0.001
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (table, content, picture))


def test_draws_on_either_side_of_baseline_do_not_compensate():
    results = []
    for value in (0.5, 1.5):
        one = result(0.9, 0.3)
        one["measures"]["ratio"] = measurement("ratio", value, "near baseline", baseline=1.0).to_dict()
        results.append((0, one))
    found = study(results, methods=["mdav+pca"], axes=("ratio", None))
    assert found.rows[0].figures["ratio"].mean == 1.0 and found.place(found.rows[0])[0] == 0.5
    assert cells(found, found.rows[0])[3].startswith("0.5 ±")


def test_axes():
    assert Axis("a", "t", "", "near baseline").loss(3.0, 1.0) == 2.0
    assert Axis("a", "t", "bits", "higher").loss(3.0) == -3.0 and Axis("a", "t", "", "lower").loss(3.0) == 3.0
    with pytest.raises(
        JobError, match="--risk is 'nothing', which was not measured; there are: overlap, reidentification_rate"
    ):
        study([(0, result(0.9, 0.3))], axes=(None, "nothing"))
    with pytest.raises(JobError, match="no setting could be measured:\n  out of luck"):
        study([(at, result(0.9, 0.3, problem="out of luck")) for at in range(3)])


def test_limits_of_the_analyses_are_lines():
    analyses = [
        {"name": name, "model": "linear", "formula": "income ~ age", "limits": {"overlap": 0.6}} for name in "ab"
    ]
    for name in ("analyses.overlap", "analysis.b.overlap"):
        one = result(0.9, 0.3)
        one["measures"][name] = measurement(name, 0.75, "higher").to_dict()
        found = study([(0, one)], analyses=analyses, axes=(name, None), methods=["mdav+pca"])
        ((_, limit),) = found.utility.limits
        assert np.isclose(limit, 0.4) and np.isclose(found.place(found.rows[0])[0], 0.25)
