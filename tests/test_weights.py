"""Survey weights: role, released weights, their sums, and what a job refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe.encoding.values import Grid
from anonpipe.encoding.weights import Replicates, SamplingWeight
from anonpipe.errors import AnonpipeError, InputError, JobError
from anonpipe.evaluate.utility._weighted import Psus, weighted_means
from anonpipe.job.model import parse_job
from anonpipe.partition.strata import Strata
from anonpipe.pipeline.resolve import _degree_warnings
from anonpipe.pipeline.run import in_memory
from anonpipe.storage import release
from anonpipe.two_tables import evaluate_release
from tests import runs, small
from tests.naive.scenario import individual_risk
from tests.naive.weights import jackknife_error, raked

pytestmark = pytest.mark.secret(runs.SECRET)

WEIGHT = {"kind": "continuous", "role": "sampling_weight"}
COLUMNS: dict[str, Any] = {
    "region": {"kind": "categorical"},
    "size": {"kind": "ordinal", "levels": ["1", "2", "3", "4+"]},
    "sex": {"kind": "binary"},
    "age": {"kind": "integer", "bounds": [16, 90]},
    "income": {"kind": "continuous", "bounds": [0, None], "step": 10},
}


def survey(rows: int = 3000, seed: int = 5, *, post: bool = False) -> pd.DataFrame:
    """A household survey with weights by region and size, or post-stratified besides with many distinct values."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["coast", "east", "north", "south", "west"], rows, p=[0.08, 0.2, 0.32, 0.25, 0.15])
    size = rng.choice(["1", "2", "3", "4+"], rows, p=[0.3, 0.35, 0.2, 0.15])
    base = pd.Series(region).map({"coast": 25, "east": 90, "north": 240, "south": 180, "west": 60}).to_numpy()
    weight = (base * pd.Series(size).map({"1": 1.3, "2": 1.0, "3": 0.9, "4+": 0.7}).to_numpy()).round(3)
    sex, age = rng.choice(["f", "m"], rows), rng.integers(16, 91, rows)
    if post:
        weight = weight * np.where(sex == "f", 1.2, 0.8) * np.exp(rng.normal(0, 0.1, rows))
    income = np.exp(9.8 + 0.3 * (region == "coast") + 0.004 * age + rng.normal(0, 0.5, rows)).round(-1)
    return pd.DataFrame({"region": region, "size": size, "sex": sex, "age": age, "income": income, "weight": weight})


def released(tmp_path: Any, table: pd.DataFrame, weight: dict[str, Any], **more: Any) -> Any:
    """The released table, or the verdict where a gate fails."""
    table.to_parquet(tmp_path / "survey.parquet")
    content = {
        "input": str(tmp_path / "survey.parquet"),
        "output": str(tmp_path / "out"),
        "k": 5,
        "columns": {**COLUMNS, "weight": weight},
        "mask": small.QUICK,
        "measure": {"utility": False, "risk": False},
        "repeat": {"allow": "a test"},
        **more,
    }
    found = in_memory(parse_job(content))
    assert any(check.key == "weights.sums" for check in found.verdict.checks)
    return found.verdict if found.table is None else found.table.to_pandas()


def by_columns(table: pd.DataFrame, *names: str) -> Any:
    """Sums of weights."""
    return table.groupby(list(names), observed=True)["weight"].sum()


def test_function_of_categories_stays_one(tmp_path: Any) -> None:
    """The whole is kept by one factor; of a combination there is one weight, as before; also of numbers of a rule."""
    table = survey()
    size, weight = table["size"].str[0].astype(int), WEIGHT | {"by": ["region", "size"]}
    table = table.assign(size=size, children=np.minimum(np.random.default_rng(6).integers(0, 4, len(table)), size - 1))
    numbers = {"size": {"kind": "integer", "bounds": [1, 4]}, "children": {"kind": "integer"}, "weight": weight}
    with pytest.raises(JobError, match="of numbers write if b is not null then a < b"):
        released(tmp_path, table, weight, columns=COLUMNS | numbers, rules=["children < size"])
    rules = ["if size is not null then children < size"]
    made = released(tmp_path, table, weight, columns=COLUMNS | numbers, rules=rules, gates={"mean": 9, "covariance": 9})
    assert (made["children"] < made["size"]).all()
    assert made["weight"].sum() == pytest.approx(table["weight"].sum(), rel=1e-5)
    old, new = (each.groupby(["region", "size"], observed=True)["weight"].agg(["min", "max"]) for each in (table, made))
    assert np.allclose(new["min"], new["max"]) and len(new) == len(old)
    inner = (old["min"] > old["min"].min()) & (old["min"] < old["min"].max())  # the ends stay in the range
    factor = (new["min"] / old["min"])[inner]
    assert new["min"].max() <= old["min"].max() * (1 + 1e-9)
    assert np.allclose(factor, factor.iloc[0]) and abs(factor.iloc[0] - 1) < 0.03


