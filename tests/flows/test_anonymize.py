"""The flow as a user meets it: exit codes, states, artifacts, and going on after a crash."""

from __future__ import annotations

import ast
import base64
import json
import logging
import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import anonpipe
from anonpipe.errors import InputError
from anonpipe.job.model import load_job
from anonpipe.pipeline.run import MAPPED_STAGES, RunOutcome
from anonpipe.pipeline.start import run_id
from anonpipe.storage.staging import Staging, lock
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import RunFacts
from flows import anonymize
from flows.anonymize import under_prefect
from tests import runs
from tests.flows.poison import Poison

CODES = """
import json, sys
from flows import anonymize
codes = [anonymize.main(arguments) for arguments in json.loads(sys.argv[1])]
print("codes", json.dumps(codes))
"""

PLAIN = Poison("canary-unused", 12345.6789)


def variant(folder, name, job, **changes):
    """The same job with some keys changed, in a file of its own."""
    content = {**yaml.safe_load(job.read_text()), **changes}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.mark.secret(runs.SECRET)
def test_exit_codes_states_and_artifacts(tmp_path, server, monkeypatch, call):
    job = PLAIN.table(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    strict = {"decode": {"categories": "sampled"}, "gates": {"category_share": 1e-12, "covariance": 1e-9}}
    cases = {
        "no job": ([], 2),
        "bad job": ([variant(tmp_path, "bad", job, k=1)], 2),
        "no input": ([variant(tmp_path, "missing", job, input=str(tmp_path / "none.parquet"))], 2),
        "foreign output": ([variant(tmp_path, "foreign", job, output=str(tmp_path / "full"))], 4),
        "busy": ([variant(tmp_path, "busy", job, k=7)], 6),
        "released": ([str(job)], 0),
        "gate": ([variant(tmp_path, "gate", job, output=str(tmp_path / "gated"), **strict)], 3),
    }
    monkeypatch.chdir(tmp_path)  # paths are printed as seen from here
    (tmp_path / "staging").mkdir(mode=0o700)
    with lock(Staging(tmp_path / "staging" / run_id(load_job(tmp_path / "busy.yaml")))):
        done = PLAIN.program(tmp_path, server, CODES, json.dumps([arguments for arguments, _ in cases.values()]))
    assert done.returncode == 0, done.stderr[-3000:]
    codes = json.loads(done.stdout.strip().rsplit("codes ", 1)[1])
    assert dict(zip(cases, codes, strict=True)) == {name: code for name, (_, code) in cases.items()}
    assert "Warning" not in done.stderr
    monkeypatch.setenv("ANONPIPE_HOME", str(tmp_path / "other home"))  # whose log knows no release of these records
    _check_terminal(tmp_path, call, cases, done)
    _check_runs(tmp_path, server)


def test_no_message_names_an_option_of_the_command_line():
    """Every text of the package that a flow can end with."""
    found = 0
    for path in Path(anonpipe.__file__).parent.rglob("*.py"):
        if "-resume" not in (source := path.read_text()):
            continue
        tree = ast.parse(source)
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in told else None
            if isinstance(text, str) and "-resume" in text and path.name != "cli.py":
                found += 1
                assert "-resume" not in under_prefect(text), (path, text)
    assert found > 10


def _check_terminal(folder, call, cases, done):
    """What `anonpipe run` prints, and each failure once."""
    once = partial(re.sub, r"v000001-\w+|(?<= rows) in \d+ s.*", "")  # a version, and seconds
    for name in ("released", "gate"):
        (file,), code = cases[name]
        job = yaml.safe_load(Path(file).read_text())
        other = Path(variant(folder, f"{name}-by-hand", Path(file), output=f"{job['output']}-by-hand"))
        ran = call("run", other)
        assert ran.code == code
        lines = ran.out.replace("-by-hand", "").splitlines()
        assert len(lines) > 4 and once("\n".join(lines)) in once(done.stdout)
    assert "Traceback" not in done.stderr
    for text in (
        "error: a gate failed: ",
        "nothing was released, the verdict is kept in",
        "another process is running this job",
        "none.parquet",
    ):
        assert done.stderr.count(text) == 1, text


def _check_runs(folder, server):
    gated, released = server.ask("flow_runs", sort="START_TIME_DESC", limit=2)
    assert (gated["state_name"], released["state_name"]) == ("Failed", "Completed")
    version = (folder / "out" / "CURRENT").read_text().strip()
    assert released["name"] == f"out-{version}" and re.fullmatch(r"gated-\d{8}-\d{6}", gated["name"])
    methods = ["anonpipe", "k=5", "mdav", "micro_perturbation"]
    assert released["tags"] == sorted([*methods, "released"]) and "gate failed" in gated["tags"]
    _check_logs(server, gated, released)
    assert re.search("category shares.*, limit: at most .*remedies.*anonpipe-release", gated["state"]["message"])
    tasks = server.ask("task_runs", task_runs={"flow_run_id": {"any_": [gated["id"]]}})
    assert [task["name"] for task in tasks if task["state_name"] == "Failed"] == ["publish"]
    (text,) = server.artifacts(gated["id"], "anonpipe-release")
    assert "Nothing was released" in text["data"] and "remedy: " in text["data"]
    assert "failed: category shares" in text["data"] and "region" in text["data"]
    assert "--details" not in text["data"] and text["description"] == "nothing was released"
    assert not (folder / "gated" / "release").exists()
    (table,) = server.artifacts(gated["id"], "anonpipe-verdict")
    rows = json.loads(table["data"])
    assert [row["outcome"] for row in rows].index("passed") > 0
    assert all(next(iter(row)) == "check" for row in rows)  # the page cuts off what is on the right
    assert all(len(row["check"]) <= 42 and len(row["limit"]) <= 20 for row in rows)
    outcomes = {row["check"]: row["outcome"] for row in rows}
    assert len(outcomes) == len(rows)
    assert outcomes["category shares"] == "failed" and outcomes["smallest group"] == "passed"
    (text,) = server.artifacts(released["id"], "anonpipe-release")
    assert "3,000 rows" in text["data"] and str(folder / "out" / "versions") in text["data"]
    assert "## Warnings" in text["data"]  # the rare category was suppressed
    assert "-report.html`" in text["data"] and "file://" not in text["data"]
    assert re.search(r"^- checks \d+ passed, 0 failed", text["data"], re.MULTILINE)
    assert "```" not in text["data"]  # lines that the page cuts off
    assert text["description"] == f"{version}, 3,000 rows"
    stages = [stage.__name__ for stage in MAPPED_STAGES]
    of_run = {"flow_run_id": {"any_": [released["id"]]}, "key": {"exists_": True}}
    keys = sorted(one["key"] for one in server.ask("artifacts", artifacts=of_run))
    assert keys == [f"anonpipe-{what}" for what in ("columns", "progress", "release", "report", "verdict")]
    (bar,) = server.artifacts(released["id"], "anonpipe-progress")
    assert bar["data"] == 100.0 and bar["description"] == "9 of 9: released"
    (report,) = server.artifacts(released["id"], "anonpipe-report")
    figures = json.loads(report["data"])
    assert {row["of"] for row in figures} == {"risk", "utility"} and "estimate" in figures[0]
    (picture,) = server.artifacts(released["id"], "anonpipe-columns")
    image = picture["data"].partition("](data:image/png;base64,")[2]
    assert base64.b64decode(image.rstrip(")\n")).startswith(b"\x89PNG")
    tasks = server.ask("task_runs", task_runs={"flow_run_id": {"any_": [released["id"]]}})
    names = sorted(run["name"] for run in tasks)
    assert names == sorted([*stages, "verify", "publish"])
    by_name = {run["name"]: run for run in tasks}
    for before, after in pairwise([*stages, "verify", "publish"]):
        told = [one["id"] for given in by_name[after]["task_inputs"].values() for one in given if "id" in one]
        assert by_name[before]["id"] in told, (before, after)


def _check_logs(server, gated, released):
    """The log of a run has each stage and the verdict, and a failure once."""
    texts = {}
    for run in (gated, released):
        texts[run["id"]] = [
            log["message"] for log in server.ask("logs", logs={"flow_run_id": {"any_": [run["id"]]}}, limit=200)
        ]
    of_release = "\n".join(texts[released["id"]])
    for stage in ("scan", "route", "encode", "decode", "write", "verify", "publish"):
        assert len(re.findall(rf"^{stage}: [\d,]+ rows, \d+ tasks?, [0-9.]+ s$", of_release, re.MULTILINE)) == 1, stage
    assert re.search(r"^verdict: passed.*, 0 of \d+ checks failed, 3,000 rows$", of_release, re.MULTILINE)
    assert "Traceback" not in of_release
    told = "\n".join(texts[gated["id"]])
    assert (
        told.count("nothing was released, the verdict is kept in") == 1
        and "verdict: failed" in told
        and "Traceback" not in told
    )


def test_a_server_that_is_gone_does_not_undo_a_release(tmp_path, monkeypatch):
    asked = []

    def gone(name, *_, **__):
        asked.append(name)
        raise ConnectionError

    asks = ("get_client", *(f"create_{what}_artifact" for what in ("progress", "markdown", "table")))
    for name in (*asks, "update_progress_artifact"):
        monkeypatch.setattr(anonymize, name, partial(gone, name))
    released = RunOutcome(Verdict((), ()), "version", 1, RunFacts("mdav"), ())
    monkeypatch.setattr(anonymize.pipeline, "finish", lambda run, verdict: released)
    run = SimpleNamespace(job=load_job(PLAIN.table(tmp_path)))
    anonymize.publish.fn(run, released.verdict, 0, anonymize.Bar(["publish"]))
    assert [name for name in asked if name in asks] == [asks[1], asks[0], *asks[2:]]


def test_lines_outside_of_a_flow_are_not_sent_without_warning(tmp_path, server):
    code = "import prefect, logging; from flows import anonymize; logging.getLogger('anonpipe').info('scan: outside')"
    ran = PLAIN.program(tmp_path, server, code)
    assert ran.returncode == 0 and ran.stderr.count("scan: outside") == 1 and "Warning" not in ran.stderr


@pytest.mark.parametrize("text", ["it's", 'say "why"', 'it\'s "why"\nnothing was released'])
def test_a_task_that_failed_is_told_once_in_the_log(text):
    error = InputError(text)
    of_state = logging.LogRecord("", logging.ERROR, "", 0, f"Failed({f'Task run: InputError: {text}'!r})", (), None)
    of_flow = logging.LogRecord("", logging.ERROR, "", 0, f"Encountered: {error!r}", (), (InputError, error, None))
    end = logging.LogRecord("", logging.INFO, "", 0, f"Failed({f'Flow run: InputError: {text}'!r})", (), None)
    once = anonymize._FailureOnce()
    assert [once.filter(each) for each in (of_state, of_flow, end)] == [True, False, True]
    assert end.getMessage() == of_state.getMessage()[:8] + "Flow run: InputError: …" + of_state.getMessage()[-2:]
