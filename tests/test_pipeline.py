"""The whole run in this process, for every pair of methods: what is released, and when nothing is."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from anonpipe import api
from anonpipe.errors import JobError
from anonpipe.methods.record import in_jobs
from anonpipe.methods.synthesis import METHODS
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.preview import preview
from anonpipe.storage import release
from tests import small
from tests.runs import registry_columns, write_patients

pytestmark = pytest.mark.secret("5e" * 32)

K = 5
LOOSE = {"mean": 0.5, "covariance": 0.5, "covariance_with_keys": 0.5, "category_share": 0.05, "null_share": 0.05}
HANDED_ON = f"rare original values reproduced above chance (in fewer than {K} records)"
CLUSTERS = [{"method": "mdav"}, {"method": "kmeans", "refine": False}]
SYNTHESIZERS = [
    {"method": "centroid"},
    {"method": "gaussian"},
    {"method": "gaussian", "moments": "expected"},
    {"method": "pca", "moments": "exact"},
    {"method": "pca", "moments": "expected"},
    *({"method": "micro_perturbation", "form": form} for form in ("independent", "centred", "published", "exact")),
    {"method": "r_microhybrid", "rule": "rank"},
    *({"method": "micro_perturbation", "form": form, "noise_scope": "table"} for form in ("independent", "exact")),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A registry of 1,200 persons as a file, and as a table."""
    path = tmp_path_factory.mktemp("registry") / "registry.parquet"
    write_patients(path, 1_200)
    return str(path), pq.read_table(path)


def registry_job(folder, registry, scored=True, **changes):
    path, table = registry
    columns = registry_columns(table.schema)
    changes = {"gates": LOOSE, "partition": {"rows": 1_000, "sample_rows": 500}, **changes}
    return small.job(folder, path, columns if scored else small.unscored(columns), **changes)


def failed(outcome):
    return [check.name for check in outcome.verdict.lines if check.outcome == "failed"]


def check_release(given, table, outcome):
    """What holds for every release, whatever the methods."""
    made = small.released(given)
    wanted = [name for name in table.column_names if name in given.released]
    assert made.schema.equals(pa.schema([table.schema.field(name) for name in wanted]), check_metadata=True)
    assert made.num_rows == outcome.rows == table.num_rows
    assert outcome.verdict.passed and failed(outcome) == []
    manifest = release.read_manifest(release.resolve(given.output))
    assert all(cell["from"] >= given.k for cell in manifest["group_sizes"])
    assert release.check(given.output) == [] and small.stagings() == []
    return made


def apart(made, original):
    """The largest difference of a category's count."""
    new, old = small.counts(made), small.counts(original)
    return max(abs(new.get(value, 0) - old.get(value, 0)) for value in {*new, *old})


# Every synthesizer in strata, of groups with and without a local search in turn; of a whole table one of each kind.
PAIRS = [(CLUSTERS[at % 2], synthesize, {"by": ["vital_status"]}) for at, synthesize in enumerate(SYNTHESIZERS)]
PAIRS += [
    (CLUSTERS[at % 2], synthesize, {})
    for at, synthesize in enumerate(SYNTHESIZERS)
    if synthesize["method"] in ("centroid", "r_microhybrid") or synthesize.get("form") == "exact"
]


def _named(value):
    return "-".join(map(str, value.values())) or "whole"


@pytest.mark.parametrize(("cluster", "synthesize", "strata"), PAIRS, ids=_named)
def test_every_pair_of_methods_releases(tmp_path, registry, cluster, synthesize, strata):
    gates = (
        {**LOOSE, "unchanged_record_rate": 1.0, "exact_small_cells": 1.0}
        if synthesize["method"] == "r_microhybrid"
        else LOOSE
    )
    hands_on = synthesize["method"] == "r_microhybrid" and not strata  # the status beside leaves too little to rotate
    how = {"cluster": cluster, "synthesize": synthesize, "strata": strata, "gates": gates}
    given = registry_job(tmp_path, registry, scored=not hands_on, **how)
    outcome = small.run(given)
    if hands_on:
        assert failed(outcome) == [HANDED_ON] and outcome.version is None
        return
    assert failed(outcome) == []
    made = check_release(given, registry[1], outcome)
    assert small.counts(made["vital_status"]) == small.counts(registry[1]["vital_status"])
    for name in ("sex", "stage", "site"):
        assert apart(made[name], registry[1][name]) <= (4 * K if synthesize["method"] == "centroid" else 0)
    checks = {check.name: check for check in outcome.verdict.lines}
    assert checks["smallest group"].outcome == "passed"
    names = [name for name in checks if "deviation from its expected value" in name]
    by_stratum = strata and synthesize.get("noise_scope") != "table"
    if by_stratum and synthesize.get("moments") != "expected":
        assert any("in each stratum" in name for name in names)
    on_average = synthesize.get("moments") == "expected" or synthesize.get("form", "exact") != "exact"
    if not on_average:
        assert all(checks[name].limit == "at most 1e-09 sd" for name in names)


