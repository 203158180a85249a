"""Units that are released whole: their rows side by side, masked as one record, and below each other again."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from anonpipe import anonymize
from anonpipe.columns import Column
from anonpipe.compare import _study
from anonpipe.encoding.rules import with_differences
from anonpipe.errors import AnonpipeError, EngineError, InputError, JobError
from anonpipe.evaluate.risk import membership_from_moments
from anonpipe.job import wide
from anonpipe.job.model import parse_job
from anonpipe.job.rules import parse_rules
from anonpipe.job.wide import ROWS, TIMES, UnitLayout, rule_of_rows, wide_job, without_values
from anonpipe.pipeline import start, units
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.procedure import by_mask
from anonpipe.pipeline.tasks import unfold
from anonpipe.pipeline.units import correlations_of_rows, fold, sums_of_records
from anonpipe.propose.propose import propose_job
from anonpipe.source import open_source
from anonpipe.storage import release
from anonpipe.two_tables import evaluate_release
from anonpipe.verify.catalogue import held
from tests import small

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)

COLUMNS = {
    "year": {"kind": "integer"},
    "person": {"role": "unit"},
    "born": {"kind": "integer", "level": "unit"},
    "sex": {"kind": "categorical", "level": "unit"},
    "wage": {"kind": "continuous", "step": 0.01},
    "pension": {"kind": "continuous", "step": 0.01},
    "job": {"kind": "categorical"},
    "until": {"kind": "integer"},
    "note": {"role": "dropped"},
}
UNNAMED = {"person": {"role": "dropped"}}
WHOLE = {"unit": "pseudonym", "order": "year"}
RULE = "if job == 'none' then wage == 0"


def panel(persons=500, seed=1, numbers=(1, 2, 3)):
    """Persons of one to three years, in random order, some copied, some without a pension."""
    rng = np.random.default_rng(seed)
    many = rng.choice(numbers, persons)
    who = np.repeat(np.arange(persons), many)
    place = np.arange(len(who)) - np.repeat(np.cumsum(many) - many, many)
    level = rng.normal(0, 0.4, persons)[who]
    working = rng.random(len(who)) < 0.9
    table = pd.DataFrame(
        {
            "year": rng.integers(2000, 2010, persons)[who] + place * rng.choice([1, 2], persons)[who],
            "person": [f"{small.CANARY} {each:04}" for each in who],
            "born": rng.integers(1940, 1990, persons)[who],
            "sex": rng.choice(["f", "m"], persons)[who],
            "wage": np.where(working, np.exp(7 + level + rng.normal(0, 0.1, len(who))).round(2), 0.0),
            "pension": np.where(rng.random(len(who)) < 0.1, np.nan, rng.gamma(2.0, 50.0, len(who)).round(2)),
            "job": np.where(working, rng.choice(["a", "b"], len(who)), "none"),
            "until": 0,
            "note": "x",
        }
    )
    table["until"] = table["year"] + rng.integers(0, 5, len(table))
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


def whole(folder, table, **changes):
    given = pa.Table.from_pandas(table, preserve_index=False)
    changes = {"release": WHOLE, "mask": small.QUICK} | changes
    return small.job(folder, given, changes.pop("columns", COLUMNS), **changes)


NOISE = {"mask": {"method": "noise"}, "gates": {"unchanged_record_rate": 1.0, "exact_small_cells": 1.0}}
"""For tests of what is done with rows of units, whatever masks them."""


def folded(folder, table, **changes):
    job = whole(folder, table, **changes)
    return fold(job, open_source(str(job.input)), folder / "side")


def naive(table, numbers):
    """A record for each person by loops: values of the years in order, and how many there are."""
    records = {}
    for person, rows in table.groupby("person"):
        ordered = rows.sort_values(["year"])
        kept = max((number for number in numbers if number <= len(rows)), default=0)
        if kept:
            record = {"born": ordered["born"].iloc[0], "sex": ordered["sex"].iloc[0], ROWS: kept}
            for at in range(max(numbers)):
                for name in ("year", "wage", "pension", "job", "until"):
                    record[f"{name} (row {at + 1})"] = ordered[name].iloc[at] if at < kept else None
            records[person] = record
    return pd.DataFrame.from_dict(records, orient="index")


@pytest.mark.parametrize("cells", [8_000_000, 1_000])
def test_fold_is_what_loops_give(tmp_path, monkeypatch, cells):
    monkeypatch.setattr(units, "_BUCKET_CELLS", cells)
    few = panel(6, seed=2, numbers=(4,)).assign(person=lambda t: t["person"] + " long")
    table = pd.concat([panel(120), few])
    _, source, told = folded(tmp_path, table)
    assert told.layout.numbers == (1, 2, 3) and told.sizes.tolist()[4] == 6 and sum(told.sizes) == 126
    assert "6 rows of longer units left out" in told.warnings[0] and small.CANARY not in str(told.warnings)
    made = pq.read_table(source.units[0].path).to_pandas().set_index("person")
    wanted = naive(table, told.layout.numbers)
    pd.testing.assert_frame_equal(
        made.sort_index(), wanted[made.columns].sort_index().rename_axis("person"), check_dtype=False
    )
    assert not list((tmp_path / "side").glob("bucket*"))


@pytest.mark.parametrize(
    ("sizes", "numbers"),
    [([0, 50, 50, 50], (1, 2, 3)), ([0, 5, 50, 0, 12, 12], (2, 4)), ([0, 0, 3_000, 90, 9], (2,)), ([0, 60], (1,))],
)
def test_numbers_of_rows_that_few_units_have_are_joined(tmp_path, sizes, numbers):
    assert units._numbers(whole(tmp_path, panel(20)), np.array(sizes)) == numbers


@pytest.mark.parametrize(
    ("sizes", "rows", "left_out"),
    [
        ([0, 50, 50, 50], "fewer than 5 rows", "fewer than 5 units"),
        ([0, 4, 50, 50, 9, 1], "about 10 rows", "fewer than 5 units"),
        ([0, 13, 50, 50, 0, 0, 2], "fewer than 20 rows", "about 15 units"),
    ],
)
def test_recipients_read_how_much_of_units_is_left_out(tmp_path, sizes, rows, left_out):
    """Counts are multiples of what k units may add; that none are left out is not told, either."""
    _, _, told = folded(tmp_path, panel(200))
    layout = dataclasses.replace(told.layout, numbers=(1, 2, 3) if sizes[1] == 50 else (2, 3))
    text = dataclasses.replace(told, layout=layout, sizes=np.array(sizes)).left_out_for_recipients(5)
    assert f"({rows})" in text and f"({left_out})" in text and "Null" not in text


def calendar(persons, seed=3, share=0.85, last=2022):
    """Persons who answered in most of five years, the last one for all the last of the table, with their ages."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"person": np.repeat(np.arange(persons), 5), "year": np.tile(np.arange(last - 4, last + 1), persons)}
    )
    table["born"] = rng.integers(1950, 2000, persons)[table["person"]]
    table["wage"] = (
        rng.normal(10, 1, persons)[table["person"]] + 0.1 * (table["year"] - last) + rng.normal(0, 0.3, len(table))
    )
    table["wage"] = table["wage"].round(2)
    return table[rng.random(len(table)) < share].reset_index(drop=True)


