"""Publishing and pruning by processes that die, stop, are refused or meet: readers always find a whole release."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from anonpipe import cli, interrupts
from anonpipe.errors import AnonpipeError, BusyError, InputError
from anonpipe.files import try_lock
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.outcome import publish
from anonpipe.storage import release, release_log, sealed, versions
from anonpipe.storage import staging as store
from tests import small
from tests.faults import publishing, steps
from tests.faults.staging import apart


@pytest.fixture(autouse=True)
def no_power_is_cut(monkeypatch):
    """Tests wait for the disk most of the time otherwise."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def stage(tmp_path):
    publishing.staged(tmp_path / "stage")
    return str(tmp_path / "stage")


def published(stage, out, times=1):
    """The names of versions published one after the other."""
    return [
        os.path.basename(release.publish(*publishing.staged(Path(stage)), release.place(str(out))).path)
        for _ in range(times)
    ]


def test_publication_that_dies_leaves_whole_release(tmp_path, stage):
    before = {}

    def prepare(step):
        before[step] = published(stage, tmp_path / str(step))
        return stage, str(tmp_path / str(step))

    deaths = 0
    for step in steps.every_step(prepare, publishing.publish):
        out, deaths = tmp_path / str(step), deaths + 1
        assert publishing.dangling(out) == []
        reached = publishing.current_version(out)
        after = published(stage, out)
        assert publishing.leftovers(out) == []
        assert publishing.versions(out) == {*before[step], reached, *after}
        assert (out / "CURRENT").read_text() == publishing.current_version(out) == after[0]
    assert deaths > 15


def test_first_publication_that_dies_leaves_none_or_whole(tmp_path, stage):
    for step in steps.every_step(lambda step: (stage, str(tmp_path / str(step))), publishing.publish):
        out = tmp_path / str(step)
        assert publishing.dangling(out) == []
        reached = {publishing.current_version(out)} - {""}
        assert publishing.versions(out) if reached else True
        after = published(stage, out)
        assert publishing.leftovers(out) == [] and publishing.versions(out) == {*reached, *after}


def test_prune_that_dies_keeps_release_and_no_half_version(tmp_path, stage):
    def prepare(step):
        out = tmp_path / str(step)
        published(stage, out, 3)
        where = release.place(str(out))
        for name in publishing.versions(out):
            release.keep_private(where, name, {"report.json": b"{}"})
        return (str(out),)

    deaths = 0
    for step in steps.every_step(prepare, publishing.prune):
        out, deaths = tmp_path / str(step), deaths + 1
        assert publishing.dangling(out) == [] and publishing.current_version(out) == max(publishing.versions(out))
        assert all(release.check(str(out / "versions" / name)) == [] for name in publishing.versions(out))
        release.prune(str(out))
        assert publishing.leftovers(out) == [] and publishing.versions(out) == {publishing.current_version(out)}
        assert os.listdir(out / "steward") == [f"{publishing.current_version(out)}-report.json"]
    assert deaths > 8


def test_withdrawal_that_dies_at_any_step_is_completed(tmp_path, stage):
    def prepare(step):
        older, current = published(stage, tmp_path / str(step), 2)
        made[step] = older, current
        where = release.place(str(tmp_path / str(step)))
        for name in (older, current):
            release.keep_private(where, name, {"report.json": b"{}"})
            release_log._append_to_output(where, logged_line(name))
        return (str(tmp_path / str(step) / "versions" / current),)

    made, counted = {}, set()
    deaths = 0
    for step in steps.every_step(prepare, publishing.withdraw):
        out, deaths = tmp_path / str(step), deaths + 1
        older, current = made[step]
        where = release.place(str(out))
        assert publishing.dangling(out) == [] and older in publishing.versions(out)
        logged = {line["version"] for line in release_log._read_output(where).lines}
        there = (out / "versions" / current).exists()
        counted.add((there, current in logged))
        assert older in logged and (current in logged or not there)  # a version that is there is counted
        release_log.withdraw(str(out / "versions" / current), "a column too many")
        assert publishing.leftovers(out) == [] and publishing.versions(out) == {older}
        assert not (out / "CURRENT").exists() and not (out / "release").is_symlink()
        assert {line["version"] for line in release_log._read_output(where).lines} == {older}
        [entry] = versions.withdrawals(where)
        assert (entry["version"], entry["because"]) == (current, "a column too many")
        after = published(stage, out)[0]
        assert versions.version_order(after) > versions.version_order(current) and release.check(str(out)) == []
    assert deaths > 8 and {(True, True), (False, True)} <= counted