@pytest.mark.parametrize("form", ["independent", "exact"])
def test_small_strata_share_their_noise(tmp_path, form):
    """Strata of 400, 22, 10 and 8 records: the last three have 40 records in some seven groups, 33 beyond them."""
    rng = np.random.default_rng(1)
    ward = np.repeat(["a", "b", "c", "d"], [400, 22, 10, 8])
    table = pa.table({"age": rng.normal(40, 9, 440) + 30 * (ward == "a"), "cost": rng.normal(size=440), "ward": ward})
    number = {"kind": "continuous", "transform": "none", "extremes": "keep"}  # one cost of 22 is 3.75
    columns: dict[str, Any] = {"age": number, "cost": number}
    columns["ward"] = {"kind": "categorical", "role": "key"}
    synthesize = {"method": "micro_perturbation", "form": form}
    given = small.job(tmp_path, table, columns, strata={"by": ["ward"]}, synthesize=synthesize, gates=LOOSE)
    outcome = small.run(given)
    assert failed(outcome) == []
    assert any("3 of 4 strata share the covariance of their noise" in note for note in outcome.verdict.notes)
    said = "3 of 4 strata may share the covariance of their noise, as its estimate needs 30 records"
    assert any(said in told for told in outcome.warnings) and any(said in told for told in preview(given).warnings)
    made, frame = small.released(given).to_pandas(), table.to_pandas()
    if form == "exact":  # before decoding; the columns have no steps
        for inside in ({"a"}, {"b", "c", "d"}):
            new, old = (each[each["ward"].isin(inside)][["age", "cost"]] for each in (made, frame))
            assert np.allclose(new.cov(), old.cov(), rtol=1e-6) and np.allclose(new.mean(), old.mean(), rtol=1e-9)


def test_hybrids_keep_relation_of_groups_to_kept_columns(tmp_path):
    """Exact in every group; k is held against the feature columns before any group is formed."""
    rng = np.random.default_rng(1)
    ward = rng.choice(["a", "b", "c"], 900)
    age = rng.integers(18, 90, 900)
    income = 500.0 * age + np.where(ward == "a", 9e3, 0.0) + rng.normal(0, 3e3, 900)
    table = pa.table({"age": age, "income": income, "ward": ward})
    columns = {
        "age": {"kind": "integer", "role": "key"},
        "income": {"kind": "continuous", "transform": "none"},
        "ward": {"kind": "categorical", "role": "sensitive"},
    }
    gates = {"rows_under_k": 900, "covariance_with_keys": 1e-6, "covariance": 1e-6, "mean": 1e-6}
    given = small.job(tmp_path, table, columns, k=6, synthesize={"method": "r_microhybrid"}, gates=gates)
    assert failed(small.run(given)) == [
        HANDED_ON.replace("5", "6"),
        # alone with their ward
        "replicated records (of the same group, shared by fewer than 6)",
    ]
    given = small.job(
        tmp_path, table, columns, k=6, synthesize={"method": "r_microhybrid"}, strata={"by": ["ward"]}, gates=gates
    )
    outcome = small.run(given)
    assert outcome.version, failed(outcome)
    made = small.released(given)
    assert not set(made["income"].to_pylist()) & set(income.tolist())
    assert small.counts(made["ward"]) == small.counts(table["ward"])
    for act in (preview, small.run):
        with pytest.raises(JobError, match=r"k is 5, .* needs 6 with rule argus: .* 1 feature columns, .* variables 3"):
            act(small.job(tmp_path, table, columns, synthesize={"method": "r_microhybrid"}, gates=gates))