CALENDAR = {name: COLUMNS[name] for name in ("year", "person", "born", "wage")}


def naive_times(table, least):
    """The years of each person by loops: of rare ones the nearest that as many rows have, the rarest first."""
    years = {person: tuple(sorted(rows["year"])) for person, rows in table.groupby("person")}
    while True:
        counts = Counter(years.values())
        rare = [one for one in counts if counts[one] < least and [len(other) for other in counts].count(len(one)) > 1]
        if not rare:
            return years
        one = min(rare, key=lambda one: (counts[one], len(one), one))
        others = [other for other in counts if len(other) == len(one) and other != one]
        near = min(others, key=lambda to: (sum(abs(a - b) for a, b in zip(one, to, strict=True)), -counts[to], to))
        years = {person: near if own == one else own for person, own in years.items()}


@pytest.mark.parametrize("cells", [8_000_000, 1_000])
def test_times_of_units_are_what_loops_give(tmp_path, monkeypatch, cells):
    monkeypatch.setattr(units, "_BUCKET_CELLS", cells)
    monkeypatch.setattr(units, "_MOST_MOVED", 0.3)
    table = calendar(700)
    job, source, told = folded(tmp_path, table, columns=CALENDAR)
    wanted, number = naive_times(table, 20), table.groupby("person").size()
    made = pq.read_table(source.units[0].path).to_pandas().set_index("person")
    kept = number[number >= told.layout.numbers[0]].index
    assert sorted(made.index) == sorted(kept)
    rows = [tuple(int(each) for each in row if each == each) for row in made.filter(like="year (row").to_numpy()]
    assert dict(zip(made.index, rows, strict=True)) == {person: wanted[person] for person in kept}
    assert made[ROWS].to_dict() == number[kept].to_dict() and made.groupby(TIMES).size().min() >= 20
    assert len(set(zip(made[TIMES], rows, strict=True))) == made[TIMES].nunique() > 5
    moved = sum(wanted[person] != tuple(sorted(table["year"][table["person"] == person])) for person in kept)
    assert told.moved == moved > 0 and any(f"'year': {moved} units" in text for text in told.warnings)
    assert f"`{TIMES}` -> `year (row 5)`" in job.rules


def test_times_are_left_where_gaps_say_them(tmp_path, monkeypatch):
    def timed(table, name, **changes):
        columns = {each: CALENDAR.get(each, {"kind": "integer"}) for each in table}
        return folded(tmp_path / name, table, columns=columns, **changes)[2]

    assert not timed(calendar(300, share=1.0), "all").layout.timed  # one year a row
    assert not timed(calendar(120), "rare").layout.timed  # many would be moved
    assert timed(calendar(1_500), "many").layout.timed
    table = calendar(600, share=1.0)
    table.loc[table["person"] < 15, "year"] -= 1
    table["age"] = table["year"] - table["born"]
    aged = timed(table, "aged", rules=["age = year - born"])
    assert aged.moved == 0 and aged.left_out == 15 and aged.layout.timed and "rule ties them" in aged.warnings[-1]
    monkeypatch.setattr(units, "_MOST_TIMES", 4)
    assert not timed(calendar(1_500), "times").layout.timed


def timetable(units_of, rule=None, k=5):
    """The patterns of times by code, and the timetable, of units with given years."""
    years = sorted({year for pattern in units_of for year in pattern})
    patterns = np.full((len(units_of), units._MOST_TIMES), np.inf)
    for at, pattern in enumerate(units_of):
        patterns[at, : len(pattern)] = pattern
    times = units._Times(pa.array(years), *units._counted(patterns, np.array(list(units_of.values()))))
    job = SimpleNamespace(k=k, release=SimpleNamespace(order="year"), parsed_rules=[rule] if rule else [])
    known = sorted({len(pattern) for pattern in units_of})
    found = units._timetable(job, times, known)
    if found is None:
        return None
    by_code = Counter()
    for pattern, count in units_of.items():
        row = np.append(pattern, [np.inf] * (known[-1] - len(pattern))).astype(float)
        by_code[found.codes.get(row.tobytes())] += count
    return by_code, found


AGE = SimpleNamespace(names=("age", "year", "born"))


def test_no_pattern_of_few_units_stays_where_none_may_move():
    few = {(1, 2): 4, (2, 3): 4, (3, 4): 4, (1, 4): 4, (1, 3): 4, (2, 4): 90}
    by_code, found = timetable({(1, 2, 3): 500, (2, 3, 4): 500} | few, AGE)
    assert by_code[-1] == found.left_out == 20 and min(by_code[each] for each in by_code if each >= 0) >= 20
    by_code, found = timetable({(1,): 30, (2,): 30, (1, 2, 3): 500, (2, 3, 4): 500} | few | {(2, 4): 4}, AGE)
    assert found.numbers == (1, 3) and by_code[None] == 24  # nobody has two rows then: they keep the first


