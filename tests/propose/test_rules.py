"""Rules that `anonpipe init` proposes: those that hold, none by chance, and no value of the data."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from anonpipe.job.model import parse_job
from anonpipe.pipeline.preview import preview
from anonpipe.propose.guesses import guess
from anonpipe.propose.profile import look_at
from anonpipe.propose.propose import propose_job
from anonpipe.propose.rules import amounts, computed_rules, propose_rules
from tests.encoding.test_rules import table_of


def proposed(table, active=True):
    looks = look_at(table)
    guesses = guess(looks)
    computed = computed_rules(looks, guesses)
    guesses |= amounts(computed, guesses)
    return [each for each in propose_rules(looks, guesses, computed) if each.active == active]


def texts(table):
    return {each.text for each in proposed(table)}


def _sums_and_orders():
    return table_of(3_000).drop_columns(["share", "bill", "change", "sent", "over", "paid"])


def test_the_rules_of_a_table_are_found():
    table = _sums_and_orders()
    assert texts(table) == {
        "total = a + b",
        "county -> region",
        "start <= treated <= death",
        "growth = 2 * b + 0.5 - a",
    }
    asked = {each.text for each in proposed(table, active=False) if each.share == 1.0 and not each.note}
    assert asked == {"if visits == 0 then cost == 0", "if cost == 0 then visits == 0"}  # their repairs move covariances


def test_a_stay_is_in_days_whatever_the_hours():
    rng = np.random.default_rng(7)
    begin, nights = rng.integers(0, 500 * 1440, 2_000), rng.poisson(4, 2_000)
    end = (begin // 1440 + nights) * 1440 + rng.integers(0, 1440, 2_000)
    stays = {name: pa.array(minutes * 60).cast(pa.timestamp("s")) for name, minutes in (("came", begin), ("left", end))}
    assert "left = came + nights" in texts(pa.table(stays | {"nights": nights}))


def test_a_fee_follows_from_its_code_and_the_bill_from_both():
    rng = np.random.default_rng(7)
    code, times = rng.integers(0, 12, 2_000), rng.poisson(0.8, 2_000) + 1
    fee = (np.arange(12) * 7.35 + 9.25)[code].round(2)
    bill = {"code": [f"c{each}" for each in code], "times": times, "fee": fee, "bill": (times * fee).round(2)}
    assert texts(pa.table(bill)) == {"code -> fee", "bill = times * fee"}


def test_products_ratios_and_parts_are_found(tmp_path):
    rng = np.random.default_rng(7)
    enrolled, price, n = rng.integers(0, 40, 2_000), rng.gamma(3.0, 10.0, 2_000).round(2), rng.poisson(3.0, 2_000)
    tested = np.floor(enrolled * rng.uniform(0.8, 1.0, 2_000))
    height, weight = rng.normal(1.7, 0.1, 2_000).round(2), rng.normal(70, 9, 2_000).round(1)
    before, after = rng.integers(50, 90, (2, 2_000))
    none = enrolled == 0
    percent = (100 * tested / np.maximum(enrolled, 1)).round(1)
    columns = {"enrolled": enrolled, "tested": tested, "percent": pa.array(percent, mask=none)}
    columns |= {"price": price, "n": n, "cost": (price * n).round(2), "height": height, "weight": weight}
    columns |= {"bmi": (weight / height**2).round(1), "before": before, "after": after}
    columns |= {"change": ((after - before) / before).round(3), "noise": rng.normal(size=2_000).round(2)}
    text = _proposed_job(tmp_path, pa.table(columns))
    assert yaml.safe_load(text)["rules"] == [
        "cost = price * n",
        "change = (after - before) / before",
        "percent = 100 * tested / enrolled",
        "bmi = weight / height ** 2",
    ]
    assert "If it is part of that: 0 <= tested <= enrolled" in " ".join(text.replace("#", "").split())
    hours = rng.integers(0, 44, 2_000)
    wages = {"hours": hours, "pay": np.rint(hours * np.exp(rng.normal(3.0, 0.4, 2_000)))}
    wages["hourly"] = pa.array((wages["pay"] / np.maximum(hours, 1)).round(2), mask=hours == 0)
    text = _proposed_job(tmp_path, pa.table(wages))
    assert yaml.safe_load(text)["rules"] == ["hourly = pay / hours"]
    asked = "To mask the ratio itself, and to compute the numerator from it: 0 <= pay / hours"
    assert asked in " ".join(text.replace("#", "").split())
    owed = wages | {"pay": wages["pay"] - 40, "hourly": ((wages["pay"] - 40) / np.maximum(hours, 1)).round(2)}
    owed = {name: values[hours > 0] for name, values in owed.items()}
    assert "To mask the ratio" not in _proposed_job(tmp_path, pa.table(owed))
    text = _proposed_job(tmp_path, pa.table(columns | {"percent": percent}))
    assert "percent = 100 * tested / enrolled: holds in all rows with values, not where" in " ".join(
        text.replace("#", "").split()
    )
    fell = after < before - 15
    table = columns | {"change": pa.array(columns["change"], mask=fell), "after": pa.array(after, mask=after > 85)}
    text = " ".join(_proposed_job(tmp_path, pa.table(table)).replace("#", "").split())
    known = "change = (after - before) / before: holds in all rows with values"
    assert f"{known}, not where one is null or the divisor is 0: there the result must be null;" in text
    assert "the result is null in other rows, too (as below 0): there it must have a value" in text
    table = columns | {"change": pa.array(columns["change"], mask=fell)}
    text = " ".join(_proposed_job(tmp_path, pa.table(table)).replace("#", "").split())
    assert f"{known}; the result is null" in text
    total = rng.integers(100, 900, 2_000)
    parts = {"seen": np.floor(total * rng.uniform(0.5, 1.0, 2_000)), "seen_total": total}
    assert texts(pa.table(parts)) == {"0 <= seen <= seen_total"}
    visits = np.where(rng.random(2_000) < 0.1, rng.poisson(1.5, 2_000) + 1, 0)  # most are 0, of both
    bills = {"visits": visits, "visits_bill": visits * rng.lognormal(4.0, 0.8, 2_000).round(2)}
    assert texts(pa.table(bills)) == set()


def _proposed_job(tmp_path, table):
    pq.write_table(table, tmp_path / "t.parquet")
    return propose_job(str(tmp_path / "t.parquet"), str(tmp_path / "out"), 5)


def test_conditions_on_categories_are_asked_without_values():
    rng = np.random.default_rng(6)
    ward, drug = rng.integers(0, 3, 900), rng.integers(0, 3, 900)
    drug[(ward == 0) & (drug == 2)] = 1
    dose = pa.array(rng.integers(0, 90, 900), mask=ward > 0)
    table = pa.table({"ward": [f"w{at}" for at in ward], "drug": [f"x{at}" for at in drug], "dose": dose})
    assert texts(table) == set()
    notes = " ".join(each.note for each in proposed(table, active=False))
    assert '"dose" is null for some values of "ward"' in notes and "pairs(ward, drug)" in notes
    assert '"ward" and "drug": 1 pair of categories, which chance' in notes
    assert "w0" not in notes and "x2" not in notes
    wage = np.where(ward == 1, 10 * rng.integers(90, 400, 900), 0)
    (asked,) = proposed(pa.table({"ward": [f"w{at}" for at in ward], "wage": wage}), active=False)
    assert '"wage" == 0 for some values of "ward"' in asked.note and "of the others then != 0" in asked.note
    some = np.where(rng.random(900) < 0.1, 0, wage)
    (asked,) = proposed(pa.table({"ward": [f"w{at}" for at in ward], "wage": some}), active=False)
    assert '"wage" == 0 in all sampled rows of some values of "ward"' in asked.note and "others" not in asked.note
    everywhere = np.where((rng.random(900) < 0.9) & (np.arange(900) > 30), 0, 10 * rng.integers(90, 400, 900))
    few = [f"w{at}" if row else "once" for row, at in enumerate(ward)]
    few[31:36] = ["seldom"] * 5  # zeros alone, by chance
    everywhere[31:36] = 0
    assert proposed(pa.table({"ward": few, "wage": everywhere}), active=False) == []


def test_nulls_that_columns_share_are_asked_once():
    """Each column against the first of them and back; what decides them all has values with nulls and without."""
    rng = np.random.default_rng(6)
    works = rng.random(900) < 0.6
    table = {"works": np.where(works, "y", "n")}
    table |= {f"w{at}": pa.array(rng.integers(1, 6, 900), mask=~works) for at in range(4)}
    found = proposed(pa.table(table), active=False)
    asked = {each.text for each in found if not each.note}
    pairs = [pair for at in range(1, 4) for pair in (("w0", f"w{at}"), (f"w{at}", "w0"))]
    assert asked == {f"if {one} is null then {other} is null" for one, other in pairs}
    decided = [each.note.split(",")[0] for each in found if each.note]
    assert decided == [f'"w{at}" is null for some values of "works"' for at in range(4)]


def test_nulls_of_an_ordered_date_are_asked_too():
    rng = np.random.default_rng(7)
    begin, inside = rng.integers(9_000, 12_000, 900), rng.random(900) < 0.2
    end = pa.array((begin + rng.integers(1, 900, 900)).astype(np.int32), mask=inside).cast(pa.date32())
    table = {"begin": pa.array(begin.astype(np.int32)).cast(pa.date32()), "end": end}
    table["reason"] = pa.array(rng.choice(["a", "b", "c"], 900), mask=inside)
    assert texts(pa.table(table)) == {"begin <= end"}
    asked = [each.text for each in proposed(pa.table(table), active=False)]
    assert asked == ["if end is null then reason is null", "if reason is null then end is null"]


def _dates(days, gone=None):
    return pa.array(days.astype(np.int32), pa.int32(), mask=gone).cast(pa.date32())


def test_a_birth_before_all_dates_leaves_their_chain():
    rng = np.random.default_rng(9)
    first, doses = rng.integers(18_600, 19_000, 2_000), rng.integers(0, 4, 2_000)
    table = {"born": _dates(rng.integers(-9_000, 15_000, 2_000)), "dose_1": _dates(first)}
    for at in (2, 3):
        first = first + rng.integers(20, 200, 2_000)
        table[f"dose_{at}"] = _dates(first, doses < at)
    assert texts(pa.table(table)) == {"dose_1 <= dose_2 <= dose_3"}


def test_a_date_that_few_rows_have_is_no_middle_of_a_chain():
    rng = np.random.default_rng(9)
    begin, lasting = rng.integers(16_000, 18_000, 3_000), rng.integers(300, 900, 3_000)
    few = begin + (lasting * rng.random(3_000)).astype(int)
    table = {"begin": _dates(begin), "few": _dates(few, rng.random(3_000) > 0.05), "end": _dates(begin + lasting)}
    assert texts(pa.table(table)) == {"begin <= end", "begin <= few"}


def test_conditions_that_follow_from_two_others_are_left_out():
    """Of visits side by side: the next visit without this one, and the columns of one visit, not all pairs."""
    rng = np.random.default_rng(4)
    visits = rng.integers(1, 5, 2_000)
    table = {f"{what}_{at}": pa.array(rng.normal(size=2_000), mask=visits < at) for at in (2, 3, 4) for what in "ab"}
    asked = {each.text for each in proposed(pa.table(table), active=False) if not each.note}
    pairs = [("a_2", "a_3"), ("a_3", "a_4")]
    pairs += [pair for at in (2, 3, 4) for pair in ((f"a_{at}", f"b_{at}"), (f"b_{at}", f"a_{at}"))]
    assert asked == {f"if {one} is null then {other} is null" for one, other in pairs}


def test_ratios_that_a_third_of_the_rows_have_are_found(tmp_path):
    rng = np.random.default_rng(4)
    turnover = np.exp(rng.normal(6, 1, 3_000)).round(1)
    export = np.where(rng.random(3_000) < 0.4, 0.0, turnover * rng.beta(1, 4, 3_000)).round(1)
    small = rng.random(3_000) < 0.65
    table = {"turnover": turnover, "export": pa.array(export, mask=small), "branch": rng.integers(10, 99, 3_000)}
    table["share"] = pa.array((100 * export / turnover).round(1), mask=small)
    assert "share = 100 * export / turnover" in yaml.safe_load(_proposed_job(tmp_path, pa.table(table)))["rules"]


@pytest.mark.parametrize("coded", [False, True])
def test_sums_are_of_the_column_that_is_null_with_its_parts(tmp_path, coded):
    """An item without an answer makes its sum null; where its code for that is no null, a comment says so."""
    rng = np.random.default_rng(2)
    level = rng.normal(size=3_000)[:, None]
    items = np.clip(np.rint(3 + level + rng.normal(size=(3_000, 70))), 1, 5)
    gone = rng.random((3_000, 70)) < 0.01
    number = lambda values, mask: pa.array(values.astype(np.int16), pa.int16(), mask=mask)  # noqa: E731
    shown = {f"q{at}": number(np.where(gone, 9, items)[:, at], gone[:, at] & (not coded)) for at in range(70)}
    text = "score = " + " + ".join(f"q{at}" for at in range(61, 70) if at != 65) + " + 6 - q65"
    score = items[:, 61:70].sum(axis=1) - 2 * items[:, 65] + 6
    table = pa.table(shown | {"score": number(score, gone[:, 61:70].any(axis=1)), "x": rng.normal(size=3_000)})
    found = {each.text: each for each in proposed(table, active=not coded)}
    assert bool(found[text].note) == coded


def test_conditions_beyond_a_value_are_asked_without_it():
    rng = np.random.default_rng(8)
    age, score, n = rng.integers(0, 95, 2_000), rng.gamma(4.0, 9.0, 2_000).round(1), rng.poisson(2.0, 2_000)
    columns = {"age": age, "score": score, "n": n, "cost": np.where(n == 0, 0.0, rng.gamma(2.0, 9.0, 2_000).round(1))}
    columns["income"] = np.where((age < 16) | (rng.random(2_000) < 0.3), 0.0, rng.gamma(2.0, 900.0, 2_000).round())
    columns["finding"] = pa.array(rng.choice(["a", "b"], 2_000), mask=score < 20)
    columns["pension"] = np.where(age > 64, rng.gamma(2.0, 700.0, 2_000).round() + 1, 0.0)
    columns["old"] = np.where(rng.random(2_000) < 1 / (1 + np.exp(age / 3 - 22)), 0.0, rng.gamma(2.0, 9.0, 2_000))
    notes = [each.note for each in proposed(pa.table(columns), active=False) if "VALUE" in each.note]
    assert sorted(note.partition("name it: ")[2] for note in notes) == [
        "if age < VALUE then income == 0",
        "if age < VALUE then pension == 0",
        "if score < VALUE then finding is null",
    ]
    above = {"minus": -score, "finding": columns["finding"]}
    (note,) = (each.note for each in proposed(pa.table(above), active=False))
    assert note.endswith("if minus > VALUE then finding is null") and not {"20", "16", "64"} & set(note.split())


@pytest.mark.parametrize("seed", range(20))
def test_no_value_is_asked_for_where_chance_rules(seed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(200, 3_000))
    shares = {f"x{at}": share for at, share in enumerate([0.1, 0.5, 0.97])}
    zeros = {name: np.where(rng.random(rows) < share, 0, rng.integers(1, 90, rows)) for name, share in shares.items()}
    nulls = {f"y{at}": pa.array(rng.normal(size=rows), mask=zeros[f"x{at}"] == 0) for at in range(3)}
    numbers = {"age": rng.integers(0, 90, rows), "score": rng.normal(size=rows), "n": rng.poisson(2.0, rows)}
    assert not [each.note for each in proposed(pa.table(numbers | zeros), active=False) if "VALUE" in each.note]
    assert not [each.note for each in proposed(pa.table(numbers | nulls), active=False) if "VALUE" in each.note]


def test_sums_of_many_columns_with_small_multiples_are_found():
    rng = np.random.default_rng(0)
    parts = {f"part_{at}": rng.integers(0, 100, 800) for at in range(5)}
    table = pa.table({**parts, "total": sum(parts.values()), "twice": 2 * parts["part_0"] + parts["part_3"] + 7})
    assert texts(table) == {
        "total = part_0 + part_1 + part_2 + part_3 + part_4",
        "twice = 2 * part_0 + part_3 + 7",
    }


def test_a_total_of_sources_is_split_again_and_shares_add_up():
    """No two rules compute the total; of shares that is computed which is never near 0."""
    rng = np.random.default_rng(0)
    sources = {f"source_{at}": rng.gamma(2.0, 1_000.0, 800).round() for at in range(4)}
    total = sum(sources.values())
    tax = np.floor(total * rng.uniform(0.1, 0.3, 800))
    shares = np.floor(rng.dirichlet([2, 9, 2], 800) * 100)
    shares[:, 1] += 100 - shares.sum(axis=1)
    named = {name: shares[:, at] for at, name in enumerate(["food", "rent", "rest"])}
    assert texts(pa.table({**sources, "tax": tax, "kept": total - tax, "total": total, **named})) == {
        "total = source_0 + source_1 + source_2 + source_3",
        "kept = total - tax",
        "rent = 100 - food - rest",
    }


def test_few_whole_numbers_that_others_follow_from_are_amounts(tmp_path):
    rng = np.random.default_rng(0)
    packs, size = rng.choice([1, 2, 3, 4], 900), rng.choice([10, 20, 28, 30, 56, 100], 900)
    table = {"packs": packs, "size": size, "quantity": packs * size, "ward": rng.choice([3, 7, 8, 21], 900)}
    job = yaml.safe_load(_proposed_job(tmp_path, pa.table(table | {"cost": rng.gamma(2.0, 9.0, 900).round(2)})))
    assert job["rules"] == ["quantity = packs * size"]
    kinds = {name: column["kind"] for name, column in job["columns"].items()}
    assert kinds["packs"] == kinds["size"] == "integer" and kinds["ward"] == "categorical"


def test_parts_of_small_counts_are_kept_by_their_difference(tmp_path):
    """Shares of a masked count, rounded to whole numbers, moved the mean of 800 rows beyond its limit."""
    rng = np.random.default_rng(1)
    visits, age = rng.poisson(0.9, 800), rng.integers(30, 80, 800)
    parts = {f"visits_{name}": rng.binomial(visits, share) for name, share in (("related", 0.3), ("serious", 0.25))}
    table = pa.table({"visits": visits, **parts, "age": age, "arm": rng.choice(["a", "b", "c"], 800)})
    job = yaml.safe_load(text := _proposed_job(tmp_path, table))
    assert job["rules"] == ["visits_related <= visits"] and '# - "0 <= visits_serious <= visits"' in text
    assert preview(parse_job(job | {"output": str(tmp_path / "out")})).exit_code == 0


def test_the_direction_of_an_order_is_that_which_has_a_begin():
    rng = np.random.default_rng(1)
    days = rng.integers(10_000, 14_000, (2, 900))
    begin, end = np.sort(days, axis=0)
    nobody, some, others = np.zeros(900, bool), rng.random(900) < 0.2, rng.random(900) < 0.2
    assert texts(pa.table({"x": _dates(begin, nobody), "y": _dates(end, some)})) == {"x <= y"}
    assert texts(pa.table({"x": _dates(begin, some), "y": _dates(end, nobody)})) == {"y >= x"}
    first = _dates(begin - rng.integers(1, 300, 900), some | others)  # there where x is, and not always then
    three = {"first": first, "x": _dates(begin, some), "y": _dates(end, nobody)}
    assert texts(pa.table(three)) == {"y >= x >= first"}
    both = pa.table({"x": _dates(begin, some), "y": _dates(end, others)})
    assert texts(both) == set()
    assert [each.text for each in proposed(both, active=False)] == ["if x is not null and y is not null then x <= y"]


@pytest.mark.parametrize("rows", [20, 60, 300, 3_000])
def test_nothing_is_proposed_of_columns_without_rules(rows):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        table = pa.table(
            {f"n{at}": rng.integers(0, 5 + 40 * at, rows) for at in range(5)}
            | {f"f{at}": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.1) for at in range(3)}
            | {f"c{at}": rng.choice(list("abcdefg")[: 2 + at], rows) for at in range(4)}
            | {"many": [f"v{at}" for at in rng.integers(0, max(2, rows // 3), rows)]}
            | {"rare": np.where(rng.random(rows) < 0.01, "x", "y")}
            | {f"d{at}": pa.array(rng.integers(0, 9_000, rows).astype(np.int32)).cast(pa.date32()) for at in range(3)}
        )
        assert proposed(table) == []


def test_a_sum_that_is_never_below_0_is_proposed():
    rng = np.random.default_rng(4)
    income, free = rng.integers(0, 900, 2_000) * 10, rng.integers(0, 300, 2_000) * 10
    taxed, other = np.maximum(0, income - free - 1_000), np.maximum(0, rng.integers(-500, 900, 2_000))
    found = proposed(pa.table({"income": income, "free": free, "taxed": taxed, "other": other}))
    assert [each.text for each in found] == ["taxed = max(0, income - free - 1000)"]
    far = np.where(np.arange(2_000) == 7, 1e300, income.astype(float))  # a number that is taken for none
    table = pa.table({"income": income, "free": free, "taxed": taxed, "far": far})
    assert [each.text for each in proposed(table)] == ["taxed = max(0, income - free - 1000)"]


def test_a_rule_that_nearly_holds_is_a_comment_with_its_share():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 90, 2_000), rng.integers(0, 90, 2_000)
    total = a + b
    total[:10] += 1
    (each,) = proposed(pa.table({"a": a, "b": b, "total": total}), active=False)
    assert each.text == "total = a + b" and each.share == 0.995


def test_the_proposal_is_a_job_that_plans_and_holds_no_value(tmp_path):
    pq.write_table(_sums_and_orders(), tmp_path / "t.parquet")
    text = propose_job(str(tmp_path / "t.parquet"), str(tmp_path / "out"), 5)
    job = parse_job(yaml.safe_load(text))
    assert len([rule for rule in job.parsed_rules if rule.text]) == 5  # the chain of dates makes two
    assert preview(job).exit_code == 0
    of_rules = text[text.index("# Rules between") : text.index("# Records of different strata")]
    assert not {"c0", "r0", "d0", "'m'", '"m"'} & set(of_rules.replace(",", " ").split())


@pytest.mark.parametrize("name", ["a b", "class", "null", "ä", "x`y", "if", "a->b", "it's"])
def test_any_name_stands_in_a_rule_or_in_none(name):
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 90, 500), rng.integers(0, 90, 500)
    found = texts(pa.table({name: a, "b": b, "total": a + b}))
    assert len(found) == (0 if "`" in name else 1)


def test_wide_samples_take_seconds():
    rng = np.random.default_rng(4)
    table = pa.table(
        {f"n{at}": rng.normal(size=20_000) for at in range(40)}
        | {f"c{at}": rng.choice(list("abcd"), 20_000) for at in range(40)}
    )
    looks = look_at(table)
    guesses, begin = guess(looks), time.process_time()
    propose_rules(looks, guesses, computed_rules(looks, guesses))
    assert time.process_time() - begin < 10.0


def test_a_part_that_a_few_rows_exceed_is_a_comment(tmp_path):
    rng = np.random.default_rng(4)
    pupils = rng.integers(20, 900, 2_000)
    meals = rng.binomial(pupils, 0.2)
    few = rng.choice(2_000, 12, replace=False)
    meals[few] = pupils[few] + 3
    text = " ".join(_proposed_job(tmp_path, pa.table({"pupils": pupils, "free_meals": meals})).replace("#", "").split())
    assert "holds in 99.4 % of the sampled rows; a rule takes all of them: 0 <= free_meals <= pupils" in text


def test_a_single_row_that_breaks_a_rule_is_no_100_percent(tmp_path):
    rng = np.random.default_rng(4)
    pupils = rng.integers(20, 900, 4_000)
    meals = rng.binomial(pupils, 0.2)
    meals[7] = pupils[7] + 3
    text = _proposed_job(tmp_path, pa.table({"pupils": pupils, "free_meals": meals}))
    assert "holds in 99.9 % of the sampled rows" in text and "100.0 %" not in text


@pytest.mark.parametrize("name", ["status", "colour"])
def test_the_time_between_two_dates_is_asked_for(tmp_path, name):
    """Where a status goes with them; the rule in the question is one that a job takes."""
    rng = np.random.default_rng(5)
    start = rng.integers(10_000, 14_000, 900).astype(np.int32)
    dates = {"start": start, "exit": start + rng.integers(0, 900, 900).astype(np.int32)}
    columns = {each: pa.array(days, pa.int32()).cast(pa.date32()) for each, days in dates.items()}
    values = ["dead", "alive"] if name == "status" else ["red", "blue"]
    text = _proposed_job(
        tmp_path, pa.table(columns | {name: rng.choice(values, 900), "age": rng.integers(20, 90, 900)})
    )
    text = " ".join(text.replace("#", "").split())
    assert ("the time from " in text) == (name == "status") == ("write the rule exit = start + days." in text)


@pytest.mark.parametrize(
    ("unit", "step", "asked"),
    [(30.4375, 0.1, "30.4375 * "), (1.0, 1.0, ""), (365.25, 0.01, "365.25 * "), (7, 1, "7 * ")],
)
def test_a_closing_date_is_asked_for_without_its_value(tmp_path, unit, step, asked):
    rng = np.random.default_rng(2)
    entry, closing = rng.integers(8_000, 14_000, 3_000), 15_000
    whole = rng.random(3_000) < 0.4
    share, age = np.where(whole, 1.0, rng.random(3_000)), rng.integers(20, 90, 3_000)

    def followed(entry):
        lasting = share * (closing - entry) / unit
        lasting = (lasting / step).round() * step if step >= 1 else lasting.round(round(-np.log10(step)))
        dates = pa.array(entry.astype(np.int32)).cast(pa.date32())
        return pa.table({"entry": dates, "followed": lasting, "age": age})

    def comments(table):
        return " ".join(_proposed_job(tmp_path, table).replace("#", "").split())

    table, of_weeks = followed(entry), followed(entry // 7 * 7)
    assert "closing date" in comments(of_weeks)
    text = comments(table)
    assert f"CHECK: entry + {asked}followed ends at one day in 4" in text and "2011" not in text
    assert f"entry + {asked}followed <= 'YYYY-MM-DD'" in text
    months = pa.array((entry // 31 * 31).astype(np.int32)).cast(pa.date32())  # of which the month alone is known
    assert "closing date" not in comments(table.set_column(0, "entry", months))
    lasting = table["followed"].to_numpy()
    lost = table.set_column(1, "followed", pa.array(np.where(whole, lasting * rng.random(3_000), lasting)))
    assert "closing date" not in comments(lost)
