"""Parameters of a deployment against the schema of the flow."""

from __future__ import annotations

from copy import deepcopy
from functools import cache, partial

import pytest
import yaml
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import validate
from prefect.utilities.schema_tools.validation import ValidationError

from anonpipe.errors import JobError
from anonpipe.job.model import Job
from flows.anonymize import anonymize, anonymize_file
from flows.compare import compare_settings

COLUMNS = {"age": {"kind": "integer", "bounds": [0, 110]}, "place": {"kind": "categorical", "role": "key"}}
JOB = {"input": "/data/a.parquet", "output": "/data/out", "k": 5, "columns": COLUMNS}
GROUPED = {
    **JOB,
    "columns": {**COLUMNS, "stage": {"kind": "categorical", "role": "sensitive"}},
    "sensitive": {"l_diversity": 2},
    "gates": {"reidentification_rate": 0.1, "covariance_with_keys": 0.2},
}
MASKED = {**JOB, "mask": {"method": "data_shuffle", "conditioning": ["place"]}, "gates": {"unchanged_record_rate": 0.5}}


@cache
def _parameters(flow):
    return parameter_schema(flow).model_dump_for_openapi()


def schema_of(flow):
    """The schema of a flow's parameters, which takes a second to build: a copy that may be changed."""
    return deepcopy(_parameters(flow))


@pytest.mark.parametrize("flow", [anonymize, compare_settings], ids=["anonymize", "compare"])
@pytest.mark.parametrize("job", [GROUPED, MASKED], ids=["grouped", "masked"])
def test_the_schema_of_parameters_lets_a_job_in(flow, job):
    schema = schema_of(flow)
    assert validate({"job": job}, schema, raise_on_error=True, ignore_required=True) == []
    given = {"job": job} | ({"folder": "/data"} if flow is compare_settings else {})
    assert flow.validate_parameters(given)["job"] == Job.model_validate(job)


@pytest.mark.parametrize(
    "wrong",
    [
        {"klasses": {}},
        {"sensitive": {"l_diversity": "many"}},
        {"columns": {"age": {"kind": "integer", "role": "klass"}}},
        {"gates": {"linked": 0.1}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_and_nothing_else(wrong):
    schema = schema_of(anonymize)
    with pytest.raises(ValidationError):
        validate({"job": JOB | wrong}, schema, raise_on_error=True, ignore_required=True)


@pytest.mark.parametrize("flow", [anonymize, anonymize_file, compare_settings], ids=lambda flow: flow.name)
def test_the_form_explains_each_field(flow):
    fields = _parameters(flow)["properties"]
    assert [name for name, field in fields.items() if not field.get("description", "").endswith((".", ". "))] == []


@pytest.mark.parametrize("made", [Job.model_json_schema, partial(_parameters, anonymize)], ids=["editor", "form"])
def test_each_key_of_a_job_has_a_description(made):
    """What `anonpipe schema` prints, and what a deployment asks for, down to the options of every method."""
    schema = made()
    parts = [schema, *schema.get("$defs", schema.get("definitions", {})).values()]
    keys = [(part.get("title"), name, key) for part in parts for name, key in part.get("properties", {}).items()]
    assert len(keys) > 300
    assert [(title, name) for title, name, key in keys if len(key.get("description", "")) < 10] == []


def test_the_form_of_job_files_has_no_choices_without_names():
    fields = _parameters(anonymize_file)["properties"]
    assert set(fields) == {"job_file", "changes", "resume", "keep"}
    assert not any("anyOf" in field or "$ref" in field for field in fields.values())


def test_a_job_file_runs_with_what_changes(tmp_path, monkeypatch):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(JOB), encoding="utf-8")
    ran = []
    monkeypatch.setattr("flows.anonymize._anonymize", lambda job, *rest: ran.append((job.k, job.output, *rest)))
    anonymize_file.fn(str(path), ["k=10", "output=/data/other"], keep=3)
    assert ran == [(10, "/data/other", True, 24.0, 3)]
    with pytest.raises(JobError, match="does not exist"):
        anonymize_file.fn(str(tmp_path / "no.yaml"))


def test_keys_keep_order_of_job_in_database_that_sorts_them():
    schema = schema_of(anonymize)
    keys = schema["definitions"]["Job"]["properties"]
    assert [keys[name]["position"] for name in Job.model_fields] == list(range(len(Job.model_fields)))
    assert [keys[name]["title"] for name in Job.model_fields] == list(Job.model_fields)
    kept = [part["properties"].values() for part in schema["definitions"].values() if "properties" in part]
    assert len(kept) > 20 and all([key["position"] for key in keys] == list(range(len(keys))) for keys in kept)


def test_each_alternative_has_a_name_of_its_own():
    schema = schema_of(anonymize)
    kept = schema["definitions"]
    parts, seen = [schema], 0
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += part.values()
            names = [_of(each, kept).get("title", "") for each in part.get("anyOf", ())]
            assert all(names) and len(set(names)) == len(names) and "oneOf" not in part
            seen += bool(names)
        elif isinstance(part, list):
            parts += part
    assert seen > 50


def test_methods_are_a_menu_and_each_has_its_own_options():
    """The form draws a button for each alternative on one line: of 30 methods it would be 2,400 pixels wide."""
    schema = schema_of(anonymize)
    for key in ("cluster", "synthesize", "mask"):
        none, given = schema["definitions"]["Job"]["properties"][key]["anyOf"]
        assert (none["title"], given["title"], list(given["properties"])) == ("not given", "given", ["method"])
    methods = schema["definitions"]["Job"]["properties"]["synthesize"]["anyOf"][1]["properties"]["method"]["enum"]
    assert methods == ["centroid", "gaussian", "pca", "micro_perturbation", "r_microhybrid"]
    held = partial(validate, schema=schema, raise_on_error=True, ignore_required=True)
    for given in ({"synthesize": {"method": "pca"}}, {"synthesize": None}, {"cluster": {"method": "kmeans"}}):
        assert held({"job": JOB | given}) == []
    for given, place, why in (
        ({"synthesize": {"method": "mdav"}}, "job.synthesize.method", "'mdav' is not one of"),
        ({"cluster": {"method": "mdav", "block_rows": -5}}, "job.cluster.block_rows", "-5 is less than the minimum"),
        ({"mask": {"method": "noise", "block_rows": 50}}, "job.mask", "'block_rows' was unexpected"),
    ):
        with pytest.raises(ValidationError, match=f"{place}'.*{why}"):
            held({"job": JOB | given})


def _of(schema, definitions):
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
