"""What the recipients' analyses make of a proposed job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from anonpipe.errors import JobError
from anonpipe.job.analyses import DEFAULT_LIMITS, needs_of, read_analyses
from anonpipe.job.measure import RecipientAnalysis
from anonpipe.job.model import load_job, parse_job
from anonpipe.propose.propose import propose_job
from anonpipe.source import check_types

COX = {"name": "survival", "model": "cox", "formula": "months ~ age + stage", "event": "vital in ['Qdead', 'Qlost']"}
LINEAR = {"name": "pay", "model": "linear", "formula": "np.log(income) ~ age + stage", "subset": "sex == 'Qwoman'"}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(3)
    n = 400
    age = rng.integers(20, 90, n)
    content = {
        "name": [f"Qperson {at}" for at in range(n)],
        "age": age,
        "age_class": np.where(age < 55, "Qyoung", "Qold"),
        "sex": rng.choice(["Qwoman", "Qman"], n),
        "stage": rng.choice(["Qlocal", "Qdistant"], n),
        "income": rng.lognormal(10, 1, n),
        "months": rng.exponential(40, n),
        "vital": rng.choice(["Qdead", "Qalive", "Qlost"], n),
    }
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(content), path)
    return path


def proposed(table, *analyses):
    text = propose_job(str(table), str(table.parent / "out"), 5, [RecipientAnalysis(**each) for each in analyses])
    return text, yaml.safe_load(text)


def test_a_cox_model_gives_roles_strata_and_the_usual_mask(table, tmp_path):
    text, job = proposed(table, COX, LINEAR)
    assert job["mask"] == {"method": "local_synthesis"} and "cluster" not in job and " weight:" not in text
    assert '"pay" takes some of the records, by "sex"' in text
    path = tmp_path / "job.yaml"
    path.write_text(text)
    assert load_job(path).analyses[0].analysis.event == COX["event"]  # as it stands: nothing is left to fill in


@pytest.fixture
def few(table):
    """So few records in a stratum that they are replaced in groups."""
    pq.write_table(pq.read_table(table).slice(0, 120), table)
    return table


def test_in_groups_a_cox_model_gives_weight_and_method_too(few, tmp_path):
    table = few
    text, job = proposed(table, COX, LINEAR)
    columns = job["columns"]
    assert columns["months"]["role"] == "survival_time" and columns["vital"]["role"] == "survival_status"
    assert columns["vital"]["event"] == ["Qdead", "Qlost"]
    assert job["strata"]["by"] == ["vital"] and job["cluster"]["response_weight"] == 0.5
    assert job["synthesize"] == {"method": "pca", "moments": "expected"}
    assert {name: column["role"] for name, column in columns.items() if name in ("name", "age_class", "sex")} == {
        "name": "identifier",
        "age_class": "dropped",
        "sex": "masked",
    }
    assert [each["limits"] for each in job["analyses"]] == [DEFAULT_LIMITS, DEFAULT_LIMITS]
    assert [each["formula"] for each in job["analyses"]] == [COX["formula"], LINEAR["formula"]]
    assert '"pay" takes some of the records, by "sex"' in text
    path = tmp_path / "job.yaml"
    path.write_text(text)
    loaded = load_job(path)  # as it stands: nothing is left to fill in
    check_types(pq.read_schema(table), loaded.columns)
    assert loaded.analyses[0].analysis.event == COX["event"]


def test_no_value_of_the_data_but_what_the_analyses_say(table):
    text, _ = proposed(table, COX, LINEAR)
    said = {"Qdead", "Qlost", "Qwoman"}
    for name in pq.read_schema(table).names:
        values = {str(value) for value in pq.read_table(table)[name].to_pylist() if str(value).startswith("Q")}
        assert not any(value in text for value in values - said), name


def test_without_a_cox_model_the_response_is_a_weighted_column(table):
    pq.write_table(pq.read_table(table).slice(0, 45), table)
    text, job = proposed(table, {**LINEAR, "limits": {"overlap": 0.7}})
    assert {name: column.get("weight") for name, column in job["columns"].items() if column["role"] == "masked"} == {
        "age": None,
        "sex": None,
        "stage": None,
        "income": 3,
    }
    assert "response_weight" not in text and "strata" not in job
    assert job["analyses"][0]["limits"] == {"overlap": 0.7}
    parse_job(job)


def test_derived_values_are_released_where_analysis_names_them(table):
    text, job = proposed(table, {"name": "both", "model": "linear", "formula": "income ~ age + age_class + name"})
    assert job["columns"]["age_class"]["role"] == "masked" and "it is a class of" in text
    assert job["columns"]["name"]["role"] == "masked" and "CHECK: needed by" in text
    assert job["columns"]["months"]["role"] == "dropped" and "no analysis names it" in text


@pytest.mark.parametrize(
    ("event", "values"),
    [
        ("vital == 'Qdead'", ("Qdead",)),
        ("'Qdead' == vital or vital == 'Qlost'", ("Qdead", "Qlost")),
        ("`vital` in ('Qdead',)", ("Qdead",)),
        ("vital", (1,)),
        ("vital != 'Qalive'", ()),
        ("vital == 'Qdead' and age > 50", ()),
    ],
)
def test_events_are_read_from_plain_conditions_only(event, values):
    needs = needs_of([RecipientAnalysis(**COX | {"event": event})], ["months", "age", "stage", "vital", "names"])
    assert needs.survival is not None and needs.survival.event == values


def test_an_event_that_is_not_listed_is_left_to_the_steward(table, tmp_path):
    text, job = proposed(table, COX | {"event": "vital != 'Qalive'"})
    assert job["columns"]["vital"]["event"] == [] and "FILL IN" in text
    with pytest.raises(JobError, match="event is empty"):
        parse_job(job)


def test_a_response_that_is_no_plain_column_gets_no_role(few):
    _, job = proposed(few, COX | {"formula": "np.sqrt(months) ~ age"})
    assert job["columns"]["months"]["role"] == "masked" and "strata" not in job
    assert "response_weight" not in job.get("cluster", {})


@pytest.mark.parametrize("shape", ["list", "mapping"])
def test_analyses_come_from_a_list_or_a_job(tmp_path, shape):
    path = tmp_path / "analyses.yaml"
    path.write_text(yaml.safe_dump([COX, LINEAR] if shape == "list" else {"k": 5, "analyses": [COX, LINEAR]}))
    assert [each.name for each in read_analyses(path)] == ["survival", "pay"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{k: 5}", "lists no analyses"),
        ("[]", "lists no analyses"),
        ("- {name: a, model: cubic, formula: y ~ x}", "analysis 1: model"),
        ("- {name: a, model: linear, formula: y ~ x, limits: {outsid: 1}}", "limits.outsid"),
        ("- {name: a, model: linear, formula: y - z ~ x}", "  analysis 1: analysis 'a': 'y - z ~ x' needs one"),
        ("- : [", "cannot be read as YAML"),
    ],
)
def test_bad_files_of_analyses_are_told(tmp_path, text, words):
    path = tmp_path / "analyses.yaml"
    path.write_text(text)
    with pytest.raises(JobError, match=words):
        read_analyses(path)
    with pytest.raises(JobError, match="cannot be read"):
        read_analyses(tmp_path / "none.yaml")


def test_an_analysis_of_no_column_is_refused(table):
    with pytest.raises(JobError, match="names height, which is no column here"):
        proposed(table, LINEAR | {"formula": "income ~ height"})
