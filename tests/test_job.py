from __future__ import annotations

import pytest
import yaml

from anonpipe.errors import JobError
from anonpipe.job.analyses import read_analyses
from anonpipe.job.model import Job, load_job, parse_job
from anonpipe.job.plain_yaml import parse_setting
from anonpipe.verify.catalogue import held
from anonpipe.verify.words import remedies

BASE = {
    "input": "in.parquet",
    "output": "out",
    "k": 5,
    "columns": {
        "id": {"kind": "integer", "role": "identifier"},
        "age": {"kind": "integer", "bounds": [0, 110]},
        "months": {"kind": "continuous", "role": "survival_time", "bounds": [0, 600], "step": 0.1},
        "status": {"kind": "categorical", "role": "survival_status", "event": ["Dead"]},
    },
    "strata": {"by": ["status"]},
}


def changed(**changes):
    return {**BASE, **changes}


def test_yaml_and_mapping_give_the_same_job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(BASE))
    assert load_job(path) == parse_job(BASE) == Job.model_validate(parse_job(BASE).model_dump(mode="json"))


@pytest.mark.parametrize("role", ["dropped", "identifier"])
def test_what_is_not_released_needs_no_kind(role):
    job = parse_job(changed(columns={**BASE["columns"], "cauchy": {"role": role}}))
    assert job.columns["cauchy"].role == role and "cauchy" not in job.released
    assert parse_job(job.model_dump(mode="json")) == job
    given = parse_job(changed(columns={**BASE["columns"], "cauchy": {"role": role, "kind": "date"}}))
    assert given.columns["cauchy"].kind == "date"
    assert "kind" not in Job.model_json_schema()["$defs"]["Column"]["required"]


@pytest.mark.parametrize("content", [{}, {"role": "masked"}, {"role": "key"}, {"role": []}])
def test_what_is_released_needs_a_kind(content):
    with pytest.raises(JobError, match=r"columns\.cauchy\.kind: is missing; add it"):
        parse_job(changed(columns={**BASE["columns"], "cauchy": content}))


def test_overrides_reach_nested_keys_and_are_checked(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(BASE))
    assert load_job(path, {"cluster.method": "kmeans", "cluster.iterations": 3}).cluster.iterations == 3
    with pytest.raises(JobError, match="unknown key"):
        load_job(path, {"cluster.blok_rows": 3})
    with pytest.raises(JobError, match="not a mapping"):
        load_job(path, {"k.deep": 3})


def test_option_of_column_not_in_job_is_refused_by_name(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("input: a.parquet\noutput: out\nk: 5\ncolumns: {age: {kind: integer}}")
    with pytest.raises(JobError, match=r"cannot set columns.agee.role: the job has no column 'agee'; it has 'age'"):
        load_job(path, {"columns.agee.role": "drop"})
    new = {"columns.sex.role": "masked", "columns.sex.kind": "binary"}
    assert list(load_job(path, new).columns) == ["age", "sex"]
    assert list(load_job(path, {"columns.id.role": "identifier"}).columns) == ["age", "id"]
    assert list(load_job(path, {"columns.a.weight": 1, "columns.a.role": "dropped"}).columns) == ["age", "a"]


DOTTED = {"blood.pressure": {"kind": "integer"}, 'a"b.c=d': {"kind": "integer"}, "plain": {"kind": "integer"}}


@pytest.mark.parametrize(
    ("setting", "column"),
    [
        ('columns."blood.pressure".kind=continuous', "blood.pressure"),
        ("columns.'blood.pressure'.kind=continuous", "blood.pressure"),
        ('columns."a""b.c=d".kind=continuous', 'a"b.c=d'),
        ("columns.'a\"b.c=d'.kind=continuous", 'a"b.c=d'),
        ("columns.plain.kind=continuous", "plain"),
        ('columns."plain".kind=continuous', "plain"),
    ],
)
def test_settings_reach_columns_whose_names_hold_dots(tmp_path, setting, column):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(changed(columns=DOTTED, strata={})))
    changed_kinds = {
        name for name, told in load_job(path, dict([parse_setting(setting)])).columns.items() if told.kind != "integer"
    }
    assert changed_kinds == {column}


