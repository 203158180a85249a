import gzip
import os
import pickle
import re
import traceback

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.columns import Column
from anonpipe.errors import InputError
from anonpipe.job.csv_format import CsvFormat
from anonpipe.source import Source, Unit, _parquet, check_types, found_format, open_source, read_batches
from anonpipe.storage.records import from_bytes, to_bytes

CANARY = "CANARY4711"


def refused(function, *arguments):
    """The text of the InputError that a call must raise, after looking for data in all that would be logged."""
    with pytest.raises(InputError) as caught:
        result = function(*arguments)
        if not isinstance(result, Source):
            list(result or ())
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None
    assert CANARY not in "".join(traceback.format_exception(error))
    return str(error)


def table(rows=1000, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 100, rows), pa.int16()),
            "a.b": rng.normal(size=rows),
            "a": pa.array(rng.choice(["x", "y", "z"], rows)).dictionary_encode(),
        }
    )


def read(source, columns=None, rows=65_536):
    parts, at = [], 0
    for unit in source.units:
        assert unit.first_row == at
        for first_row, batch in read_batches(source, unit, columns, rows):
            assert first_row == at and 0 < batch.num_rows <= rows
            parts.append(batch)
            at += batch.num_rows
    assert at == source.rows
    return pa.Table.from_batches(parts)


def test_parquet_units_are_runs_of_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(_parquet, "UNIT_ROWS", 250)
    whole = table()
    pq.write_table(whole, tmp_path / "t.parquet", row_group_size=100)
    source = open_source(str(tmp_path / "t.parquet"))
    assert [unit.row_groups for unit in source.units] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert (source.rows, source.bytes) == (1000, (tmp_path / "t.parquet").stat().st_size)
    assert read(source).equals(whole)
    assert read(source, rows=33).equals(whole)
    monkeypatch.setattr(_parquet, "UNIT_ROWS", 10)
    assert [unit.rows for unit in open_source(str(tmp_path / "t.parquet")).units] == [100] * 10


def test_columns_come_in_input_order_and_only_those_asked_for(tmp_path):
    pq.write_table(table(), tmp_path / "t.parquet")
    source = open_source(str(tmp_path / "t.parquet"))
    assert read(source, ["a", "age"]).schema.names == ["age", "a"]  # `a` is no prefix of `a.b`


def test_metadata_stays_behind(tmp_path):
    frame = table().to_pandas()
    frame.to_parquet(tmp_path / "t.parquet")
    source = open_source(str(tmp_path / "t.parquet"))
    assert source.schema.metadata is None and read(source).schema.metadata is None


@pytest.mark.parametrize("where", ["", "/", "/*.parquet", "/part-?.parquet"])
def test_folders_and_globs_in_the_order_of_names(tmp_path, where):
    whole = table()
    for at in (2, 0, 1):
        pq.write_table(whole.slice(at * 300, 300), tmp_path / f"part-{at}.parquet")
    (tmp_path / "_SUCCESS.parquet").write_text("")
    (tmp_path / ".hidden.parquet").write_text("")
    (tmp_path / "readme.txt").write_text("")
    source = open_source(str(tmp_path) + where)
    assert [os.path.basename(path) for path in source.paths] == [f"part-{at}.parquet" for at in range(3)]
    assert read(source).equals(whole.slice(0, 900))


def test_a_file_whose_name_looks_like_a_glob(tmp_path):
    pq.write_table(table(), tmp_path / "t[1].parquet")
    assert open_source(str(tmp_path / "t[1].parquet")).rows == 1000


def test_urls(tmp_path):
    memory = fsspec.filesystem("memory")
    whole = table()
    with memory.open("/in/t.parquet", "wb") as out:
        pq.write_table(whole, out)
    with memory.open("/in/c.csv.gz", "wb") as out:
        out.write(gzip.compress(b"a,b\n1,x\n2,y\n"))
    assert read(open_source("memory://in/t.parquet")).equals(whole)
    assert read(open_source("memory://in/c.csv.gz")).to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    pq.write_table(whole, tmp_path / "t.parquet")
    assert read(open_source(f"file://{tmp_path}/t.parquet")).equals(whole)


