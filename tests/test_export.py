"""A release in other forms: CSV, and Parquet in folders."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.dataset as ds
import pytest

from anonpipe.source import open_source, read_batches
from anonpipe.storage import release
from tests import runs, small

COLUMNS = small.COLUMNS | {
    "region": {"kind": "categorical", "role": "key"},
    "sex": {"kind": "binary", "role": "key"},
    "seen": {"kind": "date"},
    "midnight": {"kind": "date"},
    "hours": {"kind": "date", "step": 0.5},
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A release of all types: nulls, a category that must be quoted, dates, a dictionary."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(1)
    table = small.plain_table(2_400)
    place = pc.replace_substring(table["place"], "south", 'so, "u"th')
    table = table.set_column(2, "place", pa.array(place.to_pylist(), mask=rng.random(2_400) < 0.2))
    regions = pa.array([["Ely", "York", None][at] for at in np.repeat([0, 1, 2], [1_200, 800, 400])])
    table = table.append_column("region", regions.dictionary_encode()).append_column(
        "sex", pa.array([True, False] * 1_200)
    )
    days = pa.array(rng.integers(10_000, 20_000, 2_400), pa.int32()).cast(pa.date32())
    hours = pa.array(rng.integers(240_000, 480_000, 2_400) * 3_600, pa.int64()).cast(pa.timestamp("s"))
    for name, values in (("seen", days), ("midnight", days.cast(pa.timestamp("us"))), ("hours", hours)):
        table = table.append_column(name, values)
    with small.private_home(folder, runs.SECRET):
        job = small.job(folder, table, COLUMNS, release={"file_rows": 1_000})
        assert small.run(job).version is not None
    return job


def plainly(table):
    """Without dictionaries."""
    kinds = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))


def rows_of(table):
    """Its rows in an order of their own."""
    return sorted(map(repr, plainly(table).select(sorted(table.schema.names)).to_pylist()))


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
def test_a_csv_holds_the_very_values(name, published, tmp_path, call):
    told = call("export", published.output, tmp_path / name)
    assert told.code == 0 and told.out.startswith(f"2,400 rows in 1 file: {tmp_path / name}\nsignature not checked")
    source = open_source(str(tmp_path / name), published.columns)
    read = pa.Table.from_batches([batch for unit in source.units for _, batch in read_batches(source, unit)])
    whole = plainly(small.released(published))
    assert read.schema.names == whole.schema.names
    assert read.cast(whole.schema).equals(whole), "the same rows in the same order"


def test_nulls_and_empty_texts_are_told_apart(published, tmp_path, call):
    call("export", published.output, tmp_path / "data.csv")
    options = pcsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    read = pcsv.read_csv(tmp_path / "data.csv", convert_options=options)
    assert read["place"].null_count == small.released(published)["place"].null_count > 0


def test_timestamps_of_whole_days_are_dates(published, tmp_path, call):
    call("export", published.output, tmp_path / "data.csv")
    read = pcsv.read_csv(tmp_path / "data.csv")
    assert read["midnight"].type == read["seen"].type == pa.date32() and pa.types.is_timestamp(read["hours"].type)


def test_folders_hold_what_their_names_say(published, tmp_path, call):
    told = call("export", published.output, tmp_path / "by", "--by", "region, sex", "--json")
    shown = json.loads(told.out)
    assert told.code == 0 and shown["rows"] == 2_400 and shown["files"] == 6
    read = ds.dataset(tmp_path / "by", partitioning=ds.HivePartitioning.discover(infer_dictionary=False)).to_table()
    sex = pc.equal(read["sex"], "true").combine_chunks()
    read = read.set_column(read.schema.get_field_index("sex"), "sex", sex)
    assert rows_of(read) == rows_of(small.released(published))
    again = open_source(str(tmp_path / "by"))
    assert again.rows == 2_400 and again.keys == ("region", "sex")
    assert [path.name for path in tmp_path.iterdir()] == ["by"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["out.ods"], "ends in .csv, .csv.gz, .xlsx, .dta or .sav"),
        (["there.csv"], "exists already"),
        (["nowhere/data.csv"], "does not exist"),
        (["by", "--by", "age"], "'age' is not released unchanged, which --by needs; use one of: region, sex"),
        (["by", "--by", "sex,sex"], "a column twice"),
    ],
)
def test_what_cannot_be_exported(arguments, words, published, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("")
    told = call("export", published.output, *arguments)
    assert told.code == 2 and words in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]


def test_folders_of_fewer_than_k_records_are_refused(published, tmp_path):
    from anonpipe.errors import InputError
    from anonpipe.export import export_folders

    where = release.resolve(published.output)
    manifest = release.read_manifest(where)
    with pytest.raises(InputError, match="2 of 6 folders would hold fewer than k = 300 records"):
        export_folders(where, manifest | {"k": 300}, tmp_path / "by", ["region", "sex"])
    with pytest.raises(InputError, match="folder sizes cannot be checked"):
        export_folders(where, manifest | {"k_counts": "units of several rows"}, tmp_path / "by", ["sex"])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_release_is_not_exported(published, tmp_path, call):
    shutil.copytree(release.resolve(published.output).root, tmp_path / "copy")
    with open(tmp_path / "copy" / "part-00000.parquet", "r+b") as file:
        file.seek(100)
        file.write(b"x")
    told = call("export", tmp_path / "copy", tmp_path / "data.csv")
    assert told.code == 2 and "SHA-256 differs" in told.err and not (tmp_path / "data.csv").exists()


def released_places(folder, *places):
    """The output of a job whose places are these."""
    table = small.plain_table(300)
    job = small.job(folder, table.set_column(2, "place", pa.array([*places] * 100)))
    assert small.run(job).version is not None
    return job.output


@pytest.mark.secret(runs.SECRET)
def test_texts_that_look_like_nulls_are_told(tmp_path, call):
    told = call("export", released_places(tmp_path, "NA", "north", "south"), tmp_path / "data.csv", "--quiet")
    assert told.out == f"{tmp_path / 'data.csv'}\n"
    assert "'place': many CSV readers take texts such as NA" in " ".join(told.err.split())


@pytest.mark.secret(runs.SECRET)
def test_texts_that_a_spreadsheet_would_run_are_refused(tmp_path, call):
    output = released_places(tmp_path, "=1+1", "-9", "+cmd|x")
    told = call("export", output, tmp_path / "data.csv")
    said = " ".join(told.err.split())
    assert told.code == 2 and "column 'place'" in said and "--quote-formulas" in said and "=1+1" not in said
    assert not (tmp_path / "data.csv").exists()
    assert call("export", output, tmp_path / "data.csv", "--quote-formulas").code == 0
    values = set(pcsv.read_csv(tmp_path / "data.csv")["place"].to_pylist())
    assert values == {"'=1+1", "-9", "'+cmd|x"}
