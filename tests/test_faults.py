"""Faults between and inside the stages: the bytes of an undisturbed run, or a refusal; never other bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from anonpipe import engine
from anonpipe.engine import Task
from anonpipe.errors import AnonpipeError, DamagedError, EngineError, InputError
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.arrays import FILES, channel_array, routed_array
from anonpipe.pipeline.run import execute
from anonpipe.pipeline.tasks import worker as tasks
from anonpipe.pipeline.tasks import write
from anonpipe.pipeline.tasks.passes import LAST, PassTask
from tests import small
from tests.faults import inputs, staging

SECRET = "5e" * 32
pytestmark = pytest.mark.secret(SECRET)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The released bytes of the case `groups`, by file; they depend on no path."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("SECRET", SECRET), ("HOME", folder / "home"), ("STAGING", folder / "staging")):
            patch.setenv(f"ANONPIPE_{name}", str(value))
        patch.setattr("anonpipe.rng.FEWEST_BYTES", 1)
        given = staging.case(folder, "groups")
        small.run(given)
        return staging.released(given)


@pytest.mark.parametrize("change", inputs.CHANGES.values(), ids=inputs.CHANGES)
def test_input_rewritten_between_the_passes_is_refused(tmp_path, change):
    """As many rows, other content: the routed rows are no longer those that were scanned."""
    table = small.plain_table(300)
    given = small.job(tmp_path, table, partition={"rows": 1_000, "sample_rows": 500})
    changed = []

    def on_progress(news):
        if news.stage == "route" and news.done == 0 and not changed:
            inputs.rewrite(Path(given.input), change, np.random.default_rng(1))
            changed.append(change)

    with pytest.raises(InputError, match=r"the input changed while it was read: .* other rows than before"):
        execute(given, cluster=False, on_progress=on_progress)
    assert changed and small.left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "point"), [("groups", "group"), ("groups", "decode"), ("groups", "write"), ("mask", "mask: shuffle")]
)
def test_damage_of_stopped_run_gives_same_bytes_or_refusal(tmp_path, undisturbed, name, point):
    """A drawn share of all damages of all files; `python -m tests.faults.staging` does them all."""
    rng, given, expected = np.random.default_rng(11), staging.case(tmp_path, name), undisturbed
    if name != "groups":
        small.run(given)
        expected = staging.released(given)
    snapshot = staging.Snapshot.take(given, (point, 1), tmp_path / "kept")
    share = 4 / (len(staging.FAULTS) * len(staging.files_of(snapshot.kept)))
    outcomes = [(*told[:2], told[2]) for told in staging.damage(snapshot, expected, rng, share)]
    assert outcomes
    assert [told for told in outcomes if told[2] not in ("same", "refused 5")] == []


@pytest.mark.parametrize(
    ("file", "stage"),
    [
        ("job.json", "decode"),
        ("run.key", "decode"),
        ("routed/c/0/0", "decode"),
        ("channels/0/c/1/0", "rank"),
        ("channels/scored-0.record", "decode"),
        ("channels/scores.record", "decode"),
        ("file_rows.json", "write"),
    ],
)
def test_damage_while_the_run_goes_on_is_refused_and_then_mended(tmp_path, undisturbed, file, stage):
    """Found by who reads it next; what is left goes, so that a flow that always resumes is not stuck."""
    given = staging.case(tmp_path, "groups")

    def on_progress(news):
        if (news.stage, news.done) == (stage, 0):
            tasks.context.cache_clear()
            (path,) = (path for path in small.stagings() if path.is_dir())
            staging.deleted(path / file, np.random.default_rng(0))

    with pytest.raises(DamagedError, match=f"the staging is damaged: {file} is missing; run again"):
        execute(given, cluster=False, on_progress=on_progress)
    assert small.left_behind(tmp_path) == []
    small.run(given, resume=True)
    assert staging.released(given) == undisturbed


def test_groups_that_are_none_are_refused_before_any_kernel(tmp_path):
    given = staging.case(tmp_path, "groups")
    with pipeline.open_run(given) as run, engine.in_process() as executor:
        for stage in (pipeline.scan, pipeline.route, pipeline.encode, pipeline.transform, pipeline.decode):
            stage(run, executor)
        records, rows = run.context, run.context.cut.lengths[0]
        last = PassTask.read(records.work, LAST)
        staged = channel_array(records.work, records.fitted, records.cut, last.source, last.channels)
        good = staged.read(0, 0, rows)
        for bad in (-1, rows, 2**60):
            channels = good.copy()
            channels[rows // 2, -1] = bad
            staged.write(0, channels)
            with pytest.raises(DamagedError, match=f"groups are not of the {rows} records of their part"):
                tasks.run_task(records, "scores", 0)


@pytest.mark.parametrize("resume", [False, True])
def test_late_tasks_of_a_killed_driver_write_nothing(tmp_path, resume):
    """They know another start: with a changed input of a folder that is gone, else of one that has a new master."""
    given = staging.case(tmp_path, "groups")
    first = tmp_path / "data" / "0.parquet"
    original = first.read_bytes()
    if not resume:
        inputs.rewrite(first, inputs.column_shuffled, np.random.default_rng(2))
    small.run(given)
    expected, changed = staging.released(given), first.read_bytes()
    shutil.rmtree(given.output)
    first.write_bytes(original)
    with pipeline.open_run(given) as run, engine.in_process() as executor:
        pipeline.scan(run, executor)
        run.context.call(routed_array)
        late = [Task(str(run.staging.root), run.token, "route", at) for at in range(2)]
    if not resume:
        first.write_bytes(changed)
    refused = []

    def go_on(news):
        for task in late:
            try:
                tasks.work(task)
            except EngineError as error:
                refused.append(str(error))

    execute(given, resume, cluster=False, on_progress=go_on)
    assert len(refused) > 20 and all("writes nothing more" in text for text in refused)
    assert staging.released(given) == expected and small.stagings() == []
    go_on(None)
    assert small.stagings() == []


def test_a_removal_that_was_interrupted_stops_no_later_run(tmp_path, undisturbed, monkeypatch):
    given = staging.case(tmp_path, "groups")

    def half(folder, **_):
        for path in sorted(path for path in Path(folder).rglob("*") if path.is_file())[::2]:
            path.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", half)
        with pytest.raises(KeyboardInterrupt):
            small.run(given)
    assert [path for path in small.stagings() if path.is_dir()]
    small.run(given, resume=True)
    assert staging.released(given) == undisturbed and small.stagings() == []


def test_damaged_byte_of_written_file_is_noticed_before_use(tmp_path, monkeypatch):
    """Also in bytes that no reader of the file looks at; the file is gone then, and is written again."""
    given, rng = staging.case(tmp_path, "groups"), np.random.default_rng(5)
    measure = write.measure_file

    def damaged(work, fitted, index, path):
        staging.flipped(path, rng)
        return measure(work, fitted, index, path)

    with pipeline.open_run(given) as run, engine.in_process() as executor:
        for stage in pipeline.MAPPED_STAGES[:-1]:
            stage(run, executor)
        for _ in range(40):
            with monkeypatch.context() as patch, pytest.raises(EngineError, match="was damaged on the disk"):
                patch.setattr(write, "measure_file", damaged)
                tasks.run_task(run.context, "write", 0)
            assert list(run.staging.file(FILES).iterdir()) == []
        assert tasks.run_task(run.context, "write", 0)["rows"] == 240


@pytest.mark.parametrize("at", [("verify", 0), ("publish", 0)])
def test_file_damaged_after_it_was_measured_is_written_again(tmp_path, undisturbed, at):
    given = staging.case(tmp_path, "groups")

    def on_progress(news):
        if (news.stage, news.done) == at:
            (path,) = (path for path in small.stagings() if path.is_dir())
            staging.flipped(path / FILES / "part-00000.parquet", np.random.default_rng(3))

    with pytest.raises(AnonpipeError):
        execute(given, cluster=False, on_progress=on_progress)
    assert staging.released(given) == {}
    assert not any("damaged" in text for text in small.run(given, resume=True).warnings)
    assert staging.released(given) == undisturbed
