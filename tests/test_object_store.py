"""Releases on an object store: recipients find nothing there that is the steward's."""

from __future__ import annotations

import fsspec
import pytest

from anonpipe.errors import JobError, OutputError
from anonpipe.job.model import parse_job
from anonpipe.pipeline import run as pipeline
from anonpipe.storage import release, versions
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)


def on(job, output, internal, **changes):
    content = job.model_dump(mode="json") | {"output": output, "report": {"internal": internal}} | changes
    return parse_job(content)


def listed(url):
    filesystem, root = fsspec.core.url_to_fs(url)
    return {path.removeprefix(root).lstrip("/") for path in filesystem.find(root)}


def test_reports_and_failed_verdicts_lie_elsewhere(tmp_path):
    job = small.job(tmp_path, small.plain_table())
    output, internal = f"memory://{tmp_path.name}/a/release", f"memory://{tmp_path.name}-steward/deep/own"
    assert listed(output) == listed(internal) == set()
    done = pipeline.execute(on(job, output, internal), cluster=False)
    version = done.version.rsplit("/", 1)[-1]
    inside, own = listed(output), listed(internal)
    assert {f"versions/{version}/_manifest.json", "CURRENT"} <= inside
    assert not [name for name in inside if "steward" in name or "failed" in name]
    assert own == {f"{version}-report.json", f"{version}-report.html", "releases.jsonl"}
    strict = {"decode": {"categories": "sampled"}, "gates": {"category_share": 1e-12}}
    failed = pipeline.execute(on(job, output, internal, **strict), cluster=False)
    assert failed.version is None and listed(output) == inside
    assert listed(internal) - own == {"failed-verdict.json", "failed-report.json", "failed-report.html"}
    pipeline.execute(on(job, output, internal), cluster=False)
    assert not [name for name in listed(internal) if name.startswith("failed")]
    assert release.prune(output, 1, internal) == [version]
    assert not [name for name in listed(internal) if name.startswith(version)] and len(listed(internal)) == 3


def test_a_folder_of_its_own_on_a_disk(tmp_path):
    job = small.job(tmp_path, small.plain_table())
    own = tmp_path / "own" / "reports"
    done = pipeline.execute(on(job, job.output, str(own)), cluster=False)
    version = done.version.rsplit("/", 1)[-1]
    kept = {f"{version}-report.html", f"{version}-report.json", "releases.jsonl"}
    assert {path.name for path in own.iterdir()} == kept
    assert own.stat().st_mode & 0o777 == 0o700 and all(path.stat().st_mode & 0o777 == 0o600 for path in own.iterdir())
    assert not (tmp_path / "out" / versions.STEWARD).exists()


@pytest.mark.parametrize(
    ("output", "internal", "words"),
    [
        ("s3://bucket/release", None, "give report.internal"),
        ("memory://bucket/release", None, "give report.internal"),
        ("s3://bucket/release", "s3://bucket/release/steward", "inside each other"),
        ("s3://bucket/release", "s3://bucket/release", "inside each other"),
        ("out", "out/steward", "inside each other"),
        ("out/release", "out", "inside each other"),
    ],
)
def test_reports_beside_releases_of_object_store_are_refused(tmp_path, output, internal, words):
    with pytest.raises(JobError, match=words):
        on(small.job(tmp_path, small.plain_table()), output, internal)


def test_a_place_that_cannot_be_written_is_told_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    job = on(small.job(tmp_path, small.plain_table()), str(tmp_path / "out"), str(tmp_path / "file" / "own"))
    with pytest.raises(OutputError, match=r"place of internal reports .* cannot be written"):
        pipeline.execute(job, cluster=False)
    assert not (tmp_path / "out").exists()
