"""The proposed job is sane, complete, and holds no value of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.api import anonymize
from anonpipe.columns import Kind, Role
from anonpipe.errors import InputError, JobError
from anonpipe.job.measure import RecipientAnalysis
from anonpipe.job.model import load_job, parse_job
from anonpipe.pipeline.preview import preview
from anonpipe.propose import propose
from anonpipe.propose.demo import REGISTRY_SCHEMA, write_registry
from anonpipe.propose.dependencies import derived
from anonpipe.propose.guesses import Guess, guess, seen_by_others
from anonpipe.propose.method_choice import FEW_RECORDS, MethodChoice, choose_method
from anonpipe.propose.names import FEWEST_OTHERS, codes_for_unknown, names_weight, quoted
from anonpipe.propose.profile import SAMPLE_ROWS, declared_order, look_at, odd_texts, sample_of
from anonpipe.propose.propose import propose_job
from anonpipe.propose.rules import computed_rules, propose_rules
from anonpipe.source import check_types, open_source
from tests import small
from tests.benchmarks.survey_design import survey as survey_of_units

ROWS = 3_000
EPOCH_1975 = 1_826


def registry(rows: int = ROWS) -> pa.Table:
    """A registry with one identifier, seven columns that matter and ten that follow from them."""
    rng = np.random.default_rng(5)
    dx = EPOCH_1975 + rng.integers(0, 7_300, rows)
    age = np.clip(rng.normal(68, 12, rows), 20, 99)
    months = np.minimum(np.floor(rng.exponential(50, rows)), 240) + 0.5
    exit_ = dx + np.rint(months * 30.4375)
    born = dx - np.rint(age * 365.25)
    years = 1970 + dx / 365.25
    stamps = dx.astype("datetime64[D]")
    return pa.table(
        {
            "sex": rng.choice(["Qwoman", "Qman"], rows),
            "age": np.floor(age).astype(np.int64),
            "stage": rng.choice(["Qlocal", "Qregio", "Qdista", "Qunkno"], rows),
            "mmdx": stamps.astype("datetime64[M]").astype(np.int64) % 12 + 1,
            "yydx": stamps.astype("datetime64[Y]").astype(np.int64) + 1970,
            "surv_mm": months,
            "surv_yy": np.floor(months / 12) + 0.5,
            "status": rng.choice(["Qalive", "Qcancer", "Qother"], rows),
            "subsite": rng.choice(["Qcoecum", "Qsigmoid"], rows),
            "period": np.where(years < 1985, "Qseventies", "Qeighties"),
            "agegrp": np.select([age < 45, age < 60, age < 75], ["Q-young", "Q-middle", "Q-elder"], "Q-oldest"),
            "dx": _dates(dx),
            "exit": _dates(exit_),
            "id": np.arange(1, rows + 1),
            "ydx": years,
            "yexit": 1970 + exit_ / 365.25,
            "bdate": _dates(born),
            "ybdate": 1970 + (dx - age * 365.25) / 365.25,
        }
    )


def _dates(days: np.ndarray) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def roles(table: pa.Table) -> dict[str, Role]:
    return {name: found.role for name, found in guess(look_at(table)).items()}


def kinds(**columns: Any) -> dict[str, Kind]:
    return {name: found.kind for name, found in guess(look_at(pa.table(columns))).items()}


def found_in(values: Any) -> int:
    """How many distinct values there are."""
    return len(np.unique(values))


def proposal(folder: Path, table: Any, output: str = "out") -> str:
    """The job that is proposed for a table, or for columns by name."""
    return propose_job(small.write_table(folder, pa.table(table)), output, 5)


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("propose") / "registry.csv"
    pa.csv.write_csv(registry(), path)
    return path


def test_a_minimal_set_without_redundancy_is_kept(csv: Path) -> None:
    found = yaml.safe_load(propose_job(str(csv), "out", 5))["columns"]
    assert list(found) == registry().column_names
    released = {name: entry["role"] for name, entry in found.items() if Role(entry["role"]).released}
    assert released == {
        "sex": "masked",
        "age": "masked",
        "stage": "masked",
        "surv_mm": "survival_time",
        "status": "survival_status",
        "subsite": "masked",
        "dx": "masked",
    }
    assert found["id"]["role"] == "identifier"
    assert {found[name]["kind"] for name in ("dx", "exit", "bdate")} == {"date"}


def test_reasons_name_what_a_column_follows_from() -> None:
    found = {name: guessed.reason for name, guessed in guess(look_at(registry())).items() if name != "id"}
    assert found["mmdx"].startswith('the month of "dx"; CHECK: masks of "dx" do not keep')
    assert found["yydx"] == found["period"] == 'a class of "dx"'
    assert found["surv_yy"] == 'a class of "surv_mm"'
    assert found["agegrp"] == 'a class of "age"'
    assert found["ydx"] == 'a linear copy of "dx"'
    assert found["exit"] == 'follows from "dx" and "surv_mm", the months between'
    assert found["bdate"] == 'follows from "dx" and "age", the years between'


def test_number_is_no_part_of_date_known_for_few_rows() -> None:
    """Here in half of them, all in one month and of one value, which agrees with any."""
    when = np.datetime64("2024-03-01") + np.arange(400) % 20
    dose = np.where(np.arange(400) < 220, 2, np.arange(400) % 57)
    missing = np.arange(400) >= 220
    table = pa.table({"at": pa.array(when, mask=missing), "dose": dose, "part": pa.array(when).cast(pa.date32())})
    assert {name: guessed.role for name, guessed in guess(look_at(table)).items()}["dose"] is Role.MASKED
    month = pa.table({"at": when + 40 * (np.arange(400) % 9), "month": 0 * dose})
    month = month.set_column(1, "month", pc.month(month["at"]))
    assert guess(look_at(month))["month"].reason.startswith('the month of "at"')


def _values(table: pa.Table) -> set[str]:
    """Every value that is long enough to be told from the text's own words and k."""
    return {text for column in table.columns for text in set(map(str, column)) if len(text) >= 4}


def test_no_value_of_the_data_is_in_the_text(csv: Path) -> None:
    table = registry()
    canaries = _values(table)
    assert {"Qunkno", "Q-elder", "1977", str(table["bdate"][0])} <= canaries
    text = propose_job(str(csv), "out", 5).replace(str(csv), "")
    assert [value for value in canaries if value in text] == []


def test_odd_types_leave_no_value_in_the_text_either(tmp_path: Path) -> None:
    table = pa.table(
        {
            "decimal": pa.array(range(7_000, 7_100), pa.decimal128(9, 2)),
            "stamp": pa.array(range(7_777_777_000, 7_777_777_100), pa.timestamp("s")),
            "nested": [[f"secret{n}"] for n in range(100)],
            "constant": ["secret-same"] * 100,
            "binary": pa.array([b"secret"] * 100),
            "texts": [f"secret {n % 60}" for n in range(100)],
            "height": np.random.default_rng(1).normal(160, 9, 100),
        }
    )
    text = proposal(tmp_path, table)
    assert [value for value in _values(table) if value in text] == []
    assert "secret" not in text
    found = yaml.safe_load(text)["columns"]
    dropped = [name for name, entry in found.items() if entry["role"] == "dropped"]
    assert {"nested", "constant", "binary", "texts"} <= set(dropped)
    assert found["height"]["role"] == "masked"


def test_the_job_is_refused_until_the_events_are_filled_in(csv: Path, tmp_path: Path) -> None:
    text = propose_job(str(csv), "out", 5)
    job = tmp_path / "job.yaml"
    job.write_text(text)
    with pytest.raises(JobError, match=r"columns.status: event is empty: list the values that mean"):
        load_job(job)
    assert text.count("event: []") == 1
    job.write_text(text.replace("event: []", "event: [Qcancer, Qother]"))
    loaded = load_job(job)
    assert (loaded.time_column, loaded.event_column, loaded.strata.by) == ("surv_mm", "status", ("status",))
    assert (loaded.input, loaded.output, loaded.k) == (str(csv), "out", 5)
    assert all(column.bounds is None and column.levels is None for column in loaded.columns.values())
    check_types(open_source(loaded.input, loaded.columns).schema, loaded.columns)


def test_limits_on_distributions_and_strata_only_where_useful(csv: Path, tmp_path: Path) -> None:
    def proposed(table: Path) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(propose_job(str(table), "out", 5))["gates"]
        return found

    plain = tmp_path / "plain.csv"
    pa.csv.write_csv(pa.table({"height": np.arange(60) / 7, "site": ["a", "b", "c"] * 20}), plain)
    few = tmp_path / "few.csv"
    pa.csv.write_csv(pa.table({"height": np.arange(30) / 7, "site": ["a", "b", "c"] * 10}), few)
    drawn = {"column_shapes": 1, "reidentification_rate": 0.09}
    many = {"membership_auc": "default"}  # of which some are held out
    assert proposed(csv) == drawn | many | {"survival_curves": 1, "stratum_inference": 0.85, "scenario_risk": 0.09}
    assert proposed(plain) == drawn
    assert proposed(few) == {"column_shapes": 1, "reidentification_rate": 0.2}  # groups link up to 1 in k
    told = propose_job(str(few), "out", 5)
    assert "to keep to 0.09 take k: 12 or more" in told and yaml.safe_load(told)["cluster"] == {"method": "mdav"}


def test_a_scenario_of_what_others_know_is_proposed(tmp_path: Path) -> None:
    rows = np.arange(400)
    table = pa.table(
        {
            "AGE_AT_DX": rows % 71,
            "sex": np.where(rows % 2, "f", "m"),
            "agency": np.where(rows % 3, "a", "b"),
            "dose": rows / 7,
            "deathDate": (rows * 11 % 389).astype("datetime64[D]"),
        }
    )
    path = tmp_path / "seen.csv"
    pa.csv.write_csv(table, path)
    text = propose_job(str(path), "out", 5)
    job = tmp_path / "job.yaml"
    job.write_text(text)
    loaded = load_job(job)
    assert [(each.name, each.knows) for each in loaded.measure.scenarios] == [
        ("neighbour", ("AGE_AT_DX", "sex", "deathDate"))
    ]
    assert loaded.limits["scenario_risk"] == loaded.gates.given["scenario_risk"] == 0.09
    pa.csv.write_csv(table.select(["agency", "dose"]), path)
    assert "measure" not in yaml.safe_load(propose_job(str(path), "out", 5))


