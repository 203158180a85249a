"""The same records give the same release, in whatever order, files and widths they come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from anonpipe.columns import Column
from anonpipe.errors import InputError
from anonpipe.job.model import parse_job
from anonpipe.source import open_source
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

ROWS = 1_100
COLUMNS = {
    "weight": {"kind": "continuous", "bounds": [None, None]},
    "age": {"kind": "integer", "bounds": [0, 120]},
    "seen": {"kind": "date"},
    "place": {"kind": "categorical"},
    "status": {"kind": "binary", "role": "key"},
    "name": {"role": "identifier"},
}
SCORED = {name: given | {"transform": "normal_scores"} for name, given in list(COLUMNS.items())[:3]}
ROADS = {
    "groups": {"partition": {"rows": 1000, "sample_rows": 400}, "cluster": {"method": "mdav", "block_rows": 100}},
    "mask": {"mask": {"method": "spectral_swap"}, "partition": {"rows": 1000, "sample_rows": 400}},
    "scores": {"columns": COLUMNS | SCORED, "strata": {"by": ["status"]}, "partition": {"rows": 1000}},
    "hold-out": {
        "measure": {"utility": False, "risk": True, "hold_out": 0.1, "queries": 50, "rows": 100},
        "gates": {"reidentification_rate": None, "membership_auc": None},
    },
}


def table():
    """Some rows are there twice, numbers have the digits of a float32, and every column has ties or nulls."""
    rng = np.random.default_rng(5)
    weight = rng.normal(70, 12, ROWS).astype(np.float32).astype(np.float64)
    whole = pa.table(
        {
            "weight": pa.array(weight, mask=rng.random(ROWS) < 0.05),
            "age": rng.integers(18, 90, ROWS),
            "seen": pa.array(rng.integers(9000, 9900, ROWS).astype(np.int32)).cast(pa.date32()),
            "place": rng.choice(["north", "south", "east"], ROWS),
            "status": rng.choice(["ill", "well"], ROWS),
            "name": [f"n{at}" for at in range(ROWS)],
        }
    )
    twice = pa.concat_tables([whole.slice(0, ROWS - 40), whole.slice(0, 40)])
    return twice.set_column(5, "name", whole["name"])


def shuffled(whole):
    return whole.take(np.random.default_rng(1).permutation(len(whole)))


def narrow(whole):
    kinds = {"weight": pa.float32(), "age": pa.int32(), "place": pa.large_string()}
    fields = [pa.field(field.name, kinds.get(field.name, field.type)) for field in whole.schema]
    return shuffled(whole).cast(pa.schema(fields))


def in_files(folder, whole):
    """The same rows in several files of small row groups."""
    folder.mkdir()
    for at, begin in enumerate(range(0, ROWS, 450)):
        pq.write_table(whole.slice(begin, 450), folder / f"{at}.parquet", row_group_size=97)
    return str(folder)


def as_csv(path, whole):
    pcsv.write_csv(shuffled(whole), path)
    return str(path)


def rows(job):
    """The released rows, in an order of their own."""
    found = small.released(job).to_pandas()
    found["weight"] = found["weight"].astype(np.float32)
    found["age"] = found["age"].astype(np.int64)
    return found[list(COLUMNS)[:-1]].sort_values(list(COLUMNS)[:-1], ignore_index=True)


def columns_of(data):
    """The columns of an input in their order."""
    return open_source(data, {name: Column(**given) for name, given in COLUMNS.items()}).schema.names


@pytest.mark.parametrize("road", ROADS)
def test_order_files_and_widths_do_not_show_in_the_release(tmp_path, road):
    whole = table()
    inputs: dict[str, str] = {
        "plain": small.write_table(tmp_path, whole),
        "narrow": small.write_table(tmp_path, narrow(whole).select(whole.column_names[::-1]), "narrow.parquet"),
        "files": in_files(tmp_path / "files", whole),
    }
    if road == "groups":  # what is read of a text is the same for all
        inputs["csv"] = as_csv(tmp_path / "table.csv", whole)
    found = {}
    for name, data in inputs.items():
        given = {"gates": {"mean": 1, "covariance": 1, "category_share": 1, "covariance_with_keys": 1}}
        job = parse_job(
            small.content(tmp_path / name, data, **({"columns": COLUMNS, "repeat": {}} | given | ROADS[road]))
        )
        try:
            assert small.run(job).version is not None
        except InputError as error:
            assert road == "hold-out" and name == "files" and "its hold-out" in str(error)
            continue  # of a row that two files hold another copy is held out: not another release in silence
        assert small.released(job).column_names == [each for each in columns_of(data) if each != "name"]
        found[name] = rows(job)
        assert found[name].equals(found["plain"]), name
