"""Killed workers, killed drivers, full disks: the same bytes afterwards, or nothing."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys

import pytest
import yaml

from anonpipe.environment import ADDRESS_SPACE
from anonpipe.errors import JobError
from anonpipe.job.model import load_job
from tests import runs, small


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The job's release by this process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        return folder, released_here(runs.registry_job(folder, 3_000, 3), patch)


def released_here(job, patch, secret=runs.SECRET, resume=False):
    """The digests of what this process releases, in the folder of the job."""
    for name, value in runs.environment(job.parent, secret).items():
        patch.setenv(name, value)
    assert small.run(load_job(str(job)), resume).version
    return runs.released_hashes(job.parent / "out")


@pytest.fixture
def same_job(undisturbed, tmp_path):
    """The same input and job in a new folder: only paths differ."""
    original, hashes = undisturbed
    shutil.copytree(original / "registry", tmp_path / "registry")
    text = (original / "job.yaml").read_text().replace(str(original), str(tmp_path))
    (tmp_path / "job.yaml").write_text(text)
    return tmp_path, str(tmp_path / "job.yaml"), hashes


def test_another_secret_gives_other_values(same_job, monkeypatch):
    folder, _, hashes = same_job
    assert not set(released_here(folder / "job.yaml", monkeypatch, runs.SECRET[::-1]).values()) & set(hashes.values())


def test_a_worker_killed_in_every_stage(same_job):
    folder, job, hashes = same_job
    assert any(column.scored for column in load_job(job).columns.values())
    process = runs.start_cli(folder, "run", job)
    for stage in runs.STAGES:
        assert runs.wait_for_stage(folder, stage, process)
        runs.kill_worker(process)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert runs.released_hashes(folder / "out") == hashes


def test_a_driver_killed_twice_and_resumed(same_job, monkeypatch):
    """Drivers without a cluster are killed at any time, and in every stage, by the campaign of faults."""
    folder, job, hashes = same_job
    resume: list[str] = []
    for stage in ("route", "write"):
        process = runs.start_cli(folder, "run", job, "--workers", "1", *resume)
        assert runs.wait_for_stage(folder, stage, process)
        runs.kill_driver(process)
        resume = ["--resume"]
        assert not (folder / "out" / "release").exists()
        staging = runs.staging_of(folder)
        assert staging is not None and staging.stat().st_mode & 0o077 == 0
        assert any((staging / "results" / stage).glob("*.record"))
    assert released_here(folder / "job.yaml", monkeypatch, resume=True) == hashes  # without a cluster now
    assert runs.staging_of(folder) is None


def _limited(command, **limits):
    """The command line in a process with limits of memory, in bytes."""

    def set_limits():
        for name, n_bytes in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (n_bytes, n_bytes))

    return subprocess.run(
        [sys.executable, "-m", "anonpipe", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=set_limits,
    )


@pytest.mark.parametrize(
    ("command", "limit", "option"),
    [*((command, "AS", "ulimit -v") for command in ("init", "plan", "run", "evaluate")), ("run", "DATA", "ulimit -d")],
)
def test_too_small_memory_limit_is_one_error_before_any_work(tmp_path, command, limit, option):
    files = [tmp_path / "in.parquet"] * (2 if command == "evaluate" else 1)
    ended = _limited([command, *files], **{limit: 700 << 20})
    assert ended.returncode == JobError.exit_code and ended.stdout == ""
    assert option in ended.stderr and ended.stderr.count("error:") == 1 and "Traceback" not in ended.stderr


def test_a_run_needs_no_more_memory_than_it_asks_for(tmp_path):
    job = small.job(tmp_path, small.plain_table(400), gates={"mean": 1, "covariance": 1})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job.model_dump(mode="json")))
    ended = _limited(["run", tmp_path / "job.yaml"], AS=ADDRESS_SPACE)
    assert ended.returncode == 0, ended.stderr