def test_a_name_with_dots_that_is_not_in_quotes_is_told(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(changed(columns=DOTTED, strata={})))
    with pytest.raises(JobError, match=r"'blood\.pressure' holds a dot; put it in quotes: \"blood.pressure\""):
        load_job(path, {"columns.blood.pressure.kind": "continuous"})


@pytest.mark.parametrize("setting", ["k", "=5", "a..b=1", '"k=5', 'columns."a".=1', "columns.'a'b=1", "k={", ""])
def test_settings_that_are_no_settings_are_told(setting):
    with pytest.raises(JobError, match="--set takes key=value"):
        parse_setting(setting)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed(k=1), "k: "),
        (changed(zzz=3), "zzz: unknown key; remove it or correct its spelling: input, output, k"),
        (changed(K=5), "K: unknown key; did you mean k?"),
        (changed(Stratas={}), "Stratas: unknown key; did you mean strata?"),
        (changed(measure={"holdout": 0.1}), "measure.holdout: unknown key; did you mean hold_out?"),
        (changed(measure={"hold_out": 5}), "measure.hold_out: 5 must be less than or equal to 0.5, or default$"),
        (changed(measure={"hold_out": "none"}), "measure.hold_out: takes a number, or default$"),
        (changed(k="two"), "k: takes a whole number$"),
        (changed(gates={"means": 0.1}), "gates.means: unknown key; did you mean mean?"),
        (changed(mask={"method": "noise", "cop": "stratum"}), "mask.noise.cop: unknown key; did you mean scope?"),
        (changed(input={"path": "a", "delimeter": ";"}), "input.delimeter: unknown key; did you mean delimiter?"),
        (
            changed(measure={"scenarios": [{"name": "a", "know": ["age"]}]}),
            "measure.scenarios.0.know: unknown key; did you mean knows?",
        ),
        (changed(cluster={"method": "magic"}), "known are: mdav, mdav_generic"),
        (changed(synthesize={"method": "magic"}), "centroid, gaussian"),
        (changed(synthesize={"method": "pca", "form": "centred"}), "unknown key"),
        (changed(strata={"by": ["nowhere"]}), "not among the columns"),
        (changed(strata={"by": ["age"]}), "released unchanged"),
        (changed(columns={"id": {"kind": "integer", "role": "identifier"}}), "nothing to anonymise"),
        (changed(columns={"a": {"kind": "date", "bounds": ["1990-13-01", None]}}), "ISO dates"),
        (changed(columns={"a": {"kind": "integer", "bounds": [5, 1]}}), "low < high"),
        (changed(columns={"a": {"kind": "categorical", "bounds": [0, 1]}}), "use levels"),
        (changed(columns={"a": {"kind": "ordinal", "levels": []}}), "levels is empty"),
        (changed(columns={"a": {"kind": "integer", "role": "survival_status"}}), "event goes with role"),
        (changed(decode={"jitter_restored_times": 1.0}), "needs decode.restore_survival_times"),
        (changed(run={"scheduler": "tcp://there:8786"}), "without TLS .* give a tls:// address .* run.trust_network"),
        (changed(run={"scheduler": "there:8786"}), "without TLS"),
        (changed(run={"scheduler": "ucx://there:8786"}), "without TLS"),
        (changed(run={"scheduler": "tls://there:8786", "trust_network": True}), "leave it out"),
        (changed(run={"trust_network": True}), "leave it out"),
        (changed(run={"staging": "s3://bucket/work"}), "a folder of this machine; give its path"),
        (changed(run={"staging": "file:///work"}), "give its path"),
        (["not", "a", "mapping"], "not a mapping"),
    ],
)
def test_bad_jobs_say_where_and_what(content, words):
    with pytest.raises(JobError, match=words):
        parse_job(content)


