"""Jobs with disclosure control: what comes out, what is told of it, what an intruder makes of it, what is refused."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.errors import AnonpipeError, InputError, JobError
from anonpipe.job.model import parse_job
from anonpipe.methods.masking._pram import transition_matrix
from anonpipe.pipeline import disclosure, start
from anonpipe.pipeline.preview import preview
from anonpipe.storage import release
from anonpipe.two_tables import evaluate_release
from anonpipe.verify.words import limit
from tests import small
from tests.naive import disclosure as naive

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)

AREAS = [[f"m{at:02}", f"d{at // 4}", "land"] for at in range(12)]
CLASH = [["1", "1", "land"], ["2", "1", "land"]]
AGES = [[str(at), f"{at // 10 * 10}s", f"{at // 20 * 20}+"] for at in range(100)]
COLUMNS = {
    "area": {"kind": "categorical", "role": "key"},
    "sex": {"kind": "binary", "role": "key"},
    "age": {"kind": "integer", "role": "key"},
    "wage": {"kind": "continuous", "role": "sensitive"},
    "weight": {"kind": "continuous", "role": "sampling_weight", "by": ["sex"]},
}
RECODE = {"area": {"hierarchy": AREAS}, "age": {"hierarchy": AGES, "top": 85, "bottom": 20}}
CONTROL = {"key": ["area", "sex", "age"], "non_key": ["wage"], "recode": RECODE, "max_suppressed": 0.1}
OPEN = {"unchanged_record_rate": 1, "reidentification_rate": None}


def survey(rows=240, seed=3):
    """Persons of a sample, with weights; some without an area."""
    rng = np.random.default_rng(seed)
    area = rng.choice([row[0] for row in AREAS], rows, p=np.array([20, 9, 8, 7, 6, 5, 5, 4, 3, 2, 1, 1]) / 71)
    sex, age = rng.choice(["f", "m"], rows), rng.integers(15, 99, rows)
    wage = rng.lognormal(10, 0.5, rows).round(2)
    frame = pd.DataFrame(
        {"area": area, "sex": sex, "age": age, "wage": wage, "weight": np.where(sex == "f", 8.0, 12.0)}
    )
    frame.loc[rng.random(rows) < 0.02, "area"] = None
    return frame


def described(**control):
    """A job of the survey."""
    return {"k": 3, "columns": COLUMNS, "disclosure": CONTROL | control, "gates": OPEN, "measure": small.OFF}


def keys_of(frame, nulls="-"):
    return [
        tuple(nulls if pd.isna(value) else value for value in row) for row in frame[["area", "sex", "age"]].to_numpy()
    ]


@pytest.mark.parametrize("nulls", ["category", "any"])
def test_rows_are_those_of_a_literal_twin(nulls):
    frame = survey()
    made, verdict, _ = anonymize(frame, described(nulls=nulls))
    assert verdict.passed, [check for check in verdict.lines if check.outcome == "failed"]
    # the levels that were found, then the twin on the same codes
    levels = [
        int(next(each for each in verdict.notes if f"column {name!r}" in each).split("level ")[1][0])
        for name in ("area", "age")
    ]
    area = frame["area"].map({row[0]: row[levels[0]] for row in AREAS})
    age = frame["age"].clip(20, 85).astype(str).map({row[0]: row[levels[1]] for row in AGES})
    recoded = pd.DataFrame({"area": area, "sex": frame["sex"], "age": age})
    codes = np.stack([pd.factorize(recoded[name], sort=True)[0] for name in recoded], axis=1)
    order = np.lexsort(codes.T[::-1])
    hidden = np.array(naive.suppress([tuple(row) for row in codes[order].tolist()], 3, [1] * 3, nulls == "any"))
    wanted = recoded.iloc[order].mask(hidden == -1)
    wanted["wage"] = frame["wage"].to_numpy()[order]
    pairs = (
        sorted(zip(keys_of(wanted), wanted["wage"], strict=True)),
        sorted(zip(keys_of(made), made["wage"], strict=True)),
    )
    assert pairs[0] == pairs[1]
    coded = np.stack([pd.factorize(made[name])[0] for name in ("area", "sex", "age")], axis=1)
    assert min(naive.key_frequencies(coded.tolist(), nulls == "any")) >= 3


def test_same_bytes_for_any_order_blocks_and_stops(tmp_path, monkeypatch):
    frame, made = survey(), []
    for at, stops in enumerate((["scan", "write"], [])):
        mixed = pa.Table.from_pandas(frame.sample(frac=1, random_state=at), preserve_index=False)
        content = described() | {"output": str(tmp_path / f"out-{at}"), "cluster": None}
        job = small.job(tmp_path, mixed, **content)
        small.run_with_stops(job, stops)
        made.append(small.hashes(job))
        assert [path for path in small.stagings() if path.is_dir()] == []
        monkeypatch.setattr(disclosure, "_HELD_ROWS", 50)
    assert made[0] == made[1]
    where = release.resolve(job.output)
    manifest = release.read_manifest(where)
    assert manifest["methods"] == {} and manifest["columns"]["age"]["treatment"] == "recoded"
    told = manifest["disclosure"]["columns"]
    assert told["age"]["top"] == 85 and told["age"]["level"] in (1, 2)
    assert all(not isinstance(n := each.get("suppressed", 0), int) or n == 0 or n >= 3 for each in told.values())
    page = where.filesystem.cat_file(where.path("_report.html")).decode()
    assert "recoded" in page
    plan = preview(parse_job(described() | {"input": job.source.path, "output": str(tmp_path / "plan")}))
    risks = [figure for figure in plan.recoded if "key variables 'area'" in figure]
    assert len(risks) == 1 and "rows in classes under 3" in risks[0] and "individual risk" in risks[0]


def test_areas_numbers_and_categories_are_recoded_before_a_mask():
    columns = COLUMNS | {"wage": {"kind": "continuous"}, "age": {"kind": "integer"}, "job": {"kind": "categorical"}}
    frame = survey(1_500).assign(job=lambda f: np.where(f["wage"] > 25_000, "a", np.where(f["age"] > 60, "b", "c")))
    frame["area"] = frame["area"].fillna("m00")
    recode = {"area": {"hierarchy": AREAS, "minimum_population": 1_500}, "age": {"top": 80, "base": 5}}
    job = described(key=["area", "sex"], non_key=[], recode=recode) | {"columns": columns, "mask": {"method": "pram"}}
    result = anonymize(frame, job)
    assert result.verdict.passed, [check for check in result.verdict.lines if check.outcome == "failed"]
    made = result.table
    weights = frame.groupby("area")["weight"].sum()
    of = {row[0]: row[1] for row in AREAS}
    small_ones = {of[name] for name, total in weights.items() if total < 1_500}
    assert set(made["area"]) <= {row[0] for row in AREAS if row[1] not in small_ones} | {*small_ones, "land"}
    assert made["age"].max() <= 80 and (made["age"] % 5 == 0).all()
    assert made["job"].value_counts().to_dict() == frame["job"].value_counts().to_dict()
    assert not set(made["wage"]) & set(frame["wage"])


def test_recipients_correct_a_table_by_the_transition_matrix(tmp_path):
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 20_000)
    ill = np.where(rng.random(20_000) < np.where(sex == "f", 0.5, 0.1), "yes", rng.choice(["no", "unsure"], 20_000))
    columns = {"sex": {"kind": "binary", "role": "key"}, "ill": {"kind": "categorical"}}
    gates = OPEN | {"covariance_with_keys": 1}
    job = small.job(tmp_path, pa.table({"sex": sex, "ill": ill}), columns, mask={"method": "pram"}, gates=gates, k=3)
    assert small.run(job).verdict.passed
    made = small.released(job).to_pandas()
    told = release.read_manifest(release.resolve(job.output))["columns"]["ill"]["transition"]
    assert [each["stratum"] for each in told["strata"]] == [{}]
    matrix = np.array(told["strata"][0]["matrix"])
    assert np.allclose(matrix.sum(axis=1), 1, atol=1e-5)
    before, after = (
        np.array([[((s == a) & (i == c)).sum() for c in told["categories"]] for a in ("f", "m")])
        for s, i in ((sex, ill), (made["sex"], made["ill"]))
    )
    assert (before.sum(axis=0) == after.sum(axis=0)).all()
    corrected = after @ np.linalg.inv(matrix)
    by_sex = job.model_copy(update={"strata": job.strata.model_copy(update={"by": ("sex",)})})
    assert small.run(by_sex).verdict.passed
    told = release.read_manifest(release.resolve(job.output))["columns"]["ill"]["transition"]["strata"]
    assert [each["stratum"] for each in told] == [{"sex": "f"}, {"sex": "m"}]
    assert np.abs(after - before).max() > 1_000 and np.abs(corrected - before).max() < 350


@pytest.mark.parametrize(("retain", "sure"), [(0.8, 0.01), (0.95, 0.07), (0.999, 0.8)])
def test_pram_tells_of_a_rare_category_what_its_diagonal_says(retain, sure):
    """By Bayes and the published matrix an intruder knows how often; the diagonal, as shares are invariant."""
    shares = np.array([3_000, 1_800, 1_192, 8]) / 6_000
    matrix = transition_matrix(shares, retain)
    assert (shares * matrix[:, 3])[3] / (shares @ matrix)[3] == pytest.approx(matrix[3, 3])
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(4), (shares * 6_000).round().astype(int))
    kept = [np.mean(true[drawn == 3] == 3) for drawn in _drawn(true, matrix, rng, 200)]
    assert abs(np.mean(kept) - sure) < 0.02


def _drawn(true, matrix, rng, times):
    below = np.cumsum(matrix, axis=1)[true, :-1]
    return [drawn for _ in range(times) if ((drawn := (rng.random((len(true), 1)) >= below).sum(axis=1)) == 3).any()]


def linked(frame, made, wildcard=True):
    """For each person how many released rows fit all keys that an intruder knows."""
    released = pd.DataFrame(keys_of(made, None))
    fits = [((released == row) | released.isna()).all(axis=1).sum() for row in pd.DataFrame(keys_of(frame)).to_numpy()]
    return np.array(fits)


@pytest.mark.parametrize("nulls", ["category", "any"])
def test_attack_by_all_keys_and_by_minimality(nulls):
    """Where a null is any category single persons are found among few rows; where it is a category, among k."""
    frame = survey(500, seed=8).dropna()
    recode = {"age": {"base": 10}, "area": {"hierarchy": AREAS, "level": 1}}
    made, _, _ = anonymize(frame, described(nulls=nulls, recode=recode))
    known = frame.assign(
        age=(frame["age"] / 10 + 0.5).astype(int) * 10, area=frame["area"].map({r[0]: r[1] for r in AREAS})
    )
    fits = linked(known, made)
    assert (fits.min() >= 3) == (nulls == "category")
    # minimality: a category that stands unsuppressed with the other keys is not the suppressed one
    whole = set(keys_of(made.dropna()))
    domains = [sorted(set(column)) for column in zip(*keys_of(known), strict=True)]
    lone = [row for row in keys_of(made, None) if sum(value is None for value in row) == 1]
    left = [
        sum((*row[:at], value, *row[at + 1 :]) not in whole for value in domains[at])
        for row in lone
        for at in [row.index(None)]
    ]
    assert lone and (min(left) >= 2) == (nulls == "category")


@pytest.mark.parametrize("weight", [{}, {"by": ["sex"]}], ids=str)
def test_a_weight_that_nothing_masks_is_refused_with_a_remedy(weight):
    content = described() | {"input": "in.parquet", "output": "out"}
    columns = COLUMNS | {"weight": {"kind": "continuous", "role": "sampling_weight"} | weight}
    if weight:
        assert not parse_job(content | {"columns": columns}).replaces
        return
    with pytest.raises(JobError, match=r"give columns\.weight\.by .*, role: key with disclosure\.non_key"):
        parse_job(content | {"columns": columns})
    kept = columns | {"weight": {"kind": "continuous", "role": "key"}}
    control = {"disclosure": CONTROL | {"non_key": ["wage", "weight"]}}
    assert anonymize(survey(), described() | control | {"columns": kept}).table["weight"].nunique() == 2


def test_no_remedy_of_recoded_keys_is_a_refused_key(tmp_path):
    """No hold-out is advised, which goes with no key; what one level left is said in plan, run and report."""
    control = {
        "max_suppressed": 0.0,
        "recode": {"area": {"hierarchy": AREAS}, "age": {"bottom": 40, "top": 80, "base": 40}},
    }
    content = described(**control) | {"measure": {"scenarios": []}, "k": 30, "cluster": None}
    job = small.job(tmp_path, pa.Table.from_pandas(survey().dropna(), preserve_index=False), **content)
    planned, outcome = preview(job), small.run(job)
    words = "disclosure made one category of all values of 'area', which tells recipients nothing"
    assert any(words in each for each in planned.warnings) and any(words in each for each in outcome.urgent)
    assert words in html.unescape(Path(outcome.report).read_text(encoding="utf-8")) and not any(
        "rows suppressed" in each for each in planned.warnings
    )
    text = " ".join([*planned.lines(details=True), *outcome.verdict.notes, *map(limit, outcome.verdict.checks)])
    assert "hold_out" not in text and "none is left out" in text and "keys of 0 % of the rows suppressed" in text
    for limits in ({"membership_auc": 0.6}, {"attribute_inference": 0.2}):
        with pytest.raises(JobError, match=r"with disclosure\.key none are; remove it"):
            preview(small.job(tmp_path, job.source.path, **content | {"gates": OPEN | limits}))


REFUSED = [
    ({"key": ["nobody"]}, "disclosure.key names 'nobody'"),
    ({"key": ["weight"]}, "give it role key"),
    ({"key": ["sex", "sex"]}, "name each column once"),
    ({"cost": {"wage": 2}}, "which is not in disclosure.key"),
    ({"recode": {"sex": {"top": 3}}}, "top, bottom and base are for numbers"),
    ({"recode": {"age": {"top": 3, "bottom": 3}}}, "bottom must be below top"),
    ({"recode": {"age": {}}}, "nothing is recoded"),
    ({"recode": {"age": {"level": 1, "top": 9}}}, "need a hierarchy"),
    ({"recode": {"area": {"hierarchy": AREAS, "level": 3}}}, "level is 3, and the hierarchy has 2"),
    ({"recode": {"area": {"hierarchy": [["a", "b"], ["a", "c"]]}}}, "each value in one of them"),
    ({"recode": {"area": {"hierarchy": [["a", "b", "x"], ["c", "b", "y"]]}}}, "lies in several of level 2"),
    ({"recode": {"area": {"hierarchy": "nowhere.csv"}}}, "nowhere.csv cannot be read"),
    ({"recode": {"area": {"hierarchy": AREAS, "level": 1, "minimum_population": 9}}}, "leave out level"),
    ({"key": ["sex", "area"]}, "'age' is released unchanged and not in disclosure.key"),
    ({"non_key": []}, "'wage' is released unchanged and not in disclosure.key"),
    ({"non_key": ["wage", "age"]}, "name each column once"),
    ({"key": []}, "give key, too"),
    ({"recode": {"age": {"top": 84, "base": 10}}}, "multiples of base"),
    ({"recode": {"area": {"hierarchy": CLASH, "minimum_population": 9}}}, "stands at another level"),
    ({"recode": {"wage": {"hierarchy": AREAS}}}, "level auto is for columns in disclosure.key"),
]


@pytest.mark.parametrize(("control", "told"), REFUSED)
def test_what_does_not_fit_is_refused_before_any_work(control, told):
    with pytest.raises(JobError, match=told) as caught:
        parse_job(described(**control) | {"input": "in.parquet", "output": "out"})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("content", [{"disclosure": {}}, {"mask": {"method": "noise"}}])
def test_what_is_idle_is_refused(content):
    columns = {name: COLUMNS[name] for name in ("sex", "age")}
    given = {"input": "in.parquet", "output": "out", "k": 3, "columns": columns, "disclosure": {"key": ["sex", "age"]}}
    with pytest.raises(JobError, match="neither key nor recode" if "mask" not in content else "no column is masked"):
        parse_job(given | content)


def test_areas_may_be_populated_by_the_share_that_is_sampled():
    recode = {"area": {"hierarchy": AREAS, "minimum_population": 9}}
    given = described(recode=recode) | {"input": "in.parquet", "output": "out", "measure": {"sampling_fraction": 0.1}}
    assert parse_job(given).measure.sampling_fraction == 0.1


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([True, False], [[True, "a"], [False, "b"]]),
        (pd.to_datetime(["2020-01-01", "2021-05-05"]), [["2020-01-01", "a"], ["2021-05-05", "b"]]),
        ([1.0, 2.0], [[1, "a"], [2, "b"]]),
    ],
    ids=["truth", "dates", "numbers"],
)
def test_values_of_a_hierarchy_are_of_the_type_of_the_column(values, rows):
    frame = pd.DataFrame({"at": np.repeat(values, [9, 11])})
    recode = {"at": {"hierarchy": rows, "level": 1}}
    job = {"k": 3, "columns": {"at": {"kind": "categorical", "role": "key"}}, "measure": small.OFF, "gates": OPEN}
    made = anonymize(frame, job | {"disclosure": {"key": ["at"], "recode": recode}}).table
    assert made["at"].value_counts().to_dict() == {"a": 9, "b": 11}


def test_recipients_are_given_no_count_under_k(tmp_path):
    """Not of coded rows, nor of nulls by subtraction; the steward is given both. Evaluation counts as the run does."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 300), "age": rng.choice([30, 40, 50, 60], 300)})
    frame["wage"] = np.arange(300.0)
    frame.loc[:1, "age"], frame.loc[2:4, "age"], frame.loc[5:6, "age"] = 95, 85, None
    columns = {name: COLUMNS[name] for name in ("sex", "age", "wage")}
    control = {"key": ["sex", "age"], "non_key": ["wage"], "recode": {"age": {"top": 85}}, "nulls": "any"}
    content = {"columns": columns, "disclosure": control, "gates": OPEN, "k": 5, "cluster": None}
    table = pa.Table.from_pandas(frame, preserve_index=False)
    job = small.job(tmp_path, table, **content)
    outcome = small.run(job)
    assert outcome.verdict.passed and any("coded rows 2" in note for note in outcome.verdict.notes)
    (warning,) = outcome.warnings  # figures belong to the result
    assert "'wage' in disclosure.non_key" in warning and any(
        each.startswith("recoded  age; keys of ") for each in outcome.summary
    )
    where = release.resolve(job.output)
    manifest = release.read_manifest(where)
    assert "coded_rows" not in str(manifest["disclosure"]) and manifest["disclosure"]["non_key"] == ["wage"]
    assert manifest["disclosure"]["columns"]["age"]["suppressed"].startswith("fewer than")
    page = where.filesystem.cat_file(where.path("_report.html")).decode()
    assert "Nothing holds wage against k=5" in page and "no column is masked" in page and "pram" not in page.lower()
    compared = evaluate_release(job.source.path, job.output, job=job)
    assert next(check for check in compared.verdict.checks if check.key == "keys.rare").measured == 0