def test_times_that_would_move_far_are_left():
    usual = {(2018, 2019): 500, (2017, 2018): 411}
    by_code, found = timetable(usual | {(2016, 2017): 10})
    assert found.moved == 10 and sorted(by_code.values()) == [421, 500]
    assert timetable(usual | {(1990, 1991): 19}) is None


def visits(kind, persons=1_500, most=4):
    """Days of the visits of each person, ascending, between 0 and 2,000."""
    rng = np.random.default_rng(3)
    for number in rng.integers(1, most + 1, persons):
        if kind == "window":
            yield np.sort(rng.integers(0, 2_001, number))
        else:
            yield rng.integers(0, 1_700) + 90 * np.arange(number)


@pytest.mark.parametrize(
    ("kind", "bounds", "shares"),
    [
        ("window", [0, 2_000], True),
        ("window", [0, 2_100], True),
        ("window", [0, None], False),
        ("window", [500, 2_000], False),
        ("regular", [0, 2_000], False),
    ],
)
def test_shares_of_a_window_or_gaps_whichever_keep_more(kind, bounds, shares):
    found = np.full((1_500, 4), np.inf)
    for row, days in zip(found, visits(kind), strict=True):
        row[: len(days)] = days
    job = parse_job(
        {
            "k": 5,
            "input": "none",
            "output": "none",
            "columns": {"person": {"role": "unit"}, "day": {"kind": "integer", "bounds": bounds}},
            "mask": {"method": "local_synthesis"},
            "release": {"unit": "pseudonym", "order": "day"},
        }
    )
    for known in ((1, 2, 3, 4), (1, 2, 3, 4, 7)):  # units of seven rows are not among those looked at
        assert units._prefers_shares(job, found, known) is shares
    known = np.where(np.isfinite(found), found, np.nan)
    made = units._simulated(known, np.isfinite(found).sum(axis=1))
    assert (np.isnan(made) == np.isnan(known)).all()
    assert all(set(new[~np.isnan(new)]) <= set(old) for old, new in zip(known.T, made.T, strict=True))


def test_visits_in_a_window_end_with_it(tmp_path):
    """Sums of gaps that know nothing of the end went 500 days beyond it, and no bounds helped."""
    days = list(visits("window"))
    who = np.repeat(np.arange(len(days)), [len(each) for each in days])
    table = pd.DataFrame(
        {"person": who, "day": np.concatenate(days), "cost": np.random.default_rng(4).normal(size=len(who))}
    )
    job = {
        "k": 5,
        "columns": {
            "person": {"role": "unit"},
            "day": {"kind": "integer", "bounds": [0, 2_000]},
            "cost": {"kind": "continuous"},
        },
        "mask": {"method": "local_synthesis"},
        "gates": {"column_shapes": 1},
        "release": {"unit": "pseudonym", "order": "day"},
    }
    released = anonymize(table, job).table
    assert released["day"].between(0, 2_000).all() and (released.groupby("person")["day"].diff().dropna() >= 0).all()
    last = [
        each.groupby("person")["day"].agg(["size", "max"]).groupby("size")["max"].mean() for each in (table, released)
    ]
    assert np.allclose(*last, rtol=0.05)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_infinite_time_is_named_by_its_column(tmp_path):
    table = calendar(900).astype({"year": float})
    table.loc[table.index[table["person"] == 7][-1], "year"] = np.inf
    job = whole(tmp_path, table, columns=CALENDAR | {"year": {"kind": "continuous", "step": 1}})
    with pytest.raises(InputError, match=r"column 'year.* holds 1 row with a value that is infinite") as told:
        small.run(job)
    assert TIMES not in str(told.value)


def test_a_panel_that_ends_with_a_year_is_released(tmp_path):
    table = calendar(900)
    job = whole(
        tmp_path,
        table,
        columns=CALENDAR,
        gates={"column_shapes": 1},
        measure={"utility": True, "risk": False, "allow": "a test"},
    )
    small.run(job)
    rows = small.released(job).to_pandas()
    assert set(rows["year"]) == set(table["year"]) and not rows.duplicated(["person", "year"]).any()
    assert (rows.groupby("person")["year"].diff().dropna() > 0).all()
    shares = [each["year"].value_counts(normalize=True) for each in (rows, table)]
    assert (shares[0] - shares[1]).abs().max() < 0.02
    patterns = [set(each.sort_values("year").groupby("person")["year"].agg(tuple)) for each in (rows, table)]
    assert patterns[0] <= patterns[1]


def test_order_of_rows_in_the_input_does_not_matter(tmp_path):
    table = panel(150)
    table = pd.concat([table, table.iloc[:20]])  # copies: a person has equal rows
    made = [
        pq.read_table(
            folded(tmp_path / str(seed), table.sample(frac=1, random_state=seed), release=how)[1].units[0].path
        )
        for how in (WHOLE, {"unit": "pseudonym"})
        for seed in (1, 2)
    ]
    assert made[0].equals(made[1]) and made[2].equals(made[3])
    first = made[2].column("year (row 1)").to_numpy() <= made[2].column("year (row 2)").fill_null(9999).to_numpy()
    assert 0.3 < np.mean(first[made[2].column(ROWS).to_numpy() > 1]) < 0.8  # rows come in random order


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with small.private_home(folder, "9f3c17a2b85de06441c7f29e8ab350d6" * 2):
        job = whole(folder, panel(), rules=[RULE, "year <= until"], release=WHOLE | {"file_rows": 1_000})
        yield job, small.run(job)


