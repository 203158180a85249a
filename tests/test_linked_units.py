"""Units with too many rows to lie side by side: rows are masked with the row before, and linked into units."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.encoding.identifiers import UnitColumn
from anonpipe.encoding.values import Grid
from anonpipe.errors import EngineError, JobError
from anonpipe.job import wide
from anonpipe.job.linked import FIRST, PART, ROW, linked_job
from anonpipe.job.model import parse_job
from anonpipe.job.wide import ROWS, UnitLayout
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.tasks import unfold
from anonpipe.pipeline.tasks.write import compared_names
from anonpipe.pipeline.units import fold
from anonpipe.report.page import read_report
from anonpipe.source import open_source
from anonpipe.storage import release
from anonpipe.verify.catalogue import held
from tests import small

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)

COLUMNS = {
    "visit": {"kind": "date"},
    "person": {"role": "unit"},
    "born": {"kind": "integer", "level": "unit"},
    "sex": {"kind": "binary", "level": "unit"},
    "level": {"kind": "continuous", "step": 0.1, "bounds": [0, 20]},
    "cost": {"kind": "continuous", "step": 0.01, "bounds": [0, None]},
    "paid": {"kind": "binary"},
}
RULE = "if paid == 'no' then cost == 0"
WHOLE = {"unit": "pseudonym", "order": "visit"}


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(wide, "MOST_COLUMNS", 20)


def panel(persons=300, seed=1, most=8):
    """Persons with one to eight visits, in random order; one measurement of a tenth of the visits is missing."""
    rng = np.random.default_rng(seed)
    many = rng.integers(1, most + 1, persons)
    who = np.repeat(np.arange(persons), many)
    paid = rng.random(len(who)) < 0.7
    days = rng.integers(1, 60, len(who))
    table = pd.DataFrame(
        {
            "visit": pd.Timestamp("2015-01-01") + pd.to_timedelta(pd.Series(days).groupby(who).cumsum(), "D"),
            "person": [f"{small.CANARY} {each:04}" for each in who],
            "born": rng.integers(1940, 1990, persons)[who],
            "sex": rng.choice(["f", "m"], persons)[who],
            "level": (rng.normal(8, 1, persons)[who] + rng.normal(0, 0.3, len(who))).round(1),
            "cost": np.where(paid, rng.gamma(2.0, 50.0, len(who)).round(2) + 1, 0.0),
            "paid": np.where(paid, "yes", "no"),
        }
    )
    table["visit"] = table["visit"].astype("datetime64[ms]")
    table.loc[rng.random(len(who)) < 0.1, "level"] = np.nan
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


def whole(folder, table, **changes):
    given = pa.Table.from_pandas(table, preserve_index=False)
    changes = {"release": WHOLE, "mask": small.QUICK, "rules": [RULE]} | changes
    return small.job(folder, given, changes.pop("columns", COLUMNS), **changes)


def naive(table):
    """A record for each row by loops."""
    records = []
    for _, rows in table.groupby("person"):
        rows = rows.sort_values("visit").reset_index(drop=True)
        for at in range(len(rows)):
            here, record = rows.loc[at], dict(rows.loc[at])
            record |= {ROWS: len(rows), ROW: at + 1, PART: "first" if at == 0 else "early" if at < 3 else "late"}
            record["visit (gap)"] = (here["visit"] - rows.loc[at - 1, "visit"]).days if at else None
            for name in ("level", "cost", "paid"):
                record[f"{name} (row before)"] = rows.loc[at - 1, name] if at else None
            record |= {f"{name} (unit mean)": rows[name].mean() for name in ("level", "cost")}
            record["paid (unit mean)"] = (rows["paid"] == "yes").mean()
            records.append(record)
    return pd.DataFrame(records)


def test_records_are_what_loops_give(tmp_path, monkeypatch):
    monkeypatch.setattr(wide, "MOST_COLUMNS", 10)
    table = panel(120, most=4)
    job, source, told = fold(whole(tmp_path, table), open_source(str(tmp_path / "data.parquet")), tmp_path / "side")
    made = pq.read_table(source.units[0].path).to_pandas()
    wanted = naive(table)[made.columns]
    sequence = ["person", ROW]
    pd.testing.assert_frame_equal(
        made.sort_values(sequence, ignore_index=True),
        wanted.sort_values(sequence, ignore_index=True),
        check_dtype=False,
    )
    assert told.layout.linked and "linked into units" in told.meaning and told.warnings == []
    assert (
        job.strata.by == (PART,)
        and "strata" not in job.in_force
        and job.rules == (RULE,)
        and job.unit_column == "person"
    )
    unit = told.with_strata(UnitColumn("person", len(made), 120, 4, 17, 3.0), job)
    by = [made[made[PART] == part]["person"].value_counts() for part in ("early", "first", "late")]
    assert unit.sure_in_strata == tuple(1 + int(counts.iloc[:4].sum()) for counts in by)
    assert unit.effective_rows == int(1 / sum((counts**2).sum() / counts.sum() ** 2 for counts in by))
    published = {"visit", "born", "level", "cost", "visit (gap)", ROWS, ROW}  # not the row before, nor means
    assert set(compared_names(SimpleNamespace(job=job, folded=told))) == published


def with_sums():
    """The panel with a sum, and a column that is never smaller than another."""
    table = panel()
    more = np.random.default_rng(4).gamma(2.0, 10.0, len(table)).round(2)
    return table.assign(total=(table["cost"] + 10).round(2), most=(table["cost"] + more).round(2))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linked")
    with small.private_home(folder, "9f3c17a2b85de06441c7f29e8ab350d6" * 2), pytest.MonkeyPatch.context() as patched:
        patched.setattr(wide, "MOST_COLUMNS", 20)
        columns = COLUMNS | {name: {"kind": "continuous", "step": 0.01} for name in ("total", "most")}
        job = whole(folder, with_sums(), columns=columns, rules=[RULE, "total = cost + 10", "cost <= most"])
        yield job, small.run(job)


def test_release_has_units_in_order(outcome):
    job, _ = outcome
    table, original = small.released(job).to_pandas(), with_sums()
    assert np.allclose(table["total"], table["cost"] + 10) and (table["cost"] <= table["most"]).all()
    assert list(table) == list(original) and len(table) == len(original)
    by = table.groupby("person", sort=False)
    assert (by[["born", "sex"]].nunique() == 1).all(axis=None) and sorted(by.groups) == list(range(1, 301))
    assert (by["visit"].diff().dropna() >= pd.Timedelta(0)).all() and by.ngroup().is_monotonic_increasing
    assert (table.loc[table["paid"] == "no", "cost"] == 0).all() and table["level"].dropna().between(0, 20).all()
    assert 0.05 < table["level"].isna().mean() < 0.15 and table["visit"].dtype == original["visit"].dtype
    for name, far in (("level", 0.5), ("visit", None)):
        assert far is None or abs(table[name].mean() - original[name].mean()) < far
    sizes = [frame.groupby("person").size() for frame in (table, original)]
    assert abs(sizes[0].mean() - sizes[1].mean()) < 0.01 and abs(sizes[0].std() - sizes[1].std()) < 0.3

    def lag(frame):
        ordered = frame.sort_values(["person", "visit"], kind="stable")
        return ordered["level"].corr(ordered.groupby("person")["level"].shift())

    assert lag(original) > 0.85 and lag(table) > 0.7  # of loose rows it is about 0


def test_manifest_and_reports_say_how(outcome):
    job, done = outcome
    where = release.resolve(job.output)
    manifest = release.read_manifest(where)
    assert manifest["units"]["linked"] and manifest["units"]["units"] == 300 and release.check(job.output) == []
    assert list(manifest["columns"]) == [*COLUMNS, "total", "most"]
    assert [rule["broken"] for rule in manifest["rules"]] == [0, 0, 0]
    pages = where.filesystem.cat_file(where.path("_report.html")).decode(), open(done.report).read()
    assert all("were then linked into units" in page and "do not belong together" not in page for page in pages)
    assert not any("do not belong together" in text or small.CANARY in text for text in done.warnings)
    (_, figures), *_ = done.for_recipients.units.columns
    assert figures[::2] == (None,) * 3 and None not in figures[1::2]


def test_same_bytes_for_any_order_and_after_stops(tmp_path):
    made = []
    for at, stops in enumerate((["rows of units"], [])):
        job = whole(tmp_path, panel(150, most=5).sample(frac=1, random_state=at), output=str(tmp_path / f"out-{at}"))
        small.run_with_stops(job, stops)
        made.append(small.hashes(job))
    assert made[0] == made[1]
    assert "linked into units" in " ".join(" ".join(preview(job).lines()).split())


@pytest.mark.parametrize("damage", ["twice", "unit", "constant", "order", "value"])
def test_rows_that_differ_from_the_records_are_refused(tmp_path, outcome, damage):
    layout = UnitLayout("person", "t", ("born",), ("t", "level"), (1, 2, 3), (), linked=True)
    parts = [FIRST, "early", FIRST, "early", "early"]
    records = pa.table({PART: parts, "born": [1, 2, 3, 4, 5], "t": [1, 5, 2, 7, 3], "level": [1.0, 2, 3, 4, 5]})
    made = unfold.Linked(
        *(np.array(each) for each in ([0, 1, 2, 4, 3], [0, 0, 2, 2, 2], [0, 0, 1, 1, 1])),
        {"t": pa.array([1, 5, 2, 3, 7])},
    )
    schema = pa.schema([("person", pa.int64()), ("born", pa.int64()), ("t", pa.int64()), ("level", pa.float64())])
    told = SimpleNamespace(layout=layout, compared=("level",))
    rows = made.to_rows(records, layout, schema, 7)
    assert rows.to_pydict() == {
        "person": [8, 8, 9, 9, 9], "born": [1, 1, 3, 3, 3], "t": [1, 5, 2, 3, 7], "level": [1, 2, 3, 5, 4]
    }  # fmt: skip
    pq.write_table(rows, tmp_path / "rows.parquet")
    assert unfold.verified_units(told, pq.read_table(tmp_path / "rows.parquet"), records, made, 7)[
        "sizes"
    ].tolist() == [0, 0, 1, 1]
    frame = rows.to_pandas()
    if damage == "twice":
        made.record[4] = 4
        frame.loc[4, "level"] = 5.0
    else:
        name, at, value = {
            "unit": ("person", 2, 8), "constant": ("born", 1, 2), "order": ("t", 3, 1), "value": ("level", 0, 9.0)
        }[damage]  # fmt: skip
        frame.loc[at, name] = value
    pq.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False), tmp_path / "rows.parquet")
    with pytest.raises(EngineError, match="rows of units differ from the records"):
        unfold.verified_units(told, pq.read_table(tmp_path / "rows.parquet"), records, made, 7)


def _records(rng, units):
    """Measured records of a job with one number, in random order."""
    rows = rng.integers(1, 5, units)
    row = np.concatenate([np.arange(each) + 1 for each in rows])
    n = len(row)
    table = pa.table(
        {
            PART: np.where(row == 1, FIRST, "early"), ROW: row, ROWS: np.repeat(rows, rows),
            "t": rng.integers(0, 50, n), "t (gap)": pa.array(rng.integers(1, 9, n), mask=row == 1),
            "x": rng.normal(size=n),
            "x (row before)": pa.array(rng.normal(size=n), mask=row == 1), "x (unit mean)": rng.normal(size=n),
        }
    )  # fmt: skip
    return table.take(pa.array(rng.permutation(n)))


@pytest.mark.parametrize("seed", range(5))
def test_links_are_those_of_all_permutations(seed):
    rng = np.random.default_rng(seed)
    records = _records(rng, 5)
    columns = {"u": {"role": "unit"}, "t": {"kind": "integer"}, "x": {"kind": "continuous"}}
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": columns})
    layout = UnitLayout("u", "t", (), ("t", "x"), (1, 2, 3, 4), (), True, ("x",))
    unit, place = unfold._units_of(records, job, layout)
    sought, left, gap = unfold._compared(records, job, layout)
    row, wants = records.column(ROW).to_numpy(), records.column(ROWS).to_numpy()
    firsts = np.flatnonzero(row == 1).tolist()
    chains = [[record] for record in firsts]
    state = [np.concatenate([left[r], sought[r][left.shape[1] : -1], [sought[r][-1] + gap[r]]]) for r in firsts]
    for at in range(2, 5):
        new = np.flatnonzero(row == at).tolist()
        ended = [len(chain) < at - 1 for chain in chains]
        able = [u for u, chain in enumerate(chains) if not ended[u] or len(chain) < wants[firsts[u]]]
        able = sorted(able, key=lambda u, ended=ended: (ended[u], -wants[firsts[u]]))[: len(new)]

        def cost(taken, able=able):
            return sum(np.square(state[u] - sought[r]).sum() for u, r in zip(able, taken, strict=True))

        for u, r in zip(able, min(permutations(new), key=cost), strict=True):
            chains[u].append(r)
            state[u] = np.concatenate([left[r], state[u][left.shape[1] : -1], [state[u][-1] + gap[r]]])
    found = [[0] * int((unit == u).sum()) for u in range(len(firsts))]
    for record, (u, where) in enumerate(zip(unit, place, strict=True)):
        found[u][where] = record
    assert found == chains


@pytest.mark.parametrize("seed", range(4))
def test_units_end_with_what_no_row_follows(seed):
    """Whatever else records say: who dies does so in the last row, if units that want no more take the record."""
    rng = np.random.default_rng(seed)
    records = _records(rng, 200)
    row, wanted = (records.column(name).to_numpy() for name in (ROW, ROWS))
    state = np.where((row == wanted) & (rng.random(len(row)) < 0.4), "dead", rng.choice(["well", "ill"], len(row)))
    before = pa.array(rng.choice(["well", "ill"], len(row)), mask=row == 1)
    records = records.append_column("s", pa.array(state, mask=rng.random(len(row)) < 0.1))
    columns = {"u": {"role": "unit"}, "x": {"kind": "continuous"}, "s": {"kind": "categorical"}}
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": columns})
    layout = UnitLayout("u", None, (), ("x", "s"), (1, 2, 3, 4), (), True, ("x",))
    unit, place = unfold._units_of(records.append_column("s (row before)", before), job, layout)
    died = records.column("s").to_numpy(zero_copy_only=False) == "dead"
    assert (died & (place > 0)).sum() > 20 and not (died & (place + 1 < np.bincount(unit)[unit])).any()


@pytest.mark.parametrize("seed", range(4))
def test_every_record_is_in_one_unit(seed, monkeypatch):
    monkeypatch.setattr(unfold, "_ASSIGNED", 7)
    monkeypatch.setattr(unfold, "FILE_ROWS", 60)
    rng = np.random.default_rng(seed)
    records = _records(rng, 40)
    drop = np.flatnonzero((records.column(ROW).to_numpy() == rng.integers(1, 4)) & (rng.random(len(records)) < 0.6))
    records = records.take(pa.array(np.setdiff1d(np.arange(len(records)), drop)))  # numbers of rows do not add up
    columns = {"u": {"role": "unit"}, "t": {"kind": "integer"}, "x": {"kind": "continuous"}}
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": columns})
    fitted = SimpleNamespace(job=job, grid=lambda _: Grid(1.0, 0.0, 60.0), schema=pa.schema([("t", pa.int64())]))
    made = unfold.linked(records, fitted, UnitLayout("u", "t", (), ("t", "x"), (1, 2, 3, 4), (), True, ("x",)))
    assert sorted(made.record) == list(range(len(records)))
    begins = np.flatnonzero(np.diff(made.unit, prepend=-1))
    firsts = np.flatnonzero(records.column(ROW).to_numpy() == 1)
    assert sorted(made.record[begins]) == firsts.tolist() and (made.first == made.record[begins][made.unit]).all()
    later = np.diff(made.unit, prepend=-1) == 0
    assert (np.diff(made.moved["t"].to_numpy(), prepend=0)[later] >= 0).all()


@pytest.mark.parametrize("regular", [True, False])
def test_order_keeps_gaps_where_regular_else_values(regular):
    """Visits every 30 days from any start; or on any days of one period, whose sums of gaps would end beyond it."""
    rng = np.random.default_rng(4)
    rows = rng.integers(1, 13, 400)
    days = [30.0 * np.arange(n) + rng.integers(600) if regular else np.sort(rng.integers(0, 900, n)) for n in rows]
    gaps = [np.append(np.nan, rng.permutation(np.diff(each))) for each in days]
    pooled = rng.permutation(np.concatenate([each[1:] for each in days]))  # later records come from any unit
    own = [
        np.append(each[0], later) for each, later in zip(days, np.split(pooled, np.cumsum(rows - 1)[:-1]), strict=True)
    ]
    starts, unit = np.cumsum(rows) - rows, np.repeat(np.arange(400), rows)
    found = unfold._order_of(np.concatenate(own), np.concatenate(gaps), starts, unit)
    if regular:
        assert (np.diff(found)[np.diff(unit) == 0] == 30.0).mean() > 0.9
    else:
        assert found.tolist() == [day for each in own for day in sorted(each)]


# --- Rows that last, and do not overlap

SPELLS = {
    "begin": {"kind": "date", "bounds": ["2010-01-01", "2019-12-31"]},
    "end": {"kind": "date", "bounds": [None, "2020-01-01"]},
    "days": {"kind": "integer", "bounds": [1, None]},
    "person": {"role": "unit"},
    "born": {"kind": "integer", "level": "unit"},
    "why": {"kind": "categorical"},
}


def spells(persons=600, seed=3):
    """Jobs of persons, each after the one before; those at the closing date have no end."""
    rng, first, rows = np.random.default_rng(seed), np.datetime64("2010-01-01"), []
    for person in range(persons):
        born, day = rng.integers(1950, 1990), int(rng.exponential(300))
        while day < 3_652:
            days = 1 + int(rng.lognormal(5.5, 1.2))
            over = day + days > 3_652
            why = None if over else rng.choice(["quit", "dismissed", "other"], p=[0.6, 0.3, 0.1])
            end = None if over else first + day + days
            rows.append((first + day, end, None if over else days, f"{small.CANARY} {person:04}", born, why))
            if over or rng.random() < 0.25:
                break
            day += days + (0 if rng.random() < 0.4 else int(rng.exponential(120)))
    table = pd.DataFrame(rows, columns=list(SPELLS)).astype({"begin": "datetime64[ms]", "end": "datetime64[ms]"})
    return table.astype({"days": "Int64"}).sample(frac=1, random_state=seed, ignore_index=True)


def of_spells(folder, table, **changes):
    given = {"columns": SPELLS, "rules": ["end = begin + days"], "release": WHOLE | {"order": "begin"}} | changes
    return whole(folder, table, **given)


def test_spells_are_released_without_overlap(tmp_path):
    table = spells()
    job = of_spells(tmp_path, table, measure={"risk": False, "allow": "a test"})
    done = small.run(job)
    made = small.released(job).to_pandas()
    assert list(made) == list(table) and len(made) == pytest.approx(len(table), rel=0.03)
    by = made.groupby("person", sort=False)
    since = (by["begin"].shift(-1) - made["end"]).dropna().dt.days
    assert (since >= 0).all() and ((made["end"] - made["begin"]).dropna().dt.days >= 0).all()
    ordered = table.sort_values(["person", "begin"])
    before = (ordered.groupby("person")["begin"].shift(-1) - ordered["end"]).dropna().dt.days
    assert abs((since == 0).mean() - (before == 0).mean()) < 0.06 and 0.6 < since.mean() / before.mean() < 1.6
    last = by["begin"].shift(-1).isna()
    assert not made["end"].isna()[~last].any() and made["end"].isna()[last].mean() > 0.1
    assert ((made["end"] - made["begin"]).dt.days.dropna() == made["days"].dropna()).all()
    assert made["end"].max() <= pd.Timestamp("2020-01-01") and made["days"].isna().eq(made["end"].isna()).all()
    (order,) = (check for check in done.verdict.checks if check.key == "units.order")
    assert order.outcome == "passed" and order.measured > 0
    assert_reports_are_of(job, table, made)


def assert_reports_are_of(job, table, made):
    """Figures and pictures are those of published rows, and of no column that only measured records have."""
    (path,) = (Path(job.output) / "steward").glob("*-report.json")
    report = read_report(path)
    lines = {line.name: line for line in report.compared.numbers}
    assert {"begin", "end", "days"} <= set(lines) <= set(table)
    for name, line in lines.items():
        days = [side[name].dropna() for side in (table, made)]
        days = [
            side.astype("datetime64[s]").astype("int64") / 86_400 if "date" in str(side.dtype) else side
            for side in days
        ]
        found = line.mean, line.sd, line.mean_released, line.sd_released
        assert found == pytest.approx([each for side in days for each in (side.mean(), side.std())], rel=4e-2), name
        assert line.mean_released == pytest.approx(days[1].mean(), rel=1e-9)
        assert (line.nulls_released or 0.0) == pytest.approx(made[name].isna().mean())
    assert {each.name for each in report.pictures} == set(table) - {"person"}


def test_gaps_of_spells_are_from_the_end_before(tmp_path):
    table = spells(80)
    _, source, told = fold(of_spells(tmp_path, table), open_source(str(tmp_path / "data.parquet")), tmp_path / "side")
    made = pq.read_table(source.units[0].path).to_pandas().sort_values(["person", ROW], ignore_index=True)
    assert (told.layout.end, told.layout.length) == ("end", "days") and "none of which overlap" in told.form
    for person, rows in table.groupby("person"):
        rows = rows.sort_values("begin", ignore_index=True)
        gaps = [(rows["begin"][at] - rows["end"][at - 1]).days for at in range(1, len(rows))]
        assert (
            made.loc[made["person"] == person, "begin (gap)"].tolist()[1:] == gaps[: sum(made["person"] == person) - 1]
        )
    table.loc[table["end"].idxmin(), "end"] = pd.NaT  # without an end, and a row after it: no spells
    table["days"] = table["days"].where(table["end"].notna())
    with pytest.raises(JobError, match="ties 'begin' to columns"):
        linked_job(of_spells(tmp_path / "x", table), replace(told.layout, end=None))


@pytest.mark.parametrize("seed", range(6))
def test_spells_lie_between_first_begin_and_last_end(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 6, 60)
    starts, unit = np.cumsum(rows) - rows, np.repeat(np.arange(60), rows)
    own, gap = rng.integers(0, 500, len(unit)) + 0.0, rng.integers(0, 80, len(unit)) + 0.0
    length = np.where(rng.random(len(unit)) < 0.1, np.nan, rng.integers(0, 300, len(unit)))
    latest = None if seed % 2 else 600.0
    any_day = Grid(1.0, -np.inf, np.inf)
    grids = any_day, replace(any_day, high=latest or np.inf), any_day
    begin, size = unfold._spells(own, gap, length, starts, unit, grids)
    last = min(np.nanmax(own + np.nan_to_num(length)), latest or np.inf)
    for which in range(60):
        at = np.flatnonzero(unit == which)
        lengths, gaps = np.nan_to_num(length[at]), np.append(0.0, gap[at[1:]])
        span, to_begin = (gaps + lengths).sum(), (gaps + lengths).sum() - lengths[-1]
        factor = min(1.0, (last - own.min()) / max(span, 1), (own.max() - own.min()) / max(to_begin, 1))
        day = max(own.min(), np.floor(min(own[at[0]], last - factor * span, own.max() - factor * to_begin)))
        for place, row in enumerate(at):
            day += np.floor(factor * gaps[place])
            assert begin[row] == min(day, own.max()) and np.isnan(size[row]) == np.isnan(length[row])
            day += np.floor(factor * lengths[place])
            assert np.nan_to_num(size[row]) == np.floor(factor * lengths[place]) and begin[row] + lengths[place] >= day
        assert own.min() <= begin[at[0]] and begin[at[-1]] + np.nan_to_num(size[at[-1]]) <= last


def test_spells_of_no_days_lie_before_the_next_of_that_day(tmp_path):
    table = spells(80)
    at = table["days"].dropna().index[::2]
    short = table.loc[at].assign(end=table["begin"][at], days=0)
    both = pd.concat([table, short]).sample(frac=1, random_state=1, ignore_index=True)
    columns = SPELLS | {"days": {"kind": "integer", "bounds": [0, None]}}
    job = of_spells(tmp_path, both, columns=columns)
    _, _, told = fold(job, open_source(str(tmp_path / "data.parquet")), tmp_path / "side")
    assert told.layout.end == "end" and told.overlapping is None


def test_warns_of_released_rows_that_may_overlap(tmp_path, monkeypatch):
    monkeypatch.setattr(wide, "MOST_COLUMNS", 150)
    table = spells(300)
    wrong = table["days"].idxmin()
    table.loc[wrong, "end"] = table["begin"][wrong] - pd.Timedelta(3, "D")
    table.loc[wrong, "days"] = -3
    job = of_spells(tmp_path, table, columns=SPELLS | {"days": {"kind": "integer"}})
    source, text = open_source(str(tmp_path / "data.parquet")), "1 row of the input with an end before the begin"
    assert text in " ".join(fold(job, source, tmp_path / "side")[2].warnings)
    monkeypatch.setattr(wide, "MOST_COLUMNS", 20)
    with pytest.raises(JobError, match=f"ties 'begin'.*{text}"):
        fold(job, source, tmp_path / "linked")


@pytest.mark.parametrize("seed", range(8))
def test_spells_keep_steps_bounds_and_heaps(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 6, 200)
    starts, unit = np.cumsum(rows) - rows, np.repeat(np.arange(200), rows)
    step = (1, 30)[seed % 2]
    length = rng.integers(1, 10, len(unit)) * 30.0
    own, gap = rng.integers(0, 24, len(unit)) * 30.0, rng.integers(0, 2, len(unit)) * 30.0
    own = np.minimum(own, 720.0 - length)
    length[(np.diff(unit, append=-1) != 0) & (rng.random(len(unit)) < 0.2)] = np.nan
    earliest = 60.0 if seed > 3 else 0.0
    own[starts] = np.maximum(own[starts], earliest)
    heaps = np.arange(0.0, 800.0, 30.0) if step == 1 else None
    grids = Grid(step, own.min(), 720.0, heaps=heaps), Grid(step, earliest, 720.0), Grid(step, 30.0, np.inf)
    order, size = unfold._spells(own, gap, length, starts, unit, grids)
    begin, end, days = unfold._on_grids(order, size, unit, grids)
    later = np.diff(unit) == 0
    assert np.array_equal(begin + days, end, equal_nan=True) and np.array_equal(np.isnan(days), np.isnan(length))
    assert (begin[1:] >= np.fmax(begin, end)[:-1])[later].all() and begin.min() >= own.min()
    assert np.nanmin(days) >= 30 and np.nanmin(end) >= earliest and np.nanmax(end) <= 720
    assert step == 1 or (not (begin % 30).any() and not np.nan_to_num(days % 30).any())
    assert np.nanmean(begin % 30 == 0) > 0.9


def test_an_order_that_links_move_far_breaks_a_gate():
    for far, outcome in ((0.2, "failed"), (0.05, "passed")):
        results = [{"order_moved": far, "rows": 3, "units": 900}, {"order_moved": far / 2, "rows": 1, "units": 300}]
        staging = SimpleNamespace(results=lambda _, found=results: SimpleNamespace(read_all=lambda *_: found))
        work = SimpleNamespace(folded=SimpleNamespace(layout=SimpleNamespace(linked=True)), staging=staging)
        off = unfold.order_off(work, SimpleNamespace(files=2))
        assert off[0] == pytest.approx(0.875 * far) and held("units.order", *off).outcome == outcome
    assert unfold.order_off(SimpleNamespace(folded=None), None) is None


def test_rules_on_lengths_and_ends_are_refused(tmp_path):
    table = spells(80)
    _, _, told = fold(of_spells(tmp_path, table), open_source(str(tmp_path / "data.parquet")), tmp_path / "side")
    for rule, name in (("if days > 900 then why == 'quit'", "days"), ("if why is null then end is null", "end")):
        with pytest.raises(JobError, match=f"ties '{name}'"):
            linked_job(of_spells(tmp_path / name, table, rules=["end = begin + days", rule]), told.layout)
    rules = ["end = begin + days", "if why is null then days is null"]
    assert linked_job(of_spells(tmp_path / "n", table, rules=rules), told.layout).rules == tuple(rules)


REFUSED = {
    "does not go with role key": {"columns": COLUMNS | {"sex": {"kind": "binary", "level": "unit", "role": "key"}}},
    "does not go with analyses": {"analyses": [{"name": "a", "model": "linear", "formula": "born ~ sex"}]},
    "ties 'sex' to columns": {"rules": ["if sex == 'f' then level > 0"]},
    "ties 'visit' to columns": {"rules": ["if visit is null and paid == 'no' then cost == 0"]},
    "needs the name 'level": {"columns": COLUMNS | {"level (row before)": {"kind": "continuous"}}},
}


@pytest.mark.parametrize("text", REFUSED)
def test_job_that_links_cannot_keep_is_refused(text):
    job = {"input": "a", "output": "b", "k": 5, "release": WHOLE, "columns": COLUMNS} | REFUSED[text]
    layout = UnitLayout(
        "person", "visit", ("born", "sex"), ("visit", "level", "cost", "paid"), (1, 2, 3), (), True, ("level", "cost")
    )
    taken = tuple(name for name in job["columns"] if name not in COLUMNS)
    with pytest.raises(JobError, match=text):
        linked_job(parse_job(job), replace(layout, of_row=(*layout.of_row, *taken)))