def test_rows_with_suppressed_keys_are_held_to_their_limit():
    control = {"key": ["area", "sex", "age"], "recode": {"age": {"base": 10}}}
    with pytest.raises(InputError, match=r"% of the rows, more than 2\.00% "):
        anonymize(survey(), described(**control, max_suppressed=0.02))


@pytest.mark.parametrize(
    "other",
    [
        {"measure": {"hold_out": 0.1}},
        {"strata": {"by": ["sex"], "small": "merge"}},
        {"columns": COLUMNS | {"id": {"role": "unit"}}},
    ],
    ids=str,
)
def test_what_recounts_classes_is_refused(other):
    with pytest.raises(JobError, match="disclosure does not go with"):
        parse_job(described() | {"input": "in.parquet", "output": "out"} | other)


def test_problems_of_the_input_name_column_and_rows_but_no_value():
    frame = survey()
    frame.loc[:4, "area"] = small.CANARY
    with pytest.raises(InputError, match="column 'area': 5 rows with values that are not in its hierarchy") as caught:
        anonymize(frame, described())
    assert small.CANARY not in str(caught.value)
    with pytest.raises(InputError, match="give a higher level, fewer keys"):
        anonymize(survey(), described(recode={"age": {"hierarchy": AGES}}, max_suppressed=0.0))
    with pytest.raises(InputError, match="areas of the highest level"):
        anonymize(survey(), described(recode={"area": {"hierarchy": AREAS, "minimum_population": 10**6}}))
    with pytest.raises(InputError, match="cannot hold its top, bottom or base"):
        anonymize(survey(), described(recode={"age": {"top": 80.5}}))


