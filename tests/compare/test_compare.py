"""The whole comparison on a small table: nothing released, nothing left, nothing measured twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anonpipe.compare import _study, cells, compare
from anonpipe.compare._study import known_names
from anonpipe.errors import InputError, JobError, OutputError
from anonpipe.rng import steward_secret
from anonpipe.storage.staging import purge
from tests import small

METHODS = ("mdav+centroid", "mask:noise", "crest+centroid")


@pytest.fixture
def job(tmp_path):
    return small.job(tmp_path, small.plain_table(300), measure={"risk": True, "utility": False, "queries": 50})


def left(tmp_path):
    """What lies in the staging and the output of a test."""
    return [*small.stagings(), *(tmp_path / "out").glob("*")]


def test_real_trials_leave_nothing_but_their_figures(job, tmp_path):
    news = []
    study = compare(job, METHODS[:2], [5], utility="reidentification_rate", cluster=False, on_progress=news.append)
    assert [row.problem for row in study.rows] == [None, None] and len(study.front) == 1
    assert all(0 <= row.figures["reidentification_rate"].mean <= 1 for row in study.rows)
    assert set(study.titles) <= set(known_names(job))
    assert (
        study.risk.name == "reidentification_rate"
        and study.rows[1].figures["reidentification_rate"].baseline is not None
    )
    assert [(one.done, one.total) for one in news] == [(0, 2), (1, 2), (2, 2)]
    assert left(tmp_path) == []
    home = Path(os.environ["ANONPIPE_HOME"])
    assert not (home / "releases.jsonl").exists()
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert len(kept) == 3 and all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert not any(small.CANARY.encode() in path.read_bytes() for path in kept)
    assert small.run(job.model_copy(update={"measure": job.measure.model_copy(update={"risk": False})})).version


def test_settings_are_measured_once(job, quick, tmp_path):
    first = compare(job, METHODS, [5, 6], draws=2, cluster=False)
    assert len(quick) == 8 and [row.problem is None for row in first.rows] == [True] * 4 + [False] * 2
    assert "role sensitive" in first.rows[-1].problem and "\n" not in first.rows[-1].problem
    again = compare(job, METHODS, [5, 6], draws=2, cluster=False)
    assert len(quick) == 8 and again == first
    compare(job, METHODS, [5, 6, 7], draws=2, cluster=False)
    assert len(quick) == 12 and {asked.k for asked, _, _ in quick[8:]} == {7}
    compare(job, ["mdav+centroid"], [5], cluster=False, refresh=True)
    assert len(quick) == 13 and left(tmp_path) == []


def test_another_input_is_measured_anew(job, quick, tmp_path):
    compare(job, ["mdav+centroid"], [5], cluster=False)
    small.write_table(tmp_path, small.plain_table(301))
    compare(job, ["mdav+centroid"], [5], cluster=False)
    assert [rows for _, _, rows in quick] == [300, 301]


def test_draws_have_own_secrets_and_copy_of_released_columns(tmp_path, quick):
    table = small.plain_table(300)
    table = table.append_column("ssn", [[f"person {at}" for at in range(300)]])
    columns = {**small.COLUMNS, "ssn": {"kind": "categorical", "role": "identifier"}}
    study = compare(small.job(tmp_path, table, columns), ["mdav+centroid"], [5], draws=3, cluster=False)
    secrets = {secret for _, secret, _ in quick}
    assert len(secrets) == 3 and steward_secret() not in secrets
    assert study.rows[0].draws == 3 and study.rows[0].figures["overlap"].error > 0
    for asked, _, rows in quick:
        assert rows == 300 and list(asked.columns) == list(small.COLUMNS)
        assert Path(asked.output).is_relative_to(Path(os.environ["ANONPIPE_STAGING"]))


def test_unforeseen_errors_are_told_and_tried_again(job, quick, monkeypatch):
    calls = []

    def fails(asked):
        calls.append(asked.k)
        raise ValueError(small.CANARY) if asked.k == 6 else InputError("k is not to my liking")

    whole = _study.assess_only
    monkeypatch.setattr(_study, "assess_only", lambda asked: whole(asked) if asked.k == 5 else fails(asked))
    for _ in range(2):
        study = compare(job, ["mdav+centroid"], [5, 6, 7], cluster=False)
        assert study.rows[1].problem.startswith("this setting: ValueError at") and small.CANARY not in str(study)
        assert [cells(study, row)[2] for row in study.rows] == ["pass", "error", "not feasible"]
        assert study.rows[2].problem == "k is not to my liking" and study.choice is study.rows[0]
    assert calls == [6, 7, 6]  # what is unforeseen is tried again, what is not feasible is not


def test_a_full_disk_stops_all_and_keeps_what_is_finished(job, quick, monkeypatch, tmp_path):
    whole = _study.assess_only

    def full(asked):
        if asked.k == 6:
            raise OutputError("the disk is full")
        return whole(asked)

    monkeypatch.setattr(_study, "assess_only", full)
    with pytest.raises(OutputError, match="disk is full"):
        compare(job, ["mdav+centroid"], [5, 6], cluster=False)
    assert left(tmp_path) == []
    monkeypatch.setattr(_study, "assess_only", whole)
    compare(job, ["mdav+centroid"], [5, 6], cluster=False)
    assert [asked.k for asked, _, _ in quick] == [5, 6]


KILLED = """
import json, os, signal, sys
from anonpipe.compare import _study, compare
from anonpipe.job.model import parse_job
from anonpipe.verify.verdict import Assessment
from anonpipe.verify.catalogue import held
from anonpipe.verify.verdict import Verdict

def assess_only(job):
    if job.k == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return Verdict((held("mean", 0, 1),)), Assessment()

_study.assess_only = assess_only
compare(parse_job(json.load(open(sys.argv[1]))), ["mdav+centroid"], [5, 6, 7], cluster=False)
"""


def test_a_killed_study_goes_on_where_it_was(job, quick, tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "5e1b07c93ad264f8" * 4)
    told = tmp_path / "job.json"
    told.write_text(job.model_dump_json())
    done = subprocess.run([sys.executable, "-c", KILLED, str(told)], check=False)
    assert done.returncode == -signal.SIGKILL
    [folder] = [path for path in small.stagings() if path.is_dir()]  # with the copy of the input
    assert folder.stat().st_mode & 0o077 == 0 and (folder / "copy.parquet").exists()
    assert purge(folder.parent, dry_run=True) == [folder]  # so that `anonpipe purge` finds it, too
    study = compare(job, ["mdav+centroid"], [5, 6, 7], cluster=False)
    assert [asked.k for asked, _, _ in quick] == [6, 7] and [row.problem for row in study.rows] == [None] * 3
    assert left(tmp_path) == []


def test_bad_requests_are_refused_before_any_trial(job, quick):
    wrongs = [{"draws": 0}, {"methods": ["mdav"]}, {"ks": [1]}, {"risk": "linkd_share"}, {"utility": "propensity"}]
    for wrong in wrongs:
        with pytest.raises(JobError):
            compare(job, cluster=False, **wrong)
    with pytest.raises(InputError):
        compare(job.model_copy(update={"input": "/nowhere.parquet"}), cluster=False)
    assert quick == []