def test_weights_of_strata_are_released_as_they_are(tmp_path: Any) -> None:
    """No factor is needed, and none is used."""
    table = survey()
    columns = {**COLUMNS, "region": {"kind": "categorical", "role": "key"}, "weight": WEIGHT | {"by": ["region"]}}
    table["weight"] = table.groupby("region")["weight"].transform("mean").round(3)
    made = released(tmp_path, table, WEIGHT, columns=columns, strata={"by": ["region"]})
    assert set(np.round(made["weight"], 9)) == set(np.round(table["weight"], 9))
    assert np.allclose(by_columns(made, "region"), by_columns(table, "region"))


def test_calibrated_weights_have_the_sums_of_columns(tmp_path: Any) -> None:
    """Drawn weights of many values, by margins; each is a mean of five or more."""
    table = survey(post=True)
    weight = WEIGHT | {"by": ["region", "size"], "calibrate": ["region", "sex"]}
    made = released(tmp_path, table, weight, mask={"method": "local_synthesis"})
    for name in ("region", "sex"):
        assert np.allclose(by_columns(made, name), by_columns(table, name), rtol=0.02)
    assert table["weight"].min() <= made["weight"].min() and made["weight"].max() <= table["weight"].max()
    spread = [each.groupby("region", observed=True)["weight"].mean().std() for each in (table, made)]
    assert spread[1] == pytest.approx(spread[0], rel=0.1)


def test_held_out_records_are_stood_for_by_the_others(tmp_path: Any) -> None:
    """The released weights add up to those of the whole input."""
    table = survey()
    measure = {"utility": False, "risk": True, "hold_out": 0.2}
    gates = {"membership_auc": None, "attribute_inference": None, "reidentification_rate": None}
    made = released(tmp_path, table, WEIGHT | {"by": ["region", "size"]}, measure=measure, gates=gates)
    assert len(made) < 0.9 * len(table)
    assert made["weight"].sum() == pytest.approx(table["weight"].sum(), rel=1e-5)


def test_one_extreme_weight_is_not_told(tmp_path: Any) -> None:
    """It is coded as its neighbours, and its region has no sum of its own where it dominates that."""
    table = survey(1500)
    at = table.index[table["region"] == "coast"][0]
    table.loc[at, "weight"] = 2.0 * table.loc[table["region"] == "coast", "weight"].sum()
    made = released(tmp_path, table, WEIGHT | {"by": ["region"], "calibrate": ["region"]})
    others = table.drop(index=at)["weight"]
    assert made["weight"].max() < 2 * others.max()
    off = by_columns(made, "region") / by_columns(table, "region") - 1
    assert abs(off["coast"]) > 0.2
    assert made["weight"].sum() == pytest.approx(table["weight"].sum(), rel=0.02)


def test_whole_weights_stay_whole(tmp_path: Any) -> None:
    """They are rounded up with the probability of the rest, so that sums stay but for chance."""
    table = survey()
    table["weight"] = table["weight"].round().astype(int)
    made = released(tmp_path, table, WEIGHT | {"kind": "integer", "by": ["region", "size"], "calibrate": ["sex"]})
    assert made["weight"].dtype == table["weight"].dtype
    assert np.allclose(by_columns(made, "sex"), by_columns(table, "sex"), rtol=5e-3)


@pytest.mark.parametrize(
    ("value", "count"), [(0.0, "0 rows with a null and 2 rows"), (-3.0, "0 rows"), (None, "2 rows")]
)
def test_weights_that_are_none_are_refused(tmp_path: Any, value: float | None, count: str) -> None:
    """Column, count and remedy; no value."""
    table = survey(500)
    table.loc[[3, 7], "weight"] = value
    with pytest.raises(InputError, match=f"column 'weight' has role sampling_weight and holds {count}.*remove those"):
        released(tmp_path, table, WEIGHT)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (WEIGHT | {"by": ["income"]}, "columns.weight.by names 'income'"),
        ({"kind": "continuous", "calibrate": ["sex"]}, "go with role sampling_weight"),
        ({"kind": "categorical", "role": "sampling_weight"}, "sampling_weight column is continuous or integer"),
    ],
)
def test_a_job_that_cannot_be_kept_is_refused(tmp_path: Any, weight: dict[str, Any], message: str) -> None:
    """Before anything is read."""
    with pytest.raises(AnonpipeError, match=message):
        released(tmp_path, survey(200), weight)