def test_bad_files(tmp_path):
    with pytest.raises(JobError, match="anonpipe init"):
        load_job(tmp_path / "missing.yaml")
    path = tmp_path / "job.yaml"
    path.write_text("k: 5\nk: 3\n")
    with pytest.raises(JobError, match="given twice"):
        load_job(path)
    path.write_text("k: [5\n")
    with pytest.raises(JobError, match="not valid YAML"):
        load_job(path)


def test_a_network_can_be_trusted_and_tls_needs_no_trust():
    assert parse_job(changed(run={"scheduler": "tcp://there:8786", "trust_network": True})).run.trust_network
    assert parse_job(changed(run={"scheduler": "tls://there:8786"})).run.scheduler == "tls://there:8786"


LAUGHS = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "aliases stand for more than 5,000,000 characters; write out"),
        ("a: &a [*a]", "aliases stand for more than"),
        ("a: " + "[" * 1_200, "nested too deeply|not valid"),
        ("a: " + "x" * 5_000_001, "characters, and 5,000,000 are allowed"),
    ],
    ids=["laughs", "itself", "deep", "large"],
)
def test_yaml_that_explodes_is_refused(tmp_path, text, words):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(JobError, match=words):
        load_job(path)
    with pytest.raises(JobError, match="cannot be read as YAML"):
        read_analyses(path)


