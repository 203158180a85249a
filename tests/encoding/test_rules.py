"""Rules on cells: the vectorised checks against the slow twin, derived columns, bounds, and repairs."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.rules import RuleBook, RuleCounts, is_broken, limits_of, value_of, with_differences
from anonpipe.encoding.scan import scan_batch
from anonpipe.job.rules import parse_rules, with_rules
from tests.naive import rules as naive

COLUMNS = {
    "county": {"kind": "categorical"},
    "region": {"kind": "categorical"},
    "start": {"kind": "date"},
    "treated": {"kind": "date"},
    "death": {"kind": "date"},
    "a": {"kind": "integer", "bounds": [0, 60]},
    "b": {"kind": "continuous", "step": 0.5, "bounds": [0, 60]},
    "total": {"kind": "continuous", "bounds": [0, 100]},
    "growth": {"kind": "continuous", "step": 0.5},
    "visits": {"kind": "integer", "bounds": [0, None]},
    "cost": {"kind": "continuous", "bounds": [0, None]},
    "sex": {"kind": "binary"},
    "births": {"kind": "integer", "bounds": [0, 20]},
    "diagnosis": {"kind": "categorical"},
    "share": {"kind": "continuous", "step": 0.1, "bounds": [0, 100]},
    "bill": {"kind": "continuous"},
    "change": {"kind": "continuous", "step": 0.01},
    "sent": {"kind": "integer"},
    "entry": {"kind": "date", "bounds": ["2000-01-01", "2011-12-31"]},
    "months": {"kind": "continuous", "step": 0.1, "bounds": [0, 200]},
    "over": {"kind": "continuous", "step": 0.5, "bounds": [0, 90]},
    "paid": {"kind": "continuous"},
}
RULES = (
    "county -> region",
    "start <= treated <= death",
    "total = a + b",
    "growth = 2 * b - a + 0.5",
    "if visits == 0 then cost == 0",
    "if visits > 0 then cost > 0",
    "if sex == 'm' then births is null",
    "if sex == 'f' then births is not null",
    "pairs(diagnosis, sex)",
    "share = 100 * a / total",
    "bill = visits * cost",
    "change = (b - a) / (a + 1) ** 2",
    "0 <= sent <= a",
    "over = max(0, b - a - 2.5)",
    "paid = min(40.5, 2 * b + 1)",
    "entry + 30.4375 * months <= '2012-06-30'",
)
CLOSING = (dt.date(2012, 6, 30) - dt.date(1970, 1, 1)).days


def table_of(rows, seed=0):
    """A table in which every rule holds."""
    rng = np.random.default_rng(seed)
    county = rng.integers(0, 6, rows)
    start = rng.integers(10_000, 14_000, rows)
    treated = start + rng.integers(0, 40, rows)
    no_treatment, alive = rng.random(rows) < 0.3, rng.random(rows) < 0.4
    death = np.where(no_treatment, start, treated) + rng.integers(0, 900, rows)
    a, b = rng.integers(0, 51, rows).astype(float), rng.integers(0, 99, rows) / 2
    a[rng.random(rows) < 0.2] = np.nan
    visits = rng.poisson(1.0, rows)
    male = rng.random(rows) < 0.5
    diagnosis = np.where(male, rng.integers(0, 3, rows), rng.integers(2, 5, rows))
    days = lambda values, missing: pa.array(  # noqa: E731
        [
            None if gone else dt.date(1970, 1, 1) + dt.timedelta(int(day))
            for day, gone in zip(values, missing, strict=True)
        ]
    )
    nobody = np.zeros(rows, dtype=bool)
    cost = np.where(visits > 0, 1.0 + rng.gamma(1.0, 50.0, rows), 0.0)
    share = np.where(a + b > 0, 100 * a / np.maximum(a + b, 0.5), np.nan).round(1)
    change = ((b - a) / (a + 1) / (a + 1)).round(2)
    entry = rng.integers(CLOSING - 4000, CLOSING - 300, rows)
    months = np.where(rng.random(rows) < 0.6, 1.0, rng.random(rows)) * (CLOSING - entry) / 30.4375
    return pa.table(
        {
            "county": [f"c{at}" for at in county],
            "region": [f"r{at // 2}" for at in county],
            "start": days(start, nobody),
            "treated": days(treated, no_treatment),
            "death": days(death, alive),
            "a": pa.array(a, mask=np.isnan(a)),
            "b": b,
            "total": pa.array(a + b, mask=np.isnan(a)),
            "growth": pa.array(2 * b - a + 0.5, mask=np.isnan(a)),
            "visits": visits,
            "cost": cost,
            "sex": np.where(male, "m", "f"),
            "births": pa.array(rng.poisson(1.0, rows), mask=male),
            "diagnosis": [f"d{at}" for at in diagnosis],
            "share": pa.array(share, mask=np.isnan(share)),
            "bill": visits * cost,
            "change": pa.array(change, mask=np.isnan(change)),
            "sent": pa.array(np.floor(rng.uniform(0, 1, rows) * (a + 1)), mask=np.isnan(a)),
            "entry": days(entry, rng.random(rows) < 0.05),
            "months": pa.array(months.round(1), mask=rng.random(rows) < 0.1),
            "over": pa.array(np.maximum(0.0, b - a - 2.5), mask=np.isnan(a)),
            "paid": np.minimum(40.5, 2 * b + 1),
        }
    )


def book_of(table, columns=COLUMNS, rules=RULES, least=1):
    """The rules of a table, its cells, and its columns."""
    declared = {name: Column(**given) for name, given in columns.items()}
    declared |= with_rules(rules, declared)
    parsed = parse_rules(rules, declared)
    batch = with_differences(table.combine_chunks().to_batches()[0], parsed)
    encoder = ColumnEncoder.fit(batch.schema, declared, scan_batch(batch, declared, 0, ()))
    book = RuleBook(parsed, encoder, RuleCounts.of(parsed, batch, declared), least)
    return book, encoder.to_cells(batch), declared


def shuffled(cells, seed=1):
    """Every column in an order of its own: margins as they were, and no rule kept."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.permutation(column) for column in cells.T])


