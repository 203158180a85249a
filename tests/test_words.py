"""The words that users meet: those of the field, and none of the house's own that they replace."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from anonpipe.job.model import Job
from anonpipe.report import read_report
from anonpipe.report.content import MeasureLine
from tests import small

OLD = re.compile(
    r"promis|foretold|\b(rows?|one) a (person|column|core|file|stratum)\b|as they were|"
    r"steward's report|recipients' report|report for the steward|releasable|linked_share|homogeneous_share|"
    r"suppressed_share|\bof one class\b|role class|role kept|\bkept columns?\b|columns? of points|point columns|"
    r"\banew\b|\bmend\b|certificate|ledger|receipts?\b|shel(f|ves)\b|\bslabs?\b|\bpieces? (is|are) done|"
    r"\bunchanged columns?\b",
    re.IGNORECASE,
)
"""What was said before, and means something else or nothing in the field."""

COMMANDS = (
    "init",
    "plan",
    "run",
    "compare",
    "summary",
    "report",
    "verify",
    "methods",
    "schema",
    "demo",
    "purge",
    "warm",
)


def old_words(text):
    """Every old word with what stands around it."""
    text = " ".join(re.sub(r"<svg.*?</svg>|<style.*?</style>", " ", text, flags=re.DOTALL).split())
    return [text[max(0, found.start() - 40) : found.end() + 40] for found in OLD.finditer(text)]


@pytest.fixture
def job_file(tmp_path):
    """A job with columns of all roles, measures on, and a gate that fails where asked."""
    table = small.plain_table(400)
    content = small.content(tmp_path, small.write_table(tmp_path, table))
    content["columns"] = content["columns"] | {"place": {"kind": "categorical", "role": "sensitive"}}
    content |= {"sensitive": {"l_diversity": 1.5}, "measure": {"rows": 200, "queries": 50, "hold_out": 0.2}}
    content["gates"] = {"mean": 9, "covariance": 9, "covariance_with_keys": 9, "unchanged_record_rate": 1}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.secret("5e" * 32)  # few records: of other secrets one in twenty refuses the release
def test_no_old_word_in_what_a_run_says(call, job_file, tmp_path):
    said = {}
    for name, arguments in {
        "init": ("init", tmp_path / "data.parquet"),
        "plan": ("plan", job_file),
        "run": ("run", job_file, "--verbose"),
        "failed": ("run", job_file, "--set", "gates.reidentification_rate=0", "--set", "gates.homogeneity=0"),
        "json": ("run", job_file, "--json"),
        "summary": ("summary", job_file),
        "methods": ("methods",),
    }.items():
        answer = call(*arguments)
        assert answer.code == (3 if name == "failed" else 0), answer
        said[name] = answer.out + answer.err
        written = [path for path in (tmp_path / "out").rglob("*") if path.suffix in (".json", ".html")]
        said |= {f"{name}: {path.relative_to(tmp_path)}": path.read_text() for path in written}
    assert {"_manifest.json", "_report.json", "_report.html"} <= {Path(name).name for name in said}
    assert any("steward" in name and name.startswith("failed: ") for name in said)
    assert {name: found for name, text in said.items() if (found := old_words(text))} == {}
    for word in ("deviation from its expected value", "key variables", "internal report", "reidentification_rate"):
        assert any(word in " ".join(text.split()) for text in said.values()), word
    pages = [text for name, text in said.items() if name.endswith(".html")]
    assert any("For the data steward only" in page for page in pages)
    assert any("For recipients of the release" in page for page in pages)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_old_word_in_help(call, command):
    answer = call(command, "--help")
    assert answer.code == 0 and old_words(answer.out) == []


def test_no_old_word_in_the_schema_of_a_job():
    assert old_words(json.dumps(Job.model_json_schema())) == []


def test_a_report_of_an_earlier_version_is_read(call, job_file, tmp_path):
    assert call("run", job_file).code == 0
    (path,) = (tmp_path / "out" / "versions").glob("*/_report.json")
    now = json.loads(path.read_text())
    before = {"promises": now.pop("guarantees"), "limits_of_promise": now.pop("not_guaranteed"), **now}
    before["methods"] = [{"promise": one.pop("keeps"), **one} for one in before["methods"]]
    before["audience"] = "releasable"
    earlier = Path(tmp_path / "report.json")
    earlier.write_text(json.dumps(before))
    assert read_report(earlier) == read_report(path) and read_report(path).audience == "external"


def test_a_measure_of_an_earlier_version_has_its_name_of_now():
    line = {"title": "-", "value": 0.5, "unit": "", "better": "lower", "source": "-", "records": 1, "of": 1}
    names = [MeasureLine(name=name, **line).name for name in ("membership.auc", "membership_auc", "linkage.group")]
    assert names == ["membership_auc", "membership_auc", "linkage.group"]
