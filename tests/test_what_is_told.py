"""What a steward is told without asking: urgent warnings on the screen, and by a plan whatever its run will say."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from anonpipe import display
from anonpipe.errors import InputError
from anonpipe.job.model import parse_job
from anonpipe.pipeline.preview import MASKED_ROWS, preview
from anonpipe.storage import release
from anonpipe.verify.catalogue import MEASURED
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

NUMBER = {"kind": "continuous"}
LOOSE = {"mean": 1.0, "covariance": 1.0, "unchanged_record_rate": 1.0, "mean_in_unit": 1e9, "variance_in_unit": 1e9}
GROUPS = {"cluster": {"method": "mdav"}, "synthesize": {"method": "gaussian"}}


def related(rows: int = 600) -> pa.Table:
    """Two days and the stay between them, which no mask keeps."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 9_000, rows)
    return pa.table({"first": first, "last": first + rng.poisson(3, rows), "age": rng.integers(18, 90, rows)})


def shown(outcome, capsys, **how) -> list[str]:
    display.show_outcome(outcome, display.Form.TABLES, **how)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(display, "out", display.Console(highlight=False, width=80))


def test_columns_not_to_be_related_are_named_on_the_screen(tmp_path, capsys, plain):
    columns = {name: {"kind": "integer"} for name in ("first", "last", "age")}
    outcome = small.run(small.job(tmp_path, related(), columns, gates=LOOSE, measure={"risk": False}))
    assert outcome.version and any("must not relate columns 'first' and 'last'" in each for each in outcome.urgent)
    lines = shown(outcome, capsys)
    text = " ".join(line.strip() for line in lines)
    assert "warning recipients must not relate columns 'first' and 'last'" in " ".join(text.split())
    assert len(lines) <= 20 and max(map(len, lines[:-3])) <= 80
    assert set(outcome.urgent) <= set(outcome.warnings)
    where = release.resolve(str(tmp_path / "out"))
    told, recognized = release.read_manifest(where)["not_kept"]
    assert recognized.startswith("Recipients can use single columns")
    assert told.startswith("Recipients must not relate columns 'first' and 'last'") and "times" not in told
    assert told in outcome.for_recipients.not_guaranteed
    rest = len(outcome.warnings) - min(len(outcome.urgent), display.MOST_WARNINGS)
    assert (f"{rest} more warning" in lines[-1]) == (rest > 0)


def test_warnings_take_three_lines_and_no_more(tmp_path, capsys, plain):
    """Of six long ones three are shown, a line each; of a single one three lines."""
    outcome = small.run(small.job(tmp_path, small.plain_table(300), gates=LOOSE, measure=small.OFF))
    warnings = [f"{at} {'recipients must not ' * 20}" for at in range(6)]
    for many, starts in ((6, 3), (2, 2), (1, 1), (0, 0)):
        told = type(outcome)(**vars(outcome) | {"warnings": (*warnings, "no bounds"), "urgent": tuple(warnings[:many])})
        lines = shown(told, capsys)
        first = [at for at, line in enumerate(lines) if line.startswith("warning  ")]
        assert len(first) == starts and max(map(len, lines[:-3])) <= 80
        own = [line for line in lines[first[0] :] if line.startswith(("warning  ", "         "))] if first else []
        assert len(own) == (3 if many else 0) and all("\u2026" in line for line in own[-1:])
        assert f"{7 - starts} {'more ' if many else ''}warning" in lines[-1]
    assert not any(line.startswith("warning  ") for line in shown(outcome, capsys, details=True))


def panel(rows: int) -> pa.Table:
    """Ten equal rows of each person, and nothing that names them."""
    rng = np.random.default_rng(2)
    person = rng.normal(size=(rows // 10, 5)).repeat(10, axis=0)
    return pa.table({f"x{at}": person[:, at] for at in range(5)})


@pytest.mark.parametrize("rows", [800, MASKED_ROWS + 10])
def test_a_plan_tells_the_warnings_of_its_run(tmp_path, rows):
    """All but those of measures, which stand in a line of their own."""
    columns = {f"x{at}": NUMBER | {"transform": "none"} for at in range(5)}
    job = small.job(tmp_path, panel(rows), columns, gates=LOOSE, measure=small.OFF, **GROUPS)
    planned = preview(job)
    assert any("agree with another one in more than half of the columns" in each for each in planned.warnings)
    if rows > MASKED_ROWS:
        assert {"mean", "covariance", "category_share"} <= set(planned.of_run_alone)
        return
    told = small.run(job).warnings
    assert any("without any spread" in each for each in told) and set(told) <= set(planned.warnings)
    assert not set(planned.of_run_alone) & set(job.gates.of_every_run)


def test_a_plan_names_the_limits_that_only_a_run_measures(tmp_path):
    model = {"name": "pay", "model": "linear", "formula": "income ~ age", "limits": {"overlap": 0.5}}
    gates = {"column_shapes": 1, "reidentification_rate": 0.09, "membership_auc": 0.6, "linkability": None}
    job = small.job(tmp_path, small.plain_table(400), gates=gates, measure={"hold_out": 0.1}, analyses=[model])
    planned = preview(job)
    held = {name for name in MEASURED if job.limits[name] is not None}
    assert held >= {"column_shapes", "reidentification_rate", "membership_auc"} and "linkability" not in held
    assert set(planned.of_run_alone) == held | {"analysis 'pay'"}
    text = " ".join(" ".join(planned.lines(details=True)).split())
    assert f"Only the run measures {planned.of_run_alone[0]}, " in text and "column_shapes" in text
    assert (
        not re.search(r"[a-z_]+=[a-z0-9]", text.replace(str(tmp_path), ""))
        and "calibrated" not in text
        and "utility and risk, of samples of up to" in text
    )
    assert "anonpipe run --trial" in text and planned.to_dict()["of_run_alone"] == list(planned.of_run_alone)


@pytest.mark.parametrize("measure", [small.OFF, {"hold_out": 0.1}])
def test_a_line_of_totals_is_a_question_of_plan_and_run(tmp_path, measure):
    table = small.plain_table(400)
    last = {"age": [sum(table["age"].to_pylist())], "income": [sum(table["income"].to_pylist())], "place": [None]}
    columns = small.unscored({"age": NUMBER, "income": NUMBER, "place": {"kind": "categorical"}})
    data = small.write_table(tmp_path, pa.concat_tables([table, pa.table(last, schema=table.schema)]))
    job = small.job(tmp_path / "out", data, columns, gates=LOOSE, measure=measure)
    for call in (small.run, preview):
        with pytest.raises(InputError, match="row 401, the last one, looks like a line of totals") as refused:
            call(job)
        assert not any(str(int(value[0])) in str(refused.value) for value in last.values() if value[0])
    content = small.content(tmp_path / "out", data, columns, gates=LOOSE, measure=measure)
    answered = parse_job(content | {"input": {"path": data, "last_row": "record"}})
    assert small.run(answered).rows and not [each for each in preview(answered).warnings if "totals" in each]


def test_a_summary_says_how_many_rows_were_held_out(tmp_path, capsys, monkeypatch):
    table = small.plain_table(600)
    job = small.job(tmp_path, table, gates=LOOSE, measure={"hold_out": 0.1, "utility": False})
    outcome = small.run(job)
    call = small.commands(capsys, monkeypatch)
    (line,) = [line for line in call("summary", job.output).out.splitlines() if "held out" in line]
    held = 600 - outcome.rows
    assert line == (
        f"{outcome.rows} released rows, compared with those that they replace; {held} rows of the input were held out "
        "and are in neither table"
    )
