"""Old names of job keys, roles, flags and measures: one more version, one notice each, the same job."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
import yaml

from anonpipe.compare._names import current_names, known_names
from anonpipe.errors import JobError
from anonpipe.job import aliases
from anonpipe.job.model import Job, load_job, parse_job
from tests import small

BASE = {
    "input": "-",
    "output": "-",
    "k": 5,
    "columns": {
        "age": {"kind": "integer"},
        "months": {"kind": "continuous"},
        "grade": {"kind": "binary", "role": "sensitive"},
        "region": {"kind": "categorical", "role": "key"},
    },
    "strata": {"by": ["region"]},
}
GROUPED = BASE | {"cluster": {"method": "crest", "refine": False}, "sensitive": {"l_diversity": 2}}
GATES = {
    "reidentification_rate": 0.05,
    "homogeneity": 0.1,
    "local_suppression_rate": 0.2,
    "unchanged_record_rate": 0.3,
    "covariance_with_keys": 0.4,
}
MASKED = BASE | {"mask": {"method": "data_shuffle", "conditioning": ["region"]}}
HOLDING = {"sensitive": GROUPED, "mask.conditioning": MASKED} | dict.fromkeys(
    (f"gates.{name}" for name in GATES), GROUPED | {"gates": GATES}
)
"""Of each renamed key a job that gives it."""


def put(content, path, value):
    """A copy with a value at a dotted path; None for none."""
    content = deepcopy(content)
    *sections, last = path.split(".")
    inside = content
    for section in sections:
        inside = inside.setdefault(section, {})
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return content


def at(content, path):
    for part in path.split("."):
        content = content[part]
    return content


def spelled_before(content, old, new):
    return put(put(content, new, None), old, at(content, new))


def same(one, other):
    return (one.digest(), one.run_digest(), one.model_dump()) == (
        other.digest(),
        other.run_digest(),
        other.model_dump(),
    )


@pytest.mark.parametrize(("old", "new"), aliases.KEYS.items())
def test_an_old_key_is_the_same_job_with_one_notice(old, new):
    content = HOLDING[new]
    before = spelled_before(content, old, new)
    kept = deepcopy(before)
    assert same(parse_job(before), parse_job(content)) and before == kept
    told = f"{old} is now called {new}; the old name goes with the next version"
    assert parse_job(before).notices == (told,) and parse_job(before).warnings().count(told) == 1
    assert parse_job(content).notices == ()


@pytest.mark.parametrize(("old", "new"), aliases.KEYS.items())
def test_an_old_key_beside_its_new_one_is_an_error(old, new):
    content = HOLDING[new]
    with pytest.raises(JobError, match=f"{old} is the old name of {new}, and both are given; leave out {old}"):
        parse_job(put(content, old, at(content, new)))


@pytest.mark.parametrize(("old", "new"), aliases.ROLES.items())
def test_an_old_role_is_the_same_job_with_one_notice(old, new):
    columns = BASE["columns"] | {"other": {"kind": "binary", "role": new}}
    told = {name: column | ({"role": old} if column.get("role") == new else {}) for name, column in columns.items()}
    before, now = (parse_job(BASE | {"columns": content}) for content in (told, columns))
    assert same(before, now)
    assert before.notices == (f"role {old} is now called role {new}; the old name goes with the next version",)


def test_digests_are_those_of_the_first_names():
    """The noise of a release is keyed by them: these figures were made before anything had a new name.

    The others change with every gate that is added: by them only the staging of one version is found again.
    """
    grouped, masked = (
        parse_job(GROUPED | {"gates": GATES, "columns": small.unscored(GROUPED["columns"])}),
        parse_job(
            {"input": "-", "output": "-", "k": 5, "mask": {"method": "noise"}}
            | {
                "columns": {
                    "x": {"kind": "continuous", "transform": "none"},
                    "g": {"kind": "binary", "role": "sensitive"},
                }
            }
        ),
    )
    assert grouped.digest() == "224171634e722370317cf9a748fc8cceacccacc72f7706d890a2dd6fc191b63a"
    assert grouped.run_digest() == "99a50468013f0cf5ff1f2518e8626281f7b48745a7b249d87f0a8fbf378d90a2"
    assert masked.digest() == "42e156127253b606f63c440bfb9590b559e80545c4816689f58639b525b217d9"
    assert masked.run_digest() == "391baf088ee8ea475bfd3c1901a9690845733ee989d5210c9c9aa5ec99b9449d"


def test_values_that_are_no_section_or_role_are_told_as_before():
    with pytest.raises(JobError, match=r"gates: takes a mapping"):
        parse_job(BASE | {"gates": 3})
    with pytest.raises(JobError, match=r"columns\.age\.role"):
        parse_job(put(BASE, "columns.age.role", "klass"))
    with pytest.raises(JobError, match=r"(?s)gates\.homogeneity: .*gates.homogeneous_share is now called"):
        parse_job(put(BASE, "gates.homogeneous_share", 7))


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(put(GROUPED, "gates.linked_share", 0.2)))
    return path


def test_settings_take_old_paths_too(job_file):
    now = load_job(job_file, {"gates.reidentification_rate": 0.1, "sensitive.l_diversity": 3})
    before = load_job(job_file, {"gates.linked_share": 0.1, "classes.l_diversity": 3, "columns.grade.role": "class"})
    assert before.gates.given["reidentification_rate"] == 0.1 and same(before, now)
    assert len(before.notices) == 3 and len(set(before.notices)) == 3
    assert now.notices == (aliases.notice("gates.linked_share", "gates.reidentification_rate"),)
    assert same(load_job(job_file, {"classes": {"l_diversity": 3}, "gates.linked_share": 0.1}), now)


def test_a_key_set_under_both_names_is_an_error(job_file):
    with pytest.raises(JobError, match=r"--set gates\.linked_share and --set gates.reidentification_rate"):
        load_job(job_file, {"gates.linked_share": 0.1, "gates.reidentification_rate": 0.2})


def test_the_schema_of_a_job_has_new_names_only():
    text = json.dumps(Job.model_json_schema())
    schema = json.loads(text)
    for old in aliases.KEYS:
        assert old.rpartition(".")[2] not in schema["properties"]
    assert not {old.rpartition(".")[2] for old in aliases.KEYS if old.startswith("gates")} & set(
        schema["$defs"]["Gates"]["properties"]
    )
    assert not set(aliases.ROLES) & set(schema["$defs"]["Role"]["enum"])
    assert "kept" not in schema["$defs"]["DataShuffleOptions"]["properties"] and "_share" not in text.replace(
        "category_share", ""
    ).replace("null_share", "").replace("variance_share", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("linked_share", "reidentification_rate"),
        ("homogeneous_share", "homogeneity"),
        ("class.grade.homogeneous", "sensitive.grade.homogeneity"),
        ("class.grade.t_ordered", "sensitive.grade.t_ordered"),
        ("class.a.b.c.singles", "sensitive.a.b.c.singles"),
    ],
)
def test_an_old_measure_is_the_same_with_one_notice(old, new):
    assert current_names((None, old)) == ((None, new), (aliases.notice(old, new),))
    assert current_names((old, None)) == ((new, None), (aliases.notice(old, new),))
    assert current_names((new, None)) == ((new, None), ())
    if "." not in new.removeprefix("sensitive.grade."):
        assert new in known_names(parse_job(BASE))


def test_no_measure_of_this_version_is_taken_for_an_old_one():
    for name in known_names(parse_job(BASE)):
        assert aliases.current_measure(name) == (name, ())


@pytest.fixture
def call(capsys, monkeypatch):
    """Run a command in this process."""
    return small.commands(capsys, monkeypatch)


@pytest.fixture
def run_file(tmp_path):
    """A job on a table, with old names."""
    path = tmp_path / "job.yaml"
    content = deepcopy(small.content(tmp_path, small.write_table(tmp_path, small.plain_table(400))))
    content["columns"]["place"]["role"] = "class"
    content["gates"] = {"mean": 1, "covariance": 1, "covariance_unchanged": 1, "share_as_they_were": 1}
    path.write_text(yaml.safe_dump(content))
    return path


def test_commands_tell_each_old_name_once(call, run_file):
    told = [aliases.notice(f"gates.{old}", f"gates.{new}") for old, new in GATES_OF_RUN.items()]
    told.append(aliases.notice("role class", "role sensitive"))
    for command in ("plan", "run"):
        code, out, err = call(command, run_file)
        printed = " ".join((out + err).split())
        assert code == 0 and all(printed.count(each) == 1 for each in told), printed
    assert call("run", run_file, "--json").out.count("goes with the next version") == len(told)
    code, _, err = call("summary", run_file)
    assert code == 0 and " ".join(err.split()).count("goes with the next version") == len(told)


GATES_OF_RUN = {"covariance_unchanged": "covariance_with_keys", "share_as_they_were": "unchanged_record_rate"}


def test_compare_tells_old_flags_and_measures(call, run_file, tmp_path):
    arguments = ["compare", run_file, "--methods", "mdav+centroid", "--k", "5", "--out", tmp_path / "compared"]
    arguments += ["--set", "measure={rows: 100, queries: 50}"]
    code, out, err = call(*arguments, "--risk", "linked_share", "--anew", "--set", "gates.linked_share=1")
    told = " ".join(err.split())
    assert code == 0 and "reidentification_rate" in out and "linked_share" not in out
    for old, new in (
        ("--anew", "--refresh"),
        ("linked_share", "reidentification_rate"),
        ("gates.linked_share", "gates.reidentification_rate"),
    ):
        assert told.count(f"warning: {aliases.notice(old, new)}") == 1
    code, _, err = call(*arguments, "--anew", "--refresh")
    assert code == 2 and "--anew is the old name of --refresh, and both are given" in " ".join(err.split())
    assert "--anew" not in call("compare", "--help").out and "--refresh" in call("compare", "--help").out