def numbers_for_matching(cells):
    """Features of the rows, for the search of similar ones."""
    return np.nan_to_num((cells - np.nanmean(cells, axis=0)) / np.maximum(np.nanstd(cells, axis=0), 1e-9))


def kept(book, cells, seed=2):
    return book.keep(cells, numbers_for_matching(cells), np.random.default_rng(seed))


def assert_kept(book, declared, original, cells, least=1):
    """No row of the cells breaks a rule, by the twin."""
    rows, before = book.cells.from_cells(cells).to_pylist(), original.to_pylist()
    for rule in book.rules:
        pairs = naive.common_pairs(rule, before, least) if rule.kind in ("lookup", "pairs") else ()
        step = declared[rule.target].resolution or 0.0 if rule.target else 0.0
        assert naive.broken(rule, rows, pairs, step) == 0, rule.text


@pytest.mark.parametrize("seed", range(5))
def test_the_checks_count_what_the_slow_twin_counts(seed):
    table = table_of(300, seed)
    book, cells, declared = book_of(table)
    mixed = book.cells.from_cells(shuffled(cells, seed))
    rows, originals = mixed.to_pylist(), table.to_pylist()
    found = book.count_broken(mixed)
    for at, rule in enumerate(book.rules):
        pairs = naive.common_pairs(rule, originals, 1) if rule.kind in ("lookup", "pairs") else ()
        step = declared[rule.target].resolution or 0.0 if rule.target else 0.0
        assert found[at] == naive.broken(rule, rows, pairs, step), rule.text
        assert naive.broken(rule, originals, pairs, step) == 0
        if rule.kind not in ("lookup", "pairs"):
            assert np.count_nonzero(is_broken(rule, mixed, declared)) == found[at]
    assert (found > 0).all()


@pytest.mark.parametrize(("rows", "seed"), [(5, 0), (5, 1), (10, 1), (15, 2), (15, 3), (60, 0), (60, 3), (250, 0)])
def test_no_row_breaks_a_rule_whatever_the_mask_does(rows, seed):
    table = table_of(rows, seed)
    book, cells, declared = book_of(table)
    after = kept(book, shuffled(cells, seed)).cells
    assert after.shape == cells.shape
    assert_kept(book, declared, table, after)
    released = book.cells.from_cells(after)
    assert released.schema.names[: len(table.schema.names)] == table.schema.names
    assert [released.schema.field(name).type for name in table.schema.names] == table.schema.types


def test_rows_that_keep_the_rules_stay_as_they_are():
    table = table_of(200)
    book, cells, _ = book_of(table)
    result = kept(book, cells)
    np.testing.assert_allclose(result.cells, cells, atol=1e-9)
    assert result.repaired.sum() == 0


def test_exchanges_keep_the_distribution_of_a_column():
    columns = {name: COLUMNS[name] for name in ("visits", "cost")}
    table = table_of(1000).select(list(columns))
    book, cells, _ = book_of(table, columns, RULES[4:6])
    mixed = shuffled(cells)
    result = kept(book, mixed)
    assert book.count_broken(book.cells.from_cells(result.cells)).sum() == 0
    np.testing.assert_array_equal(np.sort(result.cells, axis=0), np.sort(mixed, axis=0))
    assert result.repaired.tolist() == book.count_broken(book.cells.from_cells(mixed)).tolist()


def test_an_exchange_goes_to_a_similar_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    visits = (x + rng.normal(size=2000) > 0).astype(int)
    table = pa.table({"x": x, "visits": visits, "cost": np.where(visits > 0, np.exp(x), 0.0)})
    columns = {"x": {"kind": "continuous"}, "visits": COLUMNS["visits"], "cost": COLUMNS["cost"]}
    book, cells, _ = book_of(table, columns, ["if visits == 0 then cost == 0"])
    broken = cells.copy()
    swapped = np.argsort(x, kind="stable").reshape(-1, 2)  # neighbours in x exchange their visits
    broken[swapped, 1] = broken[swapped[:, ::-1], 1]
    result = book.keep(broken, numbers_for_matching(cells)[:, :1], rng)
    assert result.repaired[0] > 100
    before, after = np.corrcoef(cells[:, 0], cells[:, 2])[0, 1], np.corrcoef(x, result.cells[:, 2])[0, 1]
    assert abs(after - before) < 0.05


