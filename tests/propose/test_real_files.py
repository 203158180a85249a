"""What files of real registers hold: names of persons, copied rows, a line of totals, amounts in tens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml

from anonpipe.columns import Role
from anonpipe.propose.guesses import Guess, guess
from anonpipe.propose.profile import look_at
from anonpipe.propose.propose import propose_job

ROWS = 2_000


def guessed(column: str, values: Any, **more: Any) -> Guess:
    rng = np.random.default_rng(1)
    table = {"age": rng.integers(18, 90, len(values)), column: values} | more
    return guess(look_at(pa.table(table)))[column]


def proposed(folder: Path, table: pa.Table) -> tuple[str, dict[str, Any]]:
    path = folder / "table.csv"
    pa.csv.write_csv(table, path)
    text = propose_job(str(path), "out", 5)
    return text, yaml.safe_load(text)


PERSON_NAMES = (
    "First name", "firstName", "FIRST_NAME", "Last name", "given name", "Family-Name", "fname", "Nachname", "Vorname",
    "Familienname", "Geburtsname", "Mädchenname", "prénom", "Prenom patient", "Nom", "Nom de naissance", "apellido",
    "Apellidos", "nombre", "Nome", "cognome", "sobrenome", "achternaam", "voornaam", "Efternamn", "förnamn", "nazwisko",
    "imię", "Surname", "name",
)  # fmt: skip


@pytest.mark.parametrize("column", PERSON_NAMES)
@pytest.mark.parametrize("many", [8, 60, 900])
def test_names_of_persons_are_never_proposed_as_released(column: str, many: int) -> None:
    """However few there are, and though each is of k persons or more."""
    found = guessed(column, np.array([f"N{at}" for at in range(many)])[np.arange(ROWS) * 7 % many])
    assert found.role is Role.DROPPED and found.reason.startswith("CHECK: by its name it holds names of persons")
    alone = guessed(column, [f"N{at}" for at in range(ROWS)])
    assert alone.role is Role.IDENTIFIER


@pytest.mark.parametrize(
    "column", ["drug_name", "hospital name", "nombre de hijos", "nom_commune", "nominal", "Vornamental"]
)
def test_names_of_other_things_are_categories(column: str) -> None:
    found = guessed(column, np.array([f"N{at}" for at in range(8)])[np.arange(ROWS) % 8])
    assert found.role is Role.MASKED
    numbers = guessed("first name", np.arange(ROWS) % 70)  # no text
    assert "names of persons" not in numbers.reason


def test_names_whose_rows_agree_in_other_columns_are_a_unit() -> None:
    """A surname may be all that tells whose rows they are."""
    rng, who = np.random.default_rng(2), np.repeat(np.arange(ROWS // 4), 4)
    more = {"sex": rng.choice(["f", "m"], len(who) // 4)[who], "born": rng.integers(1930, 2000, len(who) // 4)[who]}
    found = guessed("surname", [f"N{at}" for at in who], **more)
    assert found.role is Role.UNIT and found.reason.startswith("CHECK")


def _persons(rng: np.random.Generator, rows: int = ROWS) -> dict[str, Any]:
    return {
        "patient_id": rng.permutation(90_000)[:rows] + 10_000,
        "income": rng.lognormal(10, 0.5, rows).round(),
        "age": rng.integers(18, 90, rows),
        "sex": rng.choice(["f", "m"], rows),
    }


@pytest.mark.parametrize("column", ["patient_id", "number"])
def test_copied_rows_make_nothing_a_unit_but_the_identifier(tmp_path: Path, column: str) -> None:
    rng = np.random.default_rng(3)
    table = pa.table(_persons(rng)).rename_columns([column, "income", "age", "sex"])
    copied = pa.concat_tables([table, table.slice(0, 60)]).take(rng.permutation(ROWS + 60))
    text, job = proposed(tmp_path, copied)
    assert job["columns"][column]["role"] == "unit"
    assert {job["columns"][name]["role"] for name in ("income", "age", "sex")} == {"masked"}
    (line,) = [line for line in text.splitlines() if "60 of 2,060" in line]
    assert "equal another row in all columns" in line
    assert "copies by error" in text and "SELECT DISTINCT" in text and "several rows of one person" in text
    assert proposed(tmp_path, table)[1]["columns"][column]["role"] == "identifier"
    assert "equal another row" not in proposed(tmp_path, table)[0]


def test_copied_rows_without_an_identifier_are_told_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pa.table(_persons(rng)).drop_columns(["patient_id"])
    text, job = proposed(tmp_path, pa.concat_tables([table, table.slice(0, 60)]))
    assert {column["role"] for column in job["columns"].values()} == {"masked"}
    assert "60 of 2,060 sampled rows equal another row in all columns" in text
    few = pa.table({name: rng.choice(list("abc"), ROWS) for name in ("one", "two", "three")})
    assert "equal another row" not in proposed(tmp_path, few)[0]  # of few categories any two persons may be alike


@pytest.mark.parametrize(
    ("step", "amount"),
    [
        (10, lambda x: (x / 10).round() * 10),
        (100, lambda x: (x / 100).round() * 100),
        (50, lambda x: (x / 50).round() * 50),
        (2, lambda x: (x / 2).round() * 2),
    ],
)
def test_amounts_in_tens_have_this_step(tmp_path: Path, step: int, amount: Any) -> None:
    made = _persons(np.random.default_rng(4))
    text, job = proposed(tmp_path, pa.table(made | {"income": amount(made["income"]).astype(int)}))
    assert job["columns"]["income"]["step"] == step and "step" not in job["columns"]["age"]
    assert f"step: {step}  # CHECK: all values of the sample are multiples" in text


def test_amounts_nearly_all_in_tens_are_a_comment(tmp_path: Path) -> None:
    made = _persons(np.random.default_rng(4))
    heaped = np.where(np.arange(ROWS) % 20, (made["income"] / 10).round() * 10, made["income"] // 10 * 10 + 3)
    text, job = proposed(tmp_path, pa.table(made | {"income": heaped.astype(int)}))
    assert "step" not in job["columns"]["income"]
    assert "# step: 10  # CHECK: 95 % of the sampled values are multiples of 10" in text
    assert "multiples of 10" not in proposed(tmp_path, pa.table(made))[0]
    rare = np.where(np.arange(ROWS) % 20, 0, made["income"] // 10 * 10 + 3).astype(int)  # most have none of it
    assert "multiples of 10" not in proposed(tmp_path, pa.table(made | {"rent": rare}))[0]


def test_times_of_day_are_lost_without_a_step(tmp_path: Path) -> None:
    days = np.datetime64("2020-01-01", "s") + np.random.default_rng(4).integers(0, 900, ROWS) * np.timedelta64(
        86_400, "s"
    )
    table = pa.table(_persons(np.random.default_rng(4)) | {"seen": days + np.timedelta64(5_400, "s"), "born": days})
    text, job = proposed(tmp_path, table)
    assert "step" not in job["columns"]["seen"] and text.count("times of day are lost") == 1


def _with_total(table: dict[str, Any], key: str, word: Any) -> pa.Table:
    last = {
        name: [values.sum()] if name != key and values.dtype.kind in "if" else [None] for name, values in table.items()
    }
    made = pa.table({name: pa.array(values.astype(str) if name == key else values) for name, values in table.items()})
    return pa.concat_tables([made, pa.table(last | {key: [word]}, schema=made.schema)])


@pytest.mark.parametrize("word", ["Total", "SUMME:", "Gesamt", "total général", "99999"])
def test_a_line_of_totals_is_told_without_its_values(tmp_path: Path, word: str) -> None:
    """By a word for it, or by numbers that are sums of their columns."""
    table = _with_total(_persons(np.random.default_rng(5)), "patient_id", word)
    text, _ = proposed(tmp_path, table)
    (line,) = [line for line in text.splitlines() if "line of totals" in line]
    assert "row 2,001" in line and "the last" in line
    told = text.replace("2,001", "")
    assert not [str(value) for value in table.slice(ROWS).to_pylist()[0].values() if value and str(value) in told]
    assert "line of totals" not in proposed(tmp_path, table.slice(0, ROWS))[0]