@pytest.mark.parametrize("method", ["centroid", "gaussian"])
def test_histograms_keep_the_counts_of_every_group(tmp_path, registry, method):
    gates = {**LOOSE, "covariance": 5, "covariance_with_keys": 5, "mean": 5}
    changes = {"strata": {"by": ["vital_status"]}, "synthesize": {"method": method}, "gates": gates}
    given = registry_job(tmp_path, registry, decode={"categories": "histogram"}, **changes)
    outcome = small.run(given)
    made = check_release(given, registry[1], outcome)
    assert any("not k-anonymity" in note for note in outcome.verdict.notes)
    for status in ("Alive", "Dead"):
        parts = [t.filter(pc.equal(t["vital_status"].cast(pa.string()), status)) for t in (made, registry[1])]
        for name in ("sex", "stage", "site"):
            assert apart(parts[0][name], parts[1][name]) == 0
    calibrated = registry_job(tmp_path / "calibrated", registry, **changes)
    small.run(calibrated)
    assert not made.equals(small.released(calibrated))


@pytest.mark.parametrize("rule", ["calibrated", "most_probable", "sampled"])
@pytest.mark.parametrize("method", ["centroid", "micro_perturbation"])
def test_rules_of_categories(tmp_path, registry, rule, method):
    gates = {**LOOSE, "category_share": 1.0, "covariance": 50, "covariance_with_keys": 50, "mean": 5, "null_share": 1}
    given = registry_job(tmp_path, registry, decode={"categories": rule}, synthesize={"method": method}, gates=gates)
    made = check_release(given, registry[1], small.run(given))
    most = max(apart(made[name], registry[1][name]) for name in ("stage", "site"))
    assert (most <= (4 * K if method == "centroid" else 0)) == (rule == "calibrated")


@pytest.mark.parametrize("jitter", [0.0, 2.0])
@pytest.mark.parametrize("strata", [{}, {"by": ["vital_status"]}], ids=["whole", "strata"])
def test_restored_survival_times(tmp_path, registry, jitter, strata):
    gates = {**LOOSE, "rows_under_k": 1_200, "unchanged_record_rate": 1.0}
    decode = {"restore_survival_times": True, "jitter_restored_times": jitter}
    given = registry_job(tmp_path, registry, decode=decode, strata=strata, gates=gates)
    outcome = small.run(given)
    assert any("true survival times" in warning for warning in outcome.warnings)
    if jitter == 0:  # times of single persons, one by one
        assert failed(outcome) == [HANDED_ON] and outcome.version is None
        return
    made = check_release(given, registry[1], outcome)
    true, released = (np.sort(t["follow_up_months"].to_numpy()) for t in (registry[1], made))
    assert not np.array_equal(true, released) and np.abs(true - released).max() <= jitter + 0.1


def test_true_times_are_quasi_identifiers(tmp_path, registry):
    given = registry_job(tmp_path, registry, decode={"restore_survival_times": True})
    outcome = small.run(given)
    assert outcome.version is None
    assert any("follow_up_months" in name and "below k = 5" in name for name in failed(outcome))


# --- types ----------------------------------------------------------------------------------------------------------

ROWS = 800


