"""Recipients see what somebody allowed, and nothing else: every check, every measure, and what nobody knows."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import anonpipe
from anonpipe.evaluate import utility
from anonpipe.evaluate.measurement import Audience, Measurement
from anonpipe.evaluate.risk import MEASURES
from anonpipe.job.measure import AnalysisLimits, Gates, _field
from anonpipe.report import documents, external
from anonpipe.verify import output_control, words
from anonpipe.verify.catalogue import (
    GATES,
    KINDS,
    MEASURED,
    Check,
    CheckKind,
    Counting,
    Outcome,
    Reason,
    Scope,
    held,
    scoped,
    unmeasured,
)
from anonpipe.verify.output_control import fewest_records, released_checks, released_measures
from anonpipe.verify.verdict import Verdict
from tests.report import made

PACKAGE = Path(anonpipe.__file__).parent
K, ROWS = 5, 20_000
ABOUT = {
    **{"files": 2, "k": K, "names": "c", "inside": "group", "column": "c", "diversity": "distinct", "groups": 9},
    **{"closeness": "ordered", "analysis": "a", "coefficients": 3, "fewest": 30},
}


PREFIXES = {"analysis.", "unmeasured."}
"""What keys begin with that are put together: of the job's limits, and of the records of measures."""


@cache
def all_calls() -> list[tuple[Path, ast.Call]]:
    """Every call in the package, and its file."""
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    return [(path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]


def calls(*names: str) -> list[ast.Call]:
    """Every call of a function, or method, of one of these names in the package."""
    return [node for _, node in all_calls() if getattr(node.func, "id", getattr(node.func, "attr", None)) in names]


def declared_figures() -> list[ast.Call]:
    """The words of figures that measures declare; pictures and reports have figures of other kinds."""
    return [node for path, node in all_calls() if "evaluate" in path.parts and getattr(node.func, "id", "") == "Figure"]


def texts(node: ast.AST) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def produced() -> set[str]:
    """The keys that the code makes checks of, as far as they stand in it."""
    found = set()
    for call in calls("held", "worst_entry", "against", "unmeasured", "scoped", "NotChecked"):
        found |= texts(call.args[0]) if call.args else set()
    return found - PREFIXES | {f"unmeasured.{measure.key}" for measure in MEASURES}


def test_every_check_in_code_has_a_record_with_an_audience():
    keys = {key for key in produced() if key not in KINDS}
    assert not keys, f"give these checks a record in the catalogue: {sorted(keys)}"
    for key, kind in KINDS.items():
        assert isinstance(kind.audience, Audience) and isinstance(kind.scope, Scope), key
        assert kind.key == key and words.name(Check(key, Outcome.PASSED, about=ABOUT)), key


def test_every_record_is_of_a_check_that_the_code_makes():
    of_strata = {scoped(key, scope) for key in KINDS for scope in (Scope.STRATUM, Scope.GROUP)}
    named = {kind.key for kind in KINDS.values() if kind.gate is not None and kind.gate.name in MEASURED}
    named |= {key for key in KINDS if key.startswith("analysis.")}  # of the job's limits
    assert set(KINDS) - of_strata - named <= produced()
    assert {key.partition(".")[2] for key in KINDS if key.startswith("analysis.")} == set(AnalysisLimits.model_fields)


def test_every_measure_says_who_may_see_it():
    """A measure without an audience is withheld; that nobody forgets it, this test fails."""
    figures = [figure for measure in utility.MEASURES for figure in measure.figures]
    assert all(isinstance(figure.audience, Audience) for figure in figures)
    made_ones = calls("Measurement")
    declared = declared_figures()
    assert len(figures) + len(made_ones) + len(declared) > 55
    for path, node in all_calls():
        if node in made_ones or node in declared:
            given_names = {keyword.arg for keyword in node.keywords}
            whole = None in given_names and path.name == "assessment.py"  # read from a file with all its fields
            fifth = node in declared and len(node.args) >= 5
            assert "audience" in given_names or fifth or whole, f"{path}:{node.lineno}"


def test_a_gate_is_told_to_nobody_who_may_not_see_its_measure():
    """The verdict holds the same figure: a gate on one for the steward must be for the steward."""
    audiences = {figure.key: figure.audience for measure in utility.MEASURES for figure in measure.figures}
    for call in [*calls("Measurement"), *declared_figures()]:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        name = given.get("name") or given.get("key") or (call.args or [None])[0]
        audience = given.get("audience") or (call.args[4] if len(call.args) > 4 else None)
        if isinstance(name, ast.Constant) and isinstance(audience, ast.Attribute):
            audiences[name.value] = Audience[audience.attr]
    assert len(audiences) > len(utility.MEASURES) + 15
    kinds = {name: kind for kind in KINDS.values() if kind.gate is not None for name in kind.gate.figures}
    limited = audiences.keys() & kinds.keys()
    assert limited
    for name in limited:
        assert kinds[name].audience is audiences[name], f"gates.{kinds[name].gate.name}: give the audience of {name}"


def test_the_gates_of_the_job_are_the_records():
    assert list(Gates.model_fields) == list(GATES)
    for name, field in Gates.model_fields.items():
        gate = GATES[name]
        assert field.default == ("default" if gate.figures and gate.default is not None else gate.default)
        assert field.description == gate.meaning
    assert all(gate.limited and gate.meaning for gate in GATES.values())
    assert all(gate.unmeasured in KINDS for gate in MEASURED.values())


def told(check: Check) -> str:
    """All that recipients see of a check: manifest, report and page."""
    facts = made.facts(verdict=Verdict((check,)), assessment=made.Assessment())
    files = documents(external(facts))
    lines = [words.line(each).to_dict() for each in released_checks(Verdict((check,)), K, ROWS)]
    return json.dumps(lines) + files["report.json"].decode() + files["report.html"].decode()


def test_a_check_that_nobody_knows_is_withheld():
    strange = Check("mean of the youngest person", Outcome.PASSED, made.CANARY_NUMBER, 1.0, records=ROWS, compared=9)
    assert "youngest" not in told(strange) and "0.817" not in told(strange)
    assert released_checks(Verdict((strange,)), K, ROWS) == ()
    assert strange.mandatory  # so that it cannot be left unchecked, either


def test_a_check_whose_record_names_no_audience_is_withheld(monkeypatch):
    check = held("values.beyond", 7, 9, about=ABOUT)
    assert '"measured": "7"' in told(check)
    monkeypatch.setitem(KINDS, "values.beyond", replace(KINDS["values.beyond"], audience=None))
    assert '"measured": "within the limit"' in told(check)


FIGURES = [kind for kind in KINDS.values() if not kind.key.startswith("unmeasured.")]


@pytest.mark.parametrize("kind", FIGURES, ids=lambda kind: kind.key)
@pytest.mark.parametrize("records", [None, 0, 4, 99])
def test_no_figure_on_few_records_is_told(kind, records):
    number = 817.3645  # counts no persons
    check = held(kind.key, number, 9e9 if not kind.at_least else 1, records=records, of=ROWS, compared=9, about=ABOUT)
    (shown,) = released_checks(Verdict((check,)), K, ROWS)
    if kind.audience is Audience.OPEN:
        assert shown.measured == number
    else:
        assert shown.measured is None and "817" not in told(check)


@pytest.mark.parametrize("kind", [kind for kind in FIGURES if kind.counts is not Counting.NOTHING], ids=lambda k: k.key)
@pytest.mark.parametrize("count", range(1, K))
def test_no_count_of_fewer_than_k_persons_is_told(kind, count):
    measured = count if kind.counts is Counting.ROWS else count / ROWS
    for limit in (1.0, None):
        check = held(kind.key, measured, limit, records=ROWS, of=ROWS, compared=9, about=ABOUT)
        (shown,) = released_checks(Verdict((check,)), K, ROWS)
        assert shown.measured is None and words.measured(shown).startswith(f"fewer than {K}")
    enough = held(kind.key, K if kind.counts is Counting.ROWS else K / ROWS, 9.0, records=ROWS, of=ROWS, about=ABOUT)
    assert released_checks(Verdict((enough,)), K, ROWS)[0].measured == enough.measured


@pytest.mark.parametrize("kind", [kind for kind in FIGURES if kind.audience is Audience.SEVERAL], ids=lambda k: k.key)
@pytest.mark.parametrize("compared", [None, 1, 2, 3])
def test_no_moment_of_one_or_two_columns_is_told_nor_its_column(kind, compared):
    check = held(kind.key, 0.8173, 1, records=ROWS, compared=compared, about=ABOUT, columns=("secret column",))
    assert ("0.817" in told(check)) == (compared == 3) and "secret column" not in told(check)
    assert "secret column" in words.line(check).on


@pytest.mark.parametrize("key", ["group.smallest", "keys.rare"])
def test_the_tests_above_can_fail(monkeypatch, key):
    """With the rule on few records or on few persons out of work, what it withholds is told."""
    few = {
        "group.smallest": held("risk.reidentification_rate", 0.8173, 1, records=99, of=ROWS),
        "keys.rare": held(key, 3, 9),
    }
    check = replace(few[key], about=ABOUT)
    needle = "0.817" if key == "group.smallest" else '"measured": "3"'
    assert needle not in told(check)
    monkeypatch.setattr(output_control, "_withheld", lambda *_: None)
    assert needle in told(check)


def test_measure_of_records_it_refuses_is_the_stewards():
    refused = unmeasured("unmeasured.lasko", Reason.REFUSED, about={"said": f"3 records of {made.CANARY}"})
    assert made.CANARY in words.limit(refused) and made.CANARY not in told(refused)
    assert "these records do not allow it" in told(refused)
    known = unmeasured("unmeasured.membership", Reason.FEW_HELD, about={"fewest": 30})
    assert "fewer than 30 records" in told(known)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"audience": None}, False),
        ({"audience": Audience.STEWARD}, False),
        ({"audience": Audience.SEVERAL}, False),
        ({"audience": Audience.SEVERAL, "columns": 2}, False),
        ({"audience": Audience.SEVERAL, "columns": 3}, True),
        ({"audience": Audience.ENOUGH}, True),
        ({"audience": Audience.ENOUGH, "records": fewest_records(K) - 1}, False),
    ],
)
def test_measures_are_told_to_whom_they_say(changes, shown):
    one: Measurement = made.measurement(**changes)
    assert bool(released_measures([one], K)) == shown


