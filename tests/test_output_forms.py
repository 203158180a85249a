"""What commands print for programs and scripts, and what the library logs: no frames, and nothing of the data."""

from __future__ import annotations

import json
import logging
import os
import re

import jsonschema
import pytest
import yaml

from anonpipe.errors import InputError
from anonpipe.propose.demo import demo_job
from tests import runs, small

FRAMES = set("─│┌┐└┘├┤┬┴┼━┃╇╡")


@pytest.fixture
def call(capsys, monkeypatch):
    """Run a command in this process; a first run, which would say that it compiles."""
    monkeypatch.setenv("ANONPIPE_SECRET", runs.SECRET)
    run = small.commands(capsys, monkeypatch)
    monkeypatch.setattr("anonpipe.kernels.compiled.any_kept", lambda: False)
    return run


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "job.yaml"
    data = small.write_table(tmp_path, small.plain_table(400))
    path.write_text(yaml.safe_dump(small.content(tmp_path, data, small.unscored(small.COLUMNS))))
    return path


FAILING = ("--set", "gates.mean=1e-9", "--set", "synthesize.method=gaussian")


def test_a_run_as_json(call, job_file, tmp_path):
    code, out, err = call("run", job_file, "--json")
    told = json.loads(out)
    assert code == 0 and err == "" and told["released"] and told["rows"] == 400 and told["verdict"] == small.OPEN
    assert told["exit_code"] == 0
    assert told["version"].startswith(f"{tmp_path}/out/versions/") and told["report"].endswith("-report.html")
    assert any(check["name"] == "smallest group" for check in told["checks"])
    assert any("no bounds" in warning for warning in told["warnings"])
    assert told["pruned"] == [] and told["remedies"] == []
    first = told["version"].rpartition("/")[2]
    again = json.loads(call("run", job_file, "--json", "--set", "k=6")[1])
    assert again["pruned"] == [first]


def test_a_failed_run_as_json_and_quiet(call, job_file):
    code, out, err = call("run", job_file, "--json", *FAILING)
    told = json.loads(out)
    assert code == 3 and err.startswith("error: a gate failed") and told["version"] is None and not told["released"]
    assert told["exit_code"] == 3
    assert told["verdict"] == "failed" and any(text.startswith("mean") for text in told["remedies"])
    code, out, err = call("run", job_file, "--quiet", *FAILING)
    assert code == 3 and out == "" and "error: a gate failed" in err


def test_a_quiet_run_prints_where_its_release_is(call, job_file, tmp_path):
    code, out, err = call("run", job_file, "--quiet")
    (path,) = out.splitlines()
    assert code == 0 and (tmp_path / "out" / "release").resolve() == (tmp_path / path).resolve()
    assert err and all(line.startswith("warning: ") for line in err.splitlines())


def test_one_form_at_a_time(call, job_file):
    for command in (["run", job_file], ["plan", job_file], ["verify", "x"], ["methods"]):
        code, out, err = call(*command, "--json", "--quiet")
        assert code == 2 and out == "" and "give one of them" in err


def test_a_plan_as_json_and_quiet(call, job_file):
    code, out, _ = call("plan", job_file, "--json")
    told = json.loads(out)
    assert code == 0 and told["input"]["rows"] == 400 and told["partitions"] == 1 and told["job"]["k"] == 5
    assert told["strata"] == [{"name": "whole table", "rows": 400}]
    assert small.CANARY not in out
    code, out, _ = call("plan", job_file, "--quiet")
    assert code == 0 and [f"warning: {text}" for text in told["warnings"]] == out.splitlines() != []


def test_a_check_of_a_release_as_json_and_quiet(call, job_file, tmp_path):
    assert call("run", job_file, "--quiet")[0] == 0
    code, out, err = call("verify", tmp_path / "out", "--json")
    told = json.loads(out)
    assert code == 0 and err == "" and told["intact"] and told["rows"] == 400 and told["files"] == 1
    assert call("verify", tmp_path / "out", "--quiet") == (0, "", "")
    (tmp_path / "out" / "release").resolve().joinpath("stray.txt").write_text("")
    code, out, err = call("verify", tmp_path / "out", "--json")
    assert code == 2 and json.loads(out)["problems"] == ["stray.txt: not in the manifest"] and "damaged" in err
    code, out, err = call("verify", tmp_path / "out", "--quiet")
    assert code == 2 and out == "" and "stray.txt" in err