def test_a_few_aliases_are_fine(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("{input: a, output: b, k: 3, columns: {age: &age {kind: integer}, size: *age}}")
    assert {column.kind for column in load_job(path).columns.values()} == {"integer"}


def test_digest_follows_what_decides_release_and_nothing_else():
    job = parse_job(BASE)
    assert parse_job(changed(output="elsewhere", run={"workers": 7})).digest() == job.digest()
    assert parse_job(changed(k=6)).digest() != job.digest()
    assert parse_job(changed(cluster={"block_rows": 500})).digest() != job.digest()
    looser = parse_job(changed(gates={"mean": 0.5}))
    assert looser.digest() == job.digest() and looser.run_digest() != job.run_digest()


RENAMED_KEYS = {
    "combine": (
        {"cluster": {"method": "crest"}, "sensitive": {"combine": "average"}, "synthesize": {"method": "centroid"}},
        "f10e849b6e684ecd",
        "59a1ae9e439597e2",
    ),
    "tolerance": (
        {
            "measure": {
                "scenarios": [
                    {"name": "x", "knows": ["age", "sex"], "tolerance": {"age": 2}},
                    {"name": "y", "knows": ["income"], "tolerance": {"income": "10%"}},
                ]
            }
        },
        "fe9f3028e35e5ceb",
        "ba8e9872b0a6a243",
    ),
    "repeat": ({"repeat": {"allow": "why", "max_overlapping": 3}}, "fe9f3028e35e5ceb", "720ca8a366f82858"),
    "rows per byte": ({"run": {"max_rows_per_byte": 99.0}}, "fe9f3028e35e5ceb", "5330e6ff310ebd39"),
}


@pytest.mark.parametrize("name", RENAMED_KEYS)
def test_digests_are_those_of_the_former_keys(name):
    """Digests begin as of the spellings several, within, at_least, at_most and most_rows_per_byte."""
    number, mixed = {"kind": "integer", "transform": "none"}, {"kind": "integer", "role": "sensitive"}
    columns = {"age": number, "income": number, "sex": {"kind": "categorical", "role": "key"}}
    columns |= {"d": {"kind": "categorical", "role": "sensitive"}, "e": mixed}
    sections, digest, of_run = RENAMED_KEYS[name]
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": columns, **sections})
    assert (job.digest()[:16], job.run_digest()[:16]) == (digest, of_run)


def test_missing_bounds_are_a_warning_and_declared_ones_are_not():
    job = parse_job(changed(columns={**BASE["columns"], "income": {"kind": "continuous", "transform": "none"}}))
    assert [w for w in job.warnings() if "bounds" in w and "'income'" in w] and len(job.warnings()) == 1


def test_the_json_schema_tells_the_methods_apart():
    from jsonschema import ValidationError, validate

    schema = Job.model_json_schema()
    for options in ({"block_rows": 500}, {"method": "kmeans", "iterations": 3}, {"method": "mdav"}):
        validate(changed(cluster=options), schema)
        assert parse_job(changed(cluster=options)).cluster.block_rows
    with pytest.raises(ValidationError):
        validate(changed(cluster={"iterations": 3}), schema)


def test_every_grouping_method_can_be_asked_for_with_its_options():
    from anonpipe.methods.grouping import METHODS, GroupingOptions

    for name, record in METHODS.items():
        own = set(record.options.model_fields) - set(GroupingOptions.model_fields)
        assert own == set(record.takes), name
        assert {option: record.options.model_fields[option].default for option in own} == {
            option: record.parameters[option].default for option in own
        }
        column = {"g": {"kind": "binary", "role": "sensitive"}} if record.classes else {}
        job = parse_job(changed(cluster={"method": name}, columns=BASE["columns"] | column))
        assert isinstance(job.cluster, record.options) and set(job.cluster.own) == own


def test_every_masker_can_be_asked_for_with_its_options():
    from anonpipe.methods.masking import MASKERS
    from anonpipe.methods.record import Features

    not_in_jobs = {"generalize": {"suppress_above"}}  # what it suppresses would be nulls of any column
    for name, record in MASKERS.items():
        given = record.options(method=name)
        own = set(record.own(given))
        filled = set(record.follows(given, Features(k=5, rows=100, width=3)))
        assert own <= set(record.options.model_fields)
        assert own | filled | not_in_jobs.get(name, set()) == set(record.about), name
        assert set(record.options.model_fields) - own <= {"method", "scope"}
        assert {option: record.options.model_fields[option].default for option in own} == {
            option: record.parameters[option].default for option in own
        }
        assert isinstance(parse_job(changed(mask={"method": name})).mask, record.options)


def test_every_synthesizer_but_categories_can_be_asked_for():
    from anonpipe.methods.record import in_jobs
    from anonpipe.methods.synthesis import METHODS

    assert set(in_jobs(METHODS)) == {name for name, record in METHODS.items() if record.takes == "features"}
    for name in in_jobs(METHODS):
        assert isinstance(parse_job(changed(synthesize={"method": name})).synthesize, METHODS[name].options)


def test_a_mask_stands_alone_in_job_digest_and_schema(tmp_path):
    from jsonschema import ValidationError, validate

    grouped, masked = parse_job(changed(cluster={})), parse_job(changed(mask={"method": "noise"}))
    assert grouped.mask is None and grouped.by_groups.cluster.method == "mdav"
    assert (masked.cluster, masked.sensitive, masked.synthesize) == (None, None, None)
    with pytest.raises(JobError, match="forms no groups"):
        masked.by_groups  # noqa: B018
    for job in (grouped, masked):
        assert parse_job(job.model_dump(mode="json")) == job
    assert grouped.digest() != masked.digest()
    assert parse_job(changed(mask={"method": "noise", "amount": 0.2})).digest() != masked.digest()
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(BASE))
    overridden = load_job(path, {"mask.method": "spectral_swap", "mask.basis": "columns"})
    assert overridden.mask.model_dump() == {"method": "spectral_swap", "basis": "columns", "scope": "stratum"}
    schema = Job.model_json_schema()
    validate(changed(mask={"method": "synthesis", "draw": "quantiles"}), schema)
    for mask in ({"method": "synthesis", "amount": 1}, {"amount": 1}):
        with pytest.raises(ValidationError):
            validate(changed(mask=mask), schema)


@pytest.mark.parametrize(("key", "text"), [("bounds", "[no, yes]"), ("step", "yes"), ("weight", "true")])
def test_truth_values_of_yaml_are_no_numbers(tmp_path, key, text):
    path = tmp_path / "job.yaml"
    path.write_text(f"input: a.csv\noutput: b\nk: 5\ncolumns:\n  age: {{kind: integer, {key}: {text}}}\n")
    with pytest.raises(JobError, match=f"{key} takes numbers"):
        load_job(path)