def test_bounds_of_derived_column_hold_and_operands_give_way():
    table = pa.table({"a": [10, 20, 30, 40], "b": [5, 10, 15, 20], "total": [15, 30, 45, 60]})
    columns = {name: {"kind": "integer", "bounds": [0, 60]} for name in ("a", "b", "total")}
    book, cells, _ = book_of(table, columns, ["total = a + b"])
    wide = np.array([[50.0, 40.0, 0.0], [60.0, 60.0, 0.0], [1.0, 2.0, 0.0]])
    result = kept(book, wide)
    assert result.cells.tolist() == [[20.0, 40.0, 60.0], [0.0, 60.0, 60.0], [1.0, 2.0, 3.0]]
    assert result.repaired.tolist() == [2]
    assert cells[:, 2].max() == 60


def test_bounds_of_a_ratio_hold_and_no_divisor_is_zero():
    rng = np.random.default_rng(0)
    a, total = rng.integers(1, 50, 40), rng.integers(50, 90, 40)
    table = pa.table({"a": a, "total": total, "share": a / total})
    columns = {"a": {"kind": "integer"}, "total": {"kind": "integer"}}
    columns["share"] = {"kind": "continuous", "bounds": [0.01, 1]}
    book, cells, _ = book_of(table, columns, ["share = a / total"])
    wild = cells.copy()
    wild[:4, :2] = [[90, 60], [0, 60], [30, 0], [-5, -9]]
    after = kept(book, wild).cells
    assert after[:2, :2].tolist() == [[60, 60], [1, 60]] and after[3, :2].tolist() == [-5, -9]
    assert after[2, :2].tolist() in after[[0, 1, *range(3, 40)], :2].tolist()  # as in another row
    np.testing.assert_array_equal(after[:, 2], after[:, 0] / after[:, 1])
    fixed, cells, _ = book_of(table, columns | {"a": {"kind": "integer", "bounds": [40, 90]}}, ["share = a / total"])
    cells[0, :2] = [80, 60]
    assert kept(fixed, cells).cells[0].tolist() == [60, 60, 1]


@pytest.mark.parametrize("rule", ["0 <= a <= total", "0 <= a / total"])
def test_a_divisor_of_zero_has_the_numerator_of_the_input(rule):
    """Null where the input has nulls there, by exchanges with rows that lack a ratio; else as it was drawn."""
    rng = np.random.default_rng(0)
    total = rng.integers(1, 60, 900) * (rng.random(900) < 0.8)
    unknown = (total == 0) | (rng.random(900) < 0.1)
    table = pa.table({"a": pa.array(np.floor(total * rng.random(900)), mask=unknown), "total": total})
    columns = {name: COLUMNS[name] for name in table.column_names}
    book, cells, declared = book_of(table, columns, [rule])
    gap, mixed = list(declared).index("a / total"), shuffled(cells)
    result = kept(book, mixed)
    none = np.isnan(result.cells[:, 0])
    assert none[total_is_zero := result.cells[:, 1] == 0].all() and 0.05 < none[~total_is_zero].mean() < 0.15
    np.testing.assert_array_equal(np.sort(result.cells[:, gap]), np.sort(mixed[:, gap]))
    assert result.repaired.tolist() == [2 * np.count_nonzero((mixed[:, 1] == 0) & ~np.isnan(mixed[:, gap]))]
    untouched = np.random.default_rng(2)
    np.testing.assert_array_equal(book.keep(cells, cells, untouched).cells, cells)
    assert untouched.random() == np.random.default_rng(2).random()  # nothing was drawn: other jobs keep their bytes
    table = table.set_column(0, "a", pa.array(np.where(total == 0, 0.0, 1.0), mask=unknown & (np.arange(900) > 450)))
    book, cells, _ = book_of(table, columns, [rule])
    mixed = shuffled(cells)
    none = np.isnan(mixed[:, gap])
    np.testing.assert_array_equal(np.isnan(kept(book, mixed).cells[:, 0]), none)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("halves", ["further", "nearer", "as floats"])
def test_halves_of_a_step_are_rounded_as_in_the_input(halves, sign):
    points = sign * np.random.default_rng(1).integers(1, 40, 900)
    exact = 4125 * points  # in hundredths of cents
    shift = np.sign(points) * (1 if halves == "further" else -1)
    fee = np.round(0.4125 * points, 2) if halves == "as floats" else np.rint((10 * exact + shift) / 1000) / 100
    table = pa.table({"points": points, "fee": fee})
    columns = {"points": {"kind": "integer"}, "fee": {"kind": "continuous", "step": 0.01}}
    book, cells, _ = book_of(table, columns, ["fee = 0.4125 * points"], least=5)
    assert book.counts.halves.sum() == np.count_nonzero(exact % 100 == 50) > 100
    np.testing.assert_array_equal(book.derive(mixed := shuffled(cells), np.random.default_rng(0)), [0])
    fees = dict(zip(points.tolist(), cells[:, 1].tolist(), strict=True))
    assert [fees[each] for each in mixed[:, 0].astype(int).tolist()] == mixed[:, 1].tolist()