def test_methods_as_json_and_names(call):
    told = json.loads(call("methods", "--json")[1])
    names = call("methods", "--quiet")[1].splitlines()
    assert list(dict.fromkeys(each["name"] for each in told)) == names and "mdav" in names
    (mhm,) = json.loads(call("methods", "mhm", "--json")[1])
    assert mhm["key"] == "cluster.method" and "default" in mhm["options"]["order"] and "doi:" in mhm["reference"]
    assert "in a line" in mhm["options"]["order"]  # what it is for, not its type
    assert call("methods", "nonesuch", "--json")[0] == 2


@pytest.mark.parametrize("command", ["run", "plan", "verify", "methods"])
def test_no_frames_outside_of_tables(call, job_file, tmp_path, command):
    given = {"run": [job_file], "plan": [job_file], "verify": [tmp_path / "out"], "methods": []}[command]
    if command == "verify":
        call("run", job_file, "--quiet")
    for form in ("--json", "--quiet"):
        _, out, _ = call(command, *given, form)
        assert not FRAMES & set(out) and "\x1b" not in out


def test_the_schema_of_a_job_accepts_jobs_and_refuses_others(call):
    code, out, _ = call("schema")
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    job = yaml.safe_load(demo_job("in.parquet", "out", 5))
    valid = jsonschema.Draft202012Validator(schema).is_valid
    assert code == 0 and valid(job)
    assert not valid(job | {"kk": 5}) and not valid(job | {"k": 1}) and not valid(job | {"cluster": {"method": "no"}})


# --- the log --------------------------------------------------------------------------------------------------------

SECRETS = (small.CANARY, str(small.CANARY_NUMBER), "age", "income", "place", "north", "data.parquet")


@pytest.mark.parametrize("changes", [{}, {"mask": {"method": "data_shuffle"}}, {"measure": {"hold_out": 0.2}}])
def test_log_tells_stages_rows_seconds_and_nothing_of_data(tmp_path, caplog, changes):
    job = small.job(tmp_path, small.plain_table(400), **changes)
    with caplog.at_level(logging.DEBUG, "anonpipe"):
        assert small.run(job).verdict is not None
    told = [record for record in caplog.records if record.name.partition(".")[0] == "anonpipe"]
    done = {record.stage: record for record in told if hasattr(record, "stage")}
    assert {"scan", "route", "write", "verify"} <= set(done)
    assert done["scan"].rows == 400 and done["scan"].pieces == 1 and done["scan"].seconds > 0
    assert any(record.getMessage().startswith("verdict: ") for record in told)
    for record in told:
        assert not any(re.search(rf"\b{word}\b", text(record)) for word in SECRETS), text(record)
        assert record.exc_info is None and record.stack_info is None


def text(record):
    """All that a handler could print of a record, but where its code lies."""
    own = {name: value for name, value in vars(record).items() if name not in ("pathname", "filename", "module")}
    return f"{record.getMessage()} {own}"


def test_a_failing_run_logs_nothing_of_the_data(tmp_path, caplog):
    columns = {**small.COLUMNS, "place": {"kind": "categorical", "levels": ["elsewhere"]}}
    job = small.job(tmp_path, small.plain_table(400), columns)
    with caplog.at_level(logging.DEBUG, "anonpipe"), pytest.raises(InputError, match="place"):
        small.run(job)
    logged = [text(record) for record in caplog.records if record.name == "anonpipe"]
    assert logged and not any(re.search(rf"\b{word}\b", each) for each in logged for word in SECRETS)