def _typed_table():
    rng = np.random.default_rng(6)
    missing = rng.random(ROWS) < 0.1
    whole = rng.integers(0, 120, ROWS)
    days = rng.integers(10_000, 18_000, ROWS)

    def nullable(values, kind):
        return pa.array(values, mask=missing).cast(kind) if not isinstance(values, list) else pa.array(values, kind)

    words = np.array(["low", "middle", "high"])[rng.integers(0, 3, ROWS)]
    levels = pa.array(["low", "middle", "high"])
    index = pa.array(rng.integers(0, 3, ROWS).astype(np.int8), mask=missing)
    arrays = {f"{sign}int{bits}": nullable(whole, f"{sign}int{bits}") for sign in "u" for bits in (8, 16, 32, 64)}
    arrays |= {f"int{bits}": nullable(whole, f"int{bits}") for bits in (8, 16, 32, 64)}
    arrays |= {
        "float32": nullable(rng.normal(size=ROWS), "float32"),
        "float64": nullable(rng.normal(size=ROWS), "float64"),
    }
    arrays["bool"] = nullable(rng.random(ROWS) < 0.4, "bool")
    arrays["string"] = nullable(words, "string")
    arrays["large_string"] = nullable(words, "large_string")
    arrays["dictionary"] = pa.DictionaryArray.from_arrays(index.cast("int32"), levels)
    arrays["ordered"] = pa.DictionaryArray.from_arrays(index, levels, ordered=True)
    arrays["date32"] = nullable(days.astype(np.int32), "int32").cast("date32")
    arrays["timestamp"] = nullable(days.astype(np.int64) * 86_400_000_000, "int64").cast(
        pa.timestamp("us", "Europe/Helsinki")
    )
    arrays["decimal"] = pa.array(
        [None if gone else decimal.Decimal(int(value)) / 4 for gone, value in zip(missing, whole, strict=True)],
        pa.decimal128(9, 2),
    )
    return pa.table(arrays)


def _kind(name, kind):
    if name == "ordered":
        return {"kind": "ordinal", "levels": ["low", "middle", "high"]}
    if name.startswith(("date", "timestamp")):
        return {"kind": "date"}
    if "int" in name:
        return {"kind": "integer", "bounds": [0, 120]}
    if name == "decimal":
        return {"kind": "continuous", "step": 0.25, "bounds": [0, 30]}
    return {"kind": {"bool": "binary", "float32": "continuous", "float64": "continuous"}.get(name, "categorical")}