@pytest.mark.parametrize(("rows", "held"), [(1_999, None), (2_000, 0.1), (20_000, 0.05)])
def test_records_are_set_aside_of_tables_that_have_many(tmp_path: Path, rows: int, held: float | None) -> None:
    rng = np.random.default_rng(1)
    table = pa.table(
        {"height": rng.normal(170, 9, rows), "dose": rng.gamma(2, 2, rows), "arm": rng.choice(["a", "b"], rows)}
    )
    job = tmp_path / "job.yaml"
    job.write_text(proposal(tmp_path, table))
    loaded = load_job(job)
    assert loaded.of_rows(rows).measure.hold_out == (held or 0.0)
    assert loaded.limits["membership_auc"] == 0.6 and "membership_auc" not in loaded.gates.given
    few = table.append_column("ward", [["a", "b"] * 20 + ["a"] * (rows - 40)]).slice(0, 40)
    job.write_text(proposal(tmp_path, few))  # too few for a mask: groups, of which the limit is another
    assert load_job(job).limits["membership_auc"] == 0.6 and load_job(job).limits["reidentification_rate"] == 0.2


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (600, {"height": 0, "site": 3}, ""),
        (600, {"sex": 2, "site": 3}, "no masked column is a number"),
        (45, {"height": 0, "site": 3}, "has fewer than the 50 records"),
        (600, {"patientID": 200, "height": 0, "site": 3}, ""),
        (600, {"patientID": 200, "sex": 2, "site": 3}, '"patientID" names units of several'),
        (105, {"height": 0, "ward": 10, "site": 10} | {f"x{n}": 0 for n in range(90)}, "than the 113 rec"),
        (600, {"months": 0, "height": 0, "dead": -20}, "a stratum of it, has fewer than the 50 records"),
    ],
)
def test_records_are_drawn_by_mixture_or_file_says_why_not(tmp_path, rows, columns, words):
    """Columns of 0 are numbers, others have so many categories; -20 is a status that twenty have."""
    rng = np.random.default_rng(1)
    made = {
        0: lambda _: rng.normal(size=rows).round(1) ** 2,
        -20: lambda _: np.where(np.arange(rows) < 20, "yes", "no"),
        200: lambda _: np.arange(rows) // 3,
    }
    table = {
        name: made.get(many, lambda many: np.array(list("abcdefghij"))[rng.integers(0, many, rows)])(many)
        for name, many in columns.items()
    }
    text = proposal(tmp_path, table)
    usual, found = {"method": "local_synthesis"}, yaml.safe_load(text).get("mask")
    assert found == ({"method": "spectral_swap"} if words.startswith("no masked") else None if words else usual)
    assert words in text and ("in place of\n# these two lines" in text) == (found is not None)
    if "dead" not in columns:
        parse_job(yaml.safe_load(text))


@pytest.mark.parametrize(("columns", "asked"), [(60, True), (40, True), (6, False)])
def test_many_columns_for_records_asked_about_as_plan_refuses(tmp_path, columns, asked):
    rng = np.random.default_rng(1)
    table = {f"lab{at}": np.exp(rng.normal(size=300)).round(2) for at in range(columns)}
    side = np.append(rng.choice(["a", "b"], 290), [f"rare {at}" for at in range(10)])
    text = proposal(tmp_path, table | {"side": side})
    assert ("disclose membership in so small a table" in text) == asked
    job = parse_job(yaml.safe_load(text) | {"output": str(tmp_path / "out")})
    if asked:
        with pytest.raises(JobError, match="independent feature columns"):
            preview(job)
    else:
        assert preview(job).exit_code == 0


@pytest.mark.parametrize(
    ("sizes", "small", "mask"),
    [
        ((500, 400, 4), "merge", "local_synthesis"),
        ((500, 4), None, "local_synthesis"),  # maybe the only event: no stratum, and masked
        ((7_993, 7), None, "local_synthesis"),
        ((1_980, 20), "error", None),
        ((7_982, 18), None, "local_synthesis"),
        ((600, 18, 2), None, "local_synthesis"),
        ((500, 400, 40), "merge", "local_synthesis"),  # more than a few, and too few for covariances
        *(((3_297, 1_346, 794, rare), "merge", "local_synthesis") for rare in (3, 5, 19, 20)),
        ((3_297, 1_346, 794, 60), "error", "local_synthesis"),
        ((500, 60, 4), "merge", None),  # of groups only the 4 are moved, of masks the 60, too
        ((500, 400, 60), "error", "local_synthesis"),
        ((30, 20, 2), "merge", None),
    ],
)
def test_a_status_of_a_few_persons_joins_another_and_no_more(tmp_path, sizes, small, mask):
    rng, rows = np.random.default_rng(1), sum(sizes)
    table = {
        "status": np.repeat([f"status {at}" for at in range(len(sizes))], sizes),
        "time": rng.exponential(50, rows),
        "age": np.floor(rng.normal(60, 9, rows)),
    }
    text = proposal(tmp_path, table, str(tmp_path / "out"))
    told = yaml.safe_load(text)
    assert told.get("strata") == (small and {"by": ["status"], "small": small})
    assert told["columns"]["status"]["role"] == ("survival_status" if small else "masked")
    assert ("CHECK: a value is too rare for a stratum" in text) == (small is None)
    assert told.get("mask", {}).get("method") == mask
    assert ("nearly nobody has one of the values" in text) == (small == "merge")


@pytest.mark.parametrize("how", ["sorted", "shuffled", "text", "one column", "one column, shuffled"])
def test_a_number_of_persons_is_told_by_what_its_rows_agree_in(how: str) -> None:
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(400), rng.poisson(1.7, 400) + 1)
    rows = len(who)
    columns = {
        "who": who + 1,
        "sex": rng.choice(["f", "m"], 400)[who],
        "grown": rng.integers(150, 190, 400)[who],
        "weight": rng.normal(70_000, 9_000, 400).round()[who],
        "visit": rng.integers(0, 400, rows),
        "cost": rng.lognormal(5, 1, rows).round(),
    }
    if how == "text":
        columns["who"] = np.array([f"Z{each * 7919 % 10007}" for each in who])
    if "one column" in how:
        del columns["grown"], columns["weight"]
    if "shuffled" in how:
        order = rng.permutation(rows)
        columns = {name: values[order] for name, values in columns.items()}
    found = guess(look_at(pa.table(columns)))
    asked = {name for name, guessed in found.items() if "number of a person" in guessed.reason}
    assert asked == (set() if how == "one column, shuffled" else {"who"})
    assert found["who"].role is (Role.MASKED if "one column" in how else Role.UNIT)


def _visits(**more: Any) -> pa.Table:
    """Rows of patients who live in households; sex and size tell the patients by what their rows agree in."""
    rng = np.random.default_rng(6)
    home = np.repeat(np.arange(150), rng.integers(1, 4, 150))
    who = np.repeat(np.arange(len(home)), rng.integers(2, 5, len(home)))
    made = {
        "patient": who * 3 + 100_000,
        "household": rng.permutation(90_000)[: len(home)][home][who] + 10_000,
        "sex": rng.choice(["f", "m"], len(home))[who],
        "grown": rng.integers(150, 190, len(home))[who],
        "age": rng.integers(0, 90, len(who)),
        "cost": rng.lognormal(5, 1, len(who)),
    }
    return pa.table(made | {name: values(rng, home[who]) for name, values in more.items()})


@pytest.mark.parametrize("name", ["household", "HH_CODE", "family", "Haushalt"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64()])
def test_household_numbers_left_out_beside_person_numbers(tmp_path: Path, name: str, kind: Any) -> None:
    table = _visits()
    table = table.set_column(1, name, table["household"].cast(kind))
    found = guess(look_at(table))
    assert found["patient"].role is Role.UNIT and found[name].role is Role.DROPPED
    assert found[name].reason.startswith("CHECK: by its name it numbers households")
    told = yaml.safe_load(proposal(tmp_path, table))
    assert told["columns"][name]["role"] == "dropped"
    assert [each["knows"] for each in told["measure"]["scenarios"]] == [["sex", "age"]]


def test_household_numbers_are_the_unit_where_nothing_else_is() -> None:
    alone = _visits().drop_columns(["patient", "sex", "grown"])
    found = guess(look_at(alone))["household"]
    assert found.role is Role.UNIT and found.reason.startswith("CHECK")
    named = _visits()
    named = named.rename_columns(["household_id" if name == "household" else name for name in named.column_names])
    found = roles(named)
    assert (found["household_id"], found["patient"]) == (Role.UNIT, Role.DROPPED)


@pytest.mark.parametrize("person", ["patient", "patient_id", "pid", "pnr", "pupil_id"])
@pytest.mark.parametrize("place", ["pharmacy_id", "school_id"])
def test_places_of_many_persons_are_no_unit(person: str, place: str) -> None:
    """Patients go to several pharmacies; each pupil has one row, and a school."""
    rng, persons = np.random.default_rng(3), 1500
    rows = 1 if person == "pupil_id" else rng.integers(1, 8, persons)
    who = np.repeat(np.arange(persons), rows)
    made = {
        place: np.where(rng.random(len(who)) < 0.7, who % 30, rng.integers(0, 30, len(who))) + 100,
        person: rng.permutation(90_000)[:persons][who],
        "sex": rng.choice(["f", "m"], persons)[who],
        "born": rng.integers(1930, 2000, persons)[who],
        "cost": rng.lognormal(5, 1, len(who)),
    }
    if place == "school_id":
        made[place] = np.char.add("S", made[place].astype(str))
    found = guess(look_at(pa.table(made)))
    assert found[person].role is (Role.IDENTIFIER if person == "pupil_id" else Role.UNIT)
    assert found[place].role is Role.DROPPED and f'many of "{person}" share each value' in found[place].reason


def test_stays_of_patients_make_patients_no_places() -> None:
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(60), 120)
    stays = {"key_id": who + 5000, "stay_id": np.arange(7_200) // 3, "born": rng.integers(1930, 2000, 60)[who]}
    assert roles(pa.table(stays | {"cost": rng.lognormal(5, 1, 7_200)}))["key_id"] is Role.UNIT


def test_what_is_measured_of_households_is_no_number_of_them() -> None:
    table = _visits(
        household_size=lambda rng, home: rng.integers(1, 14, 150)[home],
        household_income=lambda rng, home: rng.lognormal(10, 1, 150).round()[home],
        family_history=lambda rng, home: rng.integers(0, 2, len(home)),
        family=lambda rng, home: rng.integers(1, 8, 150)[home],  # few: a kind, or a size
        persons=lambda rng, home: rng.integers(1, 30, len(home)),
    )
    found = roles(table)
    others = ("household_size", "household_income", "family_history", "family", "persons")
    assert {found[name] for name in others} == {Role.MASKED}
    masked = Guess(Kind.INTEGER, Role.MASKED)
    assert seen_by_others({"household": masked, "household_size": masked, "age": masked}) == ("household_size", "age")


def test_ages_costs_days_codes_and_places_number_no_units() -> None:
    rng, rows = np.random.default_rng(5), 3_000
    place, income = rng.integers(10_000, 10_600, rows), rng.lognormal(10, 0.5, rows).round()
    chapter, hour, minute = (rng.integers(0, most, rows) for most in (60, 24, 60))
    table = {
        "age": rng.integers(18, 99, rows),
        "zipcode": place,
        "plz": place.astype(str),
        "county": place // 100,
        "town": place // 4,
        "income": income,
        "tax": np.floor(income * 0.3),
        "bracket": np.digitize(income, [10_000, 20_000, 40_000]),
        "visits": rng.poisson(4, rows),
        "day": np.sort(rng.integers(0, 1_500, rows)),
        "chapter": chapter,
        "icd": [f"C{one:02d}.{two}" for one, two in zip(chapter, rng.integers(0, 9, rows), strict=True)],
        "sex": rng.choice(["f", "m"], rows),
        "clock": 100 * hour + minute,
        "hour": hour,
        "minute": minute,
    }
    found = guess(look_at(pa.table(table)))
    assert [name for name, guessed in found.items() if guessed.role.names_persons or "person" in guessed.reason] == []


def test_the_step_that_numbers_lie_on_is_proposed(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    tenths = np.append(rng.normal(27, 4, 299).round(1), np.nan)
    table = {
        "bmi": tenths,
        "narrow": pa.array(rng.normal(27, 4, 300).round(1).astype(np.float32)),
        "half": np.rint(rng.normal(60, 9, 300)) + rng.integers(0, 2, 300) / 2,
        "cost": rng.lognormal(8, 2, 300).round(2),
        "dose": rng.choice([0.5, 1.0, 1.5, 5.0], 300),
        "mark": rng.integers(2, 13, 300) / 2,
        "all": rng.normal(size=300),
        "large": pa.array(rng.normal(5e6, 1e5, 300).astype(np.float32)),
    }
    text = proposal(tmp_path, table)
    found = yaml.safe_load(text)["columns"]
    assert {name: entry["step"] for name, entry in found.items() if "step" in entry} == {
        "bmi": 0.1,
        "narrow": 0.1,
        "half": 0.5,
        "cost": 0.01,
        "dose": 0.1,
        "mark": 0.5,
    }
    assert "# CHECK: all values of the sample are multiples of it" in text
    assert {found[name]["kind"] for name in ("all", "bmi", "cost")} == {"continuous"}


@pytest.mark.parametrize(
    ("codes", "asked"),
    [
        ({}, ""),
        ({-400_000: 400}, "400 sampled rows have one value"),
        ({9_999: 2}, "2 sampled rows have one value"),
        ({9_999: 1}, ""),
        ({-9_999: 30, 9_998: 20, 9_999: 10}, "60 sampled rows have the 3 values"),
        ({150: 30}, ""),
    ],
)
@pytest.mark.parametrize("form", ["integer", "continuous", "date", "text"])
def test_a_code_for_unknown_is_asked_about_and_not_told(
    tmp_path: Path, codes: dict[int, int], asked: str, form: str
) -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.integers(18, 96, 3_000), *(np.repeat(code, many) for code, many in codes.items())])
    rng.shuffle(values)
    column = {
        "integer": pa.array(values),
        "continuous": pa.array(np.where(np.abs(values) > 100, values, values + rng.random(len(values)))),
        "date": pa.array(values.astype("datetime64[D]")),
        "text": pa.array(values.astype("datetime64[D]").astype(str)),  # days, as in a CSV
    }[form]
    text = proposal(tmp_path, {"x": column, "sex": rng.choice(["m", "f"], len(values))})
    assert (f'  # CHECK: "x": {asked} at an end' in text) if asked else "sampled rows have" not in text
    told = [str(code) for code in codes if abs(code) > 1_000] + [f"{code:,}" for code in codes]
    assert not any(code in text for code in told)
    assert yaml.safe_load(text)["columns"]["x"]["role"] == "masked"


