"""Maskers of whole tables through the whole pipeline: what is released, resumed, refused and verified."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from anonpipe.errors import EngineError, InputError, JobError
from anonpipe.methods.masking import MASKERS, Rows
from anonpipe.methods.masking._draws import averaged_by_rank
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.arrays import FEATURES, FOLDER, channel_array, read_column, scopes_of
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.tasks.passes import LAST, PassTask
from anonpipe.pipeline.tasks.worker import run_task
from anonpipe.report import read_report
from anonpipe.storage import release
from anonpipe.storage.staging import Staging
from tests import small
from tests.runs import registry_columns, write_patients
from tests.staged import steps_on_disk_and_in_memory

pytestmark = pytest.mark.secret("5e" * 32)

ROWS = 1_100
GATES = {
    "mean": 0.5,
    "covariance": 1.0,
    "covariance_with_keys": 1.0,
    "category_share": 0.05,
    "null_share": 0.05,
    "unchanged_record_rate": 1.0,
    "exact_small_cells": 1.0,  # little noise changes no category
}
MASKS = [
    {"method": "noise"},
    {"method": "noise", "form": "exact"},
    {"method": "pram"},
    {"method": "data_shuffle", "conditioning": ["vital_status"]},
    {"method": "rank_swap", "percent": 2},
    {"method": "spectral_swap"},
    {"method": "synthesis", "draw": "quantiles"},
    {"method": "suppression", "share": 0.1},
    {"method": "sequential_regression"},
    {"method": "generalize", "steps": {"age": 5}},
    small.QUICK,
]
BY_NAME = {mask["method"]: mask for mask in MASKS}
GROUPS = [
    {"synthesize": {"method": "micro_perturbation", "form": "exact", "noise_scope": "table"}},
    {"synthesize": {"method": "gaussian"}, "cluster": {"method": "mdav", "refine": False}},
]
UNMEASURED = small.OFF
CODED = ("sex", "stage", "site")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A registry as a file, and as a table."""
    path = tmp_path_factory.mktemp("registry") / "registry.parquet"
    write_patients(path, ROWS)
    return str(path), pq.read_table(path)


def registry_job(folder, registry, mask, scored=True, **changes):
    path, table = registry
    columns = registry_columns(table.schema)
    columns = columns if scored else small.unscored(columns)
    changes = {"gates": GATES, "partition": {"rows": 1_000, "sample_rows": 500}, "measure": UNMEASURED, **changes}
    return small.job(folder, path, columns, mask=mask, **changes)


def names_of_checks(outcome):
    return [check.name for check in outcome.verdict.lines]


def test_every_masker_is_tried():
    assert {mask["method"] for mask in MASKS} == set(MASKERS)


# Every mask in strata, and of a whole table one of each kind: of rows, of columns, in groups, of equal rows.
RELEASED = [(mask, {"by": ["vital_status"]}) for mask in MASKS]
RELEASED += [(BY_NAME[name], {}) for name in ("noise", "data_shuffle", "local_synthesis", "generalize")]


@pytest.mark.parametrize(("mask", "strata"), RELEASED, ids=lambda given: "-".join(map(str, given.values())) or "whole")
def test_every_masker_releases(tmp_path, registry, mask, strata):
    given = registry_job(tmp_path, registry, mask, strata=strata)
    outcome = small.run(given)
    assert outcome.version, [check for check in outcome.verdict.lines if check.outcome == "failed"]
    made, table = small.released(given), registry[1]
    assert made.num_rows == ROWS and made.column_names == [n for n in table.column_names if n in given.released]
    assert small.counts(made["vital_status"]) == small.counts(table["vital_status"])
    if mask["method"] != "generalize":  # whose equal rows share one category
        for name in CODED:
            assert small.counts(made[name]) == small.counts(table[name])
        assert made["tumour_size_mm"].null_count == table["tumour_size_mm"].null_count
    checks = names_of_checks(outcome)
    assert ("smallest group" in checks) == MASKERS[mask["method"]].grouped
    asked_of_strata = strata and mask["method"] != "generalize" and mask.get("scope") != "table"
    assert ("covariance in each stratum" in checks) == bool(asked_of_strata)
    manifest = release.read_manifest(release.resolve(given.output))
    assert manifest["methods"]["mask"]["method"] == mask["method"] and set(manifest["methods"]) == {"mask", "decode"}
    assert (manifest["group_sizes"] is not None) == (mask["method"] == "local_synthesis")
    assert release.check(given.output) == [] and small.stagings() == []