def test_formats_known_by_content_where_name_says_nothing(tmp_path):
    pq.write_table(table(), tmp_path / "data")
    (tmp_path / "text").write_text("a,b\n1,2\n")
    (tmp_path / "other").write_bytes(b"\0\1\2" + CANARY.encode())
    assert open_source(str(tmp_path / "data")).units[0].format == "parquet"
    assert open_source(str(tmp_path / "text")).units[0].format == "csv"
    assert "neither Parquet nor CSV" in refused(open_source, str(tmp_path / "other"))


def test_bytes_pickle_and_identity(tmp_path):
    pq.write_table(table(), tmp_path / "t.parquet")
    source = open_source(str(tmp_path / "t.parquet"))
    again = from_bytes(to_bytes(source), [Source, Unit, CsvFormat])
    assert again == source == pickle.loads(pickle.dumps(source)) and again.identity() == source.identity()
    os.utime(tmp_path / "t.parquet", (1, 1))
    assert open_source(str(tmp_path / "t.parquet")).identity() != source.identity()


def write_csv(folder, text, name="t.csv"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(folder / name)


def test_csv_types_without_a_job_are_inferred(tmp_path):
    path = write_csv(tmp_path, "i,f,s,d,t,e\n1,1.5,x,2020-01-02,2020-01-02T10:00:00,\n2,NA,,2020-01-03,,\n")
    source = open_source(path)
    kinds = [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("ms"), pa.string()]
    assert source.schema.types == kinds
    assert read(source).to_pydict()["f"] == [1.5, None] and read(source).to_pydict()["s"] == ["x", None]


def test_csv_types_with_job_follow_its_kinds_and_whole_file(tmp_path):
    rows = 3000
    lines = [f"{n},{n},{n}.5,01,{n % 2},{'true' if n % 2 else 'false'},2020-01-01,A{n},{n},{n}" for n in range(rows)]
    lines[-1] = f"{rows},7,1,1,1,true,2020-01-01,A,late,"
    path = write_csv(tmp_path, "c,i,whole,zeros,code,truth,date,id,mixed,dropped\n" + "\n".join(lines) + "\n")
    columns = {
        "c": Column(kind="continuous"),
        "i": Column(kind="integer"),
        "whole": Column(kind="integer"),
        "zeros": Column(kind="categorical"),
        "code": Column(kind="binary", role="key"),
        "truth": Column(kind="binary"),
        "date": Column(kind="date"),
        "id": Column(kind="integer", role="identifier"),
        "mixed": Column(kind="categorical"),
        "dropped": Column(kind="integer", role="dropped"),
    }
    schema = open_source(path, columns).schema
    assert [str(kind) for kind in schema.types] == [
        "double", "int64", "double", "string", "int64", "bool", "date32[day]", "string", "string", "int64",
    ]  # fmt: skip
    changed = columns | {name: Column(role="dropped") for name in ("c", "zeros", "date", "mixed")}
    dropped = open_source(path, changed).schema  # as they were, so that records are known again; no value is an error
    assert [str(dropped.field(name).type) for name in ("zeros", "date", "mixed")] == ["string", "date32[day]", "string"]
    assert dropped.field("c").type in (pa.int64(), pa.float64())
    assert read(open_source(path, columns)).column("zeros").to_pylist()[:1] == ["01"]


def test_a_block_that_misleads_inference_is_mended(tmp_path, monkeypatch):
    monkeypatch.setattr("anonpipe.source._csv._BLOCK_BYTES", 1000)
    path = write_csv(tmp_path, "a,b\n" + "1,2\n" * 1000 + "x,2\n")
    source = open_source(path)
    assert source.schema.types == [pa.string(), pa.int64()] and source.rows == 1001
    assert read(source).column("a").to_pylist()[-1] == "x"


@pytest.mark.parametrize(("mark", "name"), [(";", "t.csv"), ("\t", "t.csv"), ("\t", "t.tsv")])
def test_delimiters(tmp_path, mark, name):
    path = write_csv(tmp_path, f"a{mark}b\n1{mark}x, y\n", name)
    assert read(open_source(path)).to_pydict() == {"a": [1], "b": ["x, y"]}


def test_csv_oddities_that_are_no_errors(tmp_path):
    text = b'\xef\xbb\xbf"a","b"\r\n1,"x\r\ny"\r\n\r\n2,"say ""hi"""\r\n'
    assert read(open_source(write_csv(tmp_path, text))).to_pydict() == {"a": [1, 2], "b": ["x\r\ny", 'say "hi"']}


def test_several_csv_files(tmp_path):
    write_csv(tmp_path, "a,b\n1,x\n", "1.csv")
    write_csv(tmp_path, "a,b\n2,y\n3,z\n", "2.csv")
    source = open_source(str(tmp_path))
    assert [unit.rows for unit in source.units] == [1, 2]
    assert read(source).to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    write_csv(tmp_path, f"b,a\n1,{CANARY}\n", "3.csv")
    assert "header differs" in refused(open_source, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a,b\n1,x\n2,{CANARY},3\n4,y\n5\n", r"2 lines have another number of fields than the header's 2.*line 3"),
        (f'a,b\n1,x\n2,"{CANARY}\n4,y\n', "double quotes is odd"),
        (f"a,b,a\n1,{CANARY},2\n", "column 3 "),
        (
            f"a,b\n1,x\n{CANARY},y\n,z\n{CANARY},z\n",
            "whole numbers and holds 2 rows of another form, the first is line 3;",
        ),
        (f'b,a\n"x\ny",007\n\n,NA\nz,{CANARY}\n', "holds 1 row of another form, the first is line 6;"),
        (f"a,b\n1,x\n2,{CANARY}".encode() + b"\xff\xfe\n", "line 3 holds bytes that are not UTF-8"),
        (f"a,b\n1,x\n2,{CANARY}".encode() + b",\xff\xfe\n", "line 3 holds bytes that are not UTF-8"),
        (f"a,\xe9\n1,{CANARY}\n".encode("latin-1"), "line 1 holds bytes that are not UTF-8"),
        (b"a,b\n1,x\n2,\xc3", "line 3 holds bytes that are not UTF-8"),
        ("a,b,on\n1,x,2020-02-28\n2,y,2021-02-29\n", "'on' is declared ISO dates .* and holds days that no month has;"),
        (f"{CANARY},x\n1,x\n", "none of the job's columns is in the header"),
        ("a,b\n", "no rows"),
        ("", "empty"),
        ("\n\n", "readable CSV"),
        (gzip.compress(f"a,b\n1,{CANARY}\n".encode() * 100)[:40], "readable CSV"),
    ],
    ids=range(15),
)
def test_csv_errors(tmp_path, text, message, capfd):
    columns = {"a": Column(kind="integer"), "b": Column(kind="categorical")}
    columns |= {"on": Column(kind="date")} if "a,b,on" in str(text) else {}
    found = refused(open_source, write_csv(tmp_path, text), columns)
    assert re.search(message, found), found
    assert "t.csv" in found and "\n" not in found
    assert capfd.readouterr() == ("", "")  # Arrow prints what it cannot decode