@pytest.mark.parametrize("synthesize", ["centroid", "gaussian", "pca", "micro_perturbation"])
def test_all_types_come_out_as_they_went_in(tmp_path, synthesize):
    table = _typed_table()
    columns = {name: _kind(name, kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}
    columns = dict(reversed(columns.items()))  # the release follows the input's order, not the job's
    gates = {**LOOSE, "mean": 5, "covariance": 5}
    given = small.job(tmp_path, table, columns, synthesize={"method": synthesize}, gates=gates)
    made = check_release(given, table, small.run(given))
    for name in table.column_names:
        assert made[name].null_count == pytest.approx(table[name].null_count, abs=2), name
    for name in ("bool", "string", "large_string"):
        assert apart(made[name], table[name]) <= (4 * K if synthesize == "centroid" else 0)
    assert set(made["ordered"].cast(pa.string()).unique().to_pylist()) <= {"low", "middle", "high", None}
    assert all((value * 4) % 1 == 0 for value in made["decimal"].to_pylist() if value is not None)
    midnight = {value.timetz().replace(tzinfo=None) for value in made["timestamp"].to_pylist() if value is not None}
    assert midnight == {datetime.time(0)}  # days of the zone


def test_nullability_stays_and_holds(tmp_path):
    table = small.plain_table()
    place = ["once", *["north", "south"] * 149, "twice"]
    table = table.set_column(2, pa.field("place", pa.string(), nullable=False), pa.array(place))
    given = small.job(tmp_path, table)
    outcome = small.run(given)
    made = check_release(given, table, outcome)
    assert not made.schema.field("place").nullable and made.schema.field("age").nullable
    assert set(small.counts(made["place"])) == {"north", "south"}


def test_rare_categories_are_suppressed(tmp_path):
    table = small.plain_table(400)
    place = ["hermit83741"] + ["few"] * 4 + ["five"] * 5 + ["north", "south"] * 195
    table = table.set_column(2, "place", pa.array(place))
    given = small.job(tmp_path, table, gates={**LOOSE, "category_share": 0.02})
    outcome = small.run(given)
    made = check_release(given, table, outcome)
    assert small.counts(made["place"]) == {"five": 5, "north": 195, "south": 195, None: 5}
    assert any("'place'" in w and "5 records" in w and "missing" in w for w in outcome.warnings)
    assert not any("hermit83741" in w for w in outcome.warnings)
    bytes_written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"hermit83741" not in bytes_written


# --- what a method promises of single groups ------------------------------------------------------------------------


@pytest.mark.parametrize(("cluster", "k"), [(CLUSTERS[0], 3), (CLUSTERS[1], 5), (CLUSTERS[0], 12)])
def test_centroid_rows_occur_at_least_k_times(tmp_path, registry, cluster, k):
    gates = {**LOOSE, "mean": 5, "covariance": 5, "covariance_with_keys": 5, "category_share": 1, "null_share": 1}
    given = registry_job(tmp_path, registry, k=k, cluster=cluster, synthesize={"method": "centroid"}, gates=gates)
    made = check_release(given, registry[1], small.run(given)).to_pandas().astype(object)
    synthetic = [name for name, column in given.released.items() if column.role.synthesized]
    assert made.groupby(synthetic, dropna=False, observed=True).size().min() >= k


def test_strata_are_never_mixed(tmp_path, registry):
    """With groups of one value each, centroids keep the mean of every number in every stratum."""
    given = registry_job(
        tmp_path,
        registry,
        strata={"by": ["vital_status"]},
        synthesize={"method": "centroid"},
        gates={**LOOSE, "mean": 5},
    )
    made = check_release(given, registry[1], small.run(given)).to_pandas()
    synthetic = [name for name, column in given.released.items() if column.role.synthesized]
    statuses = made.astype(object).groupby(synthetic, dropna=False)["vital_status"].nunique()
    assert statuses.max() == 1
    for name in ("age", "follow_up_months"):
        old = registry[1].to_pandas().groupby("vital_status", observed=True)[name].mean()
        new = made.groupby("vital_status", observed=True)[name].mean()
        assert np.allclose(old, new, atol=0.3)


def test_kept_columns_keep_their_counts(tmp_path, registry):
    columns = registry_columns(registry[1].schema)
    columns["sex"] = {"kind": "binary", "role": "sensitive"}
    columns["stage"] = {"kind": "categorical", "role": "key"}
    given = small.job(tmp_path, registry[0], columns, gates={**LOOSE, "rows_under_k": 100})
    made = check_release(given, registry[1], small.run(given))
    names = ["sex", "stage", "vital_status"]
    old, new = (t.select(names).to_pandas().astype(str).value_counts().to_dict() for t in (registry[1], made))
    assert old == new


# --- failed gates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", ["mean", "covariance", "covariance_with_keys"])
def test_a_failed_gate_publishes_nothing(tmp_path, registry, gate):
    scored = gate != "mean"  # what normal scores change of means is known, and part of the limit
    first = registry_job(tmp_path, registry, scored)
    old = small.run(first).version
    given = registry_job(tmp_path, registry, scored, synthesize={"method": "gaussian"}, gates={**LOOSE, gate: 1e-9})
    outcome = small.run(given)
    assert outcome.version is None and failed(outcome)
    assert release.resolve(given.output).root == str(Path(old).resolve())
    assert len(list((tmp_path / "out" / "versions").iterdir())) == 1
    kept = tmp_path / "out" / "failed-verdict.json"
    verdict = json.loads(kept.read_text())
    assert kept.stat().st_mode & 0o077 == 0
    assert [c["name"] for c in verdict["checks"] if c["outcome"] == "failed"] == failed(outcome)
    assert small.stagings() == []


def test_after_a_failure_in_a_new_folder_the_job_can_run_again(tmp_path, registry):
    given = registry_job(tmp_path, registry, synthesize={"method": "centroid"}, gates={**LOOSE, "mean": 1e-9})
    assert small.run(given).version is None
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["failed-verdict.json", "steward"]
    again = registry_job(tmp_path, registry)
    assert small.run(again).version
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["CURRENT", "release", "steward", "versions"]


# --- same result ----------------------------------------------------------------------------------------------------


def test_same_secret_data_and_job_give_the_same_bytes(tmp_path, registry, monkeypatch):
    runs = [registry_job(tmp_path / str(at), registry) for at in range(2)]
    for given in runs:
        small.run(given)
    assert small.hashes(runs[0]) == small.hashes(runs[1])
    assert api.anonymize(registry[1], runs[0]).table.equals(small.released(runs[0]))
    other = registry_job(tmp_path / "other", registry, release={"file_rows": 1_000})
    small.run(other)
    monkeypatch.setenv("ANONPIPE_SECRET", "6f" * 32)
    small.run(runs[1])
    assert set(small.hashes(runs[0])).isdisjoint(small.hashes(runs[1]))


def test_files_and_row_groups_do_not_matter(tmp_path, registry):
    """The same rows in the same order, as one file of one row group, or as five files of many."""
    table = registry[1]
    folder = tmp_path / "parts"
    folder.mkdir()
    for at, begin in enumerate(range(0, 1_200, 240)):
        pq.write_table(table.slice(begin, 240), folder / f"{at}.parquet", row_group_size=50)
    whole = registry_job(tmp_path / "a", registry)
    cut = registry_job(tmp_path / "b", (str(folder), table))
    small.run(whole)
    small.run(cut)
    assert _rows(small.released(whole)) == _rows(small.released(cut))


def test_reversed_rows_give_another_release_of_the_same_quality(tmp_path, registry):
    given = registry_job(
        tmp_path, (small.write_table(tmp_path, registry[1].take(pa.array(range(1_199, -1, -1)))), registry[1])
    )
    made = check_release(given, registry[1], small.run(given))
    assert small.counts(made["stage"]) == small.counts(registry[1]["stage"])


def _rows(table):
    return hashlib.sha256(pd.util.hash_pandas_object(table.to_pandas(), index=False).to_numpy().tobytes()).hexdigest()


def test_released_rows_are_shuffled(tmp_path, registry):
    """Ages in input order are not the ages in the order of the release, not even roughly."""
    table = registry[1].sort_by("age")
    given = registry_job(tmp_path, (small.write_table(tmp_path, table), table))
    small.run(given)
    ages = small.released(given)["age"].to_numpy()
    assert abs(np.corrcoef(ages, np.arange(len(ages)))[0, 1]) < 0.15


# --- resuming -------------------------------------------------------------------------------------------------------


STAGES = ["scan", "route", "encode", "group", "decode", "assess", "write"]  # groups form in transform


def test_a_run_that_stopped_after_every_stage_goes_on(tmp_path, registry, monkeypatch):
    """Each time the next stage is done, and none again."""
    whole = small.undisturbed("a registry in groups", registry_job(tmp_path / "whole", registry))
    given = registry_job(tmp_path / "stopped", registry)
    begun = []

    def stop(*_):
        raise KeyboardInterrupt

    for stopped in range(8):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES[:stopped], stop))
            with pytest.raises(KeyboardInterrupt):
                _resume(given, begun)
        assert begun == [name for name in STAGES[:stopped] if name != "assess"]  # silent without measures
        assert len(small.stagings()) == 2  # the folder and its lock
    _resume(given, begun)
    assert begun == [name for name in STAGES if name != "assess"]
    assert small.hashes(given) == whole and small.stagings() == []