def test_an_end_beyond_its_bound_comes_nearer_to_its_begin():
    day = lambda text: dt.date.fromisoformat(text)  # noqa: E731
    table = pa.table({"begin": [day("2020-01-01"), day("2020-03-01")], "end": [day("2020-01-01"), day("2020-12-31")]})
    columns = {name: {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]} for name in ("begin", "end")}
    for rule in ("begin <= end", "end >= begin"):
        book, cells, _ = book_of(table, columns, [rule])
        cells[0] = cells[1]
        cells[:, 2] = 360
        made = book.cells.from_cells(book.with_differences(kept(book, cells).cells)).to_pylist()
        assert all(day("2020-01-01") <= row["begin"] <= row["end"] <= day("2020-12-31") for row in made)
        assert all((row["end"] - row["begin"]).days == row[book.rules[0].gap] for row in made)


def test_differences_and_shares_are_those_of_written_columns():
    """A reader computes them from what is written; on the original nothing changes."""
    book, cells, _ = book_of(table_of(2000), least=5)
    gaps = [book.positions[rule.gap] for rule in book.rules if rule.gap]
    np.testing.assert_array_equal(book.with_differences(cells), cells)
    made = kept(book, shuffled(cells)).cells
    found = book.with_differences(made)
    written = book.cells.from_cells(made)
    written = written.select([name for at, name in enumerate(book.cells.names) if at not in gaps])
    read = with_differences(written, book.rules).select(book.cells.names)
    np.testing.assert_array_equal(found[:, gaps], book.cells.to_cells(read)[:, gaps])
    np.testing.assert_array_equal(np.delete(found, gaps, axis=1), np.delete(made, gaps, axis=1))
    assert len(gaps) > 3 and (found[:, gaps] != made[:, gaps]).any()


def followed(rows, seed=0):
    """Entries, all followed to the closing date, in months of one decimal."""
    entry = np.random.default_rng(seed).integers(CLOSING - 4000, CLOSING - 300, rows)
    months = ((CLOSING - entry) / 30.4375).round(1)
    return pa.table({"entry": pa.array(entry.astype(np.int32)).cast(pa.date32()), "months": months})


def test_those_at_a_limit_lie_anywhere_in_its_rounding():
    table = followed(6000)
    book, cells, _ = book_of(table, {name: COLUMNS[name] for name in table.column_names}, RULES[-1:])
    assert cells[:, 2].tolist() == [1.0] * 6000  # all are at the limit, though rounded months miss it by some days
    cells[:, 0] = 0.0
    after = kept(book, cells).cells
    beyond = after[:, 0] + 30.4375 * cells[:, 1] - CLOSING
    assert np.abs(beyond).max() <= 30.4375 * 0.05 and abs(beyond.mean()) < 0.05 and 0.8 < beyond.std() < 0.95
    days = np.bincount(after[:, 0].astype(int) - (CLOSING - 4000), minlength=4000)[100:3600]
    assert np.count_nonzero(days) > 0.75 * len(days)  # months of one decimal alone meet a third of the days
    np.testing.assert_array_equal(kept(book, after).cells, after)


