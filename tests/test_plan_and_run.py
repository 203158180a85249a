"""What a plan says of a job is what its run says: the same refusals, warnings and numbers."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.errors import LOWER_K, AnonpipeError
from anonpipe.pipeline.preview import preview
from anonpipe.verify import words
from tests import small

NUMBER, CATEGORY = {"kind": "continuous"}, {"kind": "categorical"}
UNFITTED = {"name": "none", "model": "linear", "formula": "y ~ x", "subset": "x > 99"}
LOOSE = {name: 1e9 for name in ("mean", "covariance", "mean_in_unit", "variance_in_unit")} | {"rows_under_k": 10**6}


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    ward = np.where(np.arange(rows) < 3, "small", "large")
    return pa.table(
        {"x": rng.normal(size=rows), "y": rng.normal(size=rows), "c": rng.choice(["a", "b"], rows), "w": ward}
    )


def refusal(function, job) -> str:
    with pytest.raises(AnonpipeError) as refused:
        function(job)
    return f"{type(refused.value).__name__}: {refused.value}"


@pytest.mark.parametrize(
    ("names", "rows", "changes", "said"),
    [
        ("xy", 9, {"k": 10}, f"the input has 9 rows, fewer than k=10; add rows, or {LOWER_K}"),
        ("xy", 60, {"k": 60, "measure": {"hold_out": 0.2}}, " rows besides those that are held out, fewer than k=60"),
        ("xyw", 30, {"strata": {"by": ["w"]}}, "1 stratum has fewer than k=5 records"),
        (
            "xyw",
            30,
            {"k": 28, "strata": {"by": ["w"], "small": "drop"}},
            "each of the 2 strata of 'w' has fewer than k=28",
        ),
        ("c", 60, {"k": 50}, "no masked column has two values that k=50 records share"),
        ("c", 60, {"mask": {"method": "local_synthesis"}}, "needs a column of numbers"),
        ("x", 60, {"mask": {"method": "suppression"}}, "one feature column has one component"),
        ("xy", 60, {"cluster": {"method": "optimal_univariate"}}, "takes one feature column"),
    ],
)
def test_what_cannot_be_is_refused_by_both_in_the_same_words(tmp_path, names, rows, changes, said):
    kinds = {"x": NUMBER, "y": NUMBER, "c": CATEGORY, "w": CATEGORY | {"role": "key"}}
    job = small.job(tmp_path, table(rows).select(list(names)), {n: kinds[n] for n in names}, gates=LOOSE, **changes)
    told = refusal(preview, job)
    assert said in told and told == refusal(small.run, job)


def test_strata_that_share_their_noise_are_counted_alike(tmp_path):
    """One stratum is too small, and the next larger one joins it: two share."""
    ward = np.repeat(["a", "b", "c"], [400, 45, 10])
    given = pa.table({"x": np.random.default_rng(1).normal(size=455), "ward": ward})
    columns = {"x": NUMBER, "ward": CATEGORY | {"role": "key"}}
    job = small.job(tmp_path, given, columns, strata={"by": ["ward"]}, gates=LOOSE)
    outcome = small.run(job)
    (note,) = [note for note in outcome.verdict.notes if "share the covariance of their noise" in note]
    (warning,) = [each for each in preview(job).warnings if "share the covariance of their noise" in each]
    assert warning in outcome.warnings
    assert [re.match(r"\d+ of \d+ strata", text).group() for text in (note, warning)] == ["2 of 3 strata"] * 2


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_time_of_day_is_not_lost_without_a_word(tmp_path, zone):
    rng = np.random.default_rng(7)
    hours = pa.array(rng.integers(400_000, 440_000, 300) * 3_600, pa.timestamp("s", zone))
    given = pa.table(
        {"seen": hours.cast(pa.timestamp("us", zone)), "day": hours.cast(pa.date32()), "x": rng.normal(size=300)}
    )
    columns = {"seen": {"kind": "date"}, "day": {"kind": "date"}, "x": NUMBER}
    whole = small.job(tmp_path, given, columns, gates=LOOSE)
    (warning,) = [each for each in preview(whole).warnings if "times of day" in each]
    assert "'seen'" in warning and "times of day are lost" in warning
    assert warning in small.run(whole).warnings
    released = small.released(whole)["seen"].to_pandas()
    assert (released == released.dt.normalize()).all()  # midnights of the zone
    columns["seen"]["step"] = float(re.search(r"step: ([0-9.]+)", warning).group(1))
    fine = small.job(tmp_path / "fine", given, columns, gates=LOOSE)
    assert not any("times of day" in each for each in preview(fine).warnings)
    assert small.run(fine).version is not None
    moments = small.released(fine)["seen"].cast(pa.int64()).to_numpy()
    assert not np.any(moments % 3_600_000_000) and len(np.unique(moments % 86_400_000_000)) == 24


@pytest.mark.parametrize("rules", [[], ["left >= seen"]])
def test_times_of_day_are_cut_and_not_rounded(tmp_path, rules):
    """Afternoons stay on their day, and days between two times are those between their days."""
    rng = np.random.default_rng(8)
    seen, stay = rng.integers(15_000, 15_010, 600), rng.integers(0, 4, 600)
    times = [86_400 * days + 3_600 * rng.integers(13, 24, 600) for days in (seen, seen + stay)]
    times[1] = np.maximum(*times)
    seen, left = (pa.array(each, pa.timestamp("s")) for each in times)
    given = pa.table({"seen": seen, "left": left, "x": rng.normal(size=600)})
    columns = {"seen": {"kind": "date"}, "left": {"kind": "date"}, "x": NUMBER}
    done = small.job(tmp_path, given, columns, gates=LOOSE, rules=rules)
    assert small.run(done).version is not None
    days = [small.released(done)[name].cast(pa.date32()).cast(pa.int32()).to_numpy() for name in ("seen", "left")]
    if rules:
        assert set(days[1] - days[0]) == {0, 1, 2, 3}
    else:
        assert set(days[0]) == set(range(15_000, 15_010)) and set(days[1]) <= set(range(15_000, 15_013))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"k": 29, "gates": LOOSE | {"local_suppression_rate": 0.01}}, 3),
        ({"k": 29, "gates": LOOSE | {"local_suppression_rate": 0.01}, "repeat": {"allow": "a trial"}}, 3),
        ({"analyses": [UNFITTED]}, 2),
        ({"analyses": [UNFITTED], "k": 29, "gates": LOOSE | {"local_suppression_rate": 0.01}}, 2),
        ({"k": 6, "repeat": {}}, 2),
        ({"k": 6, "repeat": {"allow": "a trial"}}, 0),
    ],
)
def test_a_plan_ends_with_the_exit_code_of_its_run(tmp_path, changes, code):
    """Of a table of which 3 of 60 records are in a category of their own; k=6 and k=5 are two releases of it."""
    columns = {"x": NUMBER, "y": NUMBER, "w": CATEGORY}
    given = table(60).select(list(columns))
    if changes.get("k") == 6:
        assert small.run(small.job(tmp_path, given, columns, gates=LOOSE)).version is not None
    job = small.job(tmp_path, given, columns, **{"gates": LOOSE, **changes})
    planned = preview(job)
    assert planned.exit_code == planned.to_dict()["exit_code"] == code
    assert any("the run will be refused" in line for line in planned.warnings) == bool(code)
    try:
        ended = 0 if small.run(job).version else 3
    except AnonpipeError as error:
        ended = error.exit_code
    assert ended == code


def test_a_plan_beside_an_earlier_release_predicts_its_run(tmp_path):
    """A job that is edited after its first run: the overlap is named, and nothing else is left out."""
    columns = {name: NUMBER | {"transform": "normal_scores"} for name in ("x", "y")}
    given = table(400).select(["x", "y"])
    assert small.run(small.job(tmp_path, given, columns, gates=LOOSE)).version is not None
    refused, allowed = (
        preview(small.job(tmp_path, given, columns, gates=LOOSE, k=6, repeat=repeat)) for repeat in ({}, {"allow": "a"})
    )
    assert (refused.exit_code, allowed.exit_code) == (2, 0)
    assert refused.covariance is not None and allowed.covariance is not None
    others = [each for each in refused.warnings if "refused" not in each and "repeat.allow" not in each]
    assert {*others} == {each for each in allowed.warnings if "were released" not in each}
    assert any("allow it in the job" in each for each in refused.warnings)


@pytest.mark.parametrize(
    ("analysis", "changes", "code"),
    [
        ({"subset": "w == 'small'"}, {}, 2),
        ({"subset": "w == 'large'"}, {}, 0),
        ({"subset": "w == 'small' or c == 'a'"}, {}, 0),
        ({"model": "cox", "formula": "t ~ y", "event": "w == 'small'"}, {}, 2),
        ({"subset": "s == 'small'"}, {"strata": {"by": ["s"], "small": "merge"}}, 2),
        ({"subset": "wd == 'small'"}, {}, 0),  # `w` is no column of it
    ],
)
def test_a_subset_of_a_category_that_is_not_released_is_found(tmp_path, analysis, changes, code):
    """Three of 300 records have a ward of their own, and three another: suppressed, or in a stratum that is merged."""
    given = table(300)
    given = given.append_column("t", pa.array(np.arange(300.0))).append_column("s", given["w"])
    given = given.append_column("wd", pa.array(["small"] * 6 + ["other"] * 294))
    given = given.set_column(3, "w", pa.array(["small"] * 3 + ["tiny"] * 3 + ["large"] * 294))
    given = given.set_column(5, "s", pa.array(["small"] * 3 + ["large"] * 200 + ["other"] * 97))
    columns = {"x": NUMBER, "y": NUMBER, "t": NUMBER, "w": CATEGORY, "c": CATEGORY, "s": CATEGORY | {"role": "key"}}
    columns["wd"] = CATEGORY
    if not changes:
        del columns["s"]
    wanted = {"name": "few", "model": "linear", "formula": "y ~ x"} | analysis
    given = given.select(list(columns))
    job = small.job(tmp_path, given, columns, gates=LOOSE, analyses=[wanted], **changes)
    planned = preview(job)
    assert planned.exit_code == code, planned.warnings
    assert any("no released record" in each and "too rare" in each for each in planned.warnings) == bool(code)
    if code:
        assert "'few'" in refusal(small.run, job)
    else:
        assert small.run(job).version is not None


def test_plan_refuses_output_of_another_table_as_run_does(tmp_path):
    first = small.job(tmp_path, table(60).select(["x", "y"]), {"x": NUMBER, "y": NUMBER}, gates=LOOSE)
    assert small.run(first).version is not None
    other = small.job(tmp_path, pa.table({"p": range(60), "q": range(60)}), {"p": NUMBER, "q": NUMBER}, gates=LOOSE)
    told = refusal(preview, other)
    assert "holds a release of another table" in told and told == refusal(small.run, other)


@pytest.mark.parametrize("levels", [None, ["never", "b", "rare", "a"]])
def test_suppressed_category_looks_like_one_nobody_had(tmp_path, levels):
    """With a dictionary of the file alone neither is released, with declared levels both; the plan says which."""
    rng = np.random.default_rng(6)
    told = []
    for rare in (3, 0):
        names = np.append(rng.choice([1, 3], 200), [2] * rare)
        site = pa.DictionaryArray.from_arrays(pa.array(names, pa.int8()), pa.array(["never", "b", "rare", "a"]))
        given = pa.table({"x": rng.normal(size=len(names)), "site": site})
        columns = {"x": NUMBER, "site": CATEGORY | ({} if levels is None else {"levels": levels})}
        job = small.job(tmp_path / str(rare), given, columns, gates=LOOSE | {"category_share": 1, "null_share": 1})
        warnings = [line for line in preview(job).warnings if "that no record has" in line]
        unused = "1 category" if rare else "2 categories"
        assert ["'site'" in line and f"has {unused} that" in line for line in warnings] == [True] * (levels is None)
        outcome = small.run(job)
        assert outcome.version is not None and set(warnings) <= set(outcome.warnings)
        assert not any("never" in line or "rare" in line for line in outcome.warnings)
        released = small.released(job)["site"].combine_chunks()
        assert released.type == site.type and "rare" not in released.to_pylist()
        told.append(released.dictionary.to_pylist())
    assert told[0] == told[1] == (levels or ["a", "b"])


@pytest.mark.secret("5e" * 32)
@pytest.mark.parametrize(("limit", "code"), [(0.1, 0), (1e-30, 3)])
def test_a_plan_predicts_what_its_run_writes(tmp_path, limit, code):
    given, step = table(400).select(["x", "y"]), {"step": 0.01, "transform": "normal_scores"}
    columns = {"x": NUMBER | step, "y": NUMBER | step}
    gates = LOOSE | {"covariance": 0.05, "local_suppression_rate": 1, "unchanged_record_rate": 1}
    job = small.job(tmp_path, given, columns, gates=gates | {"mean_in_unit": limit, "variance_in_unit": limit})
    planned, outcome = preview(job), small.run(job)
    (run,) = [check for check in outcome.verdict.checks if check.key == "covariance"]
    assert planned.covariance == run and run.measured > 0
    assert planned.to_dict()["covariance"] == words.content(run)
    assert (planned.exit_code, outcome.version is None) == (code, bool(code))