def test_individual_risk_is_measured_by_scenario(tmp_path: Any) -> None:
    """Against the slow twin, over classes of records that are alike in what the intruder knows."""
    table, gates = survey(1200), ("reidentification_rate", "scenario_risk", "membership_auc", "attribute_inference")
    scenario = {"name": "neighbour", "knows": ["region", "size", "age"]}
    measure = {"utility": False, "hold_out": 0, "scenarios": [scenario]}
    content = {
        "input": str(tmp_path / "survey.parquet"),
        "output": str(tmp_path / "out"),
        "k": 5,
        "columns": {**COLUMNS, "weight": WEIGHT | {"by": ["region", "size"]}},
        "mask": small.QUICK,
        "measure": measure,
        "gates": dict.fromkeys(gates),
        "repeat": {"allow": "a test"},
    }
    table.to_parquet(tmp_path / "survey.parquet")
    made = in_memory(parse_job(content))
    (note,) = [note for note in made.verdict.notes if "survey weights" in note]
    assert note.endswith("Given 'region', 'size', they go with no other column")
    found = {each.name: each.value for each in made.report.risk}
    classes = table.groupby(scenario["knows"], observed=True)["weight"].agg(["size", "sum"])
    risks = np.array([individual_risk(int(n), n / total) for n, total in classes.to_numpy()])
    assert found["scenarios.neighbour.individual_max"] == pytest.approx(risks.max(), rel=1e-6)
    mean = (risks * classes["size"]).sum() / len(table)
    assert found["scenarios.neighbour.individual_mean"] == pytest.approx(mean, rel=1e-6)


# --- Strata and primary sampling units

DESIGN: dict[str, Any] = {
    "columns": {
        **COLUMNS,
        "region": {"kind": "categorical", "role": "key"},
        "psu": {"kind": "integer", "role": "key"},
        "weight": WEIGHT | {"by": ["region", "size"], "calibrate": ["region"]},
    },
    "strata": {"by": ["region", "psu"]},
    "design": {"strata": "region", "cluster": "psu"},
}


def clustered(rows: int = 3000, psus: int = 8) -> pd.DataFrame:
    """The survey, of PSUs of equal size that differ in income; numbers of PSUs are places."""
    table = survey(rows).sort_values("region", ignore_index=True)
    within = table.groupby("region").cumcount() * psus // table.groupby("region")["size"].transform("size")
    table["psu"] = 7000 + 100 * table["region"].astype("category").cat.codes.astype(int) + within
    effect = np.random.default_rng(2).normal(0, 0.3, 1000)[table["psu"] - 7000]
    return table.assign(income=(table["income"] * np.exp(effect)).round(-1))


def codes_of(table: pd.DataFrame, name: str) -> Any:
    return np.unique(table[name], return_inverse=True)[1].astype(float)


def error_of_mean(table: pd.DataFrame) -> tuple[float, float]:
    """Of income, by the design, and as if records were drawn one by one."""
    psus = Psus.of(*(codes_of(table, name) for name in ("region", "psu")))
    values, weights = table["income"].to_numpy(), table["weight"].to_numpy()
    return tuple(float(weighted_means(values, weights, psus=each)[1][0]) for each in (psus, None))  # type: ignore[return-value]