def test_shuffled_columns_hold_their_values_averaged_by_rank(tmp_path, registry):
    given = registry_job(tmp_path, registry, {"method": "data_shuffle"}, scored=False)
    outcome = small.run(given)
    made, table = small.released(given), registry[1]
    assert "columns that hold other values than guaranteed" in names_of_checks(outcome)
    for name, step in (("age", 1), ("diagnosis_date", 1), ("follow_up_months", 0.1)):
        new, old = (t[name].to_numpy().astype("datetime64[D]" if "date" in name else float) for t in (made, table))
        wanted = averaged_by_rank(old.astype(float), given.k)
        apart = np.abs(np.sort(new.astype(float)) - wanted) > step / 2 + 1e-6
        assert apart.mean() < 0.005  # z-scores may find the other of two common values nearer
        assert not np.array_equal(new, old)


def months_apart(table):
    """Mean time of the dead less that of the living."""
    dead = pc.equal(table["vital_status"].cast(pa.string()), "Dead").to_numpy(zero_copy_only=False)
    months = table["follow_up_months"].to_numpy()
    return months[dead].mean() - months[~dead].mean()


def test_shuffling_given_kept_column_keeps_other_relations(tmp_path, registry):
    true, apart = months_apart(registry[1]), {}
    for kept in ((), ("vital_status",)):
        mask = {"method": "data_shuffle", "conditioning": kept}
        given = registry_job(tmp_path / str(len(kept)), registry, mask, scored=False)  # scores of times are by event
        assert small.run(given).version
        apart[kept] = months_apart(small.released(given))
    assert abs(apart[()]) < 0.25 * abs(true)
    assert abs(apart[("vital_status",)] - true) < 0.25 * abs(true)


def test_generalized_rows_are_alike_k_by_k(tmp_path, registry):
    mask = {"method": "generalize", "steps": {"age": 10}, "origin": {"age": 5}}
    given = registry_job(tmp_path, registry, mask, k=7, gates={**GATES, "mean": 5, "covariance": 5})
    outcome = small.run(given)
    assert outcome.version
    assert next(c for c in outcome.verdict.lines if "rows equal" in c.name).limit == "at least 7 rows"
    made = small.released(given).to_pandas().astype(object)
    masked = [name for name, column in given.released.items() if column.role.synthesized]
    assert made.groupby(masked, dropna=False).size().min() >= 7
    assert set(made["age"].astype(int) % 5) == {0}  # middles of intervals between 5, 15, 25 ...