def test_one_gate_is_one_record(monkeypatch):
    """A gate on a measure that had none: the job's field, the check, its words and its remedy follow from it."""
    gate = replace(MEASURED["tail_linkage"], name="closest", figures=("closest_record.p5",), least=0, most=None)
    gate = replace(gate, default=None)
    kind = CheckKind(
        "risk.closest", "risk, closest: distance", "{records:,} of {of:,} records", Audience.ENOUGH, at_least=True,
        gate=gate, remedy="a larger k",
    )  # fmt: skip
    monkeypatch.setitem(KINDS, "risk.closest", kind)
    monkeypatch.setitem(MEASURED, "closest", gate)
    monkeypatch.setattr("anonpipe.verify.catalogue._GATED", (kind,))
    from anonpipe.pipeline.evaluation.measures import checks

    near = made.measurement("closest_record.p5", value=0.2, low=0.1, high=0.3)
    (failed,) = checks(made.Assessment(risk=(near,)), {"closest": 0.15})
    assert failed.outcome is Outcome.FAILED and failed.measured == 0.1  # the lower end counts
    assert words.remedies((failed,)) == ("risk, closest: distance: a larger k",)
    kind_of_field, field = _field(gate)
    assert get_args(kind_of_field)[1] is type(None) and field.default is None