def test_release_has_whole_units(outcome):
    job, done = outcome
    assert done.version is not None, done.verdict
    table, original = small.released(job).to_pandas(), panel()
    assert list(table) == [name for name in original if name != "note"] and table["person"].dtype == np.int64
    by = table.groupby("person", sort=False)
    assert (by[["born", "sex"]].nunique(dropna=False) == 1).all(axis=None)
    assert (by["year"].diff().dropna() >= 0).all()
    assert sorted(by.ngroup().unique()) == list(range(500)) and sorted(table["person"].unique()) == list(range(1, 501))
    assert table[["year", "wage", "job"]].notna().all(axis=None) and 0.05 < table["pension"].isna().mean() < 0.15
    assert (table.loc[table["job"] == "none", "wage"] == 0).all() and (table["year"] <= table["until"]).all()
    sizes = [frame.groupby("person").size().value_counts(normalize=True).sort_index() for frame in (table, original)]
    assert np.allclose(*sizes, atol=0.02)
    (rows,) = (check for check in done.verdict.checks if check.key == "units.rows")
    assert rows.measured == pytest.approx(np.abs(np.cumsum(sizes[0] - sizes[1])).max())
    assert rows.outcome == "passed" and rows.limit == pytest.approx(0.05 + 1.95 * np.sqrt(2 / 500))

    def lag(frame):
        ordered = frame[frame["wage"] > 0].sort_values(["person", "year"])
        following = ordered.groupby("person")["wage"].shift(-1)
        return np.log(ordered["wage"]).corr(np.log(following))

    assert lag(original) > 0.9 and lag(table) > 0.6  # of loose rows it is about 0
    assert "500 of 1 to 3 rows each, under new numbers in 'person'" in "\n".join(done.summary)
    assert f"RELEASED {len(table):,} rows" in done.summary[0] and done.dropped == ("note",)


@pytest.mark.parametrize("most", [150, 10])
def test_the_number_of_rows_is_counted(tmp_path, monkeypatch, most):
    """Side by side and linked; but where a rule names the column, or a unit has another number."""
    monkeypatch.setattr(wide, "MOST_COLUMNS", most)
    table = panel(300, numbers=(1, 2, 3, 4))[["person", "year", "wage"]]
    table["size"] = table.groupby("person")["person"].transform("size").astype("int8")
    columns = {name: COLUMNS[name] for name in ("person", "year", "wage")} | {
        "size": {"kind": "integer", "level": "unit"}
    }
    done = small.run(job := whole(tmp_path, table, columns=columns, rules=[]))
    assert any(line.endswith("counted in the release: 'size'") for line in done.warnings)
    made = small.released(job)
    assert made.schema.field("size").type == pa.int8() and made.num_rows > 500
    released = made.to_pandas()
    assert (released["size"] == released.groupby("person")["person"].transform("size")).all()
    for changes, other in (({"rules": ["if size == 1 then wage > 0"]}, table), ({}, table.replace({"size": {1: 2}}))):
        if other is table:
            other = table.assign(wage=table["wage"] + 1)
        _, _, told = folded(tmp_path / str(len(changes)), other, columns=columns, **({"rules": []} | changes))
        assert told.layout.counted == ()


def test_manifest_and_reports_are_of_the_rows(outcome):
    job, done = outcome
    where = release.resolve(job.output)
    assert release.check(job.output) == []
    manifest = release.read_manifest(where)
    rows = small.released(job).num_rows
    assert manifest["rows"] == rows == sum(file["rows"] for file in manifest["files"])
    assert manifest["k_counts"] == "units of several rows" and manifest["units"]["units"] == 500
    assert [rule["rule"] for rule in manifest["rules"]] == [RULE, "year <= until"]
    assert list(manifest["columns"]) == ["year", "person", "born", "sex", "wage", "pension", "job", "until"]
    book = json.loads(where.filesystem.cat_file(where.path("_datapackage.json")))
    named = [field["name"] for field in book["resources"][0]["schema"]["fields"]]
    assert named == list(manifest["columns"])
    pages = where.filesystem.cat_file(where.path("_report.html")).decode(), open(done.report).read()
    assert [line.name for line in done.for_recipients.columns] == named
    assert all("Units are released whole" in page and "lag 1, release" in page for page in pages)
    assert "lag 1, original" in pages[1] and "lag 1, original" not in pages[0]
    shown = done.for_recipients.units
    assert shown.line.startswith("500") and all(each[1] is None for each in shown.sizes)
    assert any("last rows of longer units" in each for each in manifest["not_kept"])
    assert set(manifest["not_kept"]) <= set(done.for_recipients.not_guaranteed)
    assert all(figures[::2] == (None,) * 3 for _, figures in shown.columns)
    assert all(small.CANARY not in text for text in (*pages, json.dumps(manifest), *done.warnings))


def test_same_bytes_for_any_order_and_after_stops(tmp_path):
    table, made = panel(300), []
    for at, stops in enumerate((["scan", "write", "rows of units"], [])):
        job = whole(tmp_path, table.sample(frac=1, random_state=at), output=str(tmp_path / f"out-{at}"), **NOISE)
        for stage in stops:
            with small.stopping_at(stage), pytest.raises(AnonpipeError):
                small.run(job, resume=True)
            assert not (tmp_path / f"out-{at}" / "versions").exists()
        small.run(job, resume=True)
        made.append(small.hashes(job))
        assert [path for path in small.stagings() if path.is_dir()] == []
    assert made[0] == made[1]


def test_input_replaced_while_it_is_read_is_refused(tmp_path, monkeypatch):
    job = whole(tmp_path, panel(300))

    def then_replaced(*given):
        made = fold(*given)
        small.write_table(tmp_path, pa.Table.from_pandas(panel(301, seed=5), preserve_index=False))
        return made

    monkeypatch.setattr(start.units, "fold", then_replaced)
    with pytest.raises(InputError, match="changed while it was read"):
        small.run(job)
    assert not (tmp_path / "out" / "versions").exists() and not any(path.is_dir() for path in small.stagings())


def test_logs_know_the_rows_of_whole_units(tmp_path):
    small.run(whole(tmp_path, panel(300), **NOISE))
    plain = {name: {key: each for key, each in column.items() if key != "level"} for name, column in COLUMNS.items()}
    job = whole(tmp_path, panel(300), columns=plain, release={}, repeat={}, output=str(tmp_path / "other"))
    with pytest.raises(AnonpipeError, match="were released at"):
        small.run(job)
    assert "will be refused" in " ".join(preview(whole(tmp_path, panel(300), repeat={}, k=6)).warnings)


