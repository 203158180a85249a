"""Changes of a job's text: what is not meant stays as it was, comments too."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

import yaml
from anonpipe_studio import text as texts
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import JobError
from anonpipe.job.plain_yaml import load_yaml

JOB = """# A proposal.
input: "people.parquet"  # read
output: out

# No group is smaller.
k: 5
columns:
  # CHECK: two of them
  age:  # years
    kind: integer  # a guess
    role: masked
    # bounds: [low, high]  # from the code book
  "a: b": {kind: binary, levels: [no, 'yes']}  # flow
  place:
    kind: categorical
    levels:
    - north
    - south
    # the last of them
    missing: error

# Rules between columns
# rules:
  # - "a = b"

measure:
  risk: false
"""


@pytest.mark.parametrize(
    ("path", "new", "old_line", "new_line"),
    [
        ((), {"k": 7}, "k: 5\n", "k: 7\n"),
        ((), {"output": "x: y # z"}, "output: out\n", "output: 'x: y # z'\n"),
        (("columns", "age"), {"kind": "date"}, "kind: integer  # a guess", "kind: date  # a guess"),
        (("columns", "age"), {"role": None}, "    role: masked\n", ""),
        (("columns", "age"), {"bounds": [0, None]}, "# bounds: [low, high]  # from", "bounds: [0, null]  # from"),
        (("columns", "age"), {"step": 0.5}, "role: masked\n", "role: masked\n    step: 0.5\n"),
        (("columns", "a: b"), {"levels": None}, "{kind: binary, levels: [no, 'yes']}", "{kind: binary}"),
        (("columns", "place"), {"levels": ["no"]}, "levels:\n    - north\n    - south\n", "levels: ['no']\n"),
        (("columns", "place"), {"levels": None}, "    levels:\n    - north\n    - south\n", ""),
        (("measure",), {"utility": False}, "  risk: false\n", "  risk: false\n  utility: false\n"),
    ],
)
def test_one_change_is_one_line(path, new, old_line, new_line):
    assert JOB.count(old_line) == 1
    assert texts.changed(JOB, {path: new}) == JOB.replace(old_line, new_line)


def test_what_cannot_be_kept_is_refused():
    aliased = "k: 5\ncolumns:\n  a: &x {kind: integer}\n  b: *x\n"
    with pytest.raises(JobError, match="change it as text"):
        texts.changed(aliased, {("columns", "a"): {"kind": "date"}})


VALUES = st.one_of(st.text(max_size=12), st.integers(), st.floats(allow_nan=False), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=3), st.sampled_from(["age", "a: b", "place"]), st.text(max_size=12))
def test_any_value_is_written_and_read(levels, name, output):
    changes = {("columns", name): {"levels": levels, "event": levels}, (): {"output": output, "k": 9}}
    try:
        new = texts.changed(JOB, changes)
    except (JobError, yaml.YAMLError):  # YAML has no way to write some control characters
        assert not output.isprintable() or any(isinstance(each, str) and not each.isprintable() for each in levels)
        return
    content = load_yaml(new)
    assert content["columns"][name]["levels"] == levels and content["output"] == output
    kept = ("# A proposal.", "# read", "# No group", "# CHECK: two of them", "# years", "# a guess", "# the last of")
    assert all(comment in new for comment in kept)


@pytest.mark.parametrize(
    ("given", "a_list", "value"),
    [
        ("", True, None), ("0, 120", True, [0, 120]), ("[0, null]", True, [0, None]), ("no, Yes", True, ["no", "Yes"]),
        ("%d.%m.%Y", True, ["%d.%m.%Y"]), ("'a, b', c", True, ["a, b", "c"]), ("a, *", True, ["a", "*"]),
        ("0.1", False, 0.1), (";", False, ";"), ("|", False, "|"), (",", False, ","),
        ("a, b", False, "a, b"), ("!!python/name:os.system", False, "!!python/name:os.system"),
    ],
)  # fmt: skip
def test_what_a_field_says(given, a_list, value):
    assert texts.read_value(given, a_list) == value


def test_sections_have_their_comments():
    parts = texts.sections(JOB)
    assert list(parts) == ["input", "output", "k", "columns", "rules", "measure"]
    assert parts["rules"].text.startswith("# Rules between columns\n# rules:") and not parts["rules"].given
    assert "".join(part.text for part in parts.values()) == JOB and parts["k"].text.startswith("# No group")
    new = texts.with_section(JOB, "rules", "rules: ['age >= k']")
    assert load_yaml(new)["rules"] == ["age >= k"] and "a = b" not in new and "\n\nmeasure:" in new
    assert "gates:\n  mean: 1\n" in texts.with_section(JOB, "gates", "gates:\n  mean: 1")
    assert "measure" not in load_yaml(texts.with_section(JOB, "measure", ""))


def test_notes_of_columns():
    assert texts.notes(JOB, ("columns",)) == ["years a guess", "flow", "the last of them"]