@pytest.mark.parametrize("which", ["first day", "last day", "weeks"])
def test_a_limited_date_stays_on_the_days_of_the_original(which):
    table = followed(3000)
    days = table["entry"].to_numpy()
    entry = {
        "first day": days.astype("datetime64[M]").astype("datetime64[D]"),
        "last day": (days.astype("datetime64[M]") + 1).astype("datetime64[D]") - 1,
        "weeks": (days.astype(int) // 7 * 7 + 3).astype("datetime64[D]"),
    }[which]
    rng, whole = np.random.default_rng(1), (CLOSING - entry.astype(int)) / 30.4375
    months = np.where(rng.random(3000) < 0.4, whole, whole * rng.random(3000))
    table = pa.table({"entry": pa.array(entry), "months": np.floor(10 * months) / 10})
    book, cells, declared = book_of(table, {name: COLUMNS[name] for name in table.column_names}, RULES[-1:], least=5)
    result = kept(book, shuffled(cells))
    assert_kept(book, declared, table, result.cells)
    released = result.cells[:, 0].astype("datetime64[D]")
    day = released + (which == "last day")
    on = (released - entry[0]).astype(int) % 7 == 0 if which == "weeks" else day == day.astype("datetime64[M]")
    assert on.mean() > 0.998  # but where no such day is below the limit
    assert np.count_nonzero(np.unique(released)) > 0.8 * np.count_nonzero(np.unique(entry))
    np.testing.assert_array_equal(kept(book, result.cells).cells, result.cells)


@pytest.mark.parametrize("rules", [["start <= end"], ["end >= start"], ["0 <= part <= whole"]])
def test_ordered_columns_stay_on_the_steps_of_the_original(rules):
    rng = np.random.default_rng(3)
    start = np.datetime64("2001-01") + rng.integers(0, 120, 3000)
    whole = 50 * rng.integers(0, 40, 3000)
    table = pa.table(
        {
            "start": pa.array(start.astype("datetime64[D]")),
            "end": pa.array((start + rng.poisson(3.0, 3000)).astype("datetime64[D]")),
            "part": (whole * rng.random(3000) / 50).astype(int) * 50,
            "whole": whole,
        }
    )
    kinds = {"start": "date", "end": "date", "part": "integer", "whole": "integer"}
    book, cells, declared = book_of(table, {name: {"kind": kind} for name, kind in kinds.items()}, rules, least=5)
    result = kept(book, shuffled(cells))
    assert_kept(book, declared, table, result.cells)
    target = book.rules[0].target
    released = result.cells[:, book.positions[target]]
    if target == "part":
        wanted = result.cells[:, book.positions["part / whole"]] * result.cells[:, book.positions["whole"]]
        assert (released % 50 == 0).all() and abs(released.mean() - wanted.mean()) < 2
    else:
        assert (released.astype("datetime64[D]") == released.astype("datetime64[D]").astype("datetime64[M]")).all()
    np.testing.assert_array_equal(kept(book, result.cells).cells, result.cells)


def test_a_limit_below_the_lower_bound_moves_its_operands():
    table = pa.table({"entry": followed(3)["entry"], "months": [3.0, 40.0, 60.0]})
    book, cells, declared = book_of(table, {name: COLUMNS[name] for name in table.column_names}, RULES[-1:])
    cells[0, 1], low = 200.0, declared["entry"].numeric_bounds[0]
    result = kept(book, cells)
    assert result.repaired.tolist() == [1] and abs(result.cells[0, 0] - low) <= 2
    assert result.cells[0, 1] == pytest.approx((CLOSING - low) / 30.4375, abs=0.1)
    assert_kept(book, declared, table, result.cells)


def test_shares_of_one_beyond_the_upper_bound_go_to_others():
    """Without exchanges many would lie at the bound; shares stay as they are, in each category that is not masked."""
    rng = np.random.default_rng(0)
    table = followed(3000).append_column("status", pa.array(rng.choice(["dead", "alive"], 3000)))
    columns = {name: COLUMNS[name] for name in ("entry", "months")} | {"status": {"kind": "binary", "role": "key"}}
    book, cells, declared = book_of(table, columns, RULES[-1:])
    cells[:, 1] = rng.uniform(0, 130, 3000).round(1)
    dead = cells[:, 2] == 1
    cells[:, 3] = np.where(dead | (rng.random(3000) < 0.3), rng.random(3000), 1.0)
    result = kept(book, cells)
    assert_kept(book, declared, table, result.cells)
    high = declared["entry"].numeric_bounds[1]
    before = (cells[:, 3] == 1.0) & (CLOSING - 30.4375 * cells[:, 1] > high + 2)
    assert np.count_nonzero(before) > 30 and np.count_nonzero(result.cells[:, 0] == high) < 5
    assert result.repaired.tolist() == [2 * np.count_nonzero(before)]
    for of in (dead, ~dead):
        np.testing.assert_array_equal(np.sort(result.cells[of, 3]), np.sort(cells[of, 3]))
    np.testing.assert_array_equal(result.cells[:, 1:3], cells[:, 1:3])
    changed = np.abs(np.cov(cells[:, [1, 3]].T)[0, 1] - np.cov(result.cells[:, [1, 3]].T)[0, 1])
    assert changed < 0.05 * cells[:, 1].std() * cells[:, 3].std()


@pytest.mark.parametrize("rule", ["a + 2 * b <= 24", "24 - 2 * b >= a"])
def test_a_limited_sum_of_whole_numbers_is_exact(rule):
    rng = np.random.default_rng(0)
    b = rng.integers(0, 12, 500)
    table = pa.table({"a": np.floor(rng.random(500) * (25 - 2 * b)).astype(int), "b": b})
    columns = {"a": {"kind": "integer", "bounds": [0, None]}, "b": {"kind": "integer", "bounds": [0, 12]}}
    book, cells, _ = book_of(table, columns, [rule])
    after = kept(book, shuffled(cells)).cells
    assert (after[:, 0] + 2 * after[:, 1]).max() == 24 and after[:, 0].min() == 0
    assert book.rules[0].slack == 0 and book.counts.broken.tolist() == [0]


@pytest.mark.parametrize("value", [None, "same"])
def test_constant_and_empty_columns_and_equal_rows(value):
    table = pa.table(
        {"x": pa.array([value] * 20, pa.string()), "y": ["one"] * 20, "a": [3] * 20, "b": [4] * 20, "c": [7] * 20}
    )
    columns = {"x": {"kind": "categorical"}, "y": {"kind": "categorical"}} | {n: {"kind": "integer"} for n in "abc"}
    book, cells, declared = book_of(table, columns, ["x -> y", "c = a + b", "a <= b", "if a == 3 then y == 'one'"][:3])
    after = kept(book, shuffled(cells)).cells
    assert_kept(book, declared, table, after)
    np.testing.assert_array_equal(after, cells)


def test_counts_add_up_over_batches():
    table = table_of(500)
    book, _, declared = book_of(table)
    batches = [with_differences(batch, book.rules) for batch in table.to_batches(max_chunksize=70)]
    added = RuleCounts.none(book.rules)
    for batch in batches:
        added = added.merge(RuleCounts.of(book.rules, batch, declared))
    for at, whole in book.counts.pairs.items():
        counted = [zip(each.values.to_pylist(), each.rows.tolist(), strict=True) for each in (added.pairs[at], whole)]
        assert sorted(map(str, counted[0])) == sorted(map(str, counted[1]))
    assert added.broken.tolist() == book.counts.broken.tolist()


def test_a_lookup_is_of_combinations_that_enough_records_have():
    county = ["c0"] * 20 + ["c1"] * 20 + ["c2"] * 3
    table = pa.table({"county": county, "region": [f"r{name[1]}" for name in county]})
    columns = {name: {"kind": "categorical"} for name in ("county", "region")}
    book, cells, _ = book_of(table, columns, ["county -> region"], least=5)
    assert set(map(int, kept(book, cells).cells[-3:, 1])) <= {0, 1}  # what only three records have is not released
    pairs, cells, _ = book_of(table, columns, ["pairs(county, region)"], least=5)
    assert pairs.count_broken(pairs.cells.from_cells(cells)).tolist() == [3]


def test_rows_near_a_limit_exchange_the_number_and_no_null():
    """Licences are of ages from 17 on, and pupils go with both: nulls stay where they are, ages move by little."""
    rng = np.random.default_rng(2)
    age = rng.integers(6, 90, 4000)
    licence = np.where(rng.random(4000) < 0.9, "yes", "no")
    table = pa.table({"age": age, "licence": pa.array(licence, mask=age < 17)})
    columns = {"age": {"kind": "integer"}, "licence": {"kind": "categorical"}}
    rules = ["if age < 17 then licence is null", "if age >= 17 then licence is not null"]
    book, cells, _ = book_of(table, columns, rules)
    blurred = cells + np.column_stack([rng.integers(-2, 3, 4000), np.zeros(4000)])
    found = kept(book, blurred)
    assert book.count_broken(book.cells.from_cells(blurred)).min() > 20
    assert not book.broken(found.cells).any()
    assert (found.cells[:, 1] == cells[:, 1]).all() and np.abs(found.cells[:, 0] - blurred[:, 0]).max() < 9


SIZED = {"staff": {"kind": "integer"}, "size": {"kind": "categorical"}}


@pytest.mark.parametrize("of_units", [False, True])
def test_a_class_of_a_number_is_cut_where_a_code_book_would(of_units):
    """Numbers that no row has lie on the side of the round cut; nulls have a class; parts give what the whole gives."""
    rng = np.random.default_rng(4)
    staff = np.setdiff1d(np.floor(np.exp(rng.normal(2.5, 1.4, 3000))), [9, 48, 49, 251, 253])
    staff = np.concatenate([rng.permutation(np.repeat(staff, 6)), [np.nan] * 9, [5_000_000.0]])
    size = np.array(["micro", "small", "medium", "large", "unknown"])[np.digitize(staff, [10, 50, 250])]
    size[np.isnan(staff)], size[-1] = "unknown", "single"
    table = pa.table({"staff": pa.array(staff, mask=np.isnan(staff)).cast("int64"), "size": size})
    book, _, declared = book_of(table, SIZED, ["staff -> size"], least=5)
    units = np.arange(table.num_rows).astype(np.uint64) if of_units else None
    added = RuleCounts.none(book.rules)
    for at, batch in enumerate(table.to_batches(max_chunksize=400)):
        own = None if units is None else (units[at * 400 :][: len(batch)], 5)
        added = added.merge(RuleCounts.of(book.rules, batch, declared, own))
    assert len(added.pairs[0].rows) <= 11 and added.pairs[0].rows.sum() == table.num_rows  # whatever the rows
    asked = np.array([0, 9, 10, 48, 49, 50, 249, 250, 251, 10_000, np.nan])
    for each in (book, replace(book, counts=added)):
        cells = np.column_stack([asked, np.zeros(len(asked))])
        classes = each.cells.from_cells(kept(each, cells).cells)["size"].to_pylist()
        assert classes == ["micro"] * 2 + ["small"] * 3 + ["medium"] * 2 + ["large"] * 3 + ["unknown"]
        assert each.count_broken(each.cells.from_cells(cells)).tolist() == [8]  # all but the large ones
        assert each.counts.broken_by(0, each.rules[0]) == 0


def test_classes_that_overlap_are_counted():
    table = pa.table({"staff": [1, 2, 3, 4, 5, 6, 7, 8, 9], "size": ["a", "a", "b", "a", "b", "c", "c", None, "d"]})
    book, _, _ = book_of(table, SIZED, ["staff -> size"])
    assert book.counts.broken_by(0, book.rules[0]) == 1


def test_combinations_of_enough_units_come_out():
    rng, k = np.random.default_rng(8), 4
    rows = [(f"d{a}", b, int(unit)) for a, b, unit in rng.integers(0, [9, 3, 12], (150, 3))]
    rows += [("d9", 1, 3)] * 30 + [(None, 2, unit) for unit in range(5)]  # many rows of one unit; a null of five
    term, target, unit = zip(*rows, strict=True)
    table = pa.table({"diagnosis": term, "ward": pa.array(target).cast(pa.string())})
    columns = {name: Column(kind="categorical") for name in table.column_names}
    rules = parse_rules(["pairs(diagnosis, ward)"], columns)
    units = np.array(unit, dtype=np.uint64)
    whole = RuleCounts.of(rules, table.combine_chunks().to_batches()[0], columns, (units, k))
    parts = [(batch, units[at * 40 :][: len(batch)]) for at, batch in enumerate(table.to_batches(max_chunksize=40))]
    added = reduce(RuleCounts.merge, (RuleCounts.of(rules, batch, columns, (own, k)) for batch, own in parts))
    common = naive.common_pairs(rules[0], table.to_pylist(), k, unit)
    every = set(zip(term, table["ward"].to_pylist(), strict=True))
    assert ("d9", "1") in every - common and (None, "2") in common and len(common) < len(every) - 1
    for counts in (whole, added):
        found = counts.pairs[0].values.filter(pa.array(counts.pairs[0].are_of(k)))
        assert set(zip(*(column.to_pylist() for column in found.columns), strict=True)) == common
        of_rows = counts.without_units().pairs[0]
        assert of_rows.are_of(k).sum() == len(naive.common_pairs(rules[0], table.to_pylist(), k))


def test_pairs_are_exchanged_among_rows_at_fault_first():
    columns = {name: COLUMNS[name] for name in ("sex", "diagnosis")}
    table = table_of(600).select(list(columns))
    book, cells, _ = book_of(table, columns, ["pairs(diagnosis, sex)"])
    mixed = shuffled(cells)
    after = kept(book, mixed).cells
    assert book.count_broken(book.cells.from_cells(after)).sum() == 0
    moved = [
        np.abs(np.bincount(after[:, at].astype(int)) - np.bincount(mixed[:, at].astype(int))).sum() for at in (0, 1)
    ]
    assert max(moved) <= 0.02 * 600


def test_equal_differences_of_cents_are_equal():
    cost, visits = np.random.default_rng(0).integers(0, 10**6, 2000) / 100, np.arange(2000) % 7
    table = pa.table({"part": cost, "all": (cost + visits * 83.1).round(2)})
    declared = {name: Column(kind="continuous", step=0.01) for name in ("part", "all")}
    (rule,) = parse_rules(["part <= all"], declared | with_rules(["part <= all"], declared))
    found = with_differences(table.to_batches()[0], [rule]).column(rule.gap).to_numpy()
    assert np.array_equal(np.unique(found), np.unique(visits * 8310 * 0.01))
    off = pa.table({"part": [1.0, 2.0], "all": [1.004, 2.5]})  # no rounding error
    assert with_differences(off.to_batches()[0], [rule]).column(rule.gap).to_pylist() == pytest.approx([0.004, 0.5])


@pytest.mark.parametrize(("step", "wanted"), [(None, [1.0, 1.0]), (0.25, [1.0, 1.75])])
def test_times_of_day_leave_whole_steps_between_dates(step, wanted):
    declared = {name: Column(kind="date", step=step) for name in ("first", "last")}
    (rule,) = parse_rules(["first <= last"], declared | with_rules(["first <= last"], declared))
    first = [dt.datetime(2020, 1, 1, 7), dt.datetime(2020, 1, 1)]
    table = pa.table({"first": first, "last": [dt.datetime(2020, 1, 2, 8), dt.datetime(2020, 1, 2, 19)]})
    assert with_differences(table.to_batches()[0], [rule]).column(rule.gap).to_pylist() == wanted


@pytest.mark.parametrize("rule", ["0 <= a <= total", "0 <= a / total"])
def test_a_share_is_missing_where_the_part_is(rule):
    """A share of a total of 0 is 0 where the part is there."""
    table = pa.table({"a": [None, 0.0, 1.0, None, 1.0], "total": [0.0, 0.0, 2.0, 2.0, None]})
    _, cells, declared = book_of(table, {name: COLUMNS[name] for name in table.column_names}, [rule])
    shares = cells[:, list(declared).index("a / total")]
    assert np.array_equal(shares, [np.nan, 0.0, 0.5, np.nan, np.nan], equal_nan=True)


def test_minus_stands_before_products():
    """With the values that a minus inside has."""
    declared = {name: Column(kind="continuous") for name in ("a", "b", "x")}
    batch = pa.record_batch({"a": [3.0, -2.0, 0.0], "b": [0.5, 4.0, 7.0]})
    texts = ["x = -(a * b)", "x = -a * b", "x = -(a / b)", "x = a / -(b * 2)", "x = -(a * -(b - 1) ** 2)"]
    found = [value_of(*parse_rules([text], declared), batch).tolist() for text in texts]
    assert found == [[-1.5, 8, 0], [-1.5, 8, 0], [-6, 0.5, 0], [-3, 0.25, 0], [0.75, -18, 0]]


def test_operands_come_from_random_rows():
    """Rows whose divisor is 0 once took operands of the first rows of the file, whom recipients then knew."""
    columns = {"a": {"kind": "continuous"}, "b": {"kind": "integer"}, "share": {"kind": "continuous"}}
    b, a = np.arange(1, 1001), np.arange(1000.0)
    book, cells, _ = book_of(pa.table({"a": a, "b": b, "share": a / b}), columns, ["share = a / b"])
    cells[900:, 1] = 0
    taken = [kept(book, cells, seed).cells[900:, 0] for seed in (1, 2)]
    assert abs(np.mean(taken[0] < 100) - 1 / 9) < 0.15 and (taken[0] != taken[1]).any()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.integers(20, 400))