@pytest.mark.parametrize(
    ("kind", "good", "message"),
    [("continuous", "1.5", "numbers"), ("integer", "3", "whole numbers"), ("date", "2020-02-29", "ISO dates")],
)
def test_values_of_another_kind_are_counted_not_quoted(tmp_path, kind, good, message, monkeypatch):
    monkeypatch.setattr("anonpipe.source._csv._BLOCK_BYTES", 1000)
    path = write_csv(tmp_path, "a\n" + f"{good}\n" * 2000 + f"{CANARY}\n{good}\n{CANARY}\n")
    found = refused(open_source, path, {"a": Column(kind=kind)})
    assert f"declared {message}" in found and "2 rows of another form, the first is line 2,002" in found


def test_missing_and_forbidden(tmp_path):
    assert "does not exist" in refused(open_source, str(tmp_path / "none.parquet"))
    assert "matches no file" in refused(open_source, str(tmp_path / "*.parquet"))
    assert "matches no file" in refused(open_source, str(tmp_path))
    assert "no path or URL" in refused(open_source, "nosuch://bucket/x.parquet")
    write_csv(tmp_path, "a\n1\n", "a.csv")
    pq.write_table(table(), tmp_path / "b.parquet")
    assert "files of several formats" in refused(open_source, str(tmp_path))
    (tmp_path / "folder.parquet").mkdir()
    assert "is a folder" in refused(open_source, str(tmp_path / "*.parquet"))


