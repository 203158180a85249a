"""A trial leaves an internal report and nothing else; what is withdrawn is gone, is told, and counts no more."""

from __future__ import annotations

import json
import os
import sys

import pytest
import yaml

from anonpipe.job.model import load_job
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.run import try_out
from anonpipe.pipeline.start import is_resumable
from anonpipe.storage import release, release_log, versions
from tests import runs, small
from tests.faults import publishing
from tests.faults.staging import apart

pytestmark = pytest.mark.secret(runs.SECRET)


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "job.yaml"
    data = small.write_table(tmp_path, small.plain_table(400))
    path.write_text(yaml.safe_dump(small.content(tmp_path, data, small.unscored(small.COLUMNS), repeat={})))
    return path


def files(folder):
    """All files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def home_log():
    return release_log._read_home().lines


def test_a_trial_leaves_its_internal_report_alone(call, job_file, tmp_path):
    code, out, err = call("run", job_file, "--trial")
    assert code == 0 and out.startswith("TRIAL") and "would be released" in out and "RELEASED" not in out, err
    assert files(tmp_path / "out") == ["steward/trial-report.html", "steward/trial-report.json"]
    assert small.stagings() == [] and home_log() == ()
    report = json.loads((tmp_path / "out/steward/trial-report.json").read_text())
    assert report["trial"] and report["headline"].startswith("Trial: ") and report["version"] is None
    page = (tmp_path / "out/steward/trial-report.html").read_text()
    assert "TRIAL, INTERNAL" in page and "<title>TRIAL" in page and "Released:" not in page
    told = json.loads(call("run", job_file, "--trial", "--json")[1])
    assert told["trial"] and not told["released"] and told["version"] is None and told["exit_code"] == 0
    assert call("run", job_file, "--trial", "--resume")[0] == 2


def test_nothing_to_resume_on_a_new_machine(job_file):
    assert not os.path.exists(os.environ["ANONPIPE_STAGING"]) and not is_resumable(load_job(job_file))


def test_the_same_rows_are_said_to_be_the_same(call, job_file, tmp_path):
    assert "again  " not in call("plan", job_file).out + call("run", job_file).out
    [version] = os.listdir(tmp_path / "out/versions")
    line = f"again    rows of {version} under a new number: nothing more is disclosed"
    assert " ".join(line.split()) in " ".join(call("plan", job_file).out.split())
    assert json.loads(call("plan", job_file, "--json").out)["again"] == version
    assert line in call("run", job_file, "--set", "gates.mean=0.5").out.splitlines()
    assert "again  " not in call("run", job_file, "--set", "k=7", "--set", "repeat.allow=a").out


def test_trial_is_no_release_and_leaves_later_run_the_same(call, job_file, tmp_path):
    assert call("run", job_file, "--trial", "--set", "k=7")[0] == 0
    code, _, err = call("run", job_file)
    assert code == 0, err
    first = small.released(small.job(tmp_path, str(next(tmp_path.glob("*.parquet"))), repeat={}))
    assert len(home_log()) == 1
    code, *_ = call("run", job_file, "--trial", "--set", "k=7")
    report = json.loads((tmp_path / "out/steward/trial-report.json").read_text())
    assert code == 0 and any("the same records were released" in warning for warning in report["warnings"])
    assert len(home_log()) == 1 and call("run", job_file, "--set", "k=7")[0] == 2
    assert call("verify", tmp_path / "out")[0] == 0
    assert small.released(small.job(tmp_path, str(next(tmp_path.glob("*.parquet"))), repeat={})).equals(first)


def test_a_trial_that_fails_a_gate_ends_as_the_run_would(call, job_file, tmp_path):
    code, out, err = call("run", job_file, "--trial", "--set", "gates.mean=1e-9", "--set", "synthesize.method=gaussian")
    assert code == 3 and out.startswith("TRIAL    nothing would be released") and "failed-verdict" not in err
    assert files(tmp_path / "out") == ["steward/trial-report.html", "steward/trial-report.json"]
    assert small.stagings() == []


def test_a_trial_spares_the_staging_of_a_crashed_run(job_file, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "verify", lambda _: os.kill(os.getpid(), 9))
        assert apart(lambda: str(small.run(load_job(job_file)))) == "signal 9"
    left = small.stagings()
    try_out(load_job(job_file), cluster=False)
    assert left and set(left) <= set(small.stagings())


def test_what_is_withdrawn_is_gone_and_told_and_counts_no_more(call, job_file, tmp_path):
    assert call("run", job_file)[0] == 0
    assert call("run", job_file, "--set", "k=7")[0] == 2
    [version] = os.listdir(tmp_path / "out/versions")
    code, out, err = call("withdraw", tmp_path / "out/versions" / version, "--because", "a name was left in")
    assert code == 0 and version in out and "still have them" in " ".join(out.split()), err
    assert os.listdir(tmp_path / "out/versions") == [] and not os.path.lexists(tmp_path / "out/release")
    log = (tmp_path / "out/steward/releases.jsonl").read_text().splitlines()
    assert len(log) == 2 and json.loads(log[1])["because"] == "a name was left in"  # its line stays
    code, out, err = call("summary", job_file)
    assert code == 2 and f"withdrawn {version}" in " ".join(out.split()) and "a name was left in" in out
    for command in (["verify", tmp_path / "out"], ["export", tmp_path / "out/versions" / version, tmp_path / "a.csv"]):
        code, _, err = call(*command)
        assert code == 2 and f"{version} was withdrawn on 20" in err and err.strip().endswith(": a name was left in")
    code, out, err = call("run", job_file, "--set", "k=7", "--trial")
    told = f"persons of this input are in {version}, withdrawn since"
    assert code == 0 and told in " ".join((out + err).split())
    code, out, err = call("run", job_file, "--trial")
    assert code == 0 and told not in " ".join((out + err).split())  # the same release once more
    assert "again  " not in out
    code, out, err = call("run", job_file, "--set", "k=7")
    assert code == 0 and told in " ".join((out + err).split()), err
    [page] = (tmp_path / "out/steward").glob("v000002-*-report.json")
    assert told in page.read_text()
    code, out, err = call("summary", tmp_path / "out")
    assert code == 0 and "a name was left in" in out
    assert os.listdir(tmp_path / "out/versions")[0].startswith("v000002-")


def test_one_of_several_versions_withdrawn_readers_keep_theirs(call, job_file, tmp_path):
    for k in (5, 7):
        code, _, err = call("run", job_file, "--prune", "0", "--set", f"k={k}", "--set", 'repeat.allow="a test"')
        assert code == 0, err
    older, current = sorted(os.listdir(tmp_path / "out/versions"))
    code, out, _ = call("withdraw", tmp_path / "out/versions" / older, "--because", "older")
    assert code == 0 and f"{current} is current" in " ".join(out.split())
    assert os.listdir(tmp_path / "out/versions") == [current] and call("verify", tmp_path / "out")[0] == 0


def run_twice(call, job_file, tmp_path, *options):
    """Two runs of one job on the same rows: names of both versions."""
    names = []
    for _ in range(2):
        code, _, err = call("run", job_file, *options)
        assert code == 0, err
        names.append(sorted(os.listdir(tmp_path / "out/versions"))[-1])
    assert names[0] != names[1] and len(home_log()) == 1
    return names


def test_what_is_pruned_is_not_withdrawn_while_its_equal_is_out(call, job_file, tmp_path):
    older, current = run_twice(call, job_file, tmp_path)
    code, _, err = call("withdraw", tmp_path / "out/versions" / older, "--because", "x")
    assert code == 2 and f"withdraw {tmp_path}/out/versions/{current}" in " ".join(err.split())
    assert call("run", job_file, "--set", "k=7")[0] == 2 and call("verify", tmp_path / "out")[0] == 0


def test_the_last_of_equal_versions_takes_their_entry_along(call, job_file, tmp_path):
    run_twice(call, job_file, tmp_path)
    code, out, err = call("withdraw", tmp_path / "out", "--because", "x")
    assert code == 0 and "no longer compared" in " ".join(out.split()), err
    code, _, err = call("run", job_file, "--set", "k=7")
    assert code == 0, err
    assert len(home_log()) == 1


@pytest.mark.parametrize("first", [0, 1])
def test_entry_counts_until_last_of_its_versions_is_withdrawn(call, job_file, tmp_path, first):
    names = run_twice(call, job_file, tmp_path, "--prune", "0")
    code, out, err = call("withdraw", tmp_path / "out/versions" / names[first], "--because", "x")
    assert code == 0 and names[1 - first] in out and "no longer compared" not in " ".join(out.split()), err
    assert os.listdir(tmp_path / "out/versions") == [names[1 - first]]
    assert call("run", job_file, "--set", "k=7")[0] == 2
    code, out, err = call("withdraw", tmp_path / "out/versions" / names[1 - first], "--because", "x")
    assert code == 0 and "no longer compared" in " ".join(out.split()), err
    assert call("run", job_file, "--set", "k=7")[0] == 0


def test_equal_version_not_named_by_log_keeps_the_entry(call, job_file, tmp_path):
    older, current = run_twice(call, job_file, tmp_path)
    path = tmp_path / "out/steward/releases.jsonl"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    code, _, err = call("withdraw", tmp_path / "out/versions" / older, "--because", "x")
    assert code == 2 and current in err and call("run", job_file, "--set", "k=7")[0] == 2


def test_an_output_that_shares_the_log_keeps_its_entry(call, job_file, tmp_path):
    inside, names = tmp_path / "inside", {}
    for out in ("out", "two"):
        options = ("--set", f"report.internal={inside}", "--set", f"output={tmp_path / out}")
        assert call("run", job_file, *options)[0] == 0
        [names[out]] = os.listdir(tmp_path / out / "versions")
    answers = [
        call("withdraw", tmp_path / out / "versions" / names[name], "--because", "x", "--internal", inside)
        for out, name in (("out", "two"), ("out", "out"))
    ]
    assert answers[0][0] == 2 and answers[1][0] == 0 and names["two"] in answers[1][1]
    assert call("run", job_file, *options, "--set", "k=7")[0] == 2
    assert call("withdraw", tmp_path / "two", "--because", "x", "--internal", inside)[0] == 0
    assert release_log._read_output(release.place(str(tmp_path / "two"), str(inside))).lines == ()


@pytest.mark.parametrize("step", ["unpoint", "remove_version", "_append_to_output"])
def test_unfinished_withdrawal_is_named_and_counts_until_done(call, job_file, tmp_path, monkeypatch, step):
    assert call("run", job_file)[0] == 0
    [version] = os.listdir(tmp_path / "out/versions")

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(release_log if step.startswith("_") else versions, step, die)
        with pytest.raises(KeyboardInterrupt):
            release_log.withdraw(str(tmp_path / "out"), "x")
    command = f'anonpipe withdraw {tmp_path}/out/versions/{version} --because "why"'
    log = release_log._read_output(release.place(str(tmp_path / "out")))
    assert [line["version"] for line in log.lines] == [version]
    code, _, err = call("run", job_file, "--set", "k=7")
    assert code == 2 and command in " ".join(err.split())
    if step != "unpoint":  # until then it is the current version
        code, _, err = call("withdraw", tmp_path / "out", "--because", "x")
        assert code == 2 and command in " ".join(err.split())
    assert call("withdraw", tmp_path / "out/versions" / version, "--because", "x")[0] == 0
    code, _, err = call("run", job_file, "--set", "k=7")
    assert code == 0 and "unfinished" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere", "--because", "x"), "no release at"),
        (("out", "--because", " "), "--because is empty"),
        (("out/versions/v000009-00000000", "--because", "x"), "no release at"),
    ],
)
def test_what_cannot_be_withdrawn(call, job_file, tmp_path, monkeypatch, arguments, words):
    assert call("run", job_file)[0] == 0
    monkeypatch.chdir(tmp_path)
    code, _, err = call("withdraw", *arguments)
    assert code == 2 and words in err and call("verify", "out")[0] == 0


def test_a_log_that_lies_elsewhere_is_asked_for(call, job_file, tmp_path):
    inside = tmp_path / "inside"
    assert call("run", job_file, "--set", f"report.internal={inside}")[0] == 0
    code, _, err = call("withdraw", tmp_path / "out", "--because", "x")
    assert code == 2 and "--internal" in err and call("verify", tmp_path / "out")[0] == 0
    assert call("withdraw", tmp_path / "out", "--because", "x", "--internal", inside)[0] == 0
    assert release_log._read_output(release.place(str(tmp_path / "out"), str(inside))).lines == home_log() == ()
    (note,) = versions.withdrawals(release.place(str(tmp_path / "out"), str(inside)))
    for place in (tmp_path / "out", tmp_path / "out/versions" / note["version"]):
        code, _, err = call("export", place, tmp_path / "a.csv")
        assert code == 2 and f"{note['version']} was withdrawn on 20" in err and err.strip().endswith(": x")


def test_tables_of_other_sizes_hold_other_persons(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    from data.make_registry import main

    seen = []
    for rows in (6_000, 7_000):
        path = tmp_path / f"{rows}.parquet"
        monkeypatch.setattr(sys, "argv", ["make_registry.py", str(rows), str(path)])
        main()
        table = pq.read_table(path, columns=["diagnosis_date", "age", "tumour_size_mm", "follow_up_months"])
        seen.append({tuple(row.values()) for row in table.to_pylist()})
    assert len(seen[0] & seen[1]) < 60


def test_a_version_on_an_object_store_is_withdrawn(tmp_path):
    stage, inside = tmp_path / "stage", str(tmp_path / "inside")
    where = release.place(f"memory://{tmp_path.name}-store", inside)
    older, current = (release.publish(*publishing.staged(stage), where).path.rpartition("/")[2] for _ in range(2))
    left = release_log.withdraw(where.url("versions", current), "a column too many", inside)
    assert left == (current, None, []) and versions.list_versions(where) == [older]
    assert [each["version"] for each in versions.withdrawals(where)] == [current]
    again = release.publish(*publishing.staged(stage), where).path.rpartition("/")[2]
    assert versions.version_order(again) > versions.version_order(current)
    assert versions.current_version(where) == again