def test_withdrawal_of_equal_version_that_dies_leaves_entry(tmp_path, stage):
    def prepare(step):
        names[step] = published(stage, tmp_path / str(step), 2)
        where = release.place(str(tmp_path / str(step)))
        release_log._append_to_output(where, logged_line(names[step][0], "equal"))
        repeated = {
            "anonpipe_log": 2,
            "repeated": names[step][1],
            **dict.fromkeys(("secret", "job", "population"), "equal"),
        }
        release_log._append_to_output(where, repeated)
        return (str(tmp_path / str(step) / "versions" / names[step][step % 2]),)

    names, deaths = {}, 0
    for step in steps.every_step(prepare, publishing.withdraw):
        out, deaths = tmp_path / str(step), deaths + 1
        where, first, other = release.place(str(out)), names[step][step % 2], names[step][1 - step % 2]
        assert publishing.dangling(out) == [] and other in publishing.versions(out)
        for name, equal in ((first, [other]), (other, [])):
            assert [line["version"] for line in release_log._read_output(where).lines] == [names[step][0]]
            assert release_log.withdraw(str(out / "versions" / name), "a column too many")[2] == equal
        assert publishing.versions(out) == set() and release_log._read_output(where).lines == ()
        assert release_log.unfinished(where) == [] and publishing.leftovers(out) == []
    assert deaths > 8


def logged_line(name, population=""):
    """A line of the log that holds no records."""
    texts = dict.fromkeys(("time", "secret", "job", "population"), population or name)
    return {"anonpipe_log": 2, "version": name, "rows": 0, "columns": [], "sketches": [], **texts}


def test_a_probe_that_dies_is_cleaned_up_by_the_next_publication(tmp_path, stage):
    for step in steps.every_step(lambda step: (str(tmp_path / str(step)),), publishing.try_out):
        published(stage, tmp_path / str(step))
        assert publishing.leftovers(tmp_path / str(step)) == []


def test_disk_full_from_any_step_publishes_nothing_or_all(tmp_path, stage):
    codes = set()
    for step in range(1, 60):
        out = tmp_path / str(step)
        old = published(stage, out)[0]
        code = steps.run(steps.refuse_at, (step, errno.ENOSPC, 10**6), publishing.publish, stage, str(out))
        codes.add(code)
        assert (code == 0) == (publishing.current_version(out) != old)
        assert publishing.dangling(out) == []
        if code == 0:
            break
    assert codes == {0, 1}


def test_interrupt_is_raised_before_switch_and_noted_after(tmp_path, stage):
    codes = []
    for step in range(1, 60):
        out = tmp_path / str(step)
        old = published(stage, out)[0]
        codes.append(steps.run(steps.interrupt_at, (step,), publishing.publish, stage, str(out)))
        assert (codes[-1] == 0) == (publishing.current_version(out) != old)
        assert publishing.dangling(out) == []
        if codes[-5:] == [0] * 5:
            break
    assert steps.INTERRUPTED in codes and set(codes) == {0, steps.INTERRUPTED}


def test_prune_beside_stalled_publication_takes_nothing_away(tmp_path, stage):
    stood = 0
    for step in range(1, 60):
        out = tmp_path / str(step)
        published(stage, out, 2)
        here, go = tmp_path / f"{step}-here", tmp_path / f"{step}-go"
        process = steps.start(steps.wait_at, (step, str(here), str(go)), publishing.publish, stage, str(out))
        while not here.exists() and process.is_alive():
            time.sleep(0.002)
        if not here.exists():
            assert process.exitcode == 0
            break
        stood += 1
        pruner = threading.Thread(target=release.prune, args=(str(out),))
        pruner.start()
        pruner.join(0.02)
        go.touch()
        process.join()
        pruner.join()
        assert process.exitcode == 0 and publishing.dangling(out) == []
        assert publishing.current_version(out) == max(publishing.versions(out)) and publishing.leftovers(out) == []
    assert stood > 15


@pytest.mark.parametrize("seed", range(3))
def test_several_that_publish_and_prune_at_once(tmp_path, stage, seed):
    out = tmp_path / "out"
    published(stage, out)
    works = [(publishing.publish_often, stage, str(out), 3)] * 2 + [(publishing.prune_often, str(out), 5)]
    started = [steps.start(steps.dawdle, (10 * seed + at, 0.002), *work) for at, work in enumerate(works)]
    while any(process.is_alive() for process in started):
        assert (out / "release" / "_manifest.json").exists()
        time.sleep(0.001)
    assert [process.exitcode for process in started] == [0, 0, 0]
    release.prune(str(out))
    assert publishing.dangling(out) == [] and publishing.leftovers(out) == []
    assert [versions.version_order(name)[0] for name in publishing.versions(out)] == [7]