def test_coding_without_keys_and_no_second_coding(tmp_path):
    columns = {"age": {"kind": "integer"}, "wage": {"kind": "continuous"}}
    table = pa.Table.from_pandas(survey(900)[list(columns)], preserve_index=False)
    made = []
    for top in (60, 70):
        control = {"disclosure": {"recode": {"age": {"top": top}}}, "mask": {"method": "noise"}, "repeat": {}}
        job = small.job(tmp_path, table, columns, **control, gates=OPEN)
        if made:
            with pytest.raises(AnonpipeError, match=r"repeat\.allow"):
                small.run(job)
        else:
            assert small.run(job).verdict.passed
            made.append(small.released(job))
    assert max(made[0]["age"].to_pylist()) == 60


def test_the_example_of_the_page_runs():
    page = (Path(__file__).resolve().parent.parent / "docs" / "disclosure.md").read_text(encoding="utf-8")
    known = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], known)
    assert set(known["release"]["town"].dropna()) == {f"county {at}" for at in range(2, 6)}
    assert known["release"]["age"].max() == 85


def test_more_combinations_than_memory_is_for_are_refused(monkeypatch):
    monkeypatch.setattr(disclosure, "MOST_COMBINATIONS", 100)
    with pytest.raises(InputError, match="more than 100 combinations"):
        anonymize(survey(), described())


