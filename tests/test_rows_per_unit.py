"""Where nobody says whose rows they are: tables with several rows a person are refused, or k is said to count rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.errors import InputError
from anonpipe.pipeline.preview import preview
from anonpipe.storage import release
from tests import small

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)

COLUMNS = {**small.COLUMNS, "person": {"role": "identifier"}, "row": {"role": "identifier"}}


def _table(rows_each=3, rows=300):
    persons = pa.array([f"{small.CANARY} {at // rows_each}" for at in range(rows)])
    return small.plain_table(rows).append_column("person", persons).append_column("row", pa.array(np.arange(rows)))


def test_several_rows_of_person_refused_by_run_plan_notebook(tmp_path):
    job = small.job(tmp_path, _table(), COLUMNS)
    for way in (lambda: small.run(job), lambda: preview(job), lambda: anonymize(_table(), job)):
        with pytest.raises(
            InputError, match=r"300 rows with a value hold 100 distinct identifiers.*has 3 rows"
        ) as seen:
            way()
        assert small.CANARY not in str(seen.value) and "'row'" not in str(seen.value)
        assert small.stagings() == []


def test_one_row_a_person_passes_and_says_nothing_of_units(tmp_path):
    job = small.job(tmp_path, _table(1), COLUMNS)
    warnings = preview(job).warnings
    outcome = small.run(job)
    assert outcome.verdict.passed
    assert not any("counts rows" in text for text in (*warnings, *outcome.warnings, *outcome.verdict.notes))
    assert small.released(job).column_names == list(small.COLUMNS)


def test_many_rows_a_unit_told_in_verdict_plan_and_reports(tmp_path):
    job = small.job(tmp_path, _table(), COLUMNS, rows_per_unit="many")
    assert any("k=5 counts rows, not persons" in line for line in preview(job).lines())
    outcome = small.run(job)
    assert outcome.verdict.passed and any("100 distinct identifiers" in warning for warning in outcome.warnings)
    assert any("k=5 counts rows, not persons" in note for note in outcome.verdict.notes)
    where = release.resolve(job.output)
    released = where.filesystem.cat_file(where.path("_report.html")).decode()
    for page in (open(outcome.report).read(), released):
        assert "k=5 counts rows, not persons" in page and "groups of at least 5 persons" not in page
    assert "100 distinct" not in released
    assert json.loads(where.filesystem.cat_file(where.path("_manifest.json")))["rows_per_unit"] == "many"


def test_saying_so_draws_no_other_noise(tmp_path):
    one, many = (small.job(tmp_path, _table(), COLUMNS, rows_per_unit=units) for units in ("one", "many"))
    assert one.digest() == many.digest()


def test_repeating_rows_without_identifier_are_warned_of(tmp_path):
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(50), 12)
    table = {name: rng.normal(size=50)[unit] for name in "abcd"} | {name: rng.normal(size=600) for name in "xy"}
    job = small.job(tmp_path, pa.table(table), {name: {"kind": "continuous"} for name in table}, gates={"mean": 9})
    assert any("agree with another one in more than half" in warning for warning in small.run(job).warnings)