def test_permission_denied(tmp_path, monkeypatch):
    path = write_csv(tmp_path, "a\n1\n")
    if os.geteuid() == 0:
        from fsspec.implementations.local import LocalFileSystem

        def denied(*_, **__):
            raise PermissionError(13, CANARY)

        monkeypatch.setattr(LocalFileSystem, "open", denied)
    else:
        os.chmod(path, 0)
    assert "permission denied" in refused(open_source, path)


def test_damaged_parquet(tmp_path):
    whole = pa.table({"x": [CANARY] * 1000, "y": np.random.default_rng(0).normal(size=1000)})
    path = tmp_path / "t.parquet"
    pq.write_table(whole, path, compression="zstd", write_page_checksum=True)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    assert "damaged" in refused(open_source, str(path))
    path.write_bytes(content[:2000] + bytes(byte ^ 255 for byte in content[2000:3000]) + content[3000:])
    source = open_source(str(path))
    assert "damaged" in refused(read_batches, source, source.units[0])
    path.write_bytes(b"PAR1")
    assert "damaged" in refused(open_source, str(path))
    path.write_bytes(b"")
    assert "empty" in refused(open_source, str(path))
    pq.write_table(whole.slice(0, 0), path)
    assert "no rows" in refused(open_source, str(path))


def test_input_that_changes_while_it_is_read(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(table(), path)
    source = open_source(str(path))
    pq.write_table(table(900), path)
    assert "changed while" in refused(read_batches, source, source.units[0])
    csv = write_csv(tmp_path, "a\n1\n2\n", "c.csv")
    source = open_source(csv)
    write_csv(tmp_path, "a\n1\n", "c.csv")
    assert "changed while" in refused(read_batches, source, source.units[0])


def test_schemas_that_differ(tmp_path):
    whole = table(10)
    pq.write_table(whole, tmp_path / "1.parquet")
    pq.write_table(whole.set_column(0, "age", whole["age"].cast(pa.int64())), tmp_path / "2.parquet")
    assert "'age' in different types (int64 and int16)" in refused(open_source, str(tmp_path))
    pq.write_table(whole.drop_columns(["a"]), tmp_path / "2.parquet")
    assert "same columns ('a')" in refused(open_source, str(tmp_path))
    pq.write_table(whole.select(["a", "age", "a.b"]), tmp_path / "2.parquet")
    assert "different order" in refused(open_source, str(tmp_path))


def test_duplicate_columns_in_parquet(tmp_path):
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), tmp_path / "t.parquet")
    assert "named 'x'" in refused(open_source, str(tmp_path / "t.parquet"))