def test_versions_are_ordered_by_publication(tmp_path, stage):
    out = tmp_path / "out"
    new = published(stage, out, 11)
    assert [versions.version_order(name)[0] for name in new] == list(range(1, 12))
    (out / "versions" / "20200101T000000-00000002").mkdir()  # no version
    assert release.prune(str(out), keep=2) == [*new[:-2]]
    assert publishing.versions(out) - {"20200101T000000-00000002"} == set(new[-2:])
    assert published(stage, out)[0].startswith("v000012-")


def test_prune_spares_what_was_published_after_current_version(tmp_path, stage):
    out = tmp_path / "out"
    names = published(stage, out, 4)
    versions.switch(release.place(str(out)), names[1])
    (out / "versions" / "notes").mkdir()
    assert release.prune(str(out)) == names[:1]
    assert publishing.versions(out) == {*names[1:], "notes"} and publishing.current_version(out) == names[1]
    assert versions.version_order(published(stage, out)[0])[0] == 5


@pytest.mark.parametrize("url", ["local", "memory"])
def test_who_waits_too_long_for_another_run_is_told(tmp_path, stage, url, monkeypatch):
    where = release.place(str(tmp_path / "out") if url == "local" else f"memory://{tmp_path.name}/out")
    code = f"""
import sys, time
from anonpipe.storage import sealed
from anonpipe.storage import release
from anonpipe.storage import versions
with versions.exclusive_lock(release.place({str(tmp_path / "out")!r})):
    print("here", flush=True); time.sleep(60)
"""
    if url == "local":
        holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None and holder.stdout.readline() == "here\n"
    else:
        where.filesystem.pipe_file(where.path(".lease"), b"another 3")
    with pytest.raises(BusyError, match="publishing or pruning"), versions.exclusive_lock(where, patience=0.1):
        pass
    if url == "local":
        holder.kill()
        holder.wait()
    monkeypatch.setattr(versions, "SILENCE", 0.1)
    with versions.exclusive_lock(where, patience=5.0):  # the holder is dead
        pass
    assert not {".lock", ".lease"} & versions.list_names(where)


def test_a_lease_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "BEAT", 0.02)
    monkeypatch.setattr(versions, "SILENCE", 0.2)
    where, seen = release.place(f"memory://{tmp_path.name}/out"), []

    def other():
        with versions.exclusive_lock(where):
            seen.append(time.monotonic())

    with versions.exclusive_lock(where):
        waiting = threading.Thread(target=other)
        waiting.start()
        time.sleep(0.6)
        assert where.filesystem.cat_file(where.path(".lease")).split()[1] != b"0"
        seen.append(time.monotonic())
    waiting.join()
    assert len(seen) == 2 and seen[0] < seen[1]


@pytest.mark.parametrize("wrong", ["../evil", "/evil", "versions/../../evil", "link out", "release out"])
def test_a_pointer_that_leads_out_of_the_output_is_not_followed(tmp_path, stage, wrong):
    evil, out = tmp_path / "evil", tmp_path / "out"
    version = published(stage, evil)[0]
    inside = published(stage, out)[0]
    outside = evil / "versions" / version
    if wrong == "link out":
        (out / "versions" / "v000009-00000000").symlink_to(outside)
        versions.switch(release.place(str(out)), "v000009-00000000")
    elif wrong == "release out":
        (out / "release").unlink()
        (out / "release").symlink_to(outside)
    else:
        (out / "release").unlink()
        (out / "CURRENT").write_text(wrong.replace("/evil", f"/{evil}/versions/{version}", 1).replace("//", "/"))
    with pytest.raises(InputError, match="is not followed"):
        release.check(str(out))
    assert release.check(str(out / "versions" / inside)) == []


def test_a_released_file_that_is_a_link_is_damage(tmp_path, stage):
    out = tmp_path / "out"
    version = out / "versions" / published(stage, out)[0]
    (version / "part-00000.parquet").rename(tmp_path / "elsewhere")
    (version / "part-00000.parquet").symlink_to(tmp_path / "elsewhere")
    assert release.check(str(out)) == ["part-00000.parquet: a link, not a file"]


