"""A release is read by pandas and polars in the types in which its original is read, and no more than types is told."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.encoding.values import nullable_types, with_nullable_types
from anonpipe.storage import release
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

ROWS = 2437
LOOSE = {name: 1e9 for name in ("mean", "covariance")} | {"category_share": 1.0, "null_share": 1.0}
COLUMNS = {
    "visits": {"kind": "integer"},
    "level": {"kind": "continuous"},
    "smokes": {"kind": "binary"},
    "place": {"kind": "categorical"},
    "stage": {"kind": "ordinal", "levels": ["low", "middle", "high"]},
    "seen": {"kind": "date"},
    "beds": {"kind": "integer"},
    "plain": {"kind": "integer"},
    "group": {"kind": "categorical"},
    "canary_dropped": {"role": "dropped"},
}


def frame() -> pd.DataFrame:
    """Every nullable kind of column with nulls, under an index of values and with attributes."""
    rng = np.random.default_rng(4)
    holes = rng.random(ROWS) < 0.2
    when = pd.Series(pd.Timestamp("2021-03-01", tz="Europe/Berlin") + pd.to_timedelta(rng.integers(0, 900, ROWS), "D"))
    made = pd.DataFrame(
        {
            "visits": pd.array(rng.integers(0, 30, ROWS), "Int64"),
            "level": pd.array(rng.normal(size=ROWS), "Float32"),
            "smokes": pd.array(rng.random(ROWS) < 0.4, "boolean"),
            "place": pd.array(rng.choice(["north", "south"], ROWS), "string"),
            "stage": pd.Categorical.from_codes(rng.integers(0, 3, ROWS), ["low", "middle", "high"], ordered=True),
            "seen": when,
            "beds": pd.array(rng.integers(1, 9, ROWS), "uint8[pyarrow]"),
            "plain": rng.integers(0, 90, ROWS).astype("int16"),
            "group": pd.Categorical(rng.choice(["a", "b", "c"], ROWS)),
            "canary_dropped": pd.array(rng.integers(0, 9, ROWS), "Int8"),
        }
    )
    made.loc[holes, ["visits", "smokes", "place", "beds"]] = pd.NA
    made.index = pd.Index([f"{small.CANARY}-{at}" for at in range(ROWS)], name="canary_index")
    made.attrs["canary_attribute"] = small.CANARY
    return made


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pandas")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANONPIPE_HOME", str(folder / "home"))
        patch.setenv("ANONPIPE_STAGING", str(folder / "staging"))
        patch.setattr("anonpipe.rng.FEWEST_BYTES", 1)
        path = folder / "data.parquet"
        frame().to_parquet(path)
        columns = COLUMNS | {"canary_index": {"role": "identifier"}}
        job = small.job(folder, str(path), columns, gates=LOOSE, release={"file_rows": 1000, "row_group_rows": 1000})
        assert small.run(job).version is not None
        where = release.resolve(job.output)
        files = [where.path(entry["name"]) for entry in release.read_manifest(where)["files"]]
    assert len(files) > 1
    return path, files


def test_pandas_reads_the_types_of_the_original(published):
    path, files = published
    wanted = pd.read_parquet(path).reset_index(drop=True)[[name for name in COLUMNS if "canary" not in name]]
    for given in (files[0], files):
        made = pd.read_parquet(given)
        assert made.dtypes.astype(str).to_dict() == wanted.dtypes.astype(str).to_dict()
        assert made["stage"].dtype == wanted["stage"].dtype and made["stage"].dtype.ordered
        assert isinstance(made.index, pd.RangeIndex) and made.index[0] == 0 and len(made.index) == len(made)
        assert list(made) == list(wanted)
    assert len(made) == ROWS and made["visits"].dtype == "Int64" and made["visits"].isna().sum() > 0


def test_polars_reads_the_types_of_the_original(published):
    pl = pytest.importorskip("polars")
    path, files = published
    wanted = pl.read_parquet(path).schema
    made = pl.read_parquet(files).schema
    assert made == {name: wanted[name] for name in made} and list(made) == [n for n in COLUMNS if "canary" not in n]


def test_nothing_else_of_the_metadata_is_released(published):
    """Neither names of columns that are not released nor values of the index, counts of the original or attributes."""
    path, files = published
    given = pq.read_schema(path).metadata[b"pandas"].decode()
    assert small.CANARY in given and "canary_index" in given and "canary_dropped" in given  # the attack can be seen
    for file in files:
        with open(file, "rb") as handle:
            content = handle.read()
        assert b"canary" not in content.lower()
        (told,) = pq.read_schema(file).metadata.values()
        made = json.loads(told)
        assert made["index_columns"] == [] and str(ROWS) not in told.decode() and "num_categories" not in told.decode()
        names = [each["name"] for each in made["columns"]]
        assert names == [name for name in COLUMNS if "canary" not in name]
        assert made.get("attributes", {}) == {} and [each["metadata"] for each in made["columns"]] == [
            {"timezone": "Europe/Berlin"} if name == "seen" else None for name in names
        ]


def test_a_type_that_does_not_fit_is_not_taken():
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("d", pa.dictionary(pa.int8(), pa.string()))])

    def told(**types):
        entries = [{"name": name, "field_name": name, "numpy_type": kind} for name, kind in types.items()]
        return nullable_types(schema.with_metadata({b"pandas": json.dumps({"columns": entries}).encode()}))

    assert told(n="Int64", s="string") == {"n": "Int64", "s": "string"}
    assert told(n="Int8", s=small.CANARY, d="string", other="Int64") == {}
    for content in (b"", b"[]", b"{", b'{"columns": 3}', b'{"columns": [{"field_name": []}]}', b"[" * 100_000):
        assert nullable_types(schema.with_metadata({b"pandas": content})) == {}
    assert with_nullable_types(schema, {"n": "object", "d": "string"}).metadata is None


def test_files_that_do_not_agree_have_no_such_type(tmp_path):
    from anonpipe.source import open_source

    numbers = pd.DataFrame({"n": [1, 2], "m": [3, 4]})
    numbers.astype("Int64").to_parquet(tmp_path / "a.parquet")
    numbers.astype({"m": "Int64"}).to_parquet(tmp_path / "b.parquet")
    assert open_source(str(tmp_path)).pandas_types == {"m": "Int64"}
