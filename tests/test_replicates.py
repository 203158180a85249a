"""Several synthetic copies of the same records as one release, and estimates of them joined."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from anonpipe import combine, engine
from anonpipe.engine import Task, in_process
from anonpipe.errors import AnonpipeError, InputError
from anonpipe.evaluate.measurement import Audience, Figure
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.evaluation import search
from anonpipe.pipeline.evaluation.measures import pieces
from anonpipe.pipeline.outcome import evidence
from anonpipe.storage import release
from anonpipe.storage.release_log import history
from anonpipe.verify.catalogue import held
from anonpipe.verify.verdict import Assessment, Verdict, worst_assessment, worst_verdict
from tests import runs, small

pytestmark = pytest.mark.secret(runs.SECRET)

COLUMNS = {
    "x": {"kind": "continuous"},
    "y": {"kind": "continuous", "transform": "none"},
    "place": {"kind": "categorical"},
    "stage": {"kind": "categorical"},
}
MASK = {"mask": {"method": "local_synthesis", "components": 2, "classes": 2}}


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    """One secret, so that no limit is missed by chance."""
    monkeypatch.setenv("ANONPIPE_SECRET", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")


def table(rows=1_300, seed=3):
    """Two numbers and two categories, some pairs of which few records have."""
    rng = np.random.default_rng(seed)
    x, place = rng.normal(size=rows), rng.choice(list("abcdef"), rows, p=[0.4, 0.3, 0.15, 0.05, 0.05, 0.05])
    stage = np.where(place >= "d", "I", rng.choice(["I", "II"], rows))
    for rare in "def":
        stage[np.flatnonzero(place == rare)[:3]] = "II"
    return pa.table({"x": x, "y": x + rng.normal(size=rows), "place": place, "stage": stage})


def job(folder, copies=3, data=None, **changes):
    given = {"release": {"copies": copies, "file_rows": 1000}, "partition": {"rows": 1000}} | MASK | changes
    return small.job(folder, table() if data is None else data, COLUMNS, **given)


def by_copy(given):
    frame = small.released(given).to_pandas()
    return [part.drop(columns="copy") for _, part in frame.groupby("copy")]


@pytest.mark.parametrize("methods", [MASK, {"mask": None, "cluster": {"method": "mdav", "refine": False}}])
def test_stops_change_no_byte_of_copies(tmp_path, methods):
    alone, whole = (job(tmp_path / name, copies, **methods) for name, copies in (("alone", 1), ("whole", 3)))
    for given, said in ((alone, " rows in "), (whole, " 3 copies of ")):
        done = small.run(given)
        assert done.verdict.passed and said in done.summary[0] and done.for_recipients.copies == given.release.copies
    assert not any(line.startswith("again ") for line in done.summary)  # the other copies are new
    copies = by_copy(whole)
    pd.testing.assert_frame_equal(copies[0], small.released(alone).to_pandas())
    for copy in copies[1:]:
        assert len(copy) == len(copies[0])
        assert not set(copy["y"]) & set(copies[0]["y"])
        assert copy["y"].mean() == pytest.approx(copies[0]["y"].mean(), abs=1e-6 if methods is MASK else 0.1)
        assert copy["place"].value_counts().to_dict() == copies[0]["place"].value_counts().to_dict()
    manifest = release.read_manifest(release.resolve(whole.output))
    assert (manifest["copies"], manifest["rows"]) == (3, 3 * len(copies[0]))
    assert len(history(release.place(whole.output))) == 1
    stopped = job(tmp_path / "stopped", 3, **methods)
    for where in (("decode", 2), ("write", 3)):
        with small.stopping_at(*where), pytest.raises(AnonpipeError):
            small.run(stopped, resume=True)
    with pytest.MonkeyPatch.context() as threads:
        threads.setattr(pipeline, "open_executor", lambda *_: in_process(2))
        assert small.run(stopped, resume=True).verdict.passed
    assert small.hashes(stopped) == small.hashes(whole)
    assert len(small.released(stopped)) == 3 * len(copies[0])
    assert small.stagings() == []


@pytest.mark.parametrize("bad", [0, 1])
def test_a_copy_that_fails_keeps_all_from_being_released(tmp_path, monkeypatch, bad):
    judged, judge = [], pipeline.judge

    def judging(*given):
        judged.append(judge(*given))
        worse = held("values.beyond", 7, 0, about={"files": 1})
        checks = [worse if len(judged) == bad + 1 and c.key == worse.key else c for c in judged[-1].checks]
        return replace(judged[-1], checks=tuple(checks))

    monkeypatch.setattr(pipeline, "judge", judging)
    given = job(tmp_path, 2, table(300))
    outcome = small.run(given)
    assert len(judged) == 2
    assert outcome.version is None
    assert [check.key for check in outcome.verdict.failed] == ["values.beyond"]


def test_the_worst_of_each_check_counts():
    good, bad = (
        Verdict((held("mean", 0.001, 0.02), held("covariance", 0.04, 0.05))),
        Verdict((held("mean", 0.019, 0.02), held("covariance", 0.01, 0.05), held("rows.lost", 1, 0)), ("note",)),
    )
    worst = worst_verdict([good, bad])
    assert [check.measured for check in worst.checks] == [0.019, 0.04, 1]
    assert worst.notes == ("note",)


def test_risks_are_those_of_all_copies_or_of_one_alone(tmp_path):
    """With all copies the nearest rows are of several copies, by which some attacks find less."""
    found = pieces(job(tmp_path, 3, measure={"utility": False, "queries": 200}))
    assert found == (("risk", 0, -1), ("risk", 0, 0))
    figure = Figure("risk", "Risk", "share", "here", Audience.OPEN)
    for values in ((0.1, 0.3), (0.3, 0.1), (0.3, float("nan")), (float("nan"), 0.3)):
        parts = [Assessment(risk=(figure.measured(value, 100),)) for value in values]
        assert worst_assessment(parts).risk[0].value == 0.3


def test_attackers_have_all_copies_small_cells_are_drawn_once(tmp_path, monkeypatch):
    seen = {}

    def look(run, _):
        work, fitted, cut = run.context.work, run.context.fitted, run.context.cut
        each = [search.found_in(one, cut, "release").nearest.distances[:, 0] for one in work.copies]
        seen["nearest"] = search.found_in(work, cut, "release").nearest.distances[:, 0], each
        seen["mean"] = search.mean_distances(work, cut)[0], each
        originals = search.found_in(work, cut, "original").nearest.rows
        seen["distinct"] = [len(set(rows)) for rows in originals.tolist()]
        seen["drawn"] = [evidence._drawn_cells(one, fitted, cut)[0] for one in work.copies]

    monkeypatch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES, look))
    measure = {"utility": True, "queries": 200, "hold_out": 0.1}
    analyses = [{"name": "y", "model": "linear", "formula": "y ~ x + stage"}]
    given = job(tmp_path, 3, measure=measure, analyses=analyses, gates={"membership_auc": None})
    outcome = small.run(given)
    assert outcome.verdict.passed
    found, each = seen["nearest"]
    np.testing.assert_allclose(found, np.min(each, axis=0))
    assert (found < each[0]).any()
    np.testing.assert_allclose(seen["mean"][0], np.mean(each, axis=0))
    assert set(seen["distinct"]) == {search.NEIGHBOURS}  # no original is its own copy's neighbour
    first, *others = seen["drawn"]
    assert np.abs(first).max() > 0
    assert all((drawn == first).all() for drawn in others)
    (analysis,) = outcome.for_recipients.analyses
    assert analysis.copies == 3
    assert all(coefficient.added is not None and coefficient.added >= 0 for coefficient in analysis.coefficients)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mask": {"method": "rank_swap"}}, "no independent draws"),
        ({"mask": None, "cluster": {"method": "mdav"}, "synthesize": {"method": "centroid"}}, "no independent draws"),
        ({"release": {"copies": 21}}, "20"),
        ({"columns": COLUMNS | {"copy": {"kind": "continuous"}}}, "rename"),
    ],
)
def test_copies_that_tell_nothing_or_too_much_are_refused(tmp_path, changes, words):
    columns = changes.pop("columns", COLUMNS)
    given = {"release": {"copies": 2}, **MASK} | changes
    with pytest.raises(AnonpipeError, match=words):
        small.job(tmp_path, "data.parquet", columns, **given)


def test_tasks_of_copies_have_keys_of_their_own():
    """The scheduler takes tasks of one key for one task."""

    class Client:
        def map(self, _, tasks, key, **__):
            raise small.Stopped(key)

    tasks = [Task("staging", "token", "search", 0, copy) for copy in range(3)]
    with pytest.raises(small.Stopped) as stopped:
        engine._dask_executor(Client(), 0, engine.Timeouts())(None, tasks, None)
    assert len(set(stopped.value.args[0])) == 3


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parent.parent / "docs" / "replicates.md").read_text(encoding="utf-8")
    known = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], known)
    assert known["low"] < known["table"]["y"].mean() < known["high"]


# --- Combining rules --------------------------------------------------------------------------------------------------


def test_rules_are_those_of_the_papers():
    q, u = np.array([[1.0, 5.0], [1.4, 5.0], [0.9, 5.0]]), np.array([[0.1, 0.2], [0.2, 0.2], [0.3, 0.2]])
    partial, b = combine(q, u), np.var([1.0, 1.4, 0.9], ddof=1)
    assert partial.variance == pytest.approx([0.2 + b / 3, 0.2])
    assert partial.df == pytest.approx([2 * (1 + 3 * 0.2 / b) ** 2, np.inf])
    low, high = partial.interval(0.9)
    assert high[0] - low[0] == pytest.approx(2 * stats.t.ppf(0.95, partial.df[0]) * np.sqrt(0.2 + b / 3))
    wide = combine([1.0, 3.0, 0.0], [0.1, 0.1, 0.1], rule="full")
    b = np.var([1.0, 3.0, 0.0], ddof=1)
    assert wide.variance == pytest.approx(4 / 3 * b - 0.1)
    assert wide.df == pytest.approx(2 * (1 - 0.1 / (4 / 3 * b)) ** 2)
    negative = combine(q, u, rule="full", synthetic_rows=50, rows=100)
    assert negative.variance == pytest.approx([0.1, 0.1])
    assert combine([2.0], [0.25]).interval() == pytest.approx((2 - 0.98, 2 + 0.98), abs=1e-3)


def test_partial_rule_covers_where_copies_are_drawn_given_table():
    rng, copies, trials = np.random.default_rng(0), 3, 4000
    observed = rng.normal(size=(trials, 1))
    made = observed + rng.normal(scale=np.sqrt(2.0), size=(trials, copies))  # b is twice u
    low, high = combine(made.T, np.ones((copies, trials))).interval()
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(
    ("estimates", "variances", "more"),
    [
        ([1.0, 2.0], [1.0], {}),
        ([1.0, np.nan], [1.0, 1.0], {}),
        ([1.0, 2.0], [1.0, -1.0], {}),
        ([1.0], [1.0], {"rule": "full"}),
        ([1.0, 2.0], [1.0, 1.0], {"rule": "rubin"}),
        ([1.0, 2.0], [1.0, 1.0], {"rule": "full", "synthetic_rows": 10, "rows": 0}),
        (["1 to 2", 2.0], [1.0, 1.0], {}),
        ([[1.0], [1.0, 2.0]], [1.0, 1.0], {}),
    ],
)
def test_what_cannot_be_joined_is_refused(estimates, variances, more):
    with pytest.raises(InputError):
        combine(estimates, variances, **more)
    with pytest.raises(InputError, match="level is 95; give a number between 0 and 1"):  # it gave NaN
        combine([1.0, 2.0], [1.0, 1.0]).interval(95)