def test_the_library_is_silent_by_itself():
    from anonpipe.progress import LOG

    assert any(isinstance(handler, logging.NullHandler) for handler in LOG.handlers)
    assert not any(isinstance(handler, logging.StreamHandler) for handler in LOG.handlers)


@pytest.fixture
def plain_logger():
    """The logger as it was before, whatever a command adds to it."""
    logger = logging.getLogger("anonpipe")
    before = logger.handlers[:], logger.level
    yield
    logger.handlers[:], logger.level = before


def test_verbose_shows_the_log(call, job_file, plain_logger):
    code, out, err = call("run", job_file, "--quiet", "--verbose")
    assert code == 0 and len(out.splitlines()) == 1
    assert [line for line in err.splitlines() if " scan: 400 rows, 1 task, " in line]
    assert [line for line in err.splitlines() if f" verdict: {small.OPEN}, 0 of " in line]


# --- original beside release ----------------------------------------------------------------------------------------


def test_a_summary_from_the_job_and_from_the_report_alone(call, job_file, tmp_path):
    report = json.loads(call("run", job_file, "--json")[1])["report"].replace(".html", ".json")
    code, out, _ = call("summary", job_file, "--json")
    told = json.loads(out)
    assert code == 0 and {one["name"] for one in told["numbers"]} == {"age", "income"}
    assert sum(one["original"] for one in told["shares"]) == pytest.approx(1.0)
    (tmp_path / "data.parquet").unlink()  # the input is not read
    assert call("summary", report, "--json")[:2] == call("summary", job_file, "--json")[:2] == (0, out)
    next((tmp_path / "out" / "release").resolve().glob("*.parquet")).unlink()  # the report stands alone
    assert call("summary", report, "--json")[:2] == (0, out) and call("summary", job_file)[0] == 2
    code, out, _ = call("summary", report, "--quiet", "--picture", tmp_path / "a.png")
    assert code == 0 and len(out.splitlines()) == 3 and (tmp_path / "a.png").exists()
    assert all(line.startswith("largest change of a ") for line in out.splitlines())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], ""),
        (["gates.mean=0.5", "run.workers=1"], ""),  # the same release
        (["k=6"], "its k is 5"),
        (["cluster.method=kmeans"], "its columns, strata, methods or hold-out are others"),
        (["columns.age.bounds=[0, 90]"], "its columns, strata, methods or hold-out are others"),
        (["input=elsewhere.parquet"], "it was made from "),
    ],
)
def test_a_summary_says_that_another_job_made_the_release(call, job_file, settings, said):
    assert call("run", job_file)[0] == 0
    code, out, err = call("summary", job_file, *(part for each in settings for part in ("--set", each)))
    assert code == 0 and "numbers: original and release" in out
    assert (len(err.splitlines()), "not made by this job as it stands" in err) == ((1, True) if said else (0, False))
    assert said in err


def test_summary_of_earlier_version_report_says_what_it_can(call, job_file):
    report = json.loads(call("run", job_file, "--json")[1])["report"].replace(".html", ".json")
    told = json.loads(open(report).read())
    del told["job"]
    with open(report, "w") as old:
        json.dump(told, old)
    assert call("summary", job_file, "--set", "cluster.method=kmeans")[2] == ""
    assert "its k is 5" in call("summary", job_file, "--set", "k=7")[2]


def test_a_summary_says_which_report_it_needs(call, job_file, tmp_path):
    report = json.loads(call("run", job_file, "--json")[1])["report"].replace(".html", ".json")
    recipients = (tmp_path / "out" / "release").resolve() / "_report.json"
    code, out, err = call("summary", recipients)
    assert code == 2 and out == "" and "the external report" in err and "give the internal one" in err
    told = json.loads(open(report).read())
    del told["compared"]  # as versions before wrote it
    with open(report, "w") as old:
        json.dump(told, old)
    code, out, err = call("summary", job_file)
    assert code == 2 and out == "" and "earlier version" in err and "run the job again" in err
    os.remove(report)
    code, out, err = call("summary", job_file)
    assert code == 2 and out == "" and report in err.replace("\n", "")