def test_what_conditions_share_out_is_exchanged_and_not_replaced(seed, rows):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 95, rows)
    wage = np.where((age >= 16) & (age <= 66), np.rint(rng.gamma(2.0, 900.0, rows)) + 1, 0)
    pension = np.where(age > 60, np.rint(rng.gamma(2.0, 700.0, rows)) + 1, 0)
    table = pa.table({"age": age, "wage": wage, "pension": pension, "hours": rng.integers(0, 40, rows)})
    rules = ["if age < 16 then wage == 0", "if age > 66 then wage == 0", "if age >= 16 and age <= 66 then wage > 0"]
    rules += ["if age <= 60 then pension == 0", "if age > 60 then pension > 0"]
    book, cells, declared = book_of(table, {name: {"kind": "integer"} for name in table.column_names}, rules)
    given_cells = shuffled(cells, seed)
    result = kept(book, given_cells, seed)
    assert_kept(book, declared, table.combine_chunks().to_batches()[0], result.cells)
    for at in range(cells.shape[1]):
        own, other = given_cells[:, at], result.cells[:, at]
        assert result.moved[0, at] == sum(a != b for a, b in zip(own, other, strict=True))
        gone = Counter(own.tolist()) - Counter(other.tolist())
        assert result.moved[1, at] == sum(gone.values())
    assert result.moved[1, [0, 3]].tolist() == [0, 0]
    assert result.moved[1].max() <= 0.05 * rows + 2