def test_a_hierarchy_is_read_from_a_file_and_decides_the_digest(tmp_path):
    path = tmp_path / "areas.csv"
    path.write_text("\n".join(";".join(row) for row in AREAS), encoding="utf-8")
    jobs = [
        parse_job(described(recode={"area": {"hierarchy": given}}) | {"input": "a.parquet", "output": "out"})
        for given in (str(path), AREAS, [*AREAS[:-1], ["m11", "d9", "land"]])
    ]
    assert jobs[0].digest() == jobs[1].digest() != jobs[2].digest()
    assert json.loads(jobs[0].model_dump_json())["disclosure"]["recode"]["area"]["hierarchy"] == AREAS


def test_input_replaced_while_it_is_recoded_is_refused(tmp_path, monkeypatch):
    table = pa.Table.from_pandas(survey(), preserve_index=False)
    job, control = small.job(tmp_path, table, **described(), cluster=None), disclosure.control

    def then_replaced(*given):
        made = control(*given)
        small.write_table(tmp_path, table.slice(1))
        return made

    monkeypatch.setattr(start.disclosure, "control", then_replaced)
    with pytest.raises(AnonpipeError, match="changed while it was read"):
        small.run(job)


def test_names_that_are_said_to_be_no_key_are_refused():
    frame = survey()
    names = [f"Ann {at}" if at % 3 else "unknown" for at in range(len(frame))]
    columns = COLUMNS | {"name": {"kind": "categorical", "role": "key"}}
    job = described(non_key=["wage", "name"]) | {"columns": columns}
    with pytest.raises(InputError, match=r"'name' of disclosure.non_key: 160 of 240 rows .* fewer than k=3"):
        anonymize(frame.assign(name=names), job)
