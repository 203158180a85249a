"""Whatever is wrong with the input, the job or the disk: one clear error, no value of the data, nothing left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from anonpipe import cli
from anonpipe.engine import MINIMUM_MEMORY
from anonpipe.errors import AnonpipeError, BusyError, EngineError, InputError, JobError, OutputError
from anonpipe.job.model import load_job, parse_job
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.start import run_id
from anonpipe.storage import release
from anonpipe.storage import staging as store
from tests import runs, small
from tests.small import CANARY, CANARY_NUMBER, COLUMNS

pytestmark = pytest.mark.secret(runs.SECRET)


@contextmanager
def refused(folder, kind: type[AnonpipeError], code: int, *words: str, empty: bool = True):
    """Expect this error with these words, no value of the data in it, and nothing left behind."""
    with pytest.raises(kind) as caught:
        yield
    text = str(caught.value)
    assert caught.value.exit_code == code
    for word in words:
        assert word in text
    assert CANARY not in text and str(CANARY_NUMBER) not in text and str(int(CANARY_NUMBER)) not in text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    if empty:
        assert small.left_behind(folder) == []


def both(folder, given, kind, code, *words):
    """The same refusal from the preview and from the run."""
    with refused(folder, kind, code, *words):
        preview(given)
    with refused(folder, kind, code, *words):
        small.run(given)


LOOSE = {
    "mean": 1e9,
    "covariance": 1e9,
    "covariance_with_keys": 1e9,
    "category_share": 1,
    "null_share": 1,
    "unchanged_record_rate": 1,
    "local_suppression_rate": 1,
}
"""Gates that let small tables pass, on which decoding changes much."""


# --- files ----------------------------------------------------------------------------------------------------------


def test_missing_file(tmp_path):
    both(tmp_path, small.job(tmp_path, str(tmp_path / "no.parquet")), InputError, 2, "no.parquet does not exist")


@pytest.mark.parametrize("name", ["data.parquet", "data.csv"])
def test_empty_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    both(tmp_path, small.job(tmp_path, str(tmp_path / name)), InputError, 2, name, "empty (0 bytes)")


def test_no_rows(tmp_path):
    both(tmp_path, small.job(tmp_path, small.plain_table(0)), InputError, 2, "has no rows")
    (tmp_path / "data.csv").write_text("age,income,place\n")
    both(tmp_path, small.job(tmp_path, str(tmp_path / "data.csv")), InputError, 2, "has no rows")


@pytest.mark.parametrize("kept", [4, 100, 0.5, 0.99])
def test_truncated_parquet(tmp_path, kept):
    path = small.write_table(tmp_path, small.plain_table())
    whole = open(path, "rb").read()
    open(path, "wb").write(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    both(tmp_path, small.job(tmp_path, path), InputError, 2, "data.parquet", "Parquet")


def test_damaged_parquet_page(tmp_path):
    """The footer is whole, so that the damage shows only when the rows are read."""
    path = small.write_table(tmp_path, small.plain_table())
    whole = bytearray(open(path, "rb").read())
    whole[4 : len(whole) // 2] = os.urandom(len(whole) // 2 - 4)
    open(path, "wb").write(whole)
    both(tmp_path, small.job(tmp_path, path), InputError, 2, "data.parquet")


def _csv(tmp_path, change=lambda lines: lines):
    table = small.plain_table()
    lines = ["age,income,place", *(",".join(map(str, row.values())) for row in table.to_pylist())]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(change(lines)) + "\n")
    return str(path)


def test_ragged_line(tmp_path):
    path = _csv(tmp_path, lambda lines: [*lines[:100], f"30,{CANARY_NUMBER},{CANARY},{CANARY}", *lines[100:]])
    both(tmp_path, small.job(tmp_path, path), InputError, 2, "data.csv", "1 line")


def test_unclosed_quote(tmp_path):
    path = _csv(tmp_path, lambda lines: [*lines[:100], f'30,1.0,"{CANARY}', *lines[100:]])
    both(tmp_path, small.job(tmp_path, path), InputError, 2, "data.csv", "quote")


def test_text_in_a_numeric_column(tmp_path):
    path = _csv(tmp_path, lambda lines: [*lines, f"{CANARY},1.0,north"])
    both(tmp_path, small.job(tmp_path, path), InputError, 2, "'age'", "row")
    table = small.plain_table().set_column(0, "age", pa.array([CANARY] * 300))
    both(tmp_path, small.job(tmp_path, table), InputError, 2, "'age'", "needs numbers", "convert")


def test_binary_file_and_foreign_encoding(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"age,income,place\n" + f"30,1.0,{CANARY}".encode() + b"\xe9\xff\n" * 3)
    both(tmp_path, small.job(tmp_path, str(tmp_path / "data.csv")), InputError, 2, "data.csv", "UTF-8")


def test_repeated_column_names(tmp_path):
    table = small.plain_table()
    table = pa.Table.from_arrays([*table.columns, table.column(0)], names=[*table.column_names, "age"])
    both(tmp_path, small.job(tmp_path, table), InputError, 2, "several columns are named 'age'", "rename")
    path = _csv(tmp_path, lambda lines: ["age,income,age", *lines[1:]])
    both(tmp_path, small.job(tmp_path, path), InputError, 2, "column 3", "different")


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_infinite_values(tmp_path, value):
    table = small.plain_table()
    income = table.column("income").to_numpy().copy()
    income[[3, 7]] = value
    table = table.set_column(1, "income", pa.array(income))
    both(tmp_path, small.job(tmp_path, table), InputError, 2, "'income'", "2 rows", "infinite", "replace")


def test_infinite_values_of_held_out_rows_count(tmp_path):
    """The draw of the hold-out decides nothing: of 40 such rows about half are held out."""
    table = small.plain_table()
    income = table.column("income").to_numpy().copy()
    income[:40] = np.inf
    table = table.set_column(1, "income", pa.array(income))
    job = small.job(tmp_path, table, measure={"utility": False, "hold_out": 0.5})
    both(tmp_path, job, InputError, 2, "'income'", "40 rows", "infinite", "replace")


def test_whole_numbers_that_floats_cannot_tell_apart(tmp_path):
    table = small.plain_table()
    codes = pa.array([2**60 + at % 7 for at in range(table.num_rows)], pa.int64())
    table = table.set_column(table.column_names.index("age"), "age", codes)
    job = small.job(tmp_path, table, {**COLUMNS, "age": {"kind": "integer"}})
    both(tmp_path, job, InputError, 2, "'age'", "2^53", "rows", "categorical", "dropped")


@pytest.mark.parametrize(("name", "kind"), [("income", pa.float64()), ("place", pa.string()), ("age", pa.int64())])
def test_a_column_of_nulls(tmp_path, name, kind):
    table = small.plain_table()
    table = table.set_column(table.column_names.index(name), name, pa.nulls(300, kind))
    given = small.job(tmp_path, table)
    both(tmp_path, given, InputError, 2, repr(name), "nulls only", "dropped")
    columns = {**COLUMNS, name: {**COLUMNS[name], "role": "dropped"}}
    remedied = small.job(tmp_path, table, columns, gates=LOOSE)
    assert small.run(remedied).version
    assert name not in small.released(remedied).column_names


def test_nan_is_null(tmp_path):
    table = small.plain_table()
    both(
        tmp_path,
        small.job(tmp_path, table.set_column(1, "income", pa.array(np.full(300, np.nan)))),
        InputError,
        2,
        "'income'",
        "nulls only",
    )


@pytest.mark.parametrize(
    ("name", "value", "method"),
    [
        ("age", 33, "micro_perturbation"),
        ("age", 33, "gaussian"),
        ("income", 0.1 + 0.2, "micro_perturbation"),
        ("income", 0.1 + 0.2, "centroid"),
        ("income", 0.1 + 0.2, "pca"),
        ("place", "here", "micro_perturbation"),
    ],
)
def test_a_constant_column_is_released_with_a_warning(tmp_path, name, value, method):
    table = small.plain_table()
    constant = pa.array([value] * 300, table.schema.field(name).type)
    table = table.set_column(table.column_names.index(name), name, constant)
    given = small.job(tmp_path, table, synthesize={"method": method}, gates=LOOSE)
    outcome = small.run(given)
    assert any(repr(name) in warning and "one value only" in warning for warning in outcome.warnings)
    assert outcome.version and small.released(given).column(name).unique().to_pylist() == [value]


def test_all_columns_constant(tmp_path):
    table = pa.table({"age": [40] * 30, "income": [1.5] * 30, "place": ["x"] * 30})
    given = small.job(tmp_path, table)
    assert small.run(given).version
    assert small.released(given).equals(table)


def test_nulls_where_the_job_says_error(tmp_path):
    table = small.plain_table()
    income = [None if at % 10 == 0 else 1.0 * at for at in range(300)]
    table = table.set_column(1, "income", pa.array(income))
    columns = {**COLUMNS, "income": {"kind": "continuous", "missing": "error"}}
    both(tmp_path, small.job(tmp_path, table, columns), InputError, 2, "'income'", "30 rows", "missing: carry")


def test_values_outside_levels(tmp_path):
    columns = {**COLUMNS, "place": {"kind": "categorical", "levels": ["north", "south"]}}
    both(tmp_path, small.job(tmp_path, small.plain_table(), columns), InputError, 2, "'place'", "rows", "levels")


def test_groups_that_hold_no_number(tmp_path):
    """Half of the rows lack the number, and differ from the rest, so that whole groups have none."""
    rng = np.random.default_rng(1)
    far = np.repeat([0, 100], 150)
    table = pa.table(
        {
            "age": pa.array(far + rng.integers(0, 5, 300)),
            "income": pa.array(np.where(far > 0, np.nan, rng.normal(size=300)), from_pandas=True),
            "place": pa.array(rng.choice(["a", "b"], 300)),
        }
    )
    for method in ("centroid", "gaussian", "micro_perturbation"):
        given = small.job(tmp_path, table, synthesize={"method": method}, gates=LOOSE)
        assert small.run(given).version
        assert small.released(given).column("income").null_count == 150


# --- sizes ----------------------------------------------------------------------------------------------------------


def test_fewer_rows_than_k(tmp_path):
    both(tmp_path, small.job(tmp_path, small.plain_table(4)), InputError, 2, "4 rows", "k=5", "lower k")


@pytest.mark.parametrize(
    ("rows", "method"),
    [*product((5, 9, 10), ("centroid", "gaussian", "micro_perturbation")), (6, "centroid"), (11, "micro_perturbation")],
)
def test_tables_of_one_or_two_groups(tmp_path, rows, method):
    cluster = "kmeans" if rows % 2 == (method == "gaussian") else "mdav"  # each method with both
    table = small.plain_table(rows)
    given = small.job(tmp_path, table, synthesize={"method": method}, cluster={"method": cluster}, gates=LOOSE)
    outcome = small.run(given)
    assert outcome.version and outcome.rows == rows
    assert set(preview(given).warnings) == set(outcome.warnings)
    sizes = release.read_manifest(release.resolve(given.output))["group_sizes"]
    assert all(cell["from"] >= 5 for cell in sizes)
    if method == "centroid":
        counts = small.released(given).to_pandas().groupby(["age", "income", "place"], dropna=False).size()
        assert counts.min() >= 5


STRATA = {**COLUMNS, "place": {"kind": "categorical", "role": "key"}}


def _strata_table():
    """Strata of 200 and 97 rows, and one of 3 under k=5 with the canary as its value."""
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, 300)),
            "income": pa.array(rng.normal(size=300)),
            "place": pa.array(["north"] * 200 + ["south"] * 97 + [CANARY] * 3),
        }
    )


def test_a_stratum_under_k(tmp_path):
    given = small.job(tmp_path, _strata_table(), STRATA, strata={"by": ["place"]})
    both(tmp_path, given, InputError, 2, "1 stratum", "k=5", "'place'", "3 rows", "strata.small", "lower k")


@pytest.mark.parametrize(("remedy", "rows"), [("merge", 300), ("drop", 297)])
def test_remedies_of_a_stratum_under_k(tmp_path, remedy, rows):
    given = small.job(tmp_path, _strata_table(), STRATA, strata={"by": ["place"], "small": remedy})
    outcome = small.run(given)
    assert outcome.version and outcome.rows == rows
    warned = [w for w in outcome.warnings if "3 records" in w and remedy in w and CANARY not in w]
    assert len(warned) == 1
    assert set(preview(given).warnings) == set(outcome.warnings)
    told = [each for each in outcome.for_recipients.not_guaranteed if "rare values of place" in each]
    assert len(told) == 1 and "(fewer than 5 records)" in told[0] and CANARY not in told[0]
    assert told[0] in release.read_manifest(release.resolve(given.output))["not_kept"]
    counts = small.released(given).to_pandas()["place"].value_counts()
    assert counts.to_dict() == {"north": rows - 97, "south": 97}


def test_unchanged_column_with_rare_values_fails_the_gate(tmp_path):
    outcome = small.run(small.job(tmp_path, _strata_table(), STRATA))
    assert outcome.version is None
    assert any("'place'" in warning and "coarsen" in warning for warning in outcome.warnings)
    assert [check.name for check in outcome.verdict.lines if check.outcome == "failed"] == [
        "records below k = 5 on key variables (place)"
    ]
    assert small.stagings() == []


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_columns_that_do_not_match(tmp_path):
    table = small.plain_table()
    both(
        tmp_path,
        small.job(tmp_path, table, {**COLUMNS, "hight": {"kind": "continuous"}}),
        InputError,
        2,
        "'hight'",
        "the input does not have",
        "spelling",
    )
    fewer = {name: column for name, column in COLUMNS.items() if name != "place"}
    both(tmp_path, small.job(tmp_path, table, fewer), InputError, 2, "'place'", "does not name", "role: dropped")


def test_all_problems_are_told_at_once(tmp_path):
    table = small.plain_table().append_column("extra", pa.array([CANARY] * 300))
    columns = {**COLUMNS, "age": {"kind": "date"}, "hight": {"kind": "continuous"}}
    both(tmp_path, small.job(tmp_path, table, columns), InputError, 2, "'age'", "'hight'", "'extra'")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster": {"method": "magic"}}, ["cluster", "unknown method", "mdav"]),
        ({"synthesize": {"method": "magic"}}, ["synthesize", "unknown method", "gaussian"]),
        ({"synthesize": {"form": "magic"}}, ["synthesize", "form", "centred"]),
        ({"columns": {"age": {"kind": "numeric"}}}, ["columns.age.kind", "integer"]),
        ({"columns": {"age": {"kind": "integer", "role": "hidden"}}}, ["columns.age.role", "masked"]),
        ({"columns": {"s": {"kind": "binary", "role": "survival_status", "event": "Dead"}}}, ["event", "list"]),
        ({"columns": {"s": {"kind": "binary", "role": "survival_status", "event": []}}}, ["event is empty"]),
        ({"columns": {"s": {"kind": "binary", "role": "survival_status"}}}, ["event goes with role"]),
        ({"columns": {"s": {"kind": "categorical", "levels": "a, b"}}}, ["levels", "list"]),
        ({"columns": {"s": {"kind": "categorical", "levels": [["a"], "b"]}}}, ["levels.0"]),
        ({"columns": ["age", "income"]}, ["columns", "mapping"]),
        ({"columns": {"age": None}}, ["columns.age"]),
        ({"columns": {"age": "integer"}}, ["columns.age"]),
        ({"columns": {"age": {"kind": "integer", "bounds": [0]}}}, ["columns.age.bounds"]),
        ({"columns": {"age": {"kind": "integer", "bounds": 5}}}, ["columns.age.bounds", "list"]),
        ({"columns": {"age": {"kind": "integer", "bounds": ["low", "high"]}}}, ["columns.age", "numbers"]),
        ({"k": "five"}, ["k: takes a whole number"]),
        ({"k": None}, ["k: takes a whole number"]),
        ({"k": 1}, ["k:", "2"]),
        ({"stratas": {}}, ["stratas", "unknown key"]),
        ({"gates": {"mean": -1}}, ["gates.mean", "greater than 0"]),
        ({"input": "a\0b"}, ["input", "control"]),
        ({"output": "a\0b"}, ["output", "control"]),
        ({"output": " "}, ["output", "not empty"]),
        ({"run": {"staging": "a\nb"}}, ["run.staging", "control"]),
        ({"run": {"memory_per_worker": "plenty"}}, ["run.memory_per_worker", "2GiB"]),
        ({"run": {"memory_per_worker": "-1GB"}}, ["run.memory_per_worker", "2GiB"]),
        ({"run": {"memory_per_worker": "1e3GB"}}, ["run.memory_per_worker", "2GiB"]),
        ({"run": {"memory_per_worker": "399.9 MiB"}}, ["run.memory_per_worker", "400 MiB"]),
    ],
)
def test_jobs_of_wrong_content(changes, words):
    with pytest.raises(JobError) as caught:
        parse_job({"input": "a", "output": "b", "k": 5, "columns": {"x": {"kind": "continuous"}}} | changes)
    assert caught.value.exit_code == 2
    for word in words:
        assert word in str(caught.value)
    lines = str(caught.value).splitlines()[1:]
    assert 1 <= len(lines) <= 2 and not any("pydantic" in line or "tuple" in line for line in lines)


@pytest.mark.parametrize("given", ["400MiB", "1.5 GiB", "2GB", "0.6gb", "420 mb", "1 TiB"])
def test_memory_means_what_dask_takes_it_for(given):
    from dask.utils import parse_bytes

    content = {"input": "a", "output": "b", "k": 5, "columns": {"x": {"kind": "continuous"}}}
    job = parse_job(content | {"run": {"memory_per_worker": given}})
    assert parse_bytes(job.run.memory_per_worker) >= MINIMUM_MEMORY


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("k: 5\nk: 3\n", ["'k' is given twice", "line 2"]),
        ("columns:\n  age: {kind: integer}\n  age: {kind: date}\n", ["'age' is given twice", "line 3"]),
        ("k: [5\n", ["not valid YAML"]),
        ("", ["not a mapping", "anonpipe init"]),
        ("just words", ["not a mapping"]),
        ("? [a, b]\n: 3\n", ["not valid YAML", "key"]),
        ("k: !!python/object:os.system 3\n", ["not valid YAML"]),
        (b"k: \xff\xfe\n", ["UTF-8"]),
    ],
)
def test_job_files_that_cannot_be_read(tmp_path, content, words):
    path = tmp_path / "job.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(JobError) as caught:
        load_job(path)
    for word in [*words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Smith: 48151623\nSmith: 42\n",
        "Smith: {age: 48151623}\n",
        "name,age\n'Smith',48151623\n\"Smith",
        "- &Smith 1\n- *Smithson\n",
        "!Smith 48151623\n",
        "note: a: Smith\n",
    ],
)
def test_a_table_given_as_a_job_is_not_quoted(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(JobError) as caught:
        load_job(path)
    said = str(caught.value)
    assert any(words in said for words in ("no key of a job", "not a mapping", "not valid YAML"))
    assert "Smith" not in said and "48151623" not in said


def test_unquoted_dates_of_yaml_are_bounds(tmp_path):
    path = tmp_path / "job.yaml"
    text = "input: a\noutput: b\nk: 5\ncolumns:\n  day: {kind: date, bounds: [1990-01-01, 2020-12-31]}\n"
    path.write_text(text)
    assert load_job(path).columns["day"].numeric_bounds == (7305.0, 18627.0)


def test_levels_that_yaml_reads_as_truth_values(tmp_path):
    table = small.plain_table().set_column(2, "place", pa.array(["yes", "no"] * 150))
    columns = {**COLUMNS, "place": {"kind": "binary", "levels": [True, False]}}
    both(tmp_path, small.job(tmp_path, table, columns), InputError, 2, "'place'", "levels")


@pytest.mark.parametrize("event", [["Dead"], [1], [True]])
def test_event_of_another_type_than_the_column(tmp_path, event):
    table = small.plain_table()
    status = {"int": pa.array([0, 1] * 150), "text": pa.array(["0", "1"] * 150)}
    kind = "int" if event == ["Dead"] else "text"
    table = table.append_column("status", status[kind])
    columns = {**COLUMNS, "status": {"kind": "binary", "role": "survival_status", "event": event}}
    both(tmp_path, small.job(tmp_path, table, columns), InputError, 2, "'status'")


# --- secret, staging, output, lock ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "words"),
    [("abcdef", "shorter than 128 bits"), ("no hex at all", "hexadecimal")],
)
def test_weak_secret(tmp_path, monkeypatch, secret, words):
    monkeypatch.setenv("ANONPIPE_SECRET", secret)
    both(tmp_path, small.job(tmp_path, small.plain_table()), JobError, 2, words, "ANONPIPE_SECRET")


def test_secret_file_of_wrong_content_or_rights(tmp_path, monkeypatch):
    path = tmp_path / "key"
    monkeypatch.delenv("ANONPIPE_SECRET")
    monkeypatch.setenv("ANONPIPE_SECRET_FILE", str(path))
    given = small.job(tmp_path, small.plain_table())
    with refused(tmp_path, JobError, 2, "cannot be read", "key"):
        small.run(given)
    path.write_bytes(b"\xff" * 32)
    path.chmod(0o600)
    with refused(tmp_path, JobError, 2, "hexadecimal"):
        small.run(given)
    path.write_text("5e" * 32)
    path.chmod(0o644)
    with refused(tmp_path, JobError, 2, "can be read by others", "chmod 600"):
        small.run(given)


def test_private_home_below_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("ANONPIPE_SECRET")
    monkeypatch.setenv("ANONPIPE_HOME", str(tmp_path / "file" / "home"))
    with refused(tmp_path, OutputError, 4, "ANONPIPE_HOME"):
        small.run(small.job(tmp_path, small.plain_table()))


@pytest.mark.parametrize("where", ["below", "at"])
def test_unwritable_output(tmp_path, where):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "out" if where == "below" else tmp_path / "file"
    given = small.job(tmp_path, small.plain_table(), output=str(output))
    both(tmp_path, given, OutputError, 4, "cannot be written", "choose another folder")


def test_output_folder_of_other_files(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("")
    given = small.job(tmp_path, small.plain_table(), output=str(tmp_path / "home"))
    both(tmp_path, given, OutputError, 4, "holds other files", "empty or a new folder")


@pytest.mark.parametrize("where", ["below", "at"])
def test_unusable_staging(tmp_path, monkeypatch, where):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "staging" if where == "below" else tmp_path / "file"
    given = small.job(tmp_path, small.plain_table(), run={"staging": str(folder)})
    with refused(tmp_path, OutputError, 4, "staging", "run.staging"):
        small.run(given)


def test_a_job_that_is_running(tmp_path):
    given = small.job(tmp_path, small.plain_table())
    root = store.make_private(store.staging_root(None))
    with store.lock(store.Staging(root / run_id(given))):
        with refused(tmp_path, BusyError, 6, "another process is running this job", empty=False):
            small.run(given)
        assert not (tmp_path / "out" / "versions").exists()
    assert small.run(given).version


def test_a_job_in_another_folder_is_another_run(tmp_path, monkeypatch):
    """It neither waits for the first nor deletes what a crash of that has left."""
    names = []
    for folder in ("one", "other"):
        small.job(tmp_path / folder, small.plain_table())
        monkeypatch.chdir(tmp_path / folder)
        given = small.job(tmp_path / folder, small.plain_table()).model_copy(
            update={"input": "data.parquet", "output": "out"}
        )
        assert run_id(given) == run_id(given.model_copy())
        names.append(run_id(given))
    assert names[0] != names[1]


def test_input_that_changed_before_resume(tmp_path, monkeypatch):
    given = small.job(tmp_path, small.plain_table())
    with monkeypatch.context() as patch:
        patch.setattr("anonpipe.pipeline.run.MAPPED_STAGES", (_crash,))
        with pytest.raises(EngineError, match="RuntimeError at test_bad_input"):
            small.run(given)
    small.write_table(tmp_path, small.plain_table(seed=9))
    [left] = filter(os.path.isdir, small.stagings())
    store.Staging(left).write("results/scan/0.record", b"in the form of another anonpipe")
    again = small.run(given, resume=True)
    assert again.version and any("started again" in warning for warning in again.warnings)
    assert small.stagings() == []


def _crash(run, executor):
    raise RuntimeError("power cut")


# --- full disks -----------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no right to mount a tmpfs here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder, keep: int):
    """Fill a disk up to some bytes."""
    free = shutil.disk_usage(folder).free
    (folder / "ballast").write_bytes(b"\0" * max(0, free - keep))


@pytest.mark.parametrize("free", [0, 4_096, 40_000, 120_000])
def test_full_staging(tmp_path, tiny_disk, free):
    table = small.plain_table(20_000)
    given = small.job(tmp_path, table, run={"staging": str(tiny_disk / "staging")}, output=str(tmp_path / "out"))
    _fill(tiny_disk, free)
    with refused(tmp_path, OutputError, 4, "disk is full", "--resume", empty=False):
        small.run(given)
    assert not (tmp_path / "out").exists() or small.left_behind(tmp_path) == []
    subprocess.run(["mount", "-o", "remount,size=100m", str(tiny_disk)], check=True)
    assert small.run(given, resume=True).version
    assert list((tiny_disk / "staging").iterdir()) == []


def test_full_output(tmp_path, tiny_disk):
    table = small.plain_table(20_000)
    first = small.job(tmp_path, small.plain_table(500), output=str(tiny_disk / "out"))
    old = small.run(first).version
    given = small.job(tmp_path, small.write_table(tmp_path, table, "big.parquet"), output=str(tiny_disk / "out"))
    _fill(tiny_disk, 40_000)
    with refused(tmp_path, OutputError, 4, "No space left", "nothing was published", empty=False):
        small.run(given)
    assert release.resolve(given.output).root == os.path.realpath(old)
    assert release.check(given.output) == []
    assert len(list((tiny_disk / "out" / "versions").iterdir())) == 1
    (tiny_disk / "ballast").unlink()
    assert small.run(given, resume=True).version != old
    assert small.stagings() == [] and release.check(given.output) == []


# --- through the command line ---------------------------------------------------------------------------------------


def _job_file(tmp_path, data, **changes):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(small.content(tmp_path, data, **changes)))
    return str(path)


def test_errors_of_workers_reach_the_terminal_clean(tmp_path, capfd):
    """The damage is found by a worker process, which writes to the same terminal."""
    path = small.write_table(tmp_path, small.plain_table())
    whole = bytearray(open(path, "rb").read())
    whole[4 : len(whole) // 2] = os.urandom(len(whole) // 2 - 4)
    open(path, "wb").write(whole)
    code, out, err = _call(capfd, "run", _job_file(tmp_path, path, run={"workers": 1}))
    assert code == 2 and err.startswith("error: ") and "data.parquet" in err
    assert out == "" and small.left_behind(tmp_path) == []


def _call(capsys, *arguments):
    """The command line, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["anonpipe", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err + captured.out
    assert CANARY not in captured.err + captured.out
    return caught.value.code or 0, captured.out, captured.err


@pytest.mark.parametrize("name", ["x" * 256, "y/" * 3000], ids=["name", "path"])
def test_output_names_that_are_too_long(tmp_path, capsys, name):
    data = small.write_table(tmp_path, small.plain_table())
    code, _, shown = _call(capsys, "plan", _job_file(tmp_path, data, output=str(tmp_path / name)))
    assert code == 4 and "too long" in shown and "Traceback" not in shown


@pytest.mark.parametrize("content", [b"", b"PAR1", None], ids=["emptied", "cut", "gone"])
def test_a_damaged_release_is_told_by_verify_and_by_summary(tmp_path, capsys, content):
    data = small.write_table(tmp_path, small.plain_table())
    file = _job_file(tmp_path, data, gates=LOOSE)
    version = small.run(load_job(file)).version
    [part] = Path(version).glob("*.parquet")
    part.unlink()
    if content is not None:
        part.write_bytes(content)
    for command, given in (("verify", str(tmp_path / "out")), ("summary", file)):
        code, _, shown = _call(capsys, command, given)
        assert code == 2 and "damaged" in shown and part.name in shown and "report this line" not in shown


def test_unforeseen_errors_tell_their_place_and_no_value(tmp_path, capsys, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr("anonpipe.pipeline.preview.preview", broken)
    code, out, err = _call(capsys, "plan", _job_file(tmp_path, small.write_table(tmp_path, small.plain_table())))
    assert code == 1 and out == "" and "ZeroDivisionError" in err and "test_bad_input.py:" in err


@pytest.mark.parametrize(
    "setting", ["k", "=5", "k=", "k=[", "k=five", "cluster=kmeans", "cluster.method.deep=1", "nothing=1", "k.deep=2"]
)
def test_bad_settings(tmp_path, capsys, setting):
    path = _job_file(tmp_path, small.write_table(tmp_path, small.plain_table()))
    code, _, err = _call(capsys, "plan", path, "--set", setting)
    assert code == 2 and err.startswith("error: ")


def test_settings_on_an_empty_job(tmp_path, capsys):
    path = tmp_path / "job.yaml"
    path.write_text("")
    code, _, err = _call(capsys, "plan", str(path), "--set", "k=5")
    assert code == 2 and "not a mapping" in err


@pytest.mark.parametrize("manifest", ["", "{}", "[]", '{"files": 3, "rows": 1, "schema": []}', '{"files": [{}]}'])
def test_verify_with_a_broken_manifest(tmp_path, capsys, manifest):
    given = small.job(tmp_path, small.plain_table())
    version = small.run(given).version
    open(f"{version}/_manifest.json", "w").write(manifest)
    code, _, err = _call(capsys, "verify", given.output)
    assert code == 2 and "manifest" in err and "damaged" in err


def test_files_in_the_private_staging_are_private(tmp_path, monkeypatch):
    given = small.job(tmp_path, small.plain_table())
    monkeypatch.setattr("anonpipe.pipeline.run.verify", lambda run: _crash(run, None))
    with pytest.raises(EngineError):
        small.run(given)
    found = [path for folder in small.stagings() for path in [folder, *folder.rglob("*")]]
    assert len(found) > 10
    assert not [path for path in found if path.stat().st_mode & 0o077 and not _inside_private(path)]


def _inside_private(path):
    """Whether a folder above is closed to others."""
    return any(stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0 for folder in path.parents)


def test_parquet_of_no_columns(tmp_path):
    pq.write_table(pa.table({}), tmp_path / "data.parquet")
    both(tmp_path, small.job(tmp_path, str(tmp_path / "data.parquet")), InputError, 2, "data.parquet")


@pytest.mark.parametrize("how", [{}, {"mask": {"method": "noise"}}, {"cluster": {"method": "mdav"}}], ids=str)
def test_categories_of_one_value_leave_nothing_to_mask(tmp_path, how):
    columns = {"flag": {"kind": "binary"}, "place": {"kind": "categorical"}, "side": {"kind": "binary", "role": "key"}}
    data = pa.table({"flag": [True] * 60, "place": ["here"] * 60, "side": ["a", "b"] * 30})
    with pytest.raises(JobError, match="every masked column is constant, so there is nothing to mask"):
        small.run(small.job(tmp_path, data, columns, **how))
    assert small.left_behind(tmp_path) == []