def test_intervals_are_released_beside_their_middles(tmp_path, registry):
    steps = {"age": 10, "tumour_size_mm": 5, "diagnosis_date": 100, "follow_up_months": 2.5}
    mask = {"method": "generalize", "release": "interval", "steps": steps, "origin": {"age": 5}}
    given = registry_job(tmp_path, registry, mask, k=7, gates={**GATES, "mean": 5, "covariance": 5})
    outcome = small.run(given)
    assert outcome.version
    assert release.check(given.output) == []
    manifest = release.read_manifest(release.resolve(given.output))
    assert manifest["columns"]["age_from"] == {"treatment": "end of an interval"}
    made = small.released(given)
    told = read_report(Path(outcome.version) / "_report.json")
    assert [line.name for line in told.columns] == made.column_names
    assert "sets of equal rows in place of groups" in (Path(outcome.version) / "_report.html").read_text()
    assert made.schema.field("age_to").type == pa.int64() and made.schema.field("diagnosis_date_to").type == pa.date32()
    rows = made.to_pandas().astype(object)
    masked = [name for name in made.column_names if name not in ("vital_status",)]
    assert rows.groupby(masked, dropna=False).size().min() >= 7
    for name in ("age", "tumour_size_mm", "diagnosis_date", "follow_up_months"):
        there = rows[rows[name].notna()]
        assert (there[f"{name}_from"] <= there[name]).all() and (there[name] <= there[f"{name}_to"]).all()
        assert (rows[name].isna() == rows[f"{name}_from"].isna()).all()
    ages = registry[1]["age"].to_numpy()
    assert set(rows["age_from"].astype(int) % 10) | set(rows["age_to"].astype(int) % 10) == {5}
    assert rows["age_from"].min() <= ages.min() and ages.max() <= rows["age_to"].max()


@pytest.mark.parametrize(
    ("steps", "columns"),
    [
        ({"income": 1000}, {}),
        ({"age": 1, "income": 1000}, {}),
        ({"age": 5, "income": 10}, {"income": {"kind": "continuous", "step": 10}}),
        ({"age": 5}, {"income": {"kind": "continuous", "bounds": [1, None], "transform": "log"}}),
    ],
)
def test_ends_that_would_be_true_values_are_refused(tmp_path, steps, columns):
    mask = {"method": "generalize", "release": "interval", "steps": steps}
    with pytest.raises(JobError, match="true values of persons"):
        small.job(tmp_path, "data.parquet", {**small.COLUMNS, **columns}, mask=mask)
    small.job(
        tmp_path, "data.parquet", {**small.COLUMNS, **columns}, mask={**mask, "release": "midpoint"} | {"steps": {}}
    )


def test_a_name_that_an_end_would_take_is_refused(tmp_path):
    table = pa.table({"age": np.arange(100), "age_to": np.arange(100.0)})
    columns = {"age": {"kind": "integer"}, "age_to": {"kind": "continuous"}}
    mask = {"method": "generalize", "release": "interval", "steps": {"age": 5, "age_to": 5}}
    given = small.job(tmp_path, table, columns, mask=mask)
    for act in (preview, small.run):
        with pytest.raises(JobError, match="adds columns 'age_to'"):
            act(given)


@pytest.mark.parametrize(
    "mask",
    [{**MASKS[1], "scope": "table"}, BY_NAME["data_shuffle"], BY_NAME["sequential_regression"], *GROUPS],
    ids=lambda mask: mask.get("method") or mask["synthesize"]["method"],
)
def test_steps_on_disk_are_the_steps_in_memory(tmp_path, registry, monkeypatch, mask):
    """The masked points in the staging are those of `run_steps` with the run's key, bit for bit."""
    seen = {}

    def look(run, _executor):
        found, wanted = steps_on_disk_and_in_memory(run.context)
        seen.update(found=np.concatenate(found), wanted=np.concatenate(wanted), scopes=len(wanted))
        assert len(run.context.cut.partitions) > 1

    monkeypatch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES[:4], look, *pipeline.MAPPED_STAGES[4:]))
    mask, changes = (None, mask) if "synthesize" in mask else (mask, {})
    small.run(registry_job(tmp_path, registry, mask, strata={"by": ["vital_status"]}, **changes))
    assert np.array_equal(seen["found"], seen["wanted"])
    assert seen["scopes"] == (1 if mask is None or "scope" in mask else 2)