def test_random_groups_of_psus_keep_what_clusters_differ_in(tmp_path: Any) -> None:
    """Each is of several PSUs, none of their numbers is released, and errors stay those of the design."""
    table = clustered()
    replicated = {**DESIGN, "design": DESIGN["design"] | {"replicates": "JKn"}}
    jobs = [parse_job({"input": "a.parquet", "output": "out", "k": 5, **each}) for each in (DESIGN, replicated)]
    assert jobs[0].digest() == jobs[1].digest() and jobs[0].run_digest() != jobs[1].run_digest()
    made = released(tmp_path, table, WEIGHT, **replicated)
    assert (made.groupby("region")["psu"].nunique() == 2).all() and made["psu"].nunique() == 10
    _jackknife_gives_the_errors_of_the_design(made)
    assert not set(made["psu"].astype(str)) & set(table["psu"].astype(str))
    assert np.allclose(by_columns(made, "region"), by_columns(table, "region"), rtol=1e-4)
    (old, alone), (new, _) = error_of_mean(table), error_of_mean(made)
    assert old > 1.5 * alone and old / 2 < new < 2 * old
    # Groups of another job are the same: from several groupings the rows of each PSU would follow
    again = released(tmp_path, table, WEIGHT, **DESIGN, k=6)
    assert np.allclose(by_columns(again, "region", "psu"), by_columns(made, "region", "psu"), rtol=1e-3)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_what_recipients_are_told_of_replicates_parses_in_r() -> None:
    for name in ("sample weight (kg.)", "_LLCPWT", "a`b\\c"):
        told = Replicates(name, "psu", 2, 4)
        call = told.meaning.partition("svrepdesign")[2].replace("data = ...", f"data = {json.dumps(told.names[-1])}")
        code = f"f <- function(weights, repweights, data, ...) cat(all.vars(weights), grepl(repweights, data)); f{call}"
        said = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True).stdout
        assert said == f"{name} TRUE"


@pytest.mark.parametrize("enough", [6, 1])
def test_sums_of_rare_categories_are_those_of_the_original(tmp_path: Any, enough: int) -> None:
    """They join the commonest category of a stratum, not null; the others carry their sum."""
    table = clustered().assign(size=lambda frame: frame["size"].where(frame["size"] != "4+", "3"))
    of_psu = np.where(table["region"].isin(["north", "south"]), enough, 1)  # and of four times as many a stratum
    table.loc[table.groupby(["region", "psu"]).cumcount() < of_psu, "size"] = "4+"
    columns = DESIGN["columns"] | {"weight": WEIGHT | {"by": ["region"], "calibrate": ["region", "size"]}}
    made = released(tmp_path, table, WEIGHT, **DESIGN | {"columns": columns})
    assert made["size"].notna().all()
    both = [each.assign(size=each["size"] if enough > 1 else "any") for each in (made, table)]
    for name in ("region", "size"):
        assert np.allclose(*(by_columns(each, name) for each in both), rtol=0.01), name


def _jackknife_gives_the_errors_of_the_design(made: pd.DataFrame) -> None:
    """Of a total exactly, as it is a sum over groups; of a mean and a ratio up to what linearisation leaves out."""
    replicates = made[[f"weight_jk{at}" for at in range(1, 11)]].to_numpy().T
    income, age, weights = (made[name].to_numpy(float) for name in ("income", "age", "weight"))
    own, psus = made["psu"].astype(int).to_numpy() - 1, Psus.of(*(codes_of(made, each) for each in ("region", "psu")))
    assert (replicates[own, np.arange(len(made))] == 0).all()
    assert np.allclose(replicates.sum(axis=1), weights.sum(), rtol=0.05)  # groups of a region have about equal sums
    total = np.sqrt(np.square(psus.deviations(psus.sums((weights * income)[:, None]))).sum())
    found = [
        jackknife_error(each, weights, replicates, [0.5] * 10)
        for each in (lambda w: w @ income, lambda w: w @ income / w.sum(), lambda w: w @ income / (w @ age))
    ]
    assert found[0] == pytest.approx(total, rel=1e-9)
    assert found[1] == pytest.approx(error_of_mean(made)[0], rel=0.05)
    ratio = income @ weights / (age @ weights)
    linear = weights * (income - ratio * age) / (weights @ age)
    assert found[2] == pytest.approx(np.sqrt(np.square(psus.deviations(psus.sums(linear[:, None]))).sum()), rel=0.05)


def test_replicates_pass_over_columns_that_are_not_released() -> None:
    """A released column of their names is refused."""
    job = {"input": "a.parquet", "output": "out", "k": 5, **DESIGN, "design": DESIGN["design"] | {"replicates": "JKn"}}
    for name, role in (("weight_jk1", "dropped"), ("weight_jk1", "replicate_weight"), ("weight_jk2", "masked")):
        given = job | {"columns": DESIGN["columns"] | {name: {"kind": "continuous", "role": role}}}
        with pytest.raises(JobError, match="column 'weight_jk2'") if role == "masked" else nullcontext():
            parse_job(given)


