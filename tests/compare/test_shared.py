"""Trials that share scans and routings: the same figures as alone, and nothing of one in another."""

from __future__ import annotations

from collections import Counter

import pytest

from anonpipe.compare import compare
from anonpipe.pipeline import shared, tasks
from tests import small

METHODS = ("mdav+centroid", "kmeans+gaussian:expected", "mask:noise")
SPLIT = {"partition": {"rows": 1000, "sample_rows": 1500}}


@pytest.fixture
def counted(monkeypatch):
    """How often each stage was run, in this process."""
    found = Counter()

    def counting(name, task):
        def counted_task(work, fitted, index):
            found[name] += 1
            return task(work, fitted, index)

        def counted_scan(work, index):
            found[name] += 1
            return task(work, index)

        return counted_scan if name == "scan" else counted_task

    for name in ("scan", "route"):
        monkeypatch.setitem(tasks.TASKS, name, counting(name, tasks.TASKS[name]))
    return found


def job(tmp_path, columns=small.COLUMNS, **changes):
    measure = {"risk": True, "utility": False, "queries": 60, "hold_out": 0.1}
    return small.job(tmp_path, small.plain_table(2500), columns, measure=measure, **SPLIT, **changes)


def figures(study):
    """What each setting came to."""
    return {
        (row.setting.method, row.setting.k): (row.problem, row.passed, dict(row.failed), dict(row.figures))
        for row in study.rows
    }


def test_figures_are_those_of_each_setting_alone(tmp_path, counted):
    given = job(tmp_path)
    together = compare(given, METHODS, [3, 6], utility="linked_share", cluster=False)
    assert counted["scan"] == 1 and counted["route"] == 1  # of 6 settings
    assert all(row.problem is None for row in together.rows)
    found = figures(together)
    for method in METHODS:
        for k in (3, 6):
            alone = compare(given, [method], [k], utility="linked_share", cluster=False, anew=True)
            assert repr(figures(alone)[method, k]) == repr(found[method, k])
    assert small.stagings() == []


def test_what_routing_reads_keeps_settings_apart(tmp_path, counted):
    columns = small.COLUMNS | {"income": {"kind": "continuous", "bounds": [-1e9, 1e9]}}
    given = job(tmp_path, columns=columns, cluster={"method": "mdav", "distance": "range"})
    compare(given, ["mdav+centroid", "mask:noise"], [5], utility="linked_share", cluster=False)
    assert counted == {"scan": 1, "route": 2}  # a mask has no weights of the job's


def test_draws_share_nothing_and_leave_nothing_for_each_other(tmp_path, counted, monkeypatch):
    seen = []
    once = shared.Shared._once

    def noted(self, *rest):
        once(self, *rest)
        seen.append(sorted(path.name for path in self.folder.parent.iterdir()))

    monkeypatch.setattr(shared.Shared, "_once", noted)
    compare(job(tmp_path), METHODS[::2], [5], draws=2, utility="linked_share", cluster=False)
    assert counted == {"scan": 2, "route": 2} and seen == [["0"]] * 4 + [["1"]] * 4


def test_a_scan_that_was_cut_short_is_done_again(tmp_path, counted, monkeypatch):
    given, copy, calls = job(tmp_path), shared._copy, []

    def cut_short(*rest):
        calls.append(rest)
        if len(calls) == 1:
            raise ValueError("killed")
        copy(*rest)

    monkeypatch.setattr(shared, "_copy", cut_short)
    study = compare(given, ["mdav+centroid", "mdav+gaussian"], [5], utility="linked_share", cluster=False)
    assert [row.unforeseen for row in study.rows] == [True, False] and counted == {"scan": 2, "route": 1}


def test_a_shared_file_that_was_changed_is_noticed(tmp_path, monkeypatch):
    once = shared.Shared._once

    def spoiled(self, run, name, stage, files, do):
        for path in (self.folder / name).glob("samples/*.npy"):
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        once(self, run, name, stage, files, do)

    monkeypatch.setattr(shared.Shared, "_once", spoiled)
    study = compare(job(tmp_path), ["mdav+centroid", "mdav+gaussian"], [5], utility="linked_share", cluster=False)
    assert study.rows[0].problem is None and "damaged" in study.rows[1].problem


def test_shared_files_are_private_and_only_of_scan_and_routing(tmp_path, monkeypatch):
    """Of a setting's own key, noise and records nothing is left where others look."""
    left = []
    once = shared.Shared._once

    def looked(self, *rest):
        once(self, *rest)
        left.append([path for path in self.folder.rglob("*")])
        assert all(path.stat().st_mode & 0o077 == 0 for path in left[-1] if path.is_dir())

    monkeypatch.setattr(shared.Shared, "_once", looked)
    compare(job(tmp_path), METHODS, [5], utility="linked_share", cluster=False)
    tops = {path.relative_to(path.parents[-1]).parts for path in left[-1]}
    names = {parts[parts.index("shared") + 3] for parts in tops if len(parts) > parts.index("shared") + 3}
    known = {
        "scans",
        "contents",
        "sketches",
        "samples",
        "receipts",
        "held",
        "routed",
        "trees.json",
        "seal.key",
        "whole",
    }
    assert names == known