@pytest.mark.parametrize(("others", "found"), [(FEWEST_OTHERS, {999.0: 2}), (FEWEST_OTHERS - 1, {})])
def test_codes_need_a_number_of_other_values(others: int, found: dict[float, int]) -> None:
    values = np.append(np.arange(others), [999, 999]).astype(float)
    assert codes_for_unknown(*np.unique(values, return_counts=True)) == found


@given(st.lists(st.integers(-40, 40), max_size=60), st.lists(st.sampled_from([-999, -998, 998, 999]), max_size=9))
def test_codes_are_found_where_they_are_rare_or_not(values: list[int], codes: list[int]) -> None:
    """A slow twin of the usual case: many others, and of each code two or more."""
    others, repeated = set(values), all(codes.count(code) > 1 for code in codes)
    found = codes_for_unknown(*np.unique(np.array([*values, *codes], dtype=float), return_counts=True))
    if len(others) >= FEWEST_OTHERS and repeated and codes:
        assert found == {float(code): codes.count(code) for code in codes}
    elif not codes and len(others) < FEWEST_OTHERS:
        assert found == {}


@pytest.mark.parametrize(
    ("x", "code", "asked"),
    [
        (np.repeat(np.arange(18, 97), np.arange(79, 0, -1)), 99, True),
        (np.repeat(np.arange(18, 97), np.arange(79, 0, -1)), 97, True),
        (np.repeat(np.arange(18, 97), np.arange(79, 0, -1)), 100, False),
        (np.arange(0, 99), 99, False),  # percent, of which 99 is one
        (np.arange(0, 9_000, 7), 9_999, True),
        (np.arange(0, 9_000, 7), 9_500, False),
        (np.arange("1920-01-01", "2005-01-01", 30, dtype="datetime64[D]"), np.datetime64("1900-01-01"), True),
        (np.arange("1920-01-01", "2005-01-01", 30, dtype="datetime64[D]"), np.datetime64("1899-06-03"), False),
    ],
)
def test_known_codes_near_others_are_asked_once_for_all(
    tmp_path: Path, x: np.ndarray, code: object, asked: bool
) -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(x, 4_000) for name in ("x", "y", "z")}
    for name, rows in (("x", 60), ("y", 90)):
        columns[name][:rows] = code
    text = proposal(tmp_path, columns)
    questions = [line for line in text.splitlines() if "sampled rows have" in line]
    same = '  # CHECK: "x", "y": 60 to 90 sampled rows have the same value at an end: a code for "unknown"?'
    assert [line[: len(same)] for line in questions] == ([same] if asked else [])
    assert f" {code} " not in text


def test_the_demonstration_table(tmp_path: Path) -> None:
    write_registry(tmp_path / "registry.parquet", 20_000)
    text = propose_job(str(tmp_path / "registry.parquet"), "out", 5)
    (tmp_path / "job.yaml").write_text(text.replace("event: []", "event: [Dead]"))
    job = load_job(tmp_path / "job.yaml")
    assert list(job.columns) == REGISTRY_SCHEMA.names
    check_types(open_source(job.input, job.columns).schema, job.columns)
    expected = dict.fromkeys(REGISTRY_SCHEMA.names, Role.MASKED) | {
        "patient_id": Role.IDENTIFIER,
        "follow_up_months": Role.SURVIVAL_TIME,
        "vital_status": Role.SURVIVAL_STATUS,
    }
    assert {name: column.role for name, column in job.columns.items()} == expected
    assert {name: column.kind.value for name, column in job.columns.items()} == {
        "patient_id": "integer",
        "age": "integer",
        "sex": "binary",
        "stage": "categorical",
        "site": "categorical",
        "tumour_size_mm": "continuous",
        "treatment": "categorical",
        "region": "categorical",
        "diagnosis_date": "date",
        "smoker": "binary",
        "follow_up_months": "continuous",
        "vital_status": "binary",
    }


def test_kinds() -> None:
    found = kinds(
        number=np.linspace(0, 1, 300),
        count=np.arange(300) % 40,
        whole_floats=[None, *(np.arange(299.0) % 40)],
        codes=np.arange(300) % 4,
        flag=np.arange(300) % 7 == 0,
        two=np.arange(300) % 2,
        text=pa.array(["a", "b", "c"] * 100).dictionary_encode(),
        day=_dates(np.arange(300)),
        moment=pa.array(range(300), pa.timestamp("us")),
        money=pa.array([1, 2, 3] * 100, pa.decimal128(9, 2)),
    )
    assert found == {
        "number": Kind.CONTINUOUS,
        "count": Kind.INTEGER,
        "whole_floats": Kind.INTEGER,
        "codes": Kind.CATEGORICAL,
        "flag": Kind.BINARY,
        "two": Kind.BINARY,
        "text": Kind.CATEGORICAL,
        "day": Kind.DATE,
        "moment": Kind.DATE,
        "money": Kind.CATEGORICAL,
    }


FEW = {  # Shares of rows that have each whole number, from the first on
    "visits": (0, [40, 36, 16, 5, 2, 1], True),
    "v1": (0, [368, 368, 184, 61, 15, 3], True),  # rare events
    "v2": (0, [72, 14, 7, 4, 2, 1], False),  # no more of these than codes by frequency
    "kinder": (0, [72, 14, 7, 4, 2, 1], True),
    "household rooms": (1, [11, 25, 25, 20, 11, 5, 3], True),
    "visit": (1, [25, 25, 25, 25], False),  # its number
    "children": (0, [2, 30, 30, 38], False),
    "N": (0, [55, 25, 15, 5], False),  # stage
    "ecog": (0, [45, 30, 15, 7, 3], False),
    "asa": (1, [30, 40, 24, 5, 1], False),
    "religion": (1, [50, 20, 15, 8, 5, 2], False),
    "sector": (0, [30, 20, 15, 10, 9, 7, 5, 3, 1], False),
    "agree": (1, [50, 25, 12, 8, 5], False),
    "satisfied": (1, [5, 10, 20, 40, 25], False),
    "education": (0, [1, 15, 26, 25, 33], False),
    "zip": (0, [10] * 9, False),
    "year": (2015, [40, 36, 16, 8], False),
}


@pytest.mark.parametrize("name", FEW)
def test_few_whole_numbers_are_counts_or_codes(name: str) -> None:
    first, shares, count = FEW[name]
    values = np.random.default_rng(0).permutation(np.repeat(first + np.arange(len(shares)), 10 * np.array(shares)))
    found = kinds(**{name: values, "other": np.linspace(0, 1, len(values))})
    assert found[name] is (Kind.INTEGER if count else Kind.CATEGORICAL)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("id", Role.UNIT),
        ("household_id", Role.UNIT),
        ("patientID", Role.UNIT),
        ("NHS number", Role.UNIT),
        ("e-mail", Role.UNIT),
        ("Surname", Role.UNIT),
        ("acid_level", Role.MASKED),
        ("humidity", Role.MASKED),
    ],
)
def test_units_by_name_where_values_repeat(name: str, role: Role) -> None:
    numbers = np.random.default_rng(1).integers(0, 60, 900)
    assert roles(pa.table({name: numbers}))[name] is role


def test_identifiers_by_uniqueness_and_texts_not_categories() -> None:
    rng = np.random.default_rng(2)
    found = roles(
        pa.table(
            {
                "pseudonym": [f"p{n}" for n in range(600)],
                "number": rng.permutation(10_000)[:600],
                "length": rng.normal(size=600),
                "remark": [f"r{n % 300}" for n in range(600)],
                "drug_name": [f"d{n % 8}" for n in range(600)],
                "birthday": _dates(rng.permutation(9_000)[:600]),
            }
        )
    )
    assert found == {
        "pseudonym": Role.IDENTIFIER,
        "number": Role.IDENTIFIER,
        "length": Role.MASKED,
        "remark": Role.DROPPED,
        "drug_name": Role.MASKED,
        "birthday": Role.MASKED,
    }


def test_survival_needs_a_time_and_a_status() -> None:
    rng = np.random.default_rng(3)
    status = rng.choice(["a", "b", "c"], 400)
    time = np.rint(rng.exponential(50, 400))
    assert set(roles(pa.table({"marital_status": status, "follow_up": time})).values()) == {Role.MASKED}
    assert set(roles(pa.table({"status": status, "height": time})).values()) == {Role.MASKED}
    assert set(roles(pa.table({"status": status, "survival": time - 200})).values()) == {Role.MASKED}
    found = roles(pa.table({"status": status, "dead": status == "a", "time": time, "survdays": time[::-1]}))
    assert found == {
        "status": Role.MASKED,
        "dead": Role.SURVIVAL_STATUS,
        "time": Role.MASKED,
        "survdays": Role.SURVIVAL_TIME,
    }


@pytest.mark.parametrize(
    ("time", "status", "values"),
    [
        ("time", "status", (1, 2)),
        ("TIME", "stat", (0, 1)),
        ("futime", "fustat", (0, 1)),
        ("os_months", "os_event", (0, 1)),
        ("PFS", "event", (0, 1)),
        ("os_time", "OS", (0, 1)),
        ("Monate", "Vitalstatus", ("lebt", "verstorben", "verloren")),
        ("Überlebenszeit", "Todesereignis", ("ja", "nein")),
        ("tempo", "stato", ("vivo", "deceduto")),
        ("durée", "décès", ("oui", "non")),
        ("Suivi (mois)", "V17", ("Vivant", "Décédé")),  # by its values alone
        ("meses", "x1", ("vivo", "fallecido", "perdido")),
        ("tid", "utfall", ("lever", "död")),
    ],
)
def test_survival_is_found_by_names_in_languages_and_by_values(time, status, values) -> None:
    rng = np.random.default_rng(3)
    table = {
        "age": np.rint(rng.normal(60, 9, 400)),
        status: np.array(values)[rng.integers(0, len(values), 400)],
        "Geschlecht": rng.choice(["m", "w"], 400),
        time: np.rint(rng.exponential(50, 400)),
    }
    found = roles(pa.table(table))
    assert {name for name, role in found.items() if role is Role.SURVIVAL_TIME} == {time}
    assert {name for name, role in found.items() if role is Role.SURVIVAL_STATUS} == {status}