def test_names_of_weights_are_written_as_r_reads_them() -> None:
    """In backticks, and in the pattern as they stand, no other column's."""
    found = Replicates("a wt (kg.)", "psu", 2, 4).meaning
    assert "~`a wt (kg.)`" in found and r'"^a wt \\(kg\\.\\)_jk[0-9]+$"' in found


def test_two_tables_are_not_compared_by_groups_that_one_has(tmp_path: Any) -> None:
    job = parse_job({"input": "a.parquet", "output": "out", "k": 5, **DESIGN})
    with pytest.raises(JobError, match=r"random groups in place of column 'psu'.*columns\.psu\.role: dropped"):
        evaluate_release("a.parquet", "b.parquet", job)


def test_analyses_and_estimates_take_the_design() -> None:
    analysis = {"name": "m", "model": "linear", "formula": "income ~ age"}
    content = {"input": "a.parquet", "output": "out", "k": 5, "analyses": [analysis], **DESIGN}
    job = parse_job(content)
    taken = job.analysis_of(job.analyses[0])
    assert (taken.weights, taken.cluster, taken.design_strata) == ("weight", "psu", "region")
    assert {"psu", "region"} <= set(job.columns_of(job.analyses[0]))
    assert parse_job(content | {"design": None}).digest() != job.digest()


def test_a_plan_tells_what_a_design_leaves_too_few_degrees_for() -> None:
    """Groups less two strata, and one more less the coefficients, of region 1 and of size 2."""
    formulas = ["income ~ age", "income ~ 1 + age:size", "income ~ region", "income ~ region + age"]
    analyses = [{"name": str(at), "model": "linear", "formula": each} for at, each in enumerate(formulas)]
    job = parse_job({"input": "a.parquet", "output": "out", "k": 5, "analyses": analyses, **DESIGN})
    levels: dict[str, Any] = {"region": pa.array(["a", "b"]), "size": pa.array(["1", "2", "3"])}
    texts = [
        _degree_warnings(job, SimpleNamespace(categories=levels | {"psu": pa.array(range(n))}))  # type: ignore[arg-type]
        for n in (3, 5, 6)
    ]
    assert [re.findall(r"weighted estimates|analysis '(.)'", " ".join(each)) for each in texts] == [
        ["", "0", "1", "2", "3"],
        ["1", "3"],
        [],
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"strata": {"by": ["region"]}}, "design.cluster names 'psu'.*name it in strata.by"),
        ({"design": {"strata": "region", "cluster": "region"}}, "one name"),
        ({"mask": {"method": "noise", "scope": "table"}}, "mask.scope: table"),
        ({"strata": DESIGN["strata"] | {"small": "merge"}}, "strata.small: merge"),
        ({"design": DESIGN["design"] | {"replicates": "JKn"}, "strata": DESIGN["strata"] | {"small": "drop"}}, "drop"),
        ({"disclosure": {"key": ["psu"], "non_key": ["region"]}}, "disclosure.key or recode"),
        ({"k": 45}, "k=45.*join strata of the design in the input, or give fewer design.random_groups"),
        (
            {"gates": {"membership_auc": 0.51}, "measure": {"hold_out": 0.05}},
            "expected AUC.*join strata of the design in the input",
        ),
        (
            {"design": {"strata": "region", "cluster": "psu", "random_groups": 5}},
            "5 of 5 strata have fewer than 10 PSUs",
        ),
    ],
)
def test_a_design_that_cannot_be_kept_is_refused(tmp_path: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(AnonpipeError, match=message):
        released(tmp_path, clustered(400), WEIGHT, **DESIGN | changed)


def test_a_record_without_a_psu_is_refused(tmp_path: Any) -> None:
    table = clustered(400)
    table.loc[[3, 9], "psu"] = None
    with pytest.raises(InputError, match="'region' and 'psu' of the design: 2 rows with a null; fill or drop them"):
        released(tmp_path, table, WEIGHT, **DESIGN)


# --- The factors


def _weight(sizes: tuple[int, ...], by: tuple[int, ...] = (), calibrate: tuple[int, ...] = ()) -> SamplingWeight:
    places, strata = tuple(range(1, len(sizes) + 1)), Strata((), (), (0,), (0,), (100,), 0)
    names = tuple(f"c{at}" for at in places)
    return SamplingWeight(
        "w", 0, places, sizes, (0.0,) * len(sizes), by, calibrate, names, strata, Grid(None, 0.0, np.inf), 5
    )


def _cells(rng: np.random.Generator, rows: int, shift: float = 0.0) -> Any:
    a, b = rng.integers(0, 3, rows), (rng.random(rows) < 0.4 + shift).astype(int)
    return np.column_stack([rng.lognormal(3 + 0.3 * a, 0.4, rows), a, b]).astype(float)


def test_factors_are_those_of_proportional_fitting() -> None:
    """Against the slow twin, which goes record by record."""
    rng = np.random.default_rng(8)
    old, new = _cells(rng, 400), _cells(rng, 400, 0.1)
    own = _weight((4, 3), calibrate=(0, 1))
    factors, put = own.solve(own.count(old, new)), new.copy()
    own.put(put, factors, rng)
    assert np.allclose(put[:, 0], raked(old, new, (1, 2)), rtol=1e-4)
    for column in (1, 2):
        sums = [[each[each[:, column] == code, 0].sum() for code in np.unique(old[:, column])] for each in (old, put)]
        assert np.allclose(*sums, rtol=1e-5)


def test_counts_merge_in_any_cut_and_order() -> None:
    """Parts of shuffled rows give what the whole gives, to the last bit."""
    rng = np.random.default_rng(9)
    old, new = _cells(rng, 300), _cells(rng, 300)
    own = _weight((4, 3), by=(0,), calibrate=(1,))
    whole = own.solve(own.count(old, new))
    for _ in range(5):
        old, new = rng.permutation(old), rng.permutation(new)
        other = own.solve(own.count(old[100:], new[100:]).merge(own.count(old[:100], new[:100])))
        assert np.array_equal(whole.factor, other.factor) and np.array_equal(whole.cells, other.cells)
        assert whole.pieces is not None and other.pieces is not None
        assert np.array_equal(whole.pieces.values, other.pieces.values)


def test_what_cannot_be_calibrated_is_refused() -> None:
    """Of a category that stands for 50 times as many as before."""
    rng = np.random.default_rng(10)
    old, new = _cells(rng, 300), _cells(rng, 300)
    old[old[:, 2] == 1, 0] *= 50.0
    own = _weight((4, 3), calibrate=(1,))
    with pytest.raises(InputError, match="cannot be calibrated: sums by categories of 'c2'"):
        own.solve(own.count(old, new))


def test_the_example_of_the_page_runs() -> None:
    """The sums of regions, and one factor for the two categories of sex."""
    page = (Path(__file__).resolve().parent.parent / "docs" / "weights.md").read_text(encoding="utf-8")
    known: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], known)  # type: ignore[index]
    table, made = known["table"], known["release"]
    assert len(made) < len(table)  # some are held out, and the others stand for them
    assert np.allclose(by_columns(made, "sex"), by_columns(table, "sex"), rtol=1e-4)
    few = made.groupby(["region", "size", "sex"], observed=True)["weight"].nunique()
    assert few.max() == 1