def test_what_an_older_anonpipe_left_is_cleaned_up(tmp_path, stage):
    out = tmp_path / "out"
    published(stage, out)
    (out / "versions" / ".20260101T000000-00000001").mkdir()
    (out / "steward").mkdir()
    for name in (
        ".probe-0123456789abcdef",
        ".CURRENT-0123abcd",
        ".failed-verdict.json.77",
        "steward/.v1-report.json.77",
    ):
        (out / name).touch()
    (out / ".release-0123abcd").symlink_to("versions/x")
    (out / ".gitignore").touch()
    published(stage, out)
    assert publishing.leftovers(out) == [".gitignore"] and os.listdir(out / "steward") == []


def test_first_interrupt_waits_for_safe_point_second_does_not():
    def ctrl_c():
        os.kill(os.getpid(), steps.signal.SIGINT)
        time.sleep(0.01)

    was = steps.signal.signal(steps.signal.SIGINT, steps.signal.default_int_handler)
    try:
        with interrupts.stoppable(), interrupts.stoppable():
            interrupts.safe_point()
            ctrl_c()
            assert interrupts.asked_to_stop()
            with pytest.raises(KeyboardInterrupt):
                interrupts.safe_point()
            with pytest.raises(KeyboardInterrupt):
                ctrl_c()
        with interrupts.stoppable():
            with interrupts.held():
                ctrl_c()
                ctrl_c()
                interrupts.safe_point()
            interrupts.safe_point()  # held until the whole run is over
            assert interrupts.asked_to_stop()
        assert not interrupts.asked_to_stop()
        with interrupts.held():
            ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
    finally:
        steps.signal.signal(steps.signal.SIGINT, was)


def test_an_object_store_is_tidied_too(tmp_path, stage):
    url = f"memory://{tmp_path.name}/out"
    where = release.place(url)
    first, second = (os.path.basename(release.publish(*publishing.staged(Path(stage)), where).path) for _ in range(2))
    versions.note_pending(where, "v000003-00000000")
    where.filesystem.pipe_file(where.path("versions", "v000003-00000000", "part-00000.parquet"), b"half")
    release.keep_private(where, "v000003-00000000", {"report.json": b"{}"})
    assert release.prune(url, keep=1) == [first]
    assert versions.list_names(where, "versions") == {second} and versions.list_names(where, "steward") == set()
    assert json.loads(where.filesystem.cat_file(where.path("versions", second, "_manifest.json")))["rows"] == 6


@pytest.mark.parametrize("fault", ["staging", "display", "interrupt", "second interrupt"])
def test_what_fails_once_the_release_is_out_is_a_warning(tmp_path, monkeypatch, fault):
    was = steps.signal.signal(steps.signal.SIGINT, steps.signal.default_int_handler)
    given = small.job(tmp_path, small.plain_table(200))
    out = tmp_path / "out"

    def remove(staging):
        assert publishing.current_version(out)
        if fault == "staging":
            raise OSError(errno.EACCES, "permission denied")
        for _ in range({"interrupt": 1, "second interrupt": 2}.get(fault, 0)):
            os.kill(os.getpid(), steps.signal.SIGINT)
            time.sleep(0.01)
        store.remove(staging)

    def on_progress(news):
        if fault == "display" and (news.stage, news.done) == ("publish", 1):
            raise ConnectionError("of a server")

    monkeypatch.setattr(publish, "remove", remove)
    try:
        outcome = pipeline.execute(given, cluster=False, on_progress=on_progress)
    finally:
        steps.signal.signal(steps.signal.SIGINT, was)
    assert outcome.version == str(out / "versions" / publishing.current_version(out)) and outcome.report is not None
    words = {"staging": "could not be deleted whole", "interrupt": "Ctrl-C came when the release was out already"}
    expected = words.get(fault.split()[-1])
    assert expected is None or expected in outcome.warnings[-1]


def test_an_interrupt_before_the_switch_publishes_nothing(tmp_path, monkeypatch):
    was = steps.signal.signal(steps.signal.SIGINT, steps.signal.default_int_handler)
    given = small.job(tmp_path, small.plain_table(200))

    def on_progress(news):
        if (news.stage, news.done) == ("publish", 0):
            os.kill(os.getpid(), steps.signal.SIGINT)
            time.sleep(0.01)

    try:
        with pytest.raises(KeyboardInterrupt), interrupts.stoppable():
            pipeline.execute(given, cluster=False, on_progress=on_progress)
    finally:
        steps.signal.signal(steps.signal.SIGINT, was)
    assert publishing.current_version(tmp_path / "out") == "" and publishing.leftovers(tmp_path / "out") == []
    assert small.run(given, resume=True).version is not None