@pytest.mark.parametrize(
    ("time", "status", "values"),
    [
        ("duration", "mortgage", (0, 1)),
        ("months", "state", ("CA", "NY")),
        ("time", "ER_status", ("positive", "negative")),
        ("mois", "état civil", ("marié", "divorcé")),
        ("tot", "oslo", (0, 1)),
        ("months", "loan_status", ("paid", "open")),
    ],
)
def test_names_that_only_resemble_those_of_survival(time, status, values) -> None:
    rng = np.random.default_rng(3)
    table = {status: np.array(values)[rng.integers(0, 2, 400)], time: np.rint(rng.exponential(50, 400))}
    assert set(roles(pa.table(table)).values()) == {Role.MASKED}


def test_of_several_times_the_one_going_with_status_is_taken() -> None:
    rng = np.random.default_rng(3)
    dead = rng.random(900) < 0.4
    table = {
        "time_to_visit": np.rint(rng.exponential(50, 900)),
        "time_in_study": np.rint(rng.exponential(np.where(dead, 20.0, 60.0))),
        "age": np.rint(rng.normal(60, 9, 900)),
        "dead": dead.astype(int),
    }
    assert roles(pa.table(table))["time_in_study"] is Role.SURVIVAL_TIME


def test_init_ends_with_what_it_did_not_find(tmp_path: Path, capsys, monkeypatch) -> None:
    call = small.commands(capsys, monkeypatch)
    rng = np.random.default_rng(3)
    table = {"a": rng.normal(size=400), "b": rng.choice(["x", "y"], 400)}
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    code, _, err = call("init", tmp_path / "in.parquet")
    assert code == 0 and err.splitlines()[-1] == "No survival time, unit, survey weight or scenario found. Is that so?"
    more = {"time": np.rint(rng.exponential(9, 400)), "dead": rng.integers(0, 2, 400), "sex": table["b"]}
    pq.write_table(pa.table(table | more), tmp_path / "in.parquet")
    assert call("init", tmp_path / "in.parquet")[2].splitlines()[-1] == "No unit found. Is that so?"


def test_shares_of_nulls_do_not_hide_a_derived_column() -> None:
    rng = np.random.default_rng(4)
    value = np.where(rng.random(900) < 0.3, np.nan, rng.normal(size=900))
    table = pa.table(
        {
            "value": pa.array(value, from_pandas=True),
            "measured": np.where(np.isnan(value), "no", "yes"),
            "scaled": pa.array(3 - 2 * value, from_pandas=True),
        }
    )
    assert derived(look_at(table)) == {"scaled": 'a linear copy of "value"', "measured": 'says whether "value" is null'}