@pytest.mark.parametrize("damage", ["swapped", "number", "constant"])
def test_rows_that_differ_from_the_records_are_not_released(tmp_path, monkeypatch, damage):
    true = unfold.to_long

    def damaged(records, layout, schema, before):
        rows = true(records, layout, schema, before).to_pandas()
        if damage == "swapped":
            rows.loc[[0, 5], "wage"] = rows.loc[[5, 0], "wage"].to_numpy()
        elif damage == "number":
            rows["person"] = rows["person"].to_numpy()[::-1]
        else:
            rows.loc[1, "born"] += 1
        return pa.RecordBatch.from_pandas(rows, schema=schema, preserve_index=False)

    monkeypatch.setattr(unfold, "to_long", damaged)
    with pytest.raises(EngineError, match="rows of units differ from the records"):
        small.run(whole(tmp_path, panel(100, numbers=(2, 3)), **NOISE))
    assert not (tmp_path / "out" / "versions").exists()


def test_rows_out_of_order_break_a_gate(outcome, monkeypatch):
    assert "rules.broken" in [check.key for check in outcome[1].verdict.checks]
    layout = UnitLayout("u", "t", (), ("t",), (2,), ("t",))
    schema = pa.schema([(ROWS, pa.int64()), ("t (row 1)", pa.int64()), ("t (row 2)", pa.int64())])
    records = pa.RecordBatch.from_pylist([{ROWS: 2, "t (row 1)": 5, "t (row 2)": 4}], schema=schema)
    rows = unfold.to_long(records, layout, pa.schema([("u", pa.int64()), ("t", pa.int64())]), 7)
    assert rows.to_pydict() == {"u": [8, 8], "t": [5, 4]}