def test_partners_are_rows_that_other_conditions_allow():
    """Those out of work were partners, too, and may have no reason: it was removed where few hours had none."""
    rng = np.random.default_rng(0)
    works = rng.random(3_000) < 0.6
    hours = np.where(works, rng.integers(10, 60, 3_000), 0)
    reason = np.where(works & (hours < 25), rng.choice(["care", "study"], 3_000), "none")
    columns = {"works": {"kind": "categorical"}, "hours": {"kind": "integer"}, "reason": {"kind": "categorical"}}
    table = pa.table({"works": np.where(works, "yes", "no"), "hours": hours, "reason": reason})
    rules = ["if works == 'no' then reason == 'none'", "if hours >= 25 then reason == 'none'"]
    book, cells, _ = book_of(table, columns, rules)
    given_cells = cells.copy()
    few = np.flatnonzero(works & (hours < 25))
    many = rng.choice(np.flatnonzero(works & (hours >= 25)), len(few) // 2, replace=False)
    given_cells[many, 2], given_cells[few[: len(many)], 2] = given_cells[few[: len(many)], 2], given_cells[many, 2]
    result = kept(book, given_cells, 1)
    assert result.moved[1, 2] <= 0.02 * len(many) and not book.broken(result.cells).any()


def test_parts_beyond_their_totals_are_exchanged():
    """No partner was found, as all rows meet what the condition begins with: heaps of parts were lost."""
    rng = np.random.default_rng(0)
    total = rng.integers(3, 60, 2_000)
    part = np.where(rng.random(2_000) < 0.7, np.minimum(5, total), np.minimum(total, rng.integers(0, 20, 2_000)))
    table = pa.table({"total": total, "part": part, "x": rng.normal(size=2_000)})
    columns = {"total": {"kind": "integer"}, "part": {"kind": "integer"}, "x": {"kind": "continuous"}}
    book, cells, _ = book_of(table, columns, ["if total >= 0 then part <= total"])
    given_cells, book = shuffled(cells, 1), replace(book, blocks={"total": (0, 1), "part": (1, 2)})
    broken = book.broken(given_cells).sum()
    result = kept(book, given_cells, 1)
    assert broken > 60 and not book.broken(result.cells).any() and result.moved[1, 1] <= 0.02 * broken


def test_limits_are_those_that_conditions_name():
    columns = {name: {"kind": "integer"} for name in ("age", "wage")}
    rules = ["if age < 16 then wage == 0", "if age <= 66 and age >= 16 then wage > 0", "if wage >= 9 then age != 70"]
    parsed = parse_rules(rules, {name: Column(**given) for name, given in columns.items()})
    assert sorted(limits_of(parsed, "age")) == [(16, False), (16, False), (66, True), (70, False), (70, True)]
    assert sorted(limits_of(parsed, "wage")) == [(0, False), (0, True), (0, True), (9, False)]
    assert limits_of(parsed, "other") == []


def test_true_and_false_are_written_as_in_yaml():
    columns = {"works": Column(kind="binary"), "true": Column(kind="integer"), "wage": Column(kind="integer")}
    texts = ["if works == false then wage is null", "if works == True then wage > 0", "if wage == `true` then wage > 0"]
    found = [rule.when[0] for rule in parse_rules(texts, columns)]
    assert [(each.values, each.other) for each in found] == [((False,), ""), ((True,), ""), ((), "true")]