def test_unchanged_column_outside_strata_is_told_with_remedy():
    columns = {"age": {"kind": "integer"}, "sex": {"kind": "binary", "role": "key"}}
    content = {"input": "a.csv", "output": "b", "k": 5, "columns": columns}
    job = parse_job(content)
    assert job.mask is None and any("'sex' released unchanged, and not in strata.by" in line for line in job.warnings())
    linked = held("risk.reidentification_rate", 0.37, 0.09)
    assert "strata.by with all columns that are released unchanged" in remedies((linked,), job.in_force)[0]
    by_strata = parse_job(content | {"strata": {"by": ["sex"]}})
    assert by_strata.mask is not None and by_strata.warnings() == []
    assert "strata" in by_strata.in_force and "strata" not in job.in_force
    chosen = parse_job(content | {"cluster": {"method": "kd_tree"}})
    assert not any("strata.by" in line for line in chosen.warnings())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"columns": {"x": {"kind": "numeric"}}}, "columns.x.kind: unknown value; did you mean continuous?"),
        ({"columns": {"x": {"kind": "integr"}}}, "columns.x.kind: unknown value; did you mean integer?"),
        ({"columns": {"x": {"kind": "Boolean"}}}, "columns.x.kind: unknown value; did you mean binary?"),
        ({"columns": {"x": {"kind": "canary83741"}}}, "columns.x.kind: unknown value; known are: continuous, integer,"),
        ({"columns": {"x": {"kind": 7}}}, "columns.x.kind: unknown value; known are: continuous, integer,"),
        ({"mask": {"method": "local_synthese"}}, "mask: unknown method; did you mean local_synthesis?"),
        ({"strata": {"small": "merged"}}, "strata.small: unknown value; did you mean merge?"),
        (
            {"columns": {"x": {"kind": "integer", "bounds": [False, True]}}},
            "columns.x.bounds: bounds takes numbers; yes",
        ),
        ({"columns": {"x": {"kind": "integer", "step": True}}}, "columns.x.step: step takes numbers; yes"),
    ],
)
def test_unknown_values_have_the_likeliest_known_one_beside_them(change, told):
    job = {"input": "a", "output": "b", "k": 5, "columns": {"x": {"kind": "integer"}}} | change
    with pytest.raises(JobError) as caught:
        parse_job(job)
    assert told in str(caught.value) and "canary" not in str(caught.value)


@pytest.mark.parametrize(("method", "lost"), [("local_synthesis", True), ("spectral_swap", True), ("noise", False)])
def test_mask_without_unchanged_column_tells_lost_covariances(method, lost):
    columns = {"age": {"kind": "integer"}, "sex": {"kind": "binary", "role": "key"}}
    content = {"input": "a.csv", "output": "b", "k": 5, "columns": columns, "mask": {"method": method}}
    said = [line for line in parse_job(content).warnings() if "gates.covariance_with_keys" in line]
    assert len(said) == lost and all("'sex'" in line and "strata.by" in line for line in said)
    by_sex = parse_job(content | {"strata": {"by": ["sex"]}})
    assert not any("gates.covariance_with_keys" in line for line in by_sex.warnings())


def test_a_model_of_a_dropped_column_is_left_out():
    model = {"name": "pay", "model": "linear", "formula": "income ~ age + place"}
    columns = {name: {"kind": "integer"} for name in ("age", "income")}
    content = {"input": "a", "output": "b", "k": 5, "columns": columns | {"place": {"role": "dropped"}}}
    job = parse_job(content | {"analyses": [model, {**model, "name": "age", "formula": "income ~ age"}]})
    assert [each.name for each in job.analyses] == ["age"] and parse_job(job.model_dump(mode="json")) is not None
    assert any("analysis 'pay' names place, which is not released (role dropped)" in text for text in job.warnings())
    with pytest.raises(JobError, match="names place, which is no column here"):
        parse_job(content | {"analyses": [model | {"limits": {"overlap": 0.5}}]})