@pytest.mark.parametrize(
    ("later", "copy"),
    [
        (lambda rng, t: t + rng.gamma(2, 1_200, len(t)).astype(int), False),  # seconds of waiting
        (lambda rng, t: t + 3_600, True),  # another time zone
        (lambda rng, t: t // 60 * 60, True),  # to the minute
    ],
)
@pytest.mark.parametrize("form", ["timestamp", "integer", "float"])
def test_a_difference_is_no_rounding_however_long_the_year(later, copy: bool, form: str) -> None:
    rng = np.random.default_rng(5)
    arrived = rng.integers(1_672_531_200, 1_672_531_200 + 365 * 86_400, 5_000)
    seen = later(rng, arrived)
    columns = {"arrived_at": arrived, "seen_at": seen}
    if form == "timestamp":
        columns = {name: values.astype("datetime64[s]") for name, values in columns.items()}
    elif form == "float":
        columns = {name: values / 3_600 for name, values in columns.items()}
    (reason,) = derived(look_at(pa.table(columns))).values()
    if copy:
        assert reason == 'a linear copy of "arrived_at"'
    else:
        assert (
            reason.startswith('CHECK: "arrived_at" and a small difference') and '"seen_at" minus "arrived_at"' in reason
        )


@pytest.mark.parametrize("shortest", [0, -1])
def test_a_short_stay_in_a_long_register_is_kept_by_a_rule(shortest: int) -> None:
    rng = np.random.default_rng(5)
    begin = rng.integers(0, 7_300, 2_000)
    end = begin + np.where(rng.random(2_000) < 0.01, shortest, rng.geometric(0.15, 2_000))
    table = pa.table({"begin": _dates(begin), "end": pa.array(_dates(end), mask=rng.random(2_000) < 0.1)})
    assert bool(derived(look_at(table))) == (shortest < 0)


def test_a_shared_missing_code_makes_no_copy() -> None:
    rng = np.random.default_rng(6)
    absent = rng.random(2_000) < 0.2
    one, other = (np.where(absent, 99_999_999.0, rng.normal(50, 9, 2_000)) for _ in range(2))
    assert np.corrcoef(one, other)[0, 1] > 0.99999
    assert derived(look_at(pa.table({"one": one, "other": other}))) == {}


def test_who_is_alive_is_no_class_of_the_last_contact() -> None:
    day = np.random.default_rng(8).integers(0, 4_000, 2_000)
    alive = day > 2_500
    contact = np.where(alive, 4_000, day).astype("datetime64[D]")
    columns = {
        "last_contact": contact,
        "vital_status": np.where(alive, "alive", "dead"),
        "period": (day > 900).astype(str),
    }
    assert derived(look_at(pa.table(columns))) == {"period": 'a class of "last_contact"'}


def test_a_rare_category_at_the_end_of_a_number_is_chance() -> None:
    value = np.random.default_rng(7).normal(size=500)
    rare = (value >= np.sort(value)[-5]).astype(str)
    common = (value >= np.sort(value)[-50]).astype(str)
    found = derived(look_at(pa.table({"value": value, "rare": rare, "common": common})))
    assert found == {"common": 'a class of "value"'}


@pytest.mark.parametrize(
    ("unit", "length"),
    [("days", 1.0), ("months", 30.4375), ("years", 365.25)],
)
@pytest.mark.parametrize("rounding", [np.floor, np.ceil, np.rint])
def test_one_of_two_dates_goes_where_the_time_between_is_there(unit: str, length: float, rounding: Any) -> None:
    rng = np.random.default_rng(8)
    begin = rng.integers(0, 5_000, 800)
    days = rng.integers(0, 5_000, 800)
    table = pa.table({"out": _dates(begin + days), "in": _dates(begin), "stay": rounding(days / length)})
    dropped = {"out": f'follows from "in" and "stay", the {unit} between'}
    assert derived(look_at(table)) == (dropped if unit != "days" else {})  # of days a rule computes it
    other = table.set_column(2, "stay", pa.array(rng.permutation(table["stay"].to_numpy())))
    assert derived(look_at(other)) == {}


def test_order_to_a_date_that_a_rule_computes_is_proposed() -> None:
    rng = np.random.default_rng(8)
    begin, days, after = rng.integers(0, 5_000, 800), rng.integers(100, 300, 800), rng.integers(0, 90, 800)
    seen = begin + rng.integers(1, 90, 800)
    dates = {"seen": seen, "birth_date": begin + days, "home": begin + days + after}
    table = pa.table({"period": _dates(begin), "days": days} | {name: _dates(day) for name, day in dates.items()})
    looks = look_at(table)
    guesses = guess(looks)
    found = propose_rules(looks, guesses, computed_rules(looks, guesses))
    assert [rule.text for rule in found if rule.active] == [
        "birth_date = period + days",
        "period <= seen",
        "birth_date <= home",
    ]


def test_the_end_after_a_few_numbers_of_months_goes() -> None:
    rng = np.random.default_rng(9)
    begin, months = rng.integers(16_000, 18_000, 800), rng.choice([12, 24, 36, 60], 800)
    start = begin.astype("datetime64[D]")
    end = (start.astype("datetime64[M]") + months).astype("datetime64[D]") + (start - start.astype("datetime64[M]"))
    table = pa.table({"begin": _dates(begin), "end": _dates(end.astype(int)), "months": months})
    assert list(derived(look_at(table))) == ["end"]


def test_a_date_of_birth_goes_before_any_other_date() -> None:
    rng = np.random.default_rng(9)
    born, age = rng.integers(-9_000, 5_000, 800), rng.uniform(0, 15, 800)
    for name in ("date_of_birth", "DOB", "born"):
        table = pa.table({name: _dates(born), "visit": _dates(born + age * 365.25), "age": np.floor(age)})
        assert list(derived(look_at(table))) == [name]


def test_an_age_goes_where_a_date_and_a_year_of_birth_are() -> None:
    rng = np.random.default_rng(4)
    days, born = rng.integers(14_000, 18_000, 500), rng.integers(1930, 1990, 500)
    year = days.astype("datetime64[D]").astype("datetime64[Y]").astype(int) + 1970
    table = {"age": year - born, "born": born, "invited": _dates(days)}
    table["other"] = rng.integers(20, 90, 500)
    found = derived(look_at(pa.table(table)))
    assert found == {"age": 'the year of "invited" less "born"'}
    assert derived(look_at(pa.table(table | {"age": year - born + (np.arange(500) == 7)}))) == {}


@pytest.mark.parametrize("part", ["month", "day_of_week", "quarter", "day", "day_of_year"])
def test_parts_of_dates_go(part: str) -> None:
    import pandas as pd

    days = np.random.default_rng(10).integers(0, 9_000, 700)
    values = getattr(pd.to_datetime(days, unit="D"), part).to_numpy()
    found = derived(look_at(pa.table({"part": values, "when": _dates(days)})))
    assert list(found) == ["part"]
    assert 'of "when"; CHECK: masks of "when" do not keep' in found["part"]


@settings(max_examples=40, deadline=None)
@given(
    slope=(st.floats(0.01, 1e4) | st.floats(-1e4, -0.01)).filter(lambda slope: slope == 1 or abs(slope - 1) > 2e-3),
    shift=st.floats(-1e6, 1e6),
    cuts=st.lists(st.integers(30, 270), min_size=1, max_size=4, unique=True).filter(
        lambda cuts: len(cuts) == 1 or np.diff(sorted(cuts)).min() >= 10
    ),
    order=st.permutations(["x", "line", "class", "noise", "choice"]),
    seed=st.integers(0, 10**6),
)
def test_exactly_the_dependent_columns_are_found(
    slope: float, shift: float, cuts: list[int], order: list[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(50, 10, 300)
    columns = {
        "x": x,
        "line": shift + slope * x,
        "class": [f"c{place}" for place in np.searchsorted(np.sort(x)[np.sort(cuts)], x)],
        "noise": rng.normal(size=300),
        "choice": rng.choice(["a", "b", "c"], 300),
    }
    found = derived(look_at(pa.table({name: columns[name] for name in order})))
    first, second = sorted(["x", "line"], key=order.index)
    assert found == {second: f'a linear copy of "{first}"', "class": f'a class of "{first}"'}


def test_what_a_division_leaves_follows_from_the_number() -> None:
    rng = np.random.default_rng(0)
    hour, minute, count = rng.integers(6, 22, 500), rng.integers(0, 60, 500), rng.integers(0, 40, 500)
    table = {"time": 100 * hour + minute, "hour": hour, "minute": minute, "count": count, "huge": 2.0**60 * count}
    found = derived(look_at(pa.table(table)))
    assert found == {"hour": 'a class of "time"', "minute": '"time" modulo 100', "huge": 'a linear copy of "count"'}
    minute[7] += 1
    assert "minute" not in derived(look_at(pa.table(table | {"minute": minute})))


@pytest.mark.parametrize(
    "name", ["a: b # c", 'qu"ote\nnewline', "null", "1", "é\U0001f600", " lead", "{x}", "2020-01-01"]
)
def test_any_column_name_comes_back_from_the_yaml(tmp_path: Path, name: str) -> None:
    value = np.random.default_rng(11).normal(size=100)
    (tmp_path / "job.yaml").write_text(proposal(tmp_path, {name: value, "twice": 2 * value}, "o: u # t"))
    job = load_job(tmp_path / "job.yaml")
    assert list(job.columns) == [name, "twice"]
    ruled = Role.DROPPED if "\n" in name else Role.DERIVED  # a rule names no column of two lines
    assert [column.role for column in job.columns.values()] == [Role.MASKED, ruled]
    assert job.output == "o: u # t"


def test_the_sample_is_bounded_and_spread(tmp_path: Path) -> None:
    rows = 4 * SAMPLE_ROWS
    table = pa.table({"year": np.arange(rows) // (rows // 4), "x": np.random.default_rng(12).normal(size=rows)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows // 10)
    source = open_source(str(tmp_path / "a.parquet"))
    sample, rows = sample_of(source), source.rows
    assert sample.num_rows == SAMPLE_ROWS
    assert set(sample["year"].to_pylist()) == {0, 1, 2, 3}
    found = yaml.safe_load(propose_job(str(tmp_path / "a.parquet"), "out", 5))["columns"]
    assert found["year"]["role"] == "masked"


def test_a_long_csv_is_sampled_over_its_blocks(tmp_path: Path) -> None:
    rows = SAMPLE_ROWS + 20_000
    text = [f"remark {n % 7} " + "-" * 90 for n in range(rows)]
    pa.csv.write_csv(pa.table({"n": np.arange(rows), "text": text}), tmp_path / "a.csv")
    seen = sample_of(open_source(str(tmp_path / "a.csv")))["n"].to_numpy()
    assert 0.9 * SAMPLE_ROWS < len(seen) <= SAMPLE_ROWS and seen[0] == 0 and seen[-1] > rows - 4_096
    assert np.all(np.diff(seen) > 0)


@settings(max_examples=100, deadline=None)
@given(rows=st.integers(1, 90), nulls=st.sampled_from([0.0, 0.3, 0.97, 1.0]), seed=st.integers(0, 10**6))
def test_any_small_table_gives_a_job(rows: int, nulls: float, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def column(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(rng.choice(values, rows), mask=rng.random(rows) < nulls).cast(kind)

    days = rng.integers(-(10**5), 10**5, 50)
    columns = {
        "number": column([np.nan, np.inf, -np.inf, 1.8e308 / 2, -1e308, 5e-324, 0.0, -0.0, 0.1], pa.float64()),
        "count": column([-(2**63), 2**63 - 1, 0, 1, 5], pa.int64()),
        "few": column([0, 1, 2, 3], pa.int8()),
        "time": column(rng.exponential(9, 50), pa.float32()),
        "dead": column([True, False], pa.bool_()),
        "text": column(["", "a", "é", "null"], pa.string()),
        "day": column(days.astype(np.int32), pa.date32()),
        "day2": column(days // 9 * 86_400_000, pa.date64()),
        "moment": column(days * 86_399_999_999, pa.timestamp("us")),
    }
    found = guess(look_at(pa.table(columns)))
    assert list(found) == list(columns)
    assert sum(guessed.role is Role.SURVIVAL_STATUS for guessed in found.values()) <= 1
    gone = [name for name, guessed in found.items() if not guessed.role.released]
    assert all(found[name].reason for name in gone)


def test_the_text_is_the_same_every_time(csv: Path) -> None:
    assert propose_job(str(csv), "out", 5) == propose_job(str(csv), "out", 5)


def test_an_order_of_the_input_is_to_be_declared(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)

    def ordered(labels: list[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(rng.integers(0, len(labels), 300), pa.array(labels), ordered=True)

    labels = {"stage": ["Qlow", "Qmiddle", "Qhigh"], "flag": ["Qno", "Qyes"]}
    columns = {name: ordered(each) for name, each in labels.items()}
    proposed = proposal(tmp_path, columns | {"x": rng.normal(size=300)})
    assert "levels: [Qlow, Qmiddle, Qhigh]" in proposed and "CHECK against the code book" in proposed
    pq.write_table(pa.table(columns | {"x": rng.normal(size=300)}), tmp_path / "a.parquet", use_dictionary=False)
    text = propose_job(str(tmp_path / "a.parquet"), "out", 5)
    assert text.count("FILL IN") == 2 and "Q" not in text.replace(str(tmp_path), "")
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(JobError, match=r"columns\.stage: levels is empty: list the permissible categories"):
        load_job(tmp_path / "job.yaml")
    for each in labels.values():
        text = text.replace("levels: []", f"levels: {each}", 1)
    (tmp_path / "job.yaml").write_text(text)
    job = load_job(tmp_path / "job.yaml")
    # by categories, as records are drawn of no person: of positions, how each category goes with others is lost
    assert job.replacing.name == "local_synthesis" and "has an order; kind: ordinal keeps" in text
    assert [column.kind for column in job.columns.values()] == [Kind.CATEGORICAL, Kind.BINARY, Kind.CONTINUOUS]
    check_types(open_source(job.input, job.columns).schema, job.columns)
    few = pa.table(columns | {"x": rng.normal(size=300)})
    assert "stage:\n    kind: ordinal" in proposal(tmp_path, few.slice(0, 40))


@pytest.mark.parametrize("rows", [[2, 0, 1, 0], [0, 2, 1], [1, 1, None, 2, 0]])
def test_an_order_is_taken_that_is_not_that_of_the_rows(rows: list[int | None]) -> None:
    labels = pa.array(["Qlow", "Qmiddle", "Qhigh", "Qnever"])
    told = [pa.DictionaryArray.from_arrays(pa.array(rows), labels, ordered=True)]
    assert declared_order(pa.chunked_array(told)) == ("Qlow", "Qmiddle", "Qhigh", "Qnever")
    as_they_come = pa.array([labels[at].as_py() for at in rows if at is not None]).dictionary_encode()
    found = pa.DictionaryArray.from_arrays(as_they_come.indices, as_they_come.dictionary, ordered=True)
    assert declared_order(pa.chunked_array([found])) == ()
    other = pa.DictionaryArray.from_arrays(pa.array([1, 0]), labels[1:3], ordered=True)
    assert declared_order(pa.chunked_array([told[0], other])) == ()
    assert declared_order(pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(rows), labels)])) == ()


def test_the_index_of_a_pandas_table_is_called_that(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": np.arange(200) % 50, "place": ["a", "b"] * 100})
    frame[frame["age"] > 3].to_parquet(tmp_path / "a.parquet")
    text = propose_job(str(tmp_path / "a.parquet"), "out", 5)
    assert yaml.safe_load(text)["columns"]["__index_level_0__"]["role"] == "dropped" and "pandas" in text
    given = yaml.safe_load(text)
    del given["columns"]["__index_level_0__"]
    job = parse_job(given)
    with pytest.raises(InputError, match=r"'__index_level_0__' \(the index of a pandas table"):
        check_types(open_source(job.input).schema, job.columns)


def test_decimal_commas_are_told() -> None:
    rng = np.random.default_rng(14)
    amounts = [f"{value:.2f}".replace(".", ",") for value in rng.normal(0, 900, 200)]
    table = pa.table(
        {
            "amount": amounts,
            "thousands": ["1.234.567,5", *amounts[1:]],
            "few": rng.choice(["1,5", "2", "3,25"], 200),
            "codes": rng.choice(["10", "20", "30"], 200),
            "lists": rng.choice(["1,2,3", "2,3", "x"], 200),
        }
    )
    found = guess(look_at(table))
    told = [name for name, guessed in found.items() if "decimal commas" in guessed.reason]
    assert told == ["amount", "thousands", "few"]
    assert {found[name].role for name in told} == {Role.DROPPED}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lambda n: f"{1_000 + 37 * n:,}.50", "commas between thousands"),
        (lambda n: f"{n}.5", "stored as text"),
        (lambda n: f"{7 * n // 2}", "stored as text"),
        (lambda n: f"€ {n}.5", "sign of currency"),
        (lambda n: f"{n % 9 + 1}.{n + 100},5 €", "sign of currency"),
        (lambda n: f"{n},25\u00a0%", "sign of currency"),
        (lambda n: f"{n},50 EUR", "sign of currency"),
        (lambda n: f"2010-01-{n % 28 + 1:02d} 11:{n % 60:02d}:{n % 7:02d}", "dates with times"),
        (lambda n: f"{n % 28 + 1}.{n % 12 + 1}.19{n % 90 + 10}", "not written as 1990-01-31"),
    ],
)
def test_texts_for_numbers_or_dates_are_told_with_conversion(text: Any, told: str) -> None:
    values = [text(n // 2) for n in range(400)]
    found = guess(look_at(pa.table({"odd": values})))["odd"]
    assert told in found.reason and found.reason.startswith("CHECK") and found.role is Role.DROPPED


def test_texts_of_days_are_dates_and_come_back_as_such_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    days = (np.datetime64("2010-01-01") + rng.integers(0, 3_000, 400)).astype(str).astype(object)
    days[-20:] = None
    table = pa.table(
        {"seen": pa.array(days), "left": pa.array(days[::-1]).dictionary_encode(), "x": rng.normal(size=400)}
    )
    proposed = yaml.safe_load(proposal(tmp_path, table, str(tmp_path / "out")))
    assert [proposed["columns"][name]["kind"] for name in ("seen", "left")] == ["date", "date"]
    proposed |= {"measure": {"utility": False, "risk": False}, "gates": {}}
    made = anonymize(table, proposed)
    assert made.table is not None and made.table.schema.types == table.schema.types
    for name in ("seen", "left"):
        texts = [text for text in made.table[name].to_pylist() if text is not None]
        assert len(texts) == 380 and min(texts) >= "2010-01-01" and max(texts) < "2018-12-01"
        assert all(str(np.datetime64(text)) == text for text in texts) and set(texts) - set(days)
    wrong = table.set_column(0, "seen", pa.array(["2010-02-30", "1.2.2010", *days[2:]]))
    with pytest.raises(InputError, match=r"'seen' is declared date and holds text, 2 rows or more of another form"):
        anonymize(wrong, proposed)


def test_what_cannot_be_proposed_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="rows"):
        propose_job(str(tmp_path / "a.parquet"), "out", 5)
    with pytest.raises(JobError, match="k is 1; give at least 2"):
        propose_job(str(tmp_path / "a.parquet"), "out", 1)


ODD_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "yes",
        "null",
        "~",
        "1",
        "1e3",
        "0x1F",
        "2020-01-01",
        "a: b",
        "a #b",
        "'q'",
        '"',
        "%lead",
        "@",
        "- dash",
        "{a}",
        "<<",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ODD_NAMES, min_size=3, max_size=5, unique=True))
def test_whatever_the_names_the_proposal_reads_back(names: list[str]) -> None:
    """Names stand as keys, in reasons and in strata; a line break in a comment would make a key of what follows."""
    *others, time, state = names
    guesses = {name: Guess(Kind.CATEGORICAL, Role.DROPPED, f"a copy of {quoted(time)}") for name in others}
    guesses[time] = Guess(Kind.INTEGER, Role.SURVIVAL_TIME)
    guesses[state] = Guess(Kind.BINARY, Role.SURVIVAL_STATUS, event=(names[0], 1))
    shown = {"input": names[1] + ".csv", "output": "out" + names[0], "k": 5, "rules": [], "asked": []}
    shown |= {"taken": propose.Taken(), "usual": None, "design": None}
    text = propose._write(guesses, None, MethodChoice(None), 0, propose.NO_CSV, **shown)
    job = parse_job(yaml.safe_load(text) | _PATHS)
    assert list(job.columns) == names and job.strata.by == (state,)
    assert job.columns[state].event == (names[0], 1)


_PATHS = {"input": "a.csv", "output": "b"}  # paths of control characters are refused


@pytest.mark.parametrize("name", ["months", "cost"])
def test_numbers_beyond_all_bounds_are_no_reason_to_fail(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{name},dead\n" + "\n".join(f"{1 + i % 30}.5e300,{i % 2}" for i in range(120)))
    assert yaml.safe_load(propose_job(str(path), "out", 5))["columns"][name]["role"] == "masked"


@pytest.mark.parametrize("name", ["patient_nr", "patient_number", "PatientNr", "Patientennummer", "pat_no"])
def test_one_person_twice_makes_no_unit_of_his_number(name: str) -> None:
    number = np.append(np.arange(400) + 1, 7)
    age = np.random.default_rng(1).integers(18, 99, 401)
    guesses = guess(looks := look_at(pa.table({name: number, "age": age})))
    assert guesses[name].role is Role.DROPPED and "399 of its 400 values occur once" in guesses[name].reason
    assert choose_method(looks, guesses, 401).mask == "local_synthesis"


def test_one_person_with_many_rows_makes_a_unit_of_the_number() -> None:
    """As rows they would count as k persons: a category that this person alone has would be released."""
    number = np.append(np.arange(400) + 1, [7] * 6)
    age = np.random.default_rng(1).integers(18, 99, 406)
    guesses = guess(looks := look_at(pa.table({"patient_nr": number, "age": age})))
    assert guesses["patient_nr"].role is Role.UNIT
    assert choose_method(looks, guesses, 406).mask == "local_synthesis"


def test_who_died_is_released_where_dates_of_death_tell_it() -> None:
    rng, died = np.random.default_rng(1), np.arange(600) % 3 == 0
    begin, months = rng.integers(14_000, 18_000, 600), rng.uniform(1, 90, 600).round(1)
    table = pa.table(
        {
            "diagnosis": pa.array(begin, pa.int32()).cast(pa.date32()),
            "death": pa.array(np.rint(begin + months * 30.4375).astype(np.int32), mask=~died).cast(pa.date32()),
            "months": months,
            "vital_status": np.where(died, "dead", "alive"),
        }
    )
    roles = {name: each.role for name, each in guess(look_at(table)).items()}
    assert (roles["vital_status"], roles["months"]) == (Role.SURVIVAL_STATUS, Role.SURVIVAL_TIME)


@pytest.mark.parametrize("name", ["zip_code", "PLZ", "postcode"])
def test_postal_codes_as_numbers_are_left_out(name: str) -> None:
    numbers = np.random.default_rng(1).integers(1_000, 99_000, 700)
    found = guess(look_at(pa.table({name: np.append(numbers, numbers[:300])})))[name]
    assert found.role is Role.DROPPED and found.reason.startswith("CHECK: by its name a postal code")
    regions = guess(look_at(pa.table({name: np.arange(700) % 4 + 10})))[name]
    assert (regions.kind, regions.role) == (Kind.CATEGORICAL, Role.MASKED)


SHARES = np.random.default_rng(40).dirichlet(np.full(40, 2.0))  # Of forty sites, as unlike as trials have them


@pytest.mark.parametrize("name", ["site", "hospital_id", "StudySite", "birth country", "Diagnose_Code", "Product no"])
def test_numbers_of_places_and_things_are_categories(name: str) -> None:
    codes = 101 + np.random.default_rng(1).choice(40, 4000, p=SHARES)
    found = guess(look_at(pa.table({name: codes, "x": np.arange(4000) / 7})))[name]
    assert (found.kind, found.role) == (Kind.CATEGORICAL, Role.MASKED) and "by its name codes" in found.reason
    many = np.random.default_rng(1).integers(0, 900, 4000)
    found = guess(look_at(pa.table({"ward": many, "x": np.arange(4000) / 7})))["ward"]
    assert found.role is Role.DROPPED and f"{found_in(many):,} of them: init proposes at most 200" in found.reason


def test_numbers_unlike_their_neighbours_are_asked_about() -> None:
    rng, rows = np.random.default_rng(2), 4000
    quantities = {
        "age": rng.integers(18, 90, rows),
        "year": 1990 + rng.binomial(30, 0.6, rows),
        "visits in hospital": rng.poisson(6, rows),
        "score": rng.binomial(40, 0.4, rows),
        "region_km": rng.integers(1, 60, rows),
        "hospital days": np.minimum(rng.geometric(0.1, rows), 60),
        "minutes": np.where(rng.random(rows) < 0.6, 5 * rng.integers(2, 12, rows), rng.integers(10, 60, rows)),
        "pressure": rng.normal(120, 12, rows).astype(int),
        "day": np.repeat(rng.choice(np.arange(1, 31), 50), rows // 50),  # pieces of a table that is sorted by date
    }
    table = pa.table({**quantities, "zz": 101 + rng.choice(40, rows, p=SHARES), "x": rng.normal(size=rows)})
    found = guess(look_at(table))
    assert {name for name in found if found[name].kind is Kind.INTEGER} == {*quantities, "zz"}
    assert [name for name in found if "as codes do" in found[name].reason] == ["zz"]
    huge = np.where(rng.random(rows) < 0.5, 2.0**64, 2.0**40) + 2.0**13 * rng.integers(0, 15, rows)
    assert "as codes do" not in guess(look_at(pa.table({"huge": huge})))["huge"].reason


@pytest.mark.parametrize(
    ("least", "most", "asked"), [(10**8, 10**9, True), (10**8, 2 * 10**9, False), (0, 10**5, False)]
)
def test_numbers_of_equal_length_are_asked_about(least: int, most: int, asked: bool) -> None:
    numbers = np.random.default_rng(1).integers(least, most, 700)
    found = guess(look_at(pa.table({"contact": np.append(numbers, numbers[:300])})))["contact"]
    assert found.role is Role.MASKED and ("all numbers have 9 digits" in found.reason) == asked


def test_school_names_are_no_unit_single_visit_patients_are() -> None:
    """Of both columns most values occur once; rows of a patient agree in the year of birth."""
    rng = np.random.default_rng(2)
    schools = {"school_name": [f"School {at}" for at in rng.integers(0, 8_000, 4_000)], "pupils": np.arange(4_000) % 77}
    assert guess(look_at(pa.table(schools)))["school_name"].role is Role.DROPPED
    who = np.repeat(np.arange(1_400), rng.choice([1, 2, 3], 1_400, p=[0.7, 0.2, 0.1]))
    visits = {"patient_id": who, "born": rng.integers(1930, 2000, 1_400)[who], "cost": rng.lognormal(5, 1, len(who))}
    assert guess(look_at(pa.table(visits)))["patient_id"].role is Role.UNIT


def test_person_numbers_are_the_unit_beside_visit_numbers(tmp_path):
    rng = np.random.default_rng(1)
    person = np.sort(rng.integers(0, 330, 800))
    table = pa.table({"person": person, "visit_no": np.arange(800), "weight": rng.normal(70, 9, 800)})
    columns = yaml.safe_load(proposal(tmp_path, table))["columns"]
    assert (columns["person"]["role"], columns["visit_no"]["role"]) == ("unit", "identifier")


def test_masks_are_proposed_from_the_fewest_records_on():
    looks = look_at(pa.table({"sex": ["f", "m"] * 300}))
    guesses = guess(looks)
    enough, few = (choose_method(looks, guesses, rows) for rows in (FEW_RECORDS, FEW_RECORDS - 1))
    assert "has fewer than the" in few.why and few.mask is None
    assert "has fewer than the" not in enough.why


@pytest.mark.parametrize(
    ("odd", "values", "told"),
    [
        (
            "unknown",
            [str(age) for age in range(20, 80)],
            "60 of its 61 distinct texts are whole numbers. Make the other 1",
        ),
        ("2020-13-45", [f"2020-01-{day:02}" for day in range(1, 29)], "28 of its 29 distinct texts are days"),
        ("b7", ["a1", "a2", "b7"] * 4, ""),
    ],
)
def test_one_bad_value_is_counted_and_not_shown(tmp_path, odd, values, told):
    text = proposal(tmp_path, {"x": [*values * 20, odd], "y": np.arange(20.0 * len(values) + 1) / 7})
    line = next(line for line in text.splitlines() if line.startswith("    role:"))
    assert (told in line) and bool(told) == ("CHECK" in line) and odd not in text


def test_few_odd_texts_among_decimal_commas_and_days_counted(tmp_path):
    rows = [f"{at % 40},5;{at % 28 + 1}.01.2020;{'+-'[at % 2]}" for at in range(80)]
    rows[7] = "-;unknown day;+"
    (tmp_path / "t.csv").write_text("n;day;rhesus\n" + "\n".join(rows) + "\n")
    text = propose_job(str(tmp_path / "t.csv"), "out", 5)
    assert "40 of its 41 distinct texts are numbers with decimal commas" in text
    assert "28 of its 29 distinct texts are days as 31.12.2020" in text and "input.missing" in text


@pytest.mark.parametrize(("mark", "limits"), [(".", ("<5.0", "> 90")), (",", ("<5,0", ">=90,1"))])
def test_censored_numbers_are_values_and_no_nulls(tmp_path, mark, limits):
    """Written as init says, they are numbers on the same decimals; the flag follows from these."""
    values = np.random.default_rng(3).gamma(2.0, 12.0, 3_000).round(1)
    texts = np.char.replace(values.astype(str), ".", mark).astype(object)
    texts[values < 5], texts[values > 90] = limits
    path = tmp_path / "t.csv"
    path.write_text("crp;n\n" + "".join(f"{text};{at % 50}\n" for at, text in enumerate([*texts, "n.d."])))
    line = next(line for line in propose_job(str(path), "out", 5).splitlines() if "distinct texts" in line)
    assert "With < or > before a number: 2, values beyond a limit" in line and "Make the other 1 nulls" in line
    assert not any(limit in line for limit in limits)
    mended = np.where(values < 5, 4.9, np.where(values > 90, 90.1, values))
    table = {"crp": mended, "beyond": (values < 5).astype(str)}
    found = yaml.safe_load(proposal(tmp_path, table))["columns"]
    assert (found["crp"]["role"], found["crp"]["step"], found["beyond"]["role"]) == ("masked", 0.1, "dropped")
    few = odd_texts(pa.array([*(f"{at}.5" for at in range(10)), "<0.5"]))
    assert "no nulls" in few and "Make the other" not in few
    limits_alone = pa.array([*(f"<{at}" for at in range(20)), *map(str, range(15))])
    assert odd_texts(limits_alone) == ""  # more limits than numbers


def test_many_different_texts_say_how_many_and_what_helps():
    texts = [f"A{at:02}.{at % 7}" for at in np.random.default_rng(2).integers(0, 300, 30_000)]
    reason = guess(look_at(pa.table({"icd": texts, "x": np.arange(30_000) / 7})))["icd"].reason
    assert reason.startswith(f"CHECK: {found_in(texts)} different texts: init proposes at most 200 as categories")
    assert "keep the first characters" in reason


@pytest.mark.parametrize(
    ("many", "step", "kind", "role"),
    [(420, 37, "integer", "dropped"), (60, 37, "categorical", "masked"), (420, 1_000, "integer", "masked")],
)
def test_long_numbers_that_repeat_are_codes_but_for_amounts(tmp_path, many, step, kind, role):
    rng = np.random.default_rng(8)
    numbers = 10_000_000 + step * rng.integers(0, many, 12_000)
    found = guess(look_at(pa.table({"reaction": numbers})))["reaction"]
    assert (found.kind.value, found.role.value) == (kind, role)
    assert ("codes of places or things" in found.reason) == (step == 37)
    table = {"age": rng.integers(20, 80, 12_000), "x": rng.normal(size=12_000), "y": rng.normal(size=12_000)}
    table["contact"] = 10**9 - 1 - 10**4 * table["age"] - rng.integers(0, 10**6, 12_000)
    job = yaml.safe_load(proposal(tmp_path, table))
    assert job["columns"]["contact"]["role"] == "masked" and "contact" not in job["analyses"][0]["formula"]


def test_a_status_of_work_is_no_survival_status():
    rng = np.random.default_rng(4)
    status = rng.choice(["employed", "unemployed", "not seeking"], 3_000)
    months = rng.exponential(9, 3_000).round() + 1
    assert set(roles(pa.table({"status": status, "tenure_months": months})).values()) == {Role.MASKED}
    code = rng.choice(["a", "b", "c"], 3_000)
    found = roles(pa.table({"status": code, "search_months": pa.array(months, mask=code != "b")}))
    assert set(found.values()) == {Role.MASKED}  # known of one status alone
    found = roles(pa.table({"status": code, "search_months": pa.array(months, mask=rng.random(3_000) < 0.2)}))
    assert found == {"status": Role.SURVIVAL_STATUS, "search_months": Role.SURVIVAL_TIME}


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        (2.0 ** np.arange(-4, 8), []),  # dilutions
        ([2.5, 5, 10, 20, 25, 40, 50, 75, 80, 100, 150, 200, 250, 500, 1_000], []),  # doses
        ([*2.0 ** np.arange(-4, 8), 5_000], [5_000]),
        ([*2.0 ** np.arange(-4, 8), 9_999], [9_999]),
        ([*range(1, 51), 998, 999], [998, 999]),
        ([*range(1, 51), 4_321], [4_321]),
    ],
)
def test_largest_doses_and_dilutions_are_no_codes(values, codes):
    found = codes_for_unknown(np.array(values, dtype=float), np.full(len(values), 30))
    assert found == dict.fromkeys(map(float, codes), 30)


@pytest.mark.parametrize(
    ("name", "texts"),
    [("patient", True), ("patient", False), ("pseudonym", True), ("pseudonym", False), ("Versicherter", False),
     ("Fall", False), ("subject", True), ("pseudo", True)],
)  # fmt: skip
def test_person_numbers_are_units_whatever_their_rows_share(name, texts):
    """One person has very many rows, and nothing is constant: only the name says what the column is."""
    rng = np.random.default_rng(7)
    who = np.repeat(np.arange(700), [40, *rng.integers(1, 6, 699)])
    numbers = 10_000 + rng.permutation(700)[who]
    column = [f"P{number}" for number in numbers] if texts else numbers
    table = {name: column, "cost": rng.lognormal(5, 1, len(who)), "ward": rng.choice(["a", "b", "c"], len(who))}
    assert guess(look_at(pa.table(table)))[name].role is Role.UNIT


def test_sex_with_null_births_for_men_is_no_class_of_births():
    rng = np.random.default_rng(8)
    sex, measured = rng.choice(["f", "m"], 2_000), rng.random(2_000) < 0.7
    births = pa.array(rng.poisson(2.0, 2_000), mask=sex == "m")
    dose = pa.array(rng.normal(size=2_000), mask=~measured)
    table = {"sex": sex, "births": births, "measured": np.where(measured, "t", "f"), "dose": dose}
    guesses = guess(look_at(pa.table(table)))
    assert guesses["sex"].role is Role.MASKED and guesses["measured"].role is Role.DROPPED
    table["unit"] = pa.array(rng.choice(["mg", "ml"], 2_000), mask=~measured)  # a question before both
    assert guess(look_at(pa.table(table)))["measured"].role is Role.MASKED


def test_survey_weights_are_found_by_name_and_values() -> None:
    """Not of a body, not with nulls or zeros; the columns that decide them are proposed with a question."""
    rng = np.random.default_rng(5)
    region, sex = rng.choice(["a", "b", "c"], 900), rng.choice(["f", "m"], 900)
    decided = pd.Series(region).map({"a": 40.0, "b": 90.0, "c": 200.0}).to_numpy()
    body = rng.normal(np.where(sex == "f", 66, 80), 12).round(1)
    other = {"region": region, "sex": sex, "age": rng.integers(18, 90, 900)}
    for name in ("weight", "Gewicht", "POIDS", "hh_wt", "pondération", "Hochrechnungsfaktor", "peso_muestral"):
        assert roles(pa.table(other | {name: decided}))[name] is Role.SAMPLING_WEIGHT
    assert roles(pa.table(other | {"weight": body}))["weight"] is Role.MASKED
    assert roles(pa.table(other | {"weight": body, "pweight": body * 40}))["pweight"] is Role.SAMPLING_WEIGHT
    for odd in (np.nan, 0.0, -1.0):
        assert (
            roles(pa.table(other | {"pweight": np.where(np.arange(900) == 5, odd, decided)}))["pweight"] is Role.MASKED
        )
    assert roles(pa.table(other | {"income": decided}))["income"] is Role.MASKED
    replicates = {f"repwgt{at}": decided * rng.choice([0.5, 1.5], 900) for at in range(4)}
    replicates |= {f"r{at}": decided * rng.choice([0.0, 2.0], 900) for at in range(8)}  # balanced half-samples
    numbers = {f"score{at}": rng.uniform(0, 2 * decided.mean(), 900) for at in range(5)}  # of the same sums
    replicates |= {f"wt_{at}": decided * rng.choice([0.5, 1.5], 900) for at in range(8)}
    replicates["wt_0"][3] = np.nan
    found = roles(pa.table(replicates | other | numbers | {"pweight": decided}))
    assert {name for name, role in found.items() if role is Role.REPLICATE_WEIGHT} == set(replicates)
    assert found["pweight"] is Role.SAMPLING_WEIGHT


def test_a_class_that_decides_a_weight_is_released_with_it(tmp_path: Path) -> None:
    """Firms have weights by size class: a job without the class would not be valid. A rule gives it by their staff."""
    rng = np.random.default_rng(3)
    staff = np.floor(np.exp(rng.normal(2.5, 1.3, 4_000)))
    size = np.digitize(staff, [10, 50])
    table = {"staff": staff, "size": [["micro", "small", "large"][at] for at in size], "x": rng.normal(size=4_000)}
    text = proposal(tmp_path, table | {"weight": np.array([18.5, 6.25, 1.5])[size]})
    job = yaml.safe_load(text)
    assert job["columns"]["weight"]["by"] == ["size"] and job["columns"]["size"]["role"] == "masked"
    assert 'role: masked  # CHECK: a class of "staff"' in text and job["rules"] == ["staff -> size"]
    assert preview(parse_job(job)).exit_code == 0
    swapped = list(table["size"])
    swapped[int(size.argmin())] = "large"
    pq.write_table(pa.table(table | {"size": swapped, "weight": np.ones(4_000)}), job["input"])
    with pytest.raises(InputError, match="2 values of 'size' with numbers that belong to another one"):
        preview(parse_job(job))


def test_items_are_amounts_where_categories_would_be_too_many(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    items = {f"q{at}": rng.choice([1, 2, 3, 4, 5, 9], 20_000, p=[0.5, 0.4, 0.04, 0.03, 0.02, 0.01]) for at in range(70)}
    job = yaml.safe_load(
        proposal(tmp_path, items | {"sex": rng.choice(["f", "m"], 20_000), "x": rng.normal(size=20_000)})
    )
    assert {job["columns"][name]["kind"] for name in items} == {"integer"}
    assert job["columns"]["sex"]["kind"] == "binary"


def test_what_moves_weighted_shares_decides_a_weight_too(tmp_path: Path) -> None:
    """Sex adds 1 % to what regions explain, and shares are some standard errors off without it; noise is none."""
    rng = np.random.default_rng(3)
    region, sex, noise = rng.integers(0, 6, 6_000), rng.choice(["f", "m"], 6_000), rng.choice(list("pq"), 6_000)
    weight = 100.0 * 2.0**region * np.where(sex == "f", 0.9, 1.1) * np.exp(rng.normal(0, 0.15, 6_000))
    table = {"region": [f"r{each}" for each in region], "noise": noise, "sex": sex, "age": rng.integers(18, 90, 6_000)}
    text = proposal(tmp_path, table | {"weight": weight.round(2)})
    assert yaml.safe_load(text)["columns"]["weight"]["by"] == ["region", "sex"]


@pytest.mark.parametrize(("psus", "again"), [(6, False), (6, True), (3, False)])
def test_a_design_is_proposed_where_names_and_nesting_are_plain(tmp_path: Path, psus: int, again: bool) -> None:
    """Units are not masked as numbers; what cannot be kept is a comment with counts."""
    table = survey_of_units(1, psus, 50).rename(columns={"region": "stratum"})
    if again:
        table["psu"] -= table.groupby("stratum")["psu"].transform("min")
    text = propose_job(small.write_table(tmp_path, pa.Table.from_pandas(table)), str(tmp_path / "out"), 5)
    job, flat = yaml.safe_load(text), " ".join(text.replace("\n#", "").split())
    assert f"4 strata ('stratum') of {psus} to {psus} sampling units ('psu') in {200 * psus:,} sampled rows" in flat
    roles_of = {name: job["columns"][name]["role"] for name in ("stratum", "psu")}
    assert "psu" not in job["columns"]["weight"].get("by", ())
    if psus < 4:
        assert "4 strata have fewer than 4 units: join strata" in flat and "design" not in job
        assert roles_of == {"stratum": "masked", "psu": "dropped"}
    else:
        wanted = {"strata": "stratum", "cluster": "psu", "random_groups": 2, "replicates": "none"}
        assert job["design"] == wanted and job["strata"]["by"] == ["stratum", "psu"]
        assert set(roles_of.values()) == {"key"} and parse_job(job)


def test_random_groups_that_masks_refuse_are_no_design(tmp_path: Path) -> None:
    """One large unit a stratum leaves too few records to the group without it; two columns may be the strata."""
    table = survey_of_units(1, 6, 50).rename(columns={"region": "stratum"})
    uneven = table[(table["psu"] % 6 == 0) | (np.arange(len(table)) % 12 == 0)]
    for each, words in (
        (uneven, "and masks need"),
        (table.assign(post_stratum=table["stratum"]), "may be the strata: stratum, post_stratum"),
    ):
        path = small.write_table(tmp_path, pa.Table.from_pandas(each, preserve_index=False))
        text = propose_job(path, str(tmp_path / "out"), 5)
        assert words in text and "design" not in yaml.safe_load(text)


def test_a_proposed_design_keeps_labels_and_rows_apart(tmp_path: Path) -> None:
    """Its columns keep what the code book says; units do not come out whole."""
    table = survey_of_units(1, 6, 100).rename(columns={"region": "stratum"})
    table["hh_id"] = np.arange(len(table)) // 2
    field = {"name": "psu", "type": "integer", "title": "Area of enumeration"}
    (tmp_path / "book.json").write_text(json.dumps({"fields": [field]}))
    path = small.write_table(tmp_path, pa.Table.from_pandas(table, preserve_index=False))
    text = propose_job(path, str(tmp_path / "out"), 5, codebook=str(tmp_path / "book.json"))
    job = yaml.safe_load(text)
    assert job["design"] and job["columns"]["psu"]["label"] == "Area of enumeration"
    assert job["columns"]["hh_id"]["role"] == "unit" and "unit: pseudonym" not in text


def test_strata_numbers_and_units_without_a_weight_are_asked() -> None:
    rng = np.random.default_rng(5)
    table = {"SDMVSTRA": rng.integers(1, 200, 900), "psu": rng.integers(1, 200, 900), "age": rng.integers(18, 90, 900)}
    assert "numbers sampling units" in guess(look_at(pa.table(table)))["psu"].reason
    assert roles(pa.table(table | {"pweight": rng.uniform(1, 9, 900)}))["SDMVSTRA"] is Role.DROPPED


@pytest.mark.parametrize(
    ("names", "sure"),
    [
        (("WTMEC2YR", "_LLCPWT", "hhweight", "surveyweight", "perwt", "popwt"), True),
        (("weight", "newwt"), None),
        (("birthweight", "Körpergewicht", "overweight", "growth", "weight_g", "Gewicht (kg)", "peso al nacer"), False),
    ],
)
def test_names_of_survey_weights(names: tuple[str, ...], sure: bool | None) -> None:
    assert {names_weight(name) for name in names} == {sure}


def test_a_survey_weight_with_zeros_is_asked(tmp_path: Path) -> None:
    weights = np.where(np.arange(400) % 20, 120.5 + np.arange(400), 0.0)
    path = small.write_table(tmp_path, pa.table({"age": np.arange(400) % 80, "pweight": weights}))
    text = propose_job(path, "out", 5)
    assert "named as a survey weight, and some values are missing, 0 or below" in " ".join(text.split("\n  # "))
    assert yaml.safe_load(text)["columns"]["pweight"]["role"] == "masked"


@pytest.mark.parametrize("formula", ["days ~ begin", "I(end - begin) ~ days"])
def test_no_job_is_proposed_whose_analysis_takes_a_date(tmp_path: Path, formula: str) -> None:
    """`plan` would refuse it; a condition may name one."""
    table = pd.DataFrame({"days": range(300), "begin": pd.date_range("2020-01-01", periods=300)})
    table.assign(end=table["begin"] + pd.to_timedelta(9, "D")).to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(JobError, match="begin is a date, and a formula takes numbers and categories; add a column"):
        propose_job(str(tmp_path / "in.csv"), "out", 5, [RecipientAnalysis(name="m", model="linear", formula=formula)])


def test_survey_weights_stay_for_analyses_that_do_not_name_them(tmp_path: Path) -> None:
    """Such models take them by default; columns that no analysis names do not decide them."""
    rng = np.random.default_rng(5)
    region = rng.choice(["a", "b", "c"], 900)
    weight = pd.Series(region).map({"a": 40.0, "b": 90.0, "c": 200.0}).to_numpy() * rng.uniform(0.9, 1.1, 900)
    table = {"region": region, "x": rng.normal(size=900), "y": rng.normal(size=900), "pweight": weight, "zip": region}
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    given = [RecipientAnalysis(name="m", model="linear", formula="y ~ x + region")]
    job = yaml.safe_load(propose_job(str(tmp_path / "in.parquet"), "out", 5, given))
    assert job["columns"]["pweight"]["role"] == "sampling_weight" and job["columns"]["pweight"]["by"] == ["region"]


@pytest.mark.parametrize(
    ("type_", "advice"),
    [(pa.time32("s"), "; as numbers they can"), (pa.duration("s"), "; as numbers they can"), (pa.binary(), "")],
)
def test_times_of_day_and_durations_are_released_as_numbers(type_, advice):
    values = pa.array([b"a", b"b"] * 30, type_) if pa.types.is_binary(type_) else pa.array(range(60), type_)
    reasons = {name: each.reason for name, each in guess(look_at(pa.table({"odd": values}))).items()}
    assert reasons["odd"] == "values of this type cannot be released" + advice


@pytest.mark.parametrize(("days", "gap"), [(False, 0.0), (True, 0.0), (True, 1.0)])
def test_rows_that_begin_where_the_row_before_ends_are_told(tmp_path: Path, days: bool, gap: float) -> None:
    rng, person = np.random.default_rng(3), np.repeat(np.arange(400), 4)
    lengths = rng.integers(20, 400, 1600)
    sums = pd.Series(lengths + int(gap)).groupby(person).cumsum() + rng.integers(0, 5000, 400)[person]
    stop = sums.to_numpy() - int(gap)
    values = {"start": stop - lengths, "stop": stop, "other": stop - lengths + rng.integers(1, 300, 1600)}
    if days:
        values = {name: pa.array(each, pa.int32()).cast(pa.date32()) for name, each in values.items()}
    shuffled = pa.table({"person_id": person, "age": rng.integers(20, 90, 400)[person], **values})
    shuffled = shuffled.take(rng.permutation(1600))
    text = " ".join(proposal(tmp_path, shuffled).replace("\n  #", "").split())
    after = " the day after" if gap else ""
    told = f'100 % of the later rows of a "person_id" begin (in "start"){after} where the row before ends (in "stop")'
    assert told in text and text.count("later rows of a") == 1
    table = shuffled.sort_by([("person_id", "ascending"), ("start", "ascending")])
    loose = table.set_column(3, "stop", table["other"]).rename_columns([*table.column_names[:4], "further"])
    assert "later rows of a" not in proposal(tmp_path / "loose", loose)


def test_a_rare_value_of_whole_units_gets_a_level(tmp_path: Path) -> None:
    """Nearly all rows have the common value by chance: one unit of two values is enough for none."""
    rng, person = np.random.default_rng(4), np.repeat(np.arange(400), 3)
    rare = (rng.random(400) < 0.06)[person]
    table = {"person_id": person, "wage": rng.normal(size=1200), "area": rng.integers(0, 6, 400)[person]}
    table |= {"sex": rng.integers(0, 2, 400)[person], "support": rare, "nearly": rare ^ (np.arange(1200) == 7)}
    columns = yaml.safe_load(proposal(tmp_path, table))["columns"]
    assert "level" in columns["support"] and "level" not in columns["nearly"]


def test_a_mark_or_nothing_is_masked_and_a_constant_dropped(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(4), 500
    mark = pd.Series(np.where(rng.random(rows) < 0.1, "x", None))
    few, one = mark.where(np.arange(rows) < 60), np.where(mark.isna(), np.nan, 1.0)
    table = {"age": rng.integers(18, 90, rows), "wage": rng.normal(size=rows), "mark": mark, "few": few, "one": one}
    columns = yaml.safe_load(proposal(tmp_path, table | {"always": ["x"] * rows, "never": [None] * rows}))["columns"]
    assert {name for name, each in columns.items() if each["role"] == "dropped"} == {"few", "always", "never"}
    assert {columns[name]["kind"] for name in ("mark", "one")} == {"categorical"}


def test_a_text_for_each_year_is_a_class_of_the_year(tmp_path: Path) -> None:
    """Wherever it stands; a code for each fee is none, as the rule of its fee says more."""
    rng = np.random.default_rng(4)
    year = rng.integers(2018, 2022, 600)
    for names in (["label", "year"], ["year", "label"]):
        table = {"label": [f"{each}/{each - 1999}" for each in year], "year": year}
        table = {name: table[name] for name in names} | {"x": rng.normal(size=600), "y": rng.normal(size=600)}
        columns = yaml.safe_load(proposal(tmp_path, table))["columns"]
        assert columns["label"]["role"] == "dropped" and columns["year"]["role"] == "masked"


def test_a_column_of_nearly_all_units_gets_no_level(tmp_path: Path) -> None:
    rng, person = np.random.default_rng(4), np.repeat(np.arange(400), 3)
    table = {"person_id": person, "sex": rng.integers(0, 2, 400)[person], "area": rng.integers(0, 6, 400)[person]}
    table |= {"wage": rng.normal(size=1200)}
    table["area"][[0, 30]] = (table["area"][[0, 30]] + 1) % 6  # two units moved
    columns = yaml.safe_load(text := proposal(tmp_path, pa.table(table)))["columns"]
    assert "level" in columns["sex"] and "level" not in columns["area"]
    assert "nearly all units of the sample have one value" in text


def test_a_multiple_of_another_column_is_kept_by_a_rule(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(5), 600
    usd, celsius = rng.gamma(2, 500, rows).round(2), rng.normal(37, 0.6, rows).round(1)
    days, age = rng.integers(1, 4000, rows), rng.integers(18, 90, rows)
    table = {"age": age, "usd": usd, "eur": 1.1 * usd, "chf": (0.93 * usd).round(2), "celsius": celsius}
    table |= {"fahrenheit": (32 + 1.8 * celsius).round(2), "days": days, "months": days / 30.4375, "same": age}
    table |= {"left": (12345.678 - 2.5 * celsius).round(3), "weeks": days / 7}
    table |= {"noisy": (2 * usd + rng.normal(0, 0.5, rows)).round(2), "x": rng.normal(size=rows)}
    text = proposal(tmp_path, table)
    job = yaml.safe_load(text)
    rules = ["eur = 1.1 * usd", "chf = 0.93 * usd", "fahrenheit = 1.8 * celsius + 32", "months = days / 30.4375"]
    rules += ["left = 12345.678 - 2.5 * celsius", "weeks = days / 7"]
    assert sorted(job["rules"]) == sorted(rules)
    roles = {name: column["role"] for name, column in job["columns"].items()}
    assert {name for name, role in roles.items() if role == "dropped"} == {"same", "noisy"}
    assert not any(name in job["analyses"][0]["formula"] for name in ("eur", "chf", "fahrenheit", "months"))
    release = anonymize(pa.table(table), {key: job[key] for key in ("columns", "rules")} | {"k": 5}).table
    released = pa.table(release).to_pandas() if not isinstance(release, pd.DataFrame) else release
    assert np.allclose(released["eur"], 1.1 * released["usd"]) and len(released) > 500
    assert (np.abs(released["chf"] - 0.93 * released["usd"]) < 0.00501).all()


def test_orders_and_zeros_of_chance_are_no_comments(tmp_path: Path) -> None:
    """Sixty counts of like names, three orders of which a few rows break, and zeros below an age."""
    rng, rows = np.random.default_rng(7), 3000
    table: dict[str, Any] = {f"n{at}": rng.poisson(np.exp(rng.uniform(-1, 2)), rows) for at in range(40)}
    factor = rng.normal(size=rows)
    for at in range(20):
        close = factor + rng.normal(0, 0.4, rows)
        table[f"amount{at}"] = np.where(close > np.quantile(close, rng.uniform(0.5, 0.95)), np.exp(close).round(2), 0.0)
    chance = proposal(tmp_path, table)
    assert "holds in 9" not in chance and chance.count("all sampled rows in which") <= 5
    first, age = rng.gamma(3, 5, rows).round(1), rng.integers(0, 95, rows)
    last = np.where(rng.random(rows) < 0.996, first + rng.gamma(2, 3, rows), first - 1.0).round(1)
    true = {"dose first": first, "dose last": last, "age": age, "births": rng.poisson(1.0, rows) * (age > 16)}
    told = proposal(tmp_path / "true", true)
    assert "holds in 99." in told and "births == 0 in all sampled rows in which age is below" in told
