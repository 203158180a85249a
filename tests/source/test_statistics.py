"""Files of SPSS, Stata and SAS as input, written by pyreadstat."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe.errors import InputError
from anonpipe.source import _statistics, open_source, read_batches
from tests import runs, small

pytestmark = pytest.mark.secret(runs.SECRET)

pyreadstat = pytest.importorskip("pyreadstat")

CANARY = "canary4711"
DAYS = [datetime.date(2020, 1, 31), None, datetime.date(1950, 5, 5)] * 20
LABELS = {"sex": {1: "male", 2: "female"}, "age": {98: "not known"}}
FRAME = pd.DataFrame(
    {
        "sex": [1.0, 2.0, np.nan] * 20,
        "age": [30.0, 98.0, 41.5] * 20,
        "place": ["Ely", "", "Zürich"] * 20,
        "born": DAYS,
        "count": np.arange(60),
    }
)


def written(folder, suffix, frame=FRAME, name="data", **given):
    """The frame as a file of one of the programs."""
    path = str(folder / f"{name}.{suffix}")
    labels = {column: told for column, told in LABELS.items() if column in frame}
    if suffix == "sav":
        pyreadstat.write_sav(frame, path, variable_value_labels=labels, **given)
    elif suffix == "dta":
        whole = {name: column.astype("Int64") for name, column in frame.items() if name == "sex"}
        sex = {"sex": LABELS["sex"]} if "sex" in frame else {}
        pyreadstat.write_dta(frame.assign(**whole), path, variable_value_labels=sex)
    else:
        pyreadstat.write_xport(frame, path, file_format_version=8)
    return path


def read(source, columns=None, rows=65_536):
    """All rows, and where each batch begins."""
    found = [each for unit in source.units for each in read_batches(source, unit, columns, rows)]
    return pa.Table.from_batches([batch for _, batch in found]), [first for first, _ in found]


@pytest.mark.parametrize("suffix", ["sav", "dta", "xpt"])
@pytest.mark.parametrize("cells", [4_000_000, 35])
def test_values_types_labels_and_nulls(suffix, cells, tmp_path, monkeypatch):
    monkeypatch.setattr(_statistics, "_CELLS", cells)
    source = open_source(written(tmp_path, suffix))
    assert source.rows == 60 and len(source.units) == 1
    table, firsts = read(source)
    assert firsts == list(range(0, 60, 60 if cells > 300 else 7))
    sex = [1.0, 2.0, None] if suffix == "xpt" else ["male", "female", None]
    assert table["sex"].to_pylist() == sex * 20
    assert table["age"].to_pylist() == [30.0, 98.0, 41.5] * 20, "some values without a label: numbers stay"
    assert table["place"].to_pylist() == ["Ely", None, "Zürich"] * 20
    assert table["born"].to_pylist() == DAYS and table["born"].type == pa.date32()
    assert table["count"].to_pylist() == list(range(60))
    some, firsts = read(source, ["count", "sex"], 10)
    assert some.equals(table.select(["sex", "count"])) and max(np.diff(firsts)) <= 10


def test_declared_missing_values_are_nulls(tmp_path):
    source = open_source(written(tmp_path, "sav", missing_ranges={"age": [98]}))
    assert read(source)[0]["age"].to_pylist() == [30.0, None, 41.5] * 20


def test_labels_that_two_values_share_stay_numbers(tmp_path, monkeypatch):
    monkeypatch.setitem(LABELS, "sex", {1: "person", 2: "person"})
    assert read(open_source(written(tmp_path, "sav")))[0]["sex"].to_pylist() == [1.0, 2.0, None] * 20


def test_several_files_are_one_table(tmp_path):
    for at in range(2):
        written(tmp_path, "dta", FRAME.iloc[30 * at : 30 * at + 30], f"part-{at}")
    source = open_source(str(tmp_path))
    assert [unit.first_row for unit in source.units] == [0, 30]
    assert read(source)[0]["count"].to_pylist() == list(range(60))
    written(tmp_path, "dta", FRAME.drop(columns="born"), "part-2")
    with pytest.raises(InputError, match="do not have the same columns"):
        open_source(str(tmp_path))
    (tmp_path / "part-3.csv").write_text("sex\n1\n")
    with pytest.raises(InputError, match="several formats"):
        open_source(str(tmp_path))


ODD = ["daily wage", "daily.wage", "1st", "with", "Age", "age", "größe", "x" * 40, "x" * 40 + "y", "%", "_n", "plain"]


@pytest.mark.parametrize(("suffix", "read"), [(".sav", pyreadstat.read_sav), (".dta", pyreadstat.read_dta)])
def test_names_that_a_program_lacks_are_changed(tmp_path, capsys, monkeypatch, suffix, read):
    """Those that it takes stay; the others have _ and numbers, their old name is the label, and all are told apart."""
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.normal(size=60).round(2) for name in ODD})
    job = small.job(tmp_path, table, {name: {"kind": "continuous"} for name in ODD})
    small.run(job)
    target = tmp_path / f"out{suffix}"
    call = small.commands(capsys, monkeypatch)
    code, _, err = call("export", job.output, str(target))
    assert code == 0 and "'daily wage' is daily_wage" in " ".join(err.split())
    found, about = read(str(target))
    assert len({name.lower() if suffix == ".sav" else name for name in found}) == len(ODD)
    assert all(re.fullmatch(r"[^\W\d]\w*", name) and len(name) <= (64 if suffix == ".sav" else 32) for name in found)
    released = small.released(job)
    for name, new in zip(ODD, found, strict=True):
        assert found[new].tolist() == released[name].to_pylist()
        assert about.column_names_to_labels[new] == (name if name != new else about.column_names_to_labels[new])
        assert name != "plain" or new == "plain"
    assert list(found)[:4] == ["daily_wage", "daily_wage_2", "v_1st", "v_with"]


def test_spss_release_equals_parquet_and_keeps_its_labels(tmp_path, capsys, monkeypatch):
    table = small.plain_table(400)
    places = ["Rare", "Rare", *table["place"].to_pylist()[2:]]
    table = table.set_column(2, "place", pa.array(places)).append_column("born", pa.array([DAYS[0], DAYS[2]] * 200))
    codes = {place: at + 7 for at, place in enumerate(dict.fromkeys(places)) if place is not None}
    coded = table.to_pandas().assign(place=[codes.get(place) for place in places])
    path, labels = tmp_path / "data.sav", {"place": {code: place for place, code in codes.items()}}
    pyreadstat.write_sav(coded, str(path), variable_value_labels=labels, column_labels={"place": "Place of birth"})
    columns = small.COLUMNS | {"born": {"kind": "date"}}
    jobs = [small.job(tmp_path / "one", table, columns), small.job(tmp_path / "two", str(path), columns)]
    for job in jobs:
        assert small.run(job).version is not None
    first, second = (small.released(job) for job in jobs)
    assert second.cast(first.schema).equals(first)
    told = json.loads((Path(jobs[1].output) / "release" / "_manifest.json").read_text())["columns"]["place"]
    kept = {place: code for place, code in codes.items() if place != "Rare"}
    assert (told["label"], told["codes"]) == ("Place of birth", kept)
    assert "Rare" not in json.dumps(told), "what is suppressed is not named either"
    call = small.commands(capsys, monkeypatch)
    for suffix, read_back in ((".sav", pyreadstat.read_sav), (".dta", pyreadstat.read_dta)):
        target = str(tmp_path / f"released{suffix}")
        assert call("export", jobs[1].output, target)[0] == 0
        found, about = read_back(target, apply_value_formats=True)
        assert about.column_names_to_labels["place"] == "Place of birth"
        assert about.variable_value_labels["place"] == {code: place for place, code in kept.items()}
        assert [place if place == place else None for place in found["place"]] == second["place"].to_pylist()
        assert found["born"].to_list() == second["born"].to_pylist()
        assert found["age"].to_list() == second["age"].to_pylist()


def test_what_cannot_be_read_is_one_clear_error(tmp_path, monkeypatch):
    path = tmp_path / "data.sav"
    path.write_bytes(f"$FL2{CANARY}".encode() * 10)
    with pytest.raises(InputError, match="no readable file of SPSS, Stata or SAS") as caught:
        open_source(str(path))
    assert CANARY not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(InputError, match="copy it to this machine"):
        _statistics.open_statistics([_statistics.File("memory://data.sav", 1, "", "statistics")])
    changed = open_source(written(tmp_path, "sav"))
    written(tmp_path, "sav", FRAME.iloc[:20])
    with pytest.raises(InputError, match="changed while"):
        read(changed)
    monkeypatch.setattr("anonpipe.files.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"not installed: pip install 'anonpipe\[statistics\]'"):
        open_source(written(tmp_path, "sav"))
