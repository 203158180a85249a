"""Killed workers, killed drivers, full disks: the same bytes afterwards, or nothing."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests import runs


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The job's release by two workers."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = runs.run_cli(folder, "run", str(runs.registry_job(folder)))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, runs.released_hashes(folder / "out")


@pytest.fixture
def same_job(undisturbed, tmp_path):
    """The same input and job in a new folder: only paths differ."""
    original, hashes = undisturbed
    shutil.copytree(original / "registry", tmp_path / "registry")
    text = (original / "job.yaml").read_text().replace(str(original), str(tmp_path))
    (tmp_path / "job.yaml").write_text(text)
    return tmp_path, str(tmp_path / "job.yaml"), hashes


def test_one_worker_gives_the_same_bytes(same_job):
    folder, job, hashes = same_job
    done = runs.run_cli(folder, "run", job, "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert runs.released_hashes(folder / "out") == hashes
    assert runs.staging_of(folder) is None


def test_another_secret_gives_other_values(same_job):
    folder, job, hashes = same_job
    done = subprocess.run(
        [runs.sys.executable, "-m", "anonpipe", "run", job],
        env=runs.environment(folder, secret="77" * 32),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert not set(runs.released_hashes(folder / "out").values()) & set(hashes.values())


@pytest.mark.parametrize("stage", runs.STAGES)
def test_killed_worker(same_job, stage):
    folder, job, hashes = same_job
    process = runs.start_cli(folder, "run", job)
    assert runs.wait_for_stage(folder, stage, process)
    runs.kill_worker(process)
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert runs.released_hashes(folder / "out") == hashes


@pytest.mark.parametrize("stage", runs.STAGES)
def test_killed_driver_and_resume(same_job, stage):
    folder, job, hashes = same_job
    process = runs.start_cli(folder, "run", job)
    assert runs.wait_for_stage(folder, stage, process)
    runs.kill_driver(process)
    assert not (folder / "out" / "release").exists()
    staging = runs.staging_of(folder)
    assert staging is not None and staging.stat().st_mode & 0o077 == 0
    kept = {p: p.stat().st_mtime_ns for p in (staging / "receipts").rglob("*.json")}
    done = runs.run_cli(folder, "run", job, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept and runs.released_hashes(folder / "out") == hashes
    assert runs.staging_of(folder) is None