def _resume(given, begun):
    """Go on, and note the stages that begin."""

    def note(news):
        if news.done < news.total and news.rows == 0 and news.stage in STAGES:
            begun.append(news.stage)

    pipeline.execute(given, resume=True, cluster=False, on_progress=note)


def test_manifest_tells_nothing_of_persons_or_paths(tmp_path, registry):
    given = registry_job(tmp_path, registry, strata={"by": ["vital_status"]})
    small.run(given)
    where = release.resolve(given.output)
    text = (Path(where.root) / "_manifest.json").read_text()
    assert "registry.parquet" not in text and str(tmp_path) not in text
    assert "secret" not in text.replace("secret_mark", "")
    footer = pq.read_metadata(Path(where.root) / "part-00000.parquet")
    assert set(footer.metadata or {}) <= {b"ARROW:schema"}
    cells = json.loads(text)["group_sizes"]
    assert all(isinstance(cell["groups"], str) or cell["groups"] >= K for cell in cells)


def test_all_synthesizers_are_tried():
    """The list above names every method and form that the job model knows."""
    assert {options["method"] for options in SYNTHESIZERS} == set(in_jobs(METHODS))
    for name in in_jobs(METHODS):
        for choice in ("form", "moments"):
            if choice in METHODS[name].options.model_fields:
                known = set(METHODS[name].options.model_fields[choice].annotation.__args__)
                assert {options.get(choice, "exact") for options in SYNTHESIZERS if options["method"] == name} == known
