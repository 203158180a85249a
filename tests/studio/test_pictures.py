"""Pictures of columns: no bar stands for fewer than k units, and none shows a value."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("starlette")

from anonpipe_studio.pictures import first_rows, pictures

from tests import small


def content(folder: Path, table: pa.Table, **roles: str):
    columns = {name: {"kind": "categorical", "role": roles.get(name, "masked")} for name in table.column_names}
    return {"input": small.write_table(folder, table), "k": 5, "columns": columns}


def bars(drawn, name: str) -> tuple[int, int]:
    """Bars of categories, and those of rare ones."""
    svg = str(drawn.by_column[name][0])
    return svg.count('class="original"'), svg.count('class="baseline"')


def test_rare_categories_are_joined(tmp_path):
    values = ["a"] * 60 + ["b"] * 30 + ["c"] * 5 + ["d"] * 3 + ["canaryvalue"] * 2
    drawn = pictures(content(tmp_path, pa.table({"x": values})))
    assert bars(drawn, "x") == (3, 1) and drawn.by_column["x"][1] == "5 categories"
    assert "canaryvalue" not in str(drawn)
    few = pictures(content(tmp_path / "few", pa.table({"x": values[-9:] * 2 + ["e"]})))
    assert bars(few, "x")[0] + bars(few, "x")[1] <= 3


@pytest.mark.parametrize("role", ["unit", "identifier"])
def test_bars_hold_k_units_of_several_rows(tmp_path, role):
    unit = np.repeat(np.arange(30), 10)
    place = np.where(unit < 4, "rare", np.where(unit < 15, "north", "south"))  # 40 rows, of 4 units
    table = pa.table({"who": unit, "place": place})
    assert bars(pictures(content(tmp_path, table)), "place") == (3, 0)
    drawn = pictures(content(tmp_path / "units", table, who=role))
    assert bars(drawn, "place") == (1, 1)
    assert drawn.by_column["who"] == ("", "not released")


def test_numbers_have_round_ends(tmp_path):
    rng = np.random.default_rng(1)
    values = np.append(rng.normal(50, 10, 5_000), [8_373_461.25, -555_123.75])
    drawn = pictures(content(tmp_path, pa.table({"x": values})))
    ends = [float(each) for each in re.findall(r"<text[^>]*>([^<]+)</text>", str(drawn.by_column["x"][0]))]
    assert len(ends) == 2 and 15 < ends[0] < ends[1] < 85 and all(end == round(end) for end in ends)


def test_a_changed_file_is_drawn_again(tmp_path):
    given = content(tmp_path, pa.table({"x": ["a", "b"] * 50}))
    assert bars(pictures(given), "x") == (2, 0) and pictures(given) is pictures(given)
    small.write_table(tmp_path, pa.table({"x": ["a", "b", "c", "d"] * 50}))
    assert bars(pictures(given), "x") == (4, 0)
    names, rows = first_rows(given, 3)
    assert names == ["x"] and rows == [["a"], ["b"], ["c"]]