def test_purge_cleans_up_crashed_runs_and_spares_those_in_use(tmp_path, stage):
    root = tmp_path / "stagings"
    root.mkdir(mode=0o700)
    for name in ("dead", "busy"):
        out, staging = tmp_path / name, root / name
        published(stage, out)
        versions.note_pending(release.place(str(out)), "v000002-00000000")
        (out / "versions" / ".v000002-00000000").mkdir()
        staging.mkdir()
        (staging / "run.json").write_text("{}")
        (staging / sealed.KEY).write_bytes(sealed.make_key(staging, b"k" * 32))
        store.Staging(staging).write_json("job.json", {"output": str(out), "report": {"internal": None}})
    handle = try_lock(tmp_path / "busy" / ".lock")
    cli.purge(str(root))
    assert handle is not None and publishing.leftovers(tmp_path / "dead") == [] and not (root / "dead").exists()
    assert publishing.leftovers(tmp_path / "busy") == [".lock", "versions/.pending", "versions/.v000002-00000000"]
    handle.close()


@pytest.mark.parametrize("internal", [None, "reports"])
def test_purge_removes_what_a_killed_run_left_in_its_output(tmp_path, monkeypatch, internal):
    """What the staging tells of the output is sealed as all in it is."""
    report = {} if internal is None else {"report": {"internal": str(tmp_path / internal)}}
    given = small.job(tmp_path, small.plain_table(200), **report)
    reports = Path(release.place(given.output, given.report.internal).steward.root)
    with monkeypatch.context() as patch:
        patch.setattr(versions, "switch", lambda *_: os.kill(os.getpid(), 9))
        assert apart(lambda: str(small.run(given).version)) == "signal 9"
    assert "versions/.pending" in publishing.leftovers(tmp_path / "out") and len(publishing.versions(tmp_path / "out"))
    (reports / ".v1-report.json.77.draft").touch()
    cli.purge()
    assert publishing.leftovers(tmp_path / "out") == [] and small.stagings() == []
    assert publishing.versions(tmp_path / "out") == set() and os.listdir(reports) == ["releases.jsonl"]


@pytest.mark.parametrize("kind", ["disk", "store"])
def test_outputs_sharing_stewards_place_publish_one_by_one(tmp_path, kind):
    root = str(tmp_path) if kind == "disk" else f"memory://shared-{tmp_path.name}"
    first, second, other = (
        release.place(f"{root}/{out}", f"{root}/{own}") for out, own in [("a", "log"), ("b", "log"), ("c", "own")]
    )
    with versions.exclusive_lock(first):
        with pytest.raises(BusyError, match="log; wait for it"), versions.exclusive_lock(second, patience=0.0):
            pass
        with versions.exclusive_lock(other, patience=0.0):
            pass
    with versions.exclusive_lock(second, patience=0.0):
        pass


def test_second_of_two_overlapping_releases_in_log_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_HOME", str(tmp_path / "home"))
    table = small.plain_table(400)
    tables = {"a": table, "b": table.slice(0, 399)}
    given = {
        name: small.job(tmp_path / name, part, repeat={}, report={"internal": str(tmp_path / "log")})
        for name, part in tables.items()
    }
    second, meanwhile = [], publish.release.publish

    def publishing(*arguments):
        """The other job gets as far as it can while this one is publishing."""
        if not second:
            second.append(True)
            with monkeypatch.context() as patched:
                patched.setattr(versions, "exclusive_lock", partial(versions.exclusive_lock, patience=0.0))
                thread = threading.Thread(target=lambda: second.append(refused_text(lambda: small.run(given["b"]))))
                thread.start()
                thread.join()
        return meanwhile(*arguments)

    monkeypatch.setattr(publish.release, "publish", publishing)
    assert small.run(given["a"]).version is not None
    assert "another run is publishing" in second[1]
    assert "overlaps with the release" in refused_text(lambda: small.run(given["b"]))


def refused_text(run):
    with pytest.raises(AnonpipeError) as caught:
        run()
    return str(caught.value)


def test_an_output_of_another_table_is_not_taken(tmp_path):
    first = small.plain_table(300)
    assert small.run(small.job(tmp_path, first)).version is not None
    names = {"age": "years", "income": "cost", "place": "town"}
    other = first.rename_columns(list(names.values()))
    job = small.job(tmp_path, other, {names[name]: column for name, column in small.COLUMNS.items()})
    with pytest.raises(InputError, match="a release of another table: this job has 0 of its 3 columns; give another"):
        small.run(job)
    wider = first.append_column("town", first["place"])
    assert small.run(small.job(tmp_path, wider, small.COLUMNS | {"town": {"kind": "categorical"}})).version is not None
