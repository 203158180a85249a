"""What the command line advises where a gate failed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anonpipe import cli
from anonpipe.errors import GateError
from anonpipe.verify.remedies import remedies
from anonpipe.verify.verdict import Check, Outcome, Verdict, at_most
from tests import small


def told(*names: str, measured: float = 1.0) -> tuple[str, ...]:
    return remedies(Verdict(tuple(at_most(name, measured, 0.5, "-") for name in names)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("covariance with unchanged columns in each stratum", "strata.by"),
        ("covariance (all but category probabilities) with unchanged columns", "strata.by"),
        ("covariance (all but category probabilities)", "finer step"),
        ("covariance in each stratum", "wider bounds"),
        ("mean", "gates.mean"),
        ("mean, in its own unit, of a column masked by its logarithm", "gates.mean_in_unit"),
        ("risk, linked_share: records linked correctly", "larger k"),
        ("risk, homogeneous_share: records in groups of one class", "l_diversity"),
    ],
)
def test_failed_gates_have_a_remedy(name, words):
    (line,) = told(name)
    assert line.startswith(f"{name}: ") and words in line
    assert told(name, measured=0.1) == ()


def test_what_has_no_remedy_and_what_is_said_once():
    assert told("mean: as promised", "covariance in each stratum: as promised", "rows lost or added") == ()
    assert len(told("mean", "mean in each stratum", "covariance")) == 2
    missing = Check("risk, linked_share: records linked", Outcome.FAILED, "not measured", "at most 0.1", "-")
    assert remedies(Verdict((missing,))) == ()


def test_a_failed_run_prints_remedies(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "out", cli.Console(highlight=False, width=80))
    table = small.plain_table(300)
    place = pa.array(["hermitage", *table.column("place").to_pylist()[1:]])  # a category of one person
    job = small.job(tmp_path, table.set_column(2, "place", place), gates={"suppressed_share": 0})
    outcome = small.run(job)
    with pytest.raises(GateError):
        cli._finish(job, outcome, None)
    shown = capsys.readouterr().out
    assert "remedy: share of rows changed by suppression" in shown and "join rare categories in the input" in shown