@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        (pa.string(), Column(kind="continuous"), "needs numbers; convert"),
        (pa.bool_(), Column(kind="integer"), "declare kind: binary"),
        (pa.date32(), Column(kind="integer"), "declare kind: date"),
        (pa.int64(), Column(kind="date"), "needs dates"),
        (pa.list_(pa.int64()), Column(kind="categorical"), "nested values, which cannot be released"),
        (pa.binary(), Column(kind="categorical", role="key"), "binary, which cannot be released"),
        (pa.null(), Column(kind="categorical"), "role: dropped"),
        (pa.int64(), Column(kind="integer", step=0.5), "steps of 0.5"),
        (pa.decimal128(5, 1), Column(kind="continuous", step=0.25), "multiple of 0.1"),
        (pa.uint8(), Column(kind="integer", bounds=(300, None)), "widen bounds"),
        (pa.float64(), Column(kind="continuous", step=10, bounds=(1, 9)), "lower step"),
        (pa.string(), Column(kind="binary", levels=(True, False)), "quotes"),
        (pa.int8(), Column(kind="ordinal", levels=(1, 1000)), "do not fit its type"),
        (pa.int8(), Column(kind="binary", role="survival_status", event=("dead",)), "another type"),
        (pa.dictionary(pa.int8(), pa.string(), True), Column(kind="ordinal"), "declare levels"),
    ],
)
def test_kinds_that_do_not_fit_types(kind, column, message):
    found = refused(check_types, pa.schema([("x", kind)]), {"x": column})
    assert message in found and "'x'" in found


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.int8(), Column(kind="continuous")),
        (pa.float32(), Column(kind="integer")),
        (pa.decimal128(5, 2), Column(kind="continuous", step=0.05)),
        (pa.timestamp("us"), Column(kind="date", step=1 / 24)),
        (pa.dictionary(pa.int8(), pa.string(), True), Column(kind="ordinal", levels=("a", "b"))),
        (pa.date32(), Column(kind="categorical", levels=("2020-01-01",))),
        (pa.bool_(), Column(kind="binary", role="survival_status", event=(True,))),
        (pa.list_(pa.int64()), Column(kind="categorical", role="dropped")),
    ],
)
def test_kinds_that_fit(kind, column):
    check_types(pa.schema([("x", kind)]), {"x": column})


def test_columns_of_job_and_input_must_be_the_same():
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    found = refused(check_types, schema, {"x": Column(kind="integer"), "z": Column(kind="integer")})
    assert "'z', which the input does not have" in found and "'y', which the job does not name" in found


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("{n},{n}.5,name{t},2020-01-{d}", "7,8.25,{c},2020-02-03"),
        ("{n}.5,place{t}", ",place1"),
        ("name{t},place{t}", "name1,place2"),
        ("true,{n}", "false,12"),
        ("2020-01-{d},x", "2020-02-03,{c}"),
        ("place{t},{n},{n}", "place0,2019,2020"),
    ],
)
def test_a_first_line_of_values_is_no_header(tmp_path, line, names):
    """Its values would stand in the job, in messages and in the release."""
    rows = [line.format(n=3 * n, t=n % 3, d=10 + n % 18) for n in range(60)]
    path = write_csv(tmp_path, "\n".join([names.format(c=CANARY), *rows]) + "\n")
    found = refused(open_source, path, None)
    assert "looks like a row" in found and "header" in found


@pytest.mark.parametrize(
    ("line", "names"),
    [("{n},{n}", "age,2020"), ("name{t},place{t}", "name1,place"), ("{n},yes", "n,yes"), ("x,x", "true,false")],
)
def test_names_that_only_resemble_values_are_names(tmp_path, line, names):
    rows = [line.format(n=3 * n, t=n % 3) for n in range(60)]
    source = open_source(write_csv(tmp_path, "\n".join([names, *rows]) + "\n"), None)
    assert source.schema.names == names.split(",")


@pytest.mark.parametrize("name", ["none.csv", "below/none.parquet", "*.csv", "none.sql"])
def test_relative_path_is_told_with_its_starting_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert f"in {tmp_path}, where this command was started" in refused(found_format, name)
    assert "where this command" not in refused(found_format, f"{tmp_path}/{name}")