@pytest.mark.parametrize(
    ("mask", "titles"),
    [
        (
            BY_NAME["data_shuffle"],
            ("encode", "mask: rank correlation", "mask: shuffle", "mask: categories", "decode"),
        ),
        (BY_NAME["sequential_regression"], ("mask: logistic regressions",)),
    ],
    ids=["data_shuffle", "sequential_regression"],
)
def test_a_run_that_stopped_amid_any_step_goes_on(tmp_path, registry, mask, titles):
    """Stopped amid one step after the other, gone on with each time: no step is begun again, and no byte is another."""
    whole = small.undisturbed(f"a registry by {mask['method']}", registry_job(tmp_path / "whole", registry, mask))
    given = registry_job(tmp_path / "stopped", registry, mask)
    for at, title in enumerate((*titles, None)):
        news = []
        with contextlib.ExitStack() as stack:
            if title:
                stack.enter_context(pytest.raises(pipeline.engine.EngineError))
                stack.enter_context(small.stopping_at(title))
            pipeline.execute(given, resume=at > 0, cluster=False, on_progress=news.append)
        assert at == 0 or next(item.done for item in news if item.stage == titles[at - 1]) >= 1
        assert title is None or Staging(small.stagings()[0]).root.stat().st_mode & 0o077 == 0
    assert small.hashes(given) == whole and small.stagings() == []


def test_a_step_that_breaks_its_promise_publishes_nothing(tmp_path, registry, monkeypatch):
    from anonpipe.methods.masking import _noise

    monkeypatch.setattr(_noise, "add", lambda part, *, params, rng: part * 1.5)
    outcome = small.run(registry_job(tmp_path, registry, {"method": "noise"}))
    failed = [check.name for check in outcome.verdict.lines if check.outcome == "failed"]
    assert outcome.version is None and "covariance, deviation from its expected value" in failed


def test_a_column_step_that_loses_a_value_publishes_nothing(tmp_path, registry, monkeypatch):
    from anonpipe.methods.masking import _data_shuffle

    whole = _data_shuffle.shuffle

    @functools.wraps(whole)  # a step's function is given what it names
    def leaky(column, **given):
        made = whole(column, **given)
        made[0] = made[1]
        return made

    monkeypatch.setattr(_data_shuffle, "shuffle", leaky)
    outcome = small.run(registry_job(tmp_path, registry, {"method": "data_shuffle"}))
    failed = [check.name for check in outcome.verdict.lines if check.outcome == "failed"]
    assert outcome.version is None and failed == ["columns that hold other values than guaranteed"]


def test_a_step_that_makes_nonsense_is_found_out(tmp_path, registry, monkeypatch):
    from anonpipe.methods.masking import _noise

    monkeypatch.setattr(_noise, "add", lambda part, *, params, rng: part * np.nan)
    with pytest.raises(pipeline.engine.AnonpipeError, match="not finite"):
        small.run(registry_job(tmp_path, registry, {"method": "noise"}))