def test_units_of_other_numbers_of_rows_break_a_gate():
    """Of 20,000 units a tenth have one row less; of 40 that is chance."""
    for many, outcome in ((20_000, "failed"), (40, "passed")):
        released = [{"sizes": np.array([0, many // 4])}, {"sizes": np.array([0, many // 4, many // 2])}]
        staging = SimpleNamespace(results=lambda _, found=released: SimpleNamespace(read_all=lambda *_: found))
        sizes = np.array([0, many // 2 - many // 10, many // 2 + many // 10])
        work = SimpleNamespace(folded=SimpleNamespace(sizes=sizes), staging=staging)
        off = unfold.lengths_off(work, SimpleNamespace(files=2))
        assert held("units.rows", *off).outcome == outcome
    assert unfold.lengths_off(SimpleNamespace(folded=None), None) is None


REFUSED = {
    "needs the column that names the unit": {"columns": COLUMNS | {"person": {"role": "identifier"}}},
    "'job', which is categorical: its order is not kept": {"release": {"unit": "pseudonym", "order": "job"}},
    "is no column of the job": {"release": {"unit": "pseudonym", "order": "month"}},
    "give unit: pseudonym too": {"release": {"order": "year"}},
    "methods of this job release rows of groups": {"mask": {"method": "generalize"}},
    "role key takes 'job', which may differ within a unit": {
        "columns": COLUMNS | {"job": {"kind": "binary", "role": "key"}}
    },
    "analysis 'pay' takes 'wage', which may differ": {
        "analyses": [{"name": "pay", "model": "linear", "formula": "wage ~ born"}]
    },
    "analysis 'pay' names 'person', and units": {
        "analyses": [{"name": "pay", "model": "mixed", "formula": "born ~ sex", "groups": "person"}]
    },
    "derives 'sex', which has level: unit": {"rules": ["job -> sex"]},
    "derives 'year', which release.order names, .*, or write year >= until$": {"rules": ["until <= year"]},
    "derives 'year', .*, or name another column first \\(wage \\+ year <= …\\)$": {
        "columns": COLUMNS | {"year": {"kind": "integer", "bounds": [0, None]}},
        "rules": ["year + wage <= 99999"],
    },
    "leave out cluster.units: whole": {"mask": None, "cluster": {"method": "mdav", "units": "whole"}},
}


@pytest.mark.parametrize("text", REFUSED)
def test_job_that_cannot_work_is_refused(tmp_path, text):
    with pytest.raises(JobError, match=text):
        whole(tmp_path, panel(30), **REFUSED[text])


UNFIT = {
    "'sex' has level: unit, and differs within 1 of 100 units of": (lambda t: t.assign(sex=["d", *t["sex"][1:]]), {}),
    "release.order names 'year', which holds 1 row with a null": (lambda t: t.assign(year=[None, *t["year"][1:]]), {}),
    "has 1 row without a value": (lambda t: t.assign(person=[None, *t["person"][1:]]), {}),
    "columns; at most 12 are possible": (lambda t: t[t["person"].isin(sorted(t["person"].unique())[:25])], {}),
    "needs 120 units to release a number of rows, and there are 100": (lambda t: t, {"k": 60}),
    "missing: error": (lambda t: t, {"columns": COLUMNS | {"pension": {"kind": "continuous", "missing": "error"}}}),
}  # fmt: skip


@pytest.mark.parametrize("text", UNFIT)
def test_table_that_cannot_work_is_refused_before_any_work(tmp_path, text):
    change, changes = UNFIT[text]
    with pytest.raises((InputError, JobError), match=text) as caught:
        small.run(whole(tmp_path, change(panel(100)), **changes))
    assert small.CANARY not in str(caught.value) and not any(path.is_dir() for path in small.stagings())


@pytest.mark.parametrize(("row", "values"), [(3, 0), (3, 6), (1, 0)])
def test_a_column_that_few_units_have_in_a_row_is_null_there(tmp_path, row, values):
    table = panel(1200, numbers=(3,))
    in_row = table.sort_values(["person", "year"]).groupby("person").cumcount().reindex(table.index) == row - 1
    table["pension"] = table["pension"].fillna(100.0).where(~in_row | (np.cumsum(in_row) <= values))
    job = whole(tmp_path, table, gates={"covariance": 0.2}, measure=small.OFF)
    done = small.run(job)
    assert done.version is not None and f"'pension (row {row})'" in str(done.warnings), done.verdict
    told = " ".join(release.read_manifest(release.resolve(job.output))["not_kept"])
    assert f"Null in the release, as few units have a value: 'pension (row {row})'." in told
    rows = small.released(job).to_pandas().sort_values(["person", "year"], kind="stable")
    place = rows.groupby("person").cumcount() + 1
    assert rows["pension"].isna().equals(place == row)


def test_conditions_on_columns_that_are_null_in_first_rows(tmp_path):
    """As adverse events before a treatment: what is met in these rows alone holds, and is said of the others, too."""
    table = panel(1200, numbers=(3,))
    first = table.sort_values(["person", "year"]).groupby("person").cumcount().reindex(table.index) == 0
    table["pension"] = table["pension"].fillna(100.0).mask(first)
    table["round"] = np.where(first, "start", "later")
    rules = ["if pension > 0 then wage >= 0", "if round == 'start' then pension is null"]
    columns = COLUMNS | {"round": {"kind": "binary"}}
    job = whole(tmp_path, table, columns=columns, rules=rules, gates={"covariance": 0.2}, measure=small.OFF)
    assert small.run(job).version
    rows = small.released(job).to_pandas()
    assert (rows["pension"].isna() == (rows["round"] == "start")).all()
    with pytest.raises(InputError, match="fewer than k=5 rows"):
        small.run(whole(tmp_path / "none", table, columns=columns, rules=["if round == 'stop' then wage >= 0"]))


@pytest.mark.parametrize(
    ("rule", "empty"),
    [
        ("if a is null then b is null", "ab"),
        ("if a > 0 then c > 0", "ab"),
        ("if c > a then c > 0", "ab"),
        ("if a is null and b > 0 then c > 0", "ab"),
        ("if c > 0 then a is null", "ab"),
        ("if c > 0 then a is not null", "b"),
        ("if a is null then c > 0", "b"),
        ("if a is null then b is null and c > 0", ""),
    ],
)
def test_columns_without_a_value_that_conditions_leave_null(rule, empty):
    rules = parse_rules([rule], {name: Column(kind="continuous") for name in "abc"})
    assert without_values(rules, set("ab")) == set(empty)


def test_rules_hold_for_every_row():
    job = parse_job(
        {
            "input": "a", "output": "b", "k": 5, "release": WHOLE, "columns": COLUMNS,
            "rules": ["pension = 2 * wage", RULE, 'if sex == "job" then `wage` > 0'],
        }
    )  # fmt: skip
    layout = UnitLayout(
        "person", "year", ("born", "sex"), ("year", "wage", "pension", "job"), (1, 3), ("year", "wage", "job")
    )
    made = wide_job(job, layout)
    assert "`pension (row 3)` = 2 * `wage (row 3)`" in made.rules
    assert "if `job (row 1)` == 'none' then `wage (row 1)` == 0" in made.rules
    assert "if `job (row 2)` == 'none' and `rows of a unit` in [3] then `wage (row 2)` == 0" in made.rules
    assert 'if sex == "job" and `rows of a unit` in [3] then `wage (row 2)` > 0' in made.rules
    assert made.rules[-1].startswith("if `rows of a unit` in [1] then `year (row 3)` is null and")
    back = dict.fromkeys(text for rule in made.parsed_rules if (text := rule_of_rows(rule.text)))
    assert list(back) == ["pension = 2 * wage", RULE, 'if sex == "job" then wage > 0']
    assert rule_of_rows("begin (row 2) <= end (row 2)") == "begin <= end"


def test_a_rule_of_one_unit_and_a_line_of_totals_are_refused(tmp_path):
    table = panel(200)
    table.loc[table["person"] == table["person"].iloc[0], "wage"] = 99_999.0
    with pytest.raises(InputError, match="fewer than k=5 rows"):
        small.run(whole(tmp_path / "rule", table, rules=["if wage > 99000 then year >= 0"] * 2))
    sums = panel(200).drop(columns=["job", "note"])
    sums.loc[len(sums)] = sums.sum(numeric_only=True).to_dict() | {"person": "Total", "sex": "f"}
    columns = {name: COLUMNS[name] for name in ("person", *COLUMNS) if name in sums}
    with pytest.raises(InputError, match="looks like a line of totals"):
        small.run(whole(tmp_path / "sums", sums, columns=columns))


def test_words_of_rules_are_no_columns():
    columns = {name: COLUMNS[name] for name in ("person", "year", "born", "sex")} | {"null": {"kind": "integer"}}
    rules = ["if sex == 'f' then born is not null"]
    job = parse_job({"input": "a", "output": "b", "k": 5, "release": WHOLE, "columns": columns, "rules": rules})
    layout = UnitLayout("person", "year", ("born", "sex"), ("year", "null"), (2,), ("year", "null"))
    assert rules[0] in wide_job(job, layout).rules


def test_whole_units_are_compared_and_evaluated(outcome):
    job, _ = outcome
    assert {"person", "year"} <= set(_study._needed(job))
    found = evaluate_release(str(job.input), job.output, job)
    assert [check.measured for check in found.verdict.checks if check.key == "columns.forbidden"] == [0]


def test_names_that_columns_side_by_side_need_are_refused():
    columns = COLUMNS | {"wage (row 2)": {"kind": "continuous"}}
    job = parse_job({"input": "a", "output": "b", "k": 5, "release": WHOLE, "columns": columns})
    of_row = ("year", "wage (row 2)", "wage", "pension", "job")
    wide_job(
        job, UnitLayout("person", "year", ("born", "sex", "wage (row 2)"), ("year", "pension", "job"), (1, 3), of_row)
    )
    with pytest.raises(JobError, match=r"needs the name 'wage \(row 2\)', which a column has"):
        wide_job(job, UnitLayout("person", "year", ("born", "sex", "wage (row 2)"), of_row[2:], (1, 3), of_row))
    for name, words in ((ROWS, "needs the name 'rows of a unit'"), ("a`b", "no column with a ` in its name")):
        named = parse_job(
            {"input": "a", "output": "b", "k": 5, "columns": {name: {"role": "unit"}} | columns | UNNAMED}
        )
        with pytest.raises(JobError, match=words):
            wide_job(named, UnitLayout(name, None, ("born",), ("wage",), (1, 2), ()))


def test_lag_and_share_between_units_are_those_of_loops():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(40, 1)) + rng.normal(size=(40, 3))
    values[rng.random((40, 3)) < 0.2] = np.nan
    layout = UnitLayout("u", None, (), ("x",), (3,), ("x",))
    frame = pd.DataFrame(values, columns=layout.wide_names("x"))
    parts = [sums_of_records(["x"], layout, pa.RecordBatch.from_pandas(part)) for part in (frame[:11], frame[11:])]
    lag, share, lag_within = correlations_of_rows(parts[0] + parts[1])[0]
    pairs = [(row[at], row[at + 1]) for row in values for at in (0, 1) if not np.isnan(row[at : at + 2]).any()]
    assert lag == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])
    groups = [row[~np.isnan(row)] for row in values if not np.isnan(row).all()]
    rows, every = sum(map(len, groups)), np.concatenate(groups)
    among = sum(len(g) * (g.mean() - every.mean()) ** 2 for g in groups) / (len(groups) - 1)
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (rows - len(groups))
    mean_rows = (rows - sum(len(g) ** 2 for g in groups) / rows) / (len(groups) - 1)
    apart = values - np.nanmean(values, axis=1, keepdims=True)
    assert lag_within == pytest.approx(np.nanmean(apart[:, :-1] * apart[:, 1:]) / np.nanmean(apart**2))
    assert share == pytest.approx((among - within) / (among + (mean_rows - 1) * within))


def test_whole_units_in_memory_and_their_plan(tmp_path):
    table = panel(300)
    content = {"k": 5, "columns": COLUMNS, "release": {"unit": "pseudonym"}, "measure": small.OFF, "mask": small.QUICK}
    made = anonymize(table.astype({"person": "category"}), content)
    assert made.table["person"].dtype == np.int64  # no list of the original numbers
    assert made.passed and list(made.table) == list(table.columns[:-1])
    assert made.table["person"].nunique() == 300 and made.report.rows == len(made.table)
    text = " ".join(" ".join(preview(whole(tmp_path, table)).lines()).split())
    assert (
        f"{len(table):,} rows" in text
        and "whole table: 300 units" in text
        and " (row 1)" not in text.partition("strata")[0]
        and "units are released whole" in text
        and "form of the release: rows side by side" in text
    )


def encoders_of(monkeypatch, table, columns, rules):
    """The encoders and the number of records that the mask is about to be checked with; nothing is masked."""
    seen = []

    def stop(job, encoders, rows, what):
        seen.append((encoders, encoders.independent(rows)))
        raise JobError("seen")

    monkeypatch.setattr(by_mask, "_check_membership", stop)
    content = {"k": 5, "columns": columns, "mask": small.QUICK, "rules": rules, "release": WHOLE}
    with pytest.raises(JobError, match="seen"):
        anonymize(table, content | {"measure": {"hold_out": 0}})
    return seen[0]


@pytest.mark.parametrize("complete", [True, False])
def test_nulls_that_a_number_of_rows_tells_are_no_columns(tmp_path, monkeypatch, complete):
    """As many columns are independent as the rank of the features says; values may be missing besides."""
    table = panel(400).assign(part=lambda t: t["wage"] * np.random.default_rng(1).random(len(t)))
    table["pension"] = table["pension"].fillna(3.0) if complete else table["pension"]
    number = {"kind": "continuous", "bounds": [0, None]}
    columns, rules = COLUMNS | {"part": number, "wage": number}, ["0 <= part <= wage"]
    job, source, told = folded(tmp_path, table, columns=columns, rules=rules, measure={"hold_out": 0})
    encoders, records = encoders_of(monkeypatch, table, columns, rules)
    rows = pq.read_table(source.units[0].path).combine_chunks().to_batches()[0]
    cells = encoders.cells.to_cells(with_differences(rows, job.parsed_rules))
    filled = np.where(np.isnan(cells), np.random.default_rng(0).normal(size=cells.shape), cells)
    features = encoders.features.encode(cells, filled)
    assert encoders.dimension.columns == np.linalg.matrix_rank(np.cov(features.T), tol=1e-9) < features.shape[1] - 4
    expected = re.search(r"expected AUC of membership of ([.\d]+)", told.form)
    assert float(expected[1]) == pytest.approx(membership_from_moments(records, encoders.dimension), abs=0.003)


@pytest.mark.parametrize(
    ("persons", "years", "more", "limit", "form"),
    [
        (250, 8, (), 0.7, "rows side by side, their times as one category"),
        (250, 8, (), None, "rows side by side, their times as one category"),
        (250, 8, (), 0.6, "rows side by side"),
        (600, 12, ("pension", "until"), 0.6, "linked rows"),
        (250, 8, ("pension", "until"), 0.6, "rows side by side, their times as one category"),  # none is within it
    ],
)
def test_form_is_the_first_that_tells_few_members(tmp_path, persons, years, more, limit, form):
    table = panel(persons, numbers=(years,)).sort_values(["person", "year"])
    table["year"] = 2000 + table.groupby("person").cumcount() + table["born"] % 9
    columns = {name: COLUMNS[name] for name in ("year", "person", "born", "sex", "wage", *more)}
    given = {"columns": columns, "gates": {"membership_auc": limit}, "measure": {"hold_out": 0.1}}
    job, _, told = folded(tmp_path, table[list(columns)], **given)
    assert told.form.split(", with an expected")[0] == f"form of the release: {form}"
    assert told.layout.linked == (form == "linked rows") and told.layout.timed == ("times" in form)
    assert job.unit_column == "person" if told.layout.linked else job.rows_per_unit == "one"
    if persons == 250 and len(more) == 2:  # the remedy helps, and no weaker one does
        fewer = int(re.search(r"With the first (\d) rows of each unit it is within", told.form)[1])
        for rows, within in ((fewer, True), (fewer + 1, False)):
            short = table[table.groupby("person").cumcount() < rows]
            found = folded(tmp_path / str(rows), short[list(columns)], **given)[2].form
            assert ("it is within" not in found) == within


def test_a_refusal_says_why_rows_are_not_linked(tmp_path):
    """Side by side these tell members, and the rule alone forbids linked rows."""
    job = {"rules": ["year <= until"], "gates": {"membership_auc": 0.51}, "measure": {"risk": True}}
    for run in (small.run, preview):
        with pytest.raises(JobError, match="; linked rows are not possible: rule 'year <= until' ties 'year'"):
            run(whole(tmp_path / run.__name__, panel(600, numbers=(8,)), **job))


def test_rows_with_many_categories_side_by_side_are_linked(tmp_path, monkeypatch):
    table = panel(600, numbers=(4,)).assign(code=lambda rows: rows["wage"].rank(method="first").astype(int) % 12)
    given = {"columns": {name: COLUMNS.get(name, {"kind": "categorical"}) for name in table if name != "note"}}
    given |= {"rules": [], "gates": {"membership_auc": None}}
    monkeypatch.setattr(units, "MOST_DUMMIES", 80)
    assert folded(tmp_path / "wide", table.drop(columns="note"), **given)[2].layout.linked is False
    monkeypatch.setattr(units, "MOST_DUMMIES", 50)
    told = folded(tmp_path / "linked", table.drop(columns="note"), **given)[2]
    assert told.layout.linked and "linked rows, as side by side they have too many columns" in told.form
    with pytest.raises(JobError, match=r"about \d+ feature columns, more than 50; linked rows .* ties 'year'"):
        folded(tmp_path / "neither", table.drop(columns="note"), **given | {"rules": ["year <= until"]})


def uncommented(text, *lines):
    """A proposal with units that come out whole."""
    for line in ("release:", "  unit: pseudonym", *lines):
        assert f"\n# {line}" in text
        text = text.replace(f"\n# {line}", f"\n{line}")
    return text


def test_init_asks_whether_units_come_out_whole(tmp_path):
    data = small.write_table(tmp_path, pa.Table.from_pandas(panel(200), preserve_index=False))
    text = propose_job(data, str(tmp_path / "out"), 5)
    assert "QUESTION: are units to come out whole" in text and text.count("    level: unit  # CHECK") == 2
    job = parse_job(yaml.safe_load(uncommented(text, '  order: "year"')))
    assert job.whole_release and [name for name, column in job.columns.items() if column.level] == ["born", "sex"]


def test_init_says_that_a_status_is_one_of_a_unit(tmp_path):
    table, rng = panel(300), np.random.default_rng(5)
    person = table["person"].str[-4:].astype(int)
    table["months"] = rng.uniform(1, 90, 300).round(1)[person]
    table["event"] = rng.choice(["Dead", "Alive"], 300)[person]
    data = small.write_table(tmp_path, pa.Table.from_pandas(table, preserve_index=False))
    text = uncommented(propose_job(data, str(tmp_path / "out"), 5), '  order: "year"')
    job = parse_job(yaml.safe_load(text.replace("event: []", "event: [Dead]")))
    assert job.columns["event"].role == "survival_status" and job.columns["event"].level == "unit"
    assert '"event"' not in text.partition("all rows of a unit have one value of")[2].partition("differ.")[0]


@pytest.mark.parametrize("wave", ["2 years", "2 years, texts", "age"])
def test_init_proposes_an_order_that_plan_takes(tmp_path, wave):
    """Of two years; of texts, which have no order; of a year that is the sum of birth and age."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"person": np.repeat(np.arange(300), 2), "year": np.tile([2019, 2020], 300)})
    table["pay"] = rng.normal(10, 1, 600)
    if wave == "age":
        table["born"] = rng.integers(1950, 1990, 300)[table["person"]]
        table["year"] += rng.integers(0, 9, 300)[table["person"]]
        table["age"] = table["year"] - table["born"]
    if "texts" in wave:
        table["year"] = table["year"].astype(str) + "Q1"
    data = small.write_table(tmp_path, pa.Table.from_pandas(table, preserve_index=False))
    text = propose_job(data, str(tmp_path / "out"), 5)
    if "texts" in wave:
        assert 'no unit has a value of "year" twice' in text and '  order: "column"' not in text
        text = uncommented(text.replace("#   order: column", "#"))
        table["begin"] = pd.to_datetime(table["year"].str[:4] + "-01-01")
        small.write_table(tmp_path, pa.Table.from_pandas(table, preserve_index=False))
        text = text.replace("pseudonym", "pseudonym\n  order: begin").replace(
            "columns:", "columns:\n  begin: {kind: date}", 1
        )
    else:
        text = uncommented(text, '  order: "year"')
    job = parse_job(yaml.safe_load(text))
    planned = preview(job)
    assert job.whole_release and planned.exit_code == 0, planned.warnings


def test_the_page_runs():
    page = (Path(__file__).resolve().parent.parent / "docs" / "units.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code, {})  # asserts what it says


@pytest.mark.parametrize("hold_out", [0, 0.1])
def test_weights_of_whole_units_are_the_designs_times_one_factor(hold_out):
    """Those of units that are held out raise all by the same factor, as sums are those of the whole input."""
    table = panel(400, numbers=(2,))[["person", "sex", "wage"]]
    table["weight"] = table["sex"].map({"f": 25.0, "m": 240.0})
    weight = {"kind": "continuous", "role": "sampling_weight", "level": "unit", "by": ["sex"]}
    columns = {name: COLUMNS[name] for name in ("person", "sex", "wage")} | {"weight": weight}
    job = {"k": 5, "columns": columns, "release": {"unit": "pseudonym"}, "mask": small.QUICK}
    job["measure"] = {"utility": False, "hold_out": hold_out} | ({} if hold_out else {"risk": False, "allow": "a test"})
    made = anonymize(table, job)
    persons, original = (each.groupby("person")["weight"] for each in (made.table, table))
    assert (persons.nunique() == 1).all() and persons.first().sum() == pytest.approx(original.first().sum(), rel=1e-6)
    factor = made.table["weight"] / made.table["sex"].map({"f": 25.0, "m": 240.0})
    assert np.ptp(factor) < 1e-9 and (factor.between(1.05, 1.2) if hold_out else factor == 1.0).all()