# --- A run that stops


def test_a_run_that_stopped_goes_on_to_the_same_bytes(tmp_path: Any, monkeypatch: Any) -> None:
    """In several partitions and files, with records held out, before and after the weights are known."""

    def job_in(folder: Path) -> Any:
        folder.mkdir()
        clustered(2600).to_parquet(folder / "survey.parquet")
        return parse_job(
            {
                "input": str(folder / "survey.parquet"),
                "output": str(folder / "out"),
                "k": 5,
                **DESIGN,
                "mask": {"method": "noise"},
                "design": DESIGN["design"] | {"replicates": "JKn"},
                "partition": {"rows": 1_000, "sample_rows": 500},
                "release": {"file_rows": 1_000},
                "measure": {"utility": False, "hold_out": 0.1, "rows": 200, "queries": 50},
                "gates": dict.fromkeys(("reidentification_rate", "membership_auc", "attribute_inference")),
                "repeat": {"allow": "a test"},
            }
        )

    first, given = job_in(tmp_path / "whole"), job_in(tmp_path / "stopped")
    assert small.run(first).version
    assert small.run_with_stops(given, ("route", "weights", "decode", "write")).version
    assert small.hashes(given) == small.hashes(first)
    columns = release.read_manifest(release.resolve(given.output))["columns"]
    about, label = columns["weight"], columns["weight_jk10"]["label"]
    assert label == "Replicate weight 10 of 10: JKn, scale 1, rscales 0.5"
    assert about["survey_weight"] == {"by": ["region", "size"], "calibrated": ["region"]} and "transform" not in about