def test_a_late_worker_finds_its_input_gone_and_writes_nothing(tmp_path, registry, monkeypatch):
    """A task that slept while another did its step, and whose staged array is deleted or loses a chunk meanwhile."""

    def look(run, _executor):
        records = run.context
        work, fitted, cut = records.work, records.fitted, records.cut
        last, (scope, *_) = PassTask.read(work, LAST), scopes_of(fitted, cut)
        staged = channel_array(work, fitted, cut, last.source, last.channels)
        before = staged.read_column(0, cut.lengths)
        with pytest.raises(EngineError, match="missing from the staging"):
            run_task(records, "step-3", 0)  # whose input was deleted when step 4 was done
        next(path for path in (run.staging.file(FOLDER) / FEATURES / "c").rglob("*") if path.is_file()).unlink()
        with pytest.raises(EngineError, match="the staging is damaged"):
            for place in range(last.channels):
                read_column(work, fitted, cut, FEATURES, last.channels, place, scope)
        assert np.array_equal(staged.read_column(0, cut.lengths), before)

    monkeypatch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES[:4], look, *pipeline.MAPPED_STAGES[4:]))
    assert small.run(registry_job(tmp_path, registry, BY_NAME["data_shuffle"])).version


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mask": {"method": "noise"}, "cluster": {"method": "mdav"}}, "leave out either mask or cluster"),
        ({"mask": {"method": "noise"}, "synthesize": {"method": "pca"}}, "leave out either mask or synthesize"),
        ({"mask": {"method": "noise"}, "sensitive": {"l_diversity": 2}}, "leave out either mask or sensitive"),
        ({"mask": {"method": "magic"}}, "mask: unknown method; known are: noise, pram, data_shuffle"),
        ({"mask": {}}, "mask"),
        ({"mask": {"method": "noise", "amount": 0}}, "amount"),
        ({"mask": {"method": "noise", "amount": float("inf")}}, "amount"),
        ({"mask": {"method": "noise", "level": 1}}, "unknown key"),
        ({"mask": {"method": "suppression", "share": 0}}, "suppresses nothing"),
        ({"mask": {"method": "data_shuffle", "conditioning": ["age"]}}, "released unchanged"),
        ({"mask": {"method": "data_shuffle", "conditioning": ["nowhere"]}}, "released unchanged"),
        ({"mask": {"method": "data_shuffle", "conditioning": ["vital_status"] * 2}}, "twice"),
        ({"mask": {"method": "generalize", "steps": {"site": 5}}}, "numbers and dates"),
        ({"mask": {"method": "generalize", "steps": {"age": 0}}}, "greater than 0"),
        ({"mask": {"method": "generalize", "origin": {"age": 0}}}, "without steps"),
        ({"mask": {"method": "generalize"}, "decode": {"categories": "sampled"}}, "draws at random"),
        ({"mask": {"method": "noise"}, "decode": {"restore_survival_times": True}}, "a mask has none"),
        ({"mask": {"method": "noise"}, "decode": {"categories": "histogram"}}, "a mask has none"),
    ],
)
def test_jobs_that_contradict_themselves(tmp_path, registry, changes, text):
    with pytest.raises(JobError, match=text):
        registry_job(tmp_path, registry, **{"mask": None, **changes})


def test_what_the_table_does_not_allow_is_refused(tmp_path, registry):
    constant = pa.table({"age": np.full(100, 3), "place": ["a"] * 100})
    columns = {"age": {"kind": "integer", "role": "key"}, "place": {"kind": "categorical"}}
    for act in (preview, small.run):
        with pytest.raises(JobError, match="nothing to mask"):
            act(small.job(tmp_path, constant, columns, mask={"method": "noise"}))


def test_masker_needing_more_records_than_partition_says_so(tmp_path, registry, monkeypatch):
    steps = (Rows("greedy", lambda part, *, params, rng: part, least=2_000),)

    def noise(*, amount, form, basis):
        return steps

    monkeypatch.setitem(MASKERS, "noise", replace(MASKERS["noise"], function=noise, summary=""))
    with pytest.raises(InputError, match=r"a partition has \d+ records, and noise needs 2000"):
        small.run(registry_job(tmp_path, registry, {"method": "noise"}))


def test_the_preview_tells_of_the_mask_and_of_whole_columns(tmp_path, registry):
    shown = preview(registry_job(tmp_path, registry, {"method": "spectral_swap"}))
    text = "\n".join(shown.lines())
    assert "mask       spectral_swap of the whole table, no groups; k = 5" in text
    assert "group  " not in text and "synthesize " not in text
    plain = preview(registry_job(tmp_path, registry, {"method": "noise"}))
    assert plain.staging_bytes < shown.staging_bytes  # records of no person are held against their features at the end


def test_same_bytes_whoever_makes_them(tmp_path, registry):
    """Swaps and draws follow the run's key; real workers make them in `test_engine.py`."""
    whole, given = (registry_job(tmp_path / name, registry, BY_NAME["data_shuffle"]) for name in ("whole", "others"))
    with small.as_by_others():
        assert small.run(given).version
    assert small.hashes(given) == small.undisturbed("a registry by data_shuffle", whole)
