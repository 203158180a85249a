"""Rules between columns in jobs: texts and errors, releases without a broken rule, what an attacker gains, workers."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anonpipe.columns import Column
from anonpipe.encoding.rules import RuleBook, RuleCounts
from anonpipe.encoding.values import numbers
from anonpipe.errors import AnonpipeError, InputError, JobError
from anonpipe.job.model import parse_job
from anonpipe.job.rules import check_counts, parse_rules
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.evaluation.samples import read_predicates
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.tasks.write import compared_names
from anonpipe.report import report_of_release
from anonpipe.report.words import columns
from anonpipe.storage import release
from tests import runs, small
from tests.encoding.test_rules import CLOSING, COLUMNS, RULES, assert_kept, book_of, kept, shuffled, table_of
from tests.naive import rules as naive
from tests.pipeline.evaluation.test_assess import looked

pytestmark = pytest.mark.secret("5e" * 32)

OFF = {"utility": False, "risk": False}
LENIENT = {"mean": 0.5, "covariance": 5.0, "category_share": 0.5, "null_share": 0.5, "local_suppression_rate": 1.0}
LENIENT |= {"unchanged_record_rate": 1.0, "membership_auc": None}
MASK = small.QUICK


def job_of(folder, table, columns=COLUMNS, rules=RULES, **changes):
    changes = {"mask": MASK, "gates": LENIENT, "k": 5, "measure": OFF, "rules": list(rules), **changes}
    return small.job(folder, table, columns, **changes)


PARTS = {"partition": {"rows": 1_000, "sample_rows": 500}, "release": {"file_rows": 1_000}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A table, its job in several partitions and files, and a run of it that nothing stops."""
    folder, table = tmp_path_factory.mktemp("whole"), table_of(2600)
    job = job_of(folder, table, **PARTS)
    with small.private_home(folder, runs.SECRET):
        return table, job, small.run(job)


def columns_of(**kinds):
    return {name: {"kind": kind} for name, kind in kinds.items()}


# --- Texts, and errors before any work

NUMBERS = columns_of(a="integer", b="integer", c="integer", start="date", end="date", word="categorical", sex="binary")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (["a = b", "b = c", "c = a"], "a from b from c from a, which is a circle"),
        (["a = b", "a = c"], "both derive 'a'"),
        (["a <= b", "b = 2 * a"], "both derive 'b'"),
        (["a = bb"], "did you mean b?"),
        (["a = key"], "'key' is not released (role identifier)"),
        (["a = gone + b"], "'gone' is not released (role dropped)"),
        (["a = b + b * c"], "products and ratios are of sums"),
        (["a = b / (c - c / b)"], "products and ratios are of sums"),
        (["a = 100 * (b - c) / c ** 2"], None),
        (["a = b / (end - start)"], None),
        (["a = b * start"], "differences of dates"),
        (["start = end * a"], "differences of dates"),
        (["a = -(b * c) / -(b / c)"], None),
        (["a = b / 0"], "divides by 0"),
        (["a = max(0, b - c)"], None),
        (["a = min(-2.5, 2 * b)"], None),
        (["a = max(0, b / c)"], "max is of a number and a sum of columns times numbers"),
        (["a = max(b, c)"], "is not allowed"),
        (["a = max(0, a - c)"], "must follow from other columns"),
        (["a = b / c", "c = b * a"], "which is a circle"),
        (["a = a / c"], "must follow from other columns"),
        (["a = b / word"], "'word' is categorical"),
        (["a = word + 1"], "'word' is categorical"),
        (["a = 3"], "must follow from other columns"),
        (["a = start"], "differences of dates"),
        (["start = end - a"], None),
        (["a = end - start"], None),
        (["start <= a"], "an order is of numbers, or of dates"),
        (["a < b"], "takes <= alone"),
        (["a <= b >= c"], "takes <= alone"),
        (["0 <= a <= b", "c >= b >= 0"], None),
        (["0 <= a <= b <= c"], "is of two columns"),
        (["a <= b <= 0"], "is of two columns"),
        (["0 <= start <= end"], "is of numbers"),
        (["0 <= a / b", "c = a / b"], None),
        (["a / b >= 0", "0 <= c / a"], None),
        (["0 <= a / b", "0 <= b / a"], "which is a circle"),
        (["0 <= a / b", "0 <= a <= c"], "both derive 'a'"),
        (["0 <= a / 2"], "given as bounds of 'a'"),
        (["0 <= a / b <= c"], "is no name of a column"),
        (["a / b <= 0"], "0 <= numerator / divisor"),
        (["0 <= a / a"], "named twice"),
        (["0 <= a / word"], "an order is of numbers"),
        (["0 <= start / end"], "is of numbers"),
        (["a -> word"], None),
        (["a -> b"], "'a' is integer, and a lookup begins with a category, or gives a class of a number"),
        (["start -> word"], "'start' is date, and a lookup begins with a category"),
        (["word -> word"], "named twice"),
        (["pairs(word, a)"], "'a' is integer"),
        (["if word == 'x' then fixed == 'y'"], "turn the rule round"),
        (["a = fixed"], "is not computed with"),
        (["word -> fixed"], "only a masked column"),
        (["if a > 'x' then b == 0"], "compared with a text"),
        (["if word < 'x' then b == 0"], "holds categories"),
        (["if start > 'soon' then b == 0"], "holds dates"),
        (["if start > '2020-01-01' then b == 0"], None),
        (["if a == 0 and word is not null then b is null and sex in ['f', 'm']"], None),
        (["a == b"], "none of the forms"),
        (["a = __import__('os')"], "is not allowed"),
        (["if a == 0 then b.c == 1"], "is not allowed"),
        (["a"], "none of the forms"),
        (["a + b <= 24"], "'a' has a limit and no lower bound; give bounds: [SMALLEST, null]"),
        (["low + 2 * b <= 24", "24 >= c + 7 * low - a"], "'c' has a limit and no lower bound"),
        (["low + 2 * b <= a + 24"], None),
        (["first <= '2020-12-31' - 30.4375 * a"], None),
        (["b <= ('2020-12-31' - first) / 7"], "'b' has a limit and no lower bound"),
        (["b - 5 >= -low"], "an upper limit on no masked column"),
        (["first <= 24"], "given as bounds of 'first'"),
        (["first + a <= 18262"], "limited by a date in quotes, as in first + days <= '2020-12-31'"),
        (["first - 2 * start <= a"], "differences of dates"),
        (["low + a <= '2020-12-31'"], "differences of dates"),
        (["first + a <= '2020-31-12'"], "'2020-31-12' is not a date; write it as"),
        (["first + aa <= '2020-12-31'"], "did you mean a?"),
        (["low + word <= 3"], "'word' is categorical"),
        (["low * a <= 3"], "is no sum of columns times numbers"),
        (["a = ('2020-12-31' - start) / 365.25"], None),
        (["a = '2020-12-31' - 3"], "must follow from other columns"),
        (["a = b * ('2020-12-31' - start)"], "stands in sums alone"),
    ],
)
def test_a_rule_is_read_or_refused_with_one_message(rules, told):
    columns = NUMBERS | {"gone": {"role": "dropped"}, "key": {"role": "identifier"}}
    columns["low"] = {"kind": "integer", "bounds": [0, None]}
    columns["first"] = {"kind": "date", "bounds": ["2000-01-01", None]}
    columns["fixed"] = {"kind": "categorical", "role": "key"}
    content = {"input": "a", "output": "b", "k": 5, "columns": columns, "rules": rules, "strata": {"by": ["fixed"]}}
    if told is None:
        assert parse_job(content).parsed_rules
        return
    with pytest.raises(JobError) as caught:
        parse_job(content)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 and told in lines[1]


def test_a_chain_of_many_columns_is_read_and_kept():
    """As of dates of many rows side by side: paths through such a chain are too many to walk."""
    rng, names = np.random.default_rng(0), [f"d{at}" for at in range(60)]
    table = pa.table(dict(zip(names, np.cumsum(rng.poisson(2.0, (60, 50)), axis=0), strict=True)))
    book, cells, declared = book_of(table, {name: {"kind": "integer"} for name in names}, [" <= ".join(names)])
    result = kept(book, shuffled(cells))
    assert_kept(book, declared, table, result.cells)
    assert book.roots("d59") == ["d59 - d58"] and len(book.behind("d59")) == 60
    with pytest.raises(ValueError, match="circle"):
        parse_rules([" <= ".join(names), "d0 = d59 + 1"], declared)


def test_rules_and_what_they_add_survive_writing_the_job():
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": NUMBERS, "rules": ["start <= end", "a = b - 1"]})
    again = parse_job(job.model_dump(mode="json"))
    assert again == job and again.digest() == job.digest()
    assert job.differences == ("end - start",) and job.columns["end - start"].scored
    assert [name for name, column in job.columns.items() if column.role == "derived"] == ["a", "end"]
    plain = parse_job({"input": "a", "output": "b", "k": 5, "columns": NUMBERS})
    assert plain.digest() != job.digest() and "rules" not in str(plain.digest())


def test_names_that_are_no_words_stand_in_backticks():
    columns = parse_job(
        {"input": "a", "output": "b", "k": 5, "columns": columns_of(**{"x y": "integer", "z": "integer"})}
    )
    (rule,) = parse_rules(["z = 3 * `x y` / 2 - 1"], columns.columns)
    assert (rule.terms, rule.constant) == ((("x y", 1.5),), -1.0)
    quoted = {"a 'b' c": Column(kind="integer", bounds=(0, None)), "z": Column(kind="integer")}
    (rule,) = parse_rules(["`a 'b' c` + 2 * z <= 24"], quoted)  # no date
    assert (rule.target, rule.terms, rule.constant) == ("a 'b' c", (("z", -2.0),), 24.0)
    with pytest.raises(JobError, match="role derived, and no rule"):
        parse_job(
            {"input": "a", "output": "b", "k": 5, "columns": NUMBERS | {"a": {"kind": "integer", "role": "derived"}}}
        )


def test_a_survival_time_keeps_its_role_where_a_rule_derives_it():
    """Masked with its status it serves a Cox model; the rule is turned round as the message says."""
    columns = {name: Column(kind="date") for name in ("entry", "exit")}
    columns["days"] = Column(kind="integer", role="survival_time")
    with pytest.raises(ValueError, match="turn the rule round, as in exit = entry \\+ days") as refused:
        parse_rules(["days = exit - entry"], columns)
    assert "role masked" not in str(refused.value)
    [rule] = parse_rules([str(refused.value).split("as in ")[1].rstrip('"')], columns)
    assert rule.target == "exit"


@pytest.mark.parametrize(
    "rule", ["2nd -> word", "pairs(word, 2nd)", "if 2nd == 'x' then a == 0", "a = 3 y + b", "a <= class"]
)
def test_columns_that_are_no_words_are_said_to_need_backticks(rule):
    columns = NUMBERS | columns_of(**{"2nd": "categorical", "3 y": "integer", "class": "integer", "in": "integer"})
    columns = {name: Column(**given) for name, given in columns.items()}
    odd = next(name for name in ("2nd", "3 y", "class") if name in rule)
    with pytest.raises(ValueError, match=re.escape(f"rule {rule!r}: write `{odd}` in backticks")):
        parse_rules([rule], columns)
    assert parse_rules([rule.replace(odd, f"`{odd}`")], columns)
    with pytest.raises(ValueError, match="cannot be read"):  # a word of rules, not a column
        parse_rules(["if a in then b == 0"], columns)


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": {"method": "generalize"}},
        {"decode": {"categories": "probabilities"}},
        {"cluster": {"method": "mdav"}, "synthesize": {"method": "centroid"}},
    ],
)
def test_methods_that_cannot_keep_rules_are_refused(changes):
    with pytest.raises(JobError, match="take another"):
        parse_job(
            {"input": "a", "output": "b", "k": 5, "columns": NUMBERS, "rules": ["if a == 0 then b == 0"]} | changes
        )


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_days_between_points_in_time_are_those_of_their_days(tmp_path, zone):
    """Stays in nights, of arrivals and departures by the minute, which are released as days of their zone."""
    rng = np.random.default_rng(3)
    begin = rng.integers(0, 900 * 1440, 2500)
    end = (begin // 1440 + rng.poisson(3, 2500)) * 1440 + rng.integers(0, 1440, 2500)
    stays = {"out": end, "in": begin}
    columns = {name: {"kind": "date"} for name in stays} | {"nights": {"kind": "integer"}}
    local = {name: pa.array(minutes * 60).cast(pa.timestamp("s")) for name, minutes in stays.items()}
    local = {
        name: pc.assume_timezone(each, zone, nonexistent="latest", ambiguous="latest") if zone else each
        for name, each in local.items()
    }
    job = job_of(tmp_path, pa.table(local | {"nights": end // 1440 - begin // 1440}), columns, ["out = `in` + nights"])
    assert small.run(job).version
    released = small.released(job).to_pandas()
    assert ((released["out"] - released["in"]).dt.days == released["nights"]).mean() > 0.99  # but where clocks change
    assert zone or ((released["out"] - released["in"]).dt.days == released["nights"]).all()


@pytest.mark.parametrize("look", [preview, small.run])
def test_rules_that_the_original_breaks_are_refused_with_counts(tmp_path, look):
    table = table_of(300)
    changed = table.set_column(
        9, "visits", pc.fill_null(pc.if_else(pc.equal(table["visits"], 0), 1, table["visits"]), 0)
    )
    with pytest.raises(InputError) as caught:
        look(job_of(tmp_path, changed, rules=["if visits > 0 then cost > 0", "county -> region"]))
    zeros = pc.sum(pc.equal(table["visits"], 0)).as_py()
    assert f"does not hold in {zeros:,} rows of the input" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(InputError, match="rows with 'death' and none"):
        look(job_of(tmp_path, table, rules=["treated <= death"]))
    open_end = COLUMNS | {"entry": {"kind": "date", "bounds": ["2000-01-01", None]}}
    with pytest.raises(InputError, match="rows with 'entry' and none of its operands; give it an upper bound"):
        look(job_of(tmp_path, table, open_end, RULES[-1:]))
    with pytest.raises(AnonpipeError, match="'visits'"):
        look(job_of(tmp_path, table, COLUMNS | {"visits": {"kind": "ordinal"}}, ["if visits == 'x' then cost == 0"]))
    for misspelled in ("if sex == 'male' then births is null", "if visits > 900 then cost > 900"):
        with pytest.raises(InputError, match="fewer than k=5 rows of the input meet its condition"):
            look(job_of(tmp_path, table, rules=[misspelled]))


# --- Releases


def assert_released(job, original, hidden=()):
    """No rule is broken, by the slow twin; every column in its place, type and share of nulls."""
    table = small.released(job)
    assert table.schema.names == original.schema.names and table.schema.types == original.schema.types
    rows, before = table.to_pylist(), original.to_pylist()
    for rule in job.parsed_rules:
        pairs = naive.common_pairs(rule, before, 1) if rule.kind in ("lookup", "pairs") else ()
        step = job.columns[rule.target].resolution or 0.0 if rule.target else 0.0
        assert naive.broken(rule, rows, pairs, step) == 0, rule.text
    manifest = release.read_manifest(release.resolve(job.output))
    assert [entry["rule"] for entry in manifest["rules"]] == [rule.text for rule in job.parsed_rules]
    assert {entry["broken"] for entry in manifest["rules"]} == {0}
    assert not set(manifest["columns"]) & set(job.differences)
    return table


def test_a_mask_keeps_all_rules(whole):
    table, job, outcome = whole
    assert outcome.version
    released = assert_released(job, table)
    assert len(released) == len(table)
    for name in ("total", "death", "births", "treated"):
        assert abs(released[name].null_count - table[name].null_count) <= 0.02 * len(table)
    assert any(check.key == "rules.broken" and check.outcome == "passed" for check in outcome.verdict.checks)
    written = release.read_manifest(release.resolve(job.output))["columns"]
    shown = {line.name: line for line in columns(job, written, external=False)}
    assert job.differences and {shown[name].treatment for name in job.differences} == {"not released"}
    for rule in (each for each in job.parsed_rules if each.gap):
        assert shown[rule.gap].limits.startswith(f"auxiliary, masked in place of {rule.target}; 0 to ")


def test_the_summary_has_computed_columns(whole):
    table, job, outcome = whole
    found = report_of_release(job.output, None).compared
    lines = {each.name: each for each in found.numbers}
    derived = {each.target for each in job.parsed_rules if each.derives}
    assert derived <= {*lines, *found.categories} and not lines.keys() & set(job.differences) and not found.left_out
    sides = [
        {name: numbers(side[name].combine_chunks()) for name in derived & lines.keys()}
        for side in (table, small.released(job))
    ]
    for name in sides[0]:
        before, after = (side[name][~np.isnan(side[name])] for side in sides)
        line = lines[name]
        moments = line.mean, line.sd, line.mean_released, line.sd_released
        assert moments == pytest.approx((before.mean(), before.std(ddof=1), after.mean(), after.std(ddof=1)))
    judged = [check for check in outcome.verdict.checks if check.key.startswith(("mean", "covariance", "null_share"))]
    limited = {each.target for each in job.parsed_rules if each.kind == "limit"}
    assert judged and derived.intersection(name for check in judged for name in check.columns) <= limited


def test_no_record_is_singled_out_by_a_share(tmp_path, monkeypatch):
    """A share is two columns in one; differences, which may be known, are attacked."""
    names = ["start", "treated", "death", "a", "b", "sent", "entry", "months"]
    rules = [rule for rule in RULES if rule.startswith(("start <=", "0 <= sent", "entry +"))]
    job = job_of(
        tmp_path,
        table_of(1500).select(names),
        {name: COLUMNS[name] for name in names},
        rules,
        measure={"utility": False, "hold_out": 0.2, "queries": 100},
    )
    attacked = []

    def look(run):
        for each in read_predicates(run.context.work).values():
            attacked.extend(run.context.fitted.cells.names[at] for at in each.columns.ravel())

    with monkeypatch.context() as patch:
        looked(patch, look)
        pipeline.assess_only(job)
    assert job.shares == {"sent / a", "entry / limit"}
    assert {"entry", "death - treated"} <= set(attacked) and not job.shares.intersection(attacked)


@pytest.mark.parametrize("rows", [5, 10, 15])
def test_groups_of_k_2k_and_3k_rows_keep_rules(tmp_path, rows):
    names = ["start", "stay", "b", "growth", "visits", "cost"]
    table = table_of(rows)
    table = table.append_column("stay", pc.add(table["visits"], 3)).select(names[:2] + names[2:])
    table = table.set_column(
        3, "growth", pc.subtract(pc.multiply(table["b"], 2.0), pc.cast(table["stay"], pa.float64()))
    )
    columns = COLUMNS | {"stay": {"kind": "integer"}}
    columns = {name: columns[name] for name in names}
    rules = ["visits <= stay", "growth = 2 * b - stay"]
    changes = {"mask": None, "cluster": {"method": "mdav"}, "synthesize": {"method": "micro_perturbation"}}
    job = job_of(tmp_path, table, columns, rules, **changes)
    assert small.run(job).version
    assert_released(job, table)


def test_a_constant_column_and_equal_rows_keep_rules(tmp_path):
    table = table_of(400)
    table = (
        pa.concat_tables([table, table])
        .append_column("one", pa.array([1] * 800))
        .append_column("two", pa.array([2] * 800))
    )
    columns = COLUMNS | {name: {"kind": "integer"} for name in ("one", "two")}
    job = job_of(tmp_path, table, columns, [*RULES, "two = 2 * one", "if one == 1 then a >= 0"][:-1])
    assert small.run(job).version
    assert_released(job, table)


def test_a_rule_that_is_broken_refuses_the_release(tmp_path, monkeypatch):
    monkeypatch.setattr("anonpipe.encoding.rules._Repair.run", lambda self: None)
    outcome = small.run(job_of(tmp_path, table_of(800)))
    assert not outcome.version
    (check,) = [check for check in outcome.verdict.checks if check.key == "rules.broken"]
    assert check.blocks and check.measured > 0


def test_columns_released_unchanged_decide_conditions_and_orders(tmp_path):
    names = ["sex", "births", "visits", "cost"]
    table = table_of(900).select(names)
    columns = {name: COLUMNS[name] for name in names}
    columns["sex"], columns["visits"] = ({"kind": kind, "role": "key"} for kind in ("binary", "integer"))
    table = table.set_column(2, "visits", pc.min_element_wise(table["visits"], 2))
    rules = [RULES[6], RULES[7], RULES[4], "if visits > 0 then cost > 0"]
    job = job_of(tmp_path, table, columns, rules, strata={"by": ["sex", "visits"]})
    assert small.run(job).version
    assert_released(job, table)


# --- What an attacker gains


def test_a_difference_or_a_sum_gives_away_no_extreme(tmp_path):
    """One stay of 9,000 days, and one payment of 900 in each of two columns: no released difference or sum is near."""
    rng = np.random.default_rng(3)
    rows, stay = 1500, rng.integers(0, 60, 1500)
    stay[7] = 9_000
    begin = rng.integers(0, 3_000, rows)
    first, second = rng.integers(0, 60, rows), rng.integers(0, 60, rows)
    first[11] = second[11] = 900
    day = dt.date(1990, 1, 1)
    table = pa.table(
        {
            "begin": [day + dt.timedelta(int(at)) for at in begin],
            "end": [day + dt.timedelta(int(at)) for at in begin + stay],
            "first": first,
            "second": second,
            "total": first + second,
        }
    )
    columns = columns_of(begin="date", end="date", first="integer", second="integer", total="integer")
    job = job_of(tmp_path, table, columns, ["begin <= end", "total = first + second"])
    assert small.run(job).version
    released = assert_released(job, table).to_pandas()
    gaps = [(end - begin).days for begin, end in zip(released["begin"], released["end"], strict=True)]
    assert max(gaps) < 4_000 and released["total"].max() < 900
    assert (released["end"].max() - day).days < 6_000


def test_a_difference_that_few_have_is_not_released(tmp_path):
    """All stays take 0 or 1 days but those of two persons."""
    rng = np.random.default_rng(4)
    begin, stay = rng.integers(0, 3_000, 1200), rng.integers(0, 2, 1200)
    stay[:2] = 47
    table = pa.table({"begin": begin, "end": begin + stay})
    job = job_of(tmp_path, table, columns_of(begin="integer", end="integer"), ["begin <= end"])
    assert small.run(job).version
    released = assert_released(job, table)
    gaps = pc.subtract(released["end"], released["begin"]).to_pylist()
    assert 47 not in gaps and max(gaps) <= 20


def test_a_follow_up_that_few_have_is_not_released(tmp_path):
    """All are followed to the closing date but two persons, who left 2,000 days earlier."""
    entry = np.random.default_rng(4).integers(CLOSING - 4000, CLOSING - 2500, 1200)
    days = CLOSING - entry - 2000 * (np.arange(1200) < 2)
    table = pa.table({"entry": pa.array(entry.astype(np.int32)).cast(pa.date32()), "days": days})
    columns = {"entry": COLUMNS["entry"], "days": {"kind": "integer", "bounds": [0, None]}}
    job = job_of(tmp_path, table, columns, ["entry + days <= '2012-06-30'"])
    assert small.run(job).version
    released = assert_released(job, table)
    left = CLOSING - released["entry"].cast(pa.int32()).to_numpy() - released["days"].to_numpy()
    assert np.count_nonzero(left) <= 5 and not np.isin(left, [1999, 2000, 2001]).any()


def test_dates_of_quarters_and_a_closing_date_are_released(tmp_path):
    """With and without rules all dates are firsts of a quarter, though rare differences are among them."""
    rng, rows, closing = np.random.default_rng(6), 1_500, np.datetime64("2012-01-01")
    entry = np.datetime64("2001-01") + 3 * rng.integers(0, 40, rows)
    seen = entry + 3 * np.where(rng.random(rows) < 0.5, rng.integers(0, 80, rows), rng.poisson(1.0, rows))
    whole = (closing - entry.astype("datetime64[D]")).astype(int) / 30.4375
    alive = rng.random(rows) < 0.5
    months = np.rint(np.where(alive, whole, whole * rng.random(rows)))
    dates = {name: pa.array(each.astype("datetime64[D]")) for name, each in (("entry", entry), ("seen", seen))}
    table = pa.table(dates | {"months": months, "alive": alive})
    columns = columns_of(seen="date", alive="binary", months="continuous", entry="date")
    columns["alive"]["role"] = "key"
    columns["months"] |= {"step": 1, "bounds": [0, None]}
    columns["entry"]["bounds"] = ["2000-01-01", None]
    for name, rules in (("with", ["entry + 30.4375 * months <= '2012-01-01'", "entry <= seen"]), ("without", [])):
        more = {"strata": {"by": ["alive"]}, "gates": {"unchanged_record_rate": 1.0}, "measure": {"risk": False}}
        job = job_of(tmp_path / name, table, columns, rules, **more)
        outcome = small.run(job)
        assert outcome.version, [check for check in outcome.verdict.lines if check.outcome == "failed"]
        made = small.released(job).to_pandas()
        assert all(pd.to_datetime(made[each]).dt.is_quarter_start.all() for each in dates)
        ends = pd.to_datetime(made["entry"]) + pd.to_timedelta(30.4375 * (made["months"] - 0.5), "D")
        assert (ends.max() <= closing) == (name == "with")
        pictured = {each.name for each in report_of_release(job.output, None).pictures}
        assert "entry" in pictured and "entry / limit" not in pictured


@pytest.mark.parametrize("handed_on", [False, True])
def test_shares_that_are_original_values_are_refused(tmp_path, monkeypatch, handed_on):
    """Each is the nearest original share; those of 0 and 1 are many, and recur in honest releases."""
    rng = np.random.default_rng(3)
    total = np.exp(rng.normal(8, 1, 1500))
    part = total * np.clip(rng.uniform(-0.125, 1.125, 1500), 0, 1)
    derive, originals = RuleBook.derive, np.sort(part / total)

    def near(book, cells, rng):
        shares = cells[:, book.positions["part / total"]]
        shares[:] = originals[np.searchsorted(originals, shares).clip(0, len(originals) - 1)]
        return derive(book, cells, rng)

    if handed_on:
        monkeypatch.setattr(RuleBook, "derive", near)
    columns = {"total": {"kind": "continuous", "bounds": [0, None]}, "part": {"kind": "continuous"}}
    outcome = small.run(job_of(tmp_path, pa.table({"total": total, "part": part}), columns, ["0 <= part <= total"]))
    failed = [(check.key, check.columns) for check in outcome.verdict.failed]
    assert failed == [("values.handed_on", ("part / total",))] * handed_on


@pytest.mark.parametrize("more", [[], ["0 <= pay / hours"]])
def test_a_masked_ratio_keeps_what_follows_from_it(tmp_path, more):
    """Wages an hour from 10 to 20: pay and hours that are masked each for itself give others."""
    rng = np.random.default_rng(3)
    hours, hourly = rng.integers(0, 40, 1500), rng.uniform(10, 20, 1500)
    pay = (hours * hourly).round(2)
    table = pa.table(
        {"hours": hours, "pay": pay, "hourly": pa.array((pay / np.maximum(hours, 1)).round(2), mask=hours == 0)}
    )
    columns = {"hours": {"kind": "integer", "bounds": [0, None]}}
    columns |= {name: {"kind": "continuous", "step": 0.01} for name in ("pay", "hourly")}
    gates = LENIENT | {"variance_in_unit": 0.5}
    job = job_of(tmp_path, table, columns, ["hourly = pay / hours", *more], gates=gates)
    assert small.run(job).version
    found = assert_released(job, table).to_pandas()
    beyond = ((found["hourly"] < 9.8) | (found["hourly"] > 20.2))[found["hours"] > 4]
    assert (beyond.mean() < 0.01) == bool(more)
    assert job.repeated == {"pay / hours"} & set(job.differences)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"a": [1.0, -2.0, 3.0], "b": [1.0, 2.0, 3.0]}, "does not hold in 1 row of"),
        ({"a": [1.0, 2.0, 3.0], "b": [1.0, 0.0, 0.0]}, "does not hold in 2 rows"),
        ({"a": [1.0, 2.0, 3.0], "b": [1.0, None, 3.0]}, "1 row with 'a' and none of its operands; remove"),
        ({"a": [None, 0.0, 3.0], "b": [0.0, 0.0, 3.0]}, None),
    ],
)
def test_ratios_that_the_original_breaks_are_refused(columns, told):
    declared = {name: Column(kind="continuous") for name in columns}
    rules = parse_rules(["0 <= a / b"], declared)
    counts = RuleCounts.of(rules, pa.record_batch(columns), declared)
    assert counts.broken.sum() == naive.broken(rules[0], pa.table(columns).to_pylist())
    if told is None:
        check_counts(rules, counts, 5)
        return
    with pytest.raises(InputError, match=told):
        check_counts(rules, counts, 5)


@pytest.mark.parametrize("rule", ["low <= high", "0 <= high <= low"])
@pytest.mark.parametrize("handed_on", [False, True])
def test_equals_of_whole_numbers_recur_by_chance(tmp_path, monkeypatch, rule, handed_on):
    """A quarter are equal to a whole number: chance explains them, but not fractions that are original values."""
    rng = np.random.default_rng(3)
    low, rest = np.exp(rng.normal(8, 1, 1500)).round(), np.where(rng.random(1500) < 0.25, 0, rng.uniform(0, 1, 1500))
    high = low + 900 * rest if rule[0] == "l" else low * (1 - rest)
    derive, originals = RuleBook.derive, np.sort(high)

    def near(book, cells, rng):
        moved, values = derive(book, cells, rng), cells[:, book.positions["high"]]
        values[:] = originals[np.searchsorted(originals, values).clip(0, len(originals) - 1)]
        return moved

    if handed_on:
        monkeypatch.setattr(RuleBook, "derive", near)
    columns = {"low": {"kind": "continuous", "step": 1, "bounds": [0, None]}, "high": {"kind": "continuous"}}
    outcome = small.run(job_of(tmp_path, pa.table({"low": low, "high": high}), columns, [rule]))
    assert ("values.handed_on" in [check.key for check in outcome.verdict.failed]) == handed_on


@pytest.mark.parametrize(
    ("types", "steps", "gone"),
    [
        (("int64", "int32"), (None, None), {"part / total"}),
        (("float64", "int32"), (0.01, None), {"part / total"}),
        (("float64", "int32"), (None, None), set()),
    ],
)
def test_ratios_of_whole_numbers_are_not_compared(types, steps, gone):
    """They recur by chance; a product and a sum follow from columns that are compared."""
    names = ("total", "part", "double", "sum")
    columns = {
        name: {"kind": "continuous", "step": step} for name, step in zip(names, (*steps, None, None), strict=True)
    }
    rules = ["0 <= part <= total", "double = total * part", "sum = total + part"]
    job = parse_job({"input": "a", "output": "b", "k": 5, "columns": columns, "rules": rules})
    schema = pa.schema(list(zip(names, (*types, "float64", "float64"), strict=True)))
    work = SimpleNamespace(job=job, folded=None, source=SimpleNamespace(schema=schema))
    assert {*job.columns} - {*compared_names(work)} == {"double", "sum"} | gone


def test_a_sum_of_heaped_parts_is_released(tmp_path):
    """Many wages are thousands, and benefits are of a child: sums that few have are met again and again."""
    rng = np.random.default_rng(3)
    wage, benefit = rng.lognormal(10.3, 0.5, 3000).round(2), 2628.0 * rng.binomial(3, 0.3, 3000)
    wage = np.where(rng.random(3000) < 0.6, wage.round(-3), wage)
    table = pa.table({"wage": wage, "benefit": benefit, "income": wage + benefit})
    columns = {name: {"kind": "continuous", "step": 0.01} for name in table.column_names}
    outcome = small.run(job_of(tmp_path, table, columns, ["income = wage + benefit"]))
    assert outcome.version, [check for check in outcome.verdict.lines if check.outcome == "failed"]


def test_a_lookup_of_units_keeps_codes_that_few_rows_have(tmp_path):
    """Each code has about 40 rows of nearly as many units; four units have fifty rows each."""
    rng = np.random.default_rng(3)
    unit, code = np.sort(rng.integers(0, 1200, 2400)), rng.integers(0, 60, 2400)
    unit[:200] = np.repeat(np.arange(4), 50)
    table = {"unit": unit, "code": [f"c{at}" for at in code], "region": [f"r{at % 4}" for at in code]}
    columns = {"unit": {"role": "unit"}} | columns_of(code="categorical", region="categorical", x="continuous")
    table = pa.table({**table, "x": rng.normal(size=2400)})
    job = job_of(tmp_path, table, columns, ["code -> region"])
    assert small.run(job).version
    released = small.released(job).to_pandas()
    assert (released["code"].str[1:].astype(int) % 4 == released["region"].str[1:].astype(int)).all()


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("begin <= end", "rule 'begin <= end' does not hold in 30 rows of the input"),
        (
            "begin <= late",
            "30 rows with 'late' and none of its operands; write 'late >= begin', which computes 'begin'",
        ),
        ("code -> ward", "rule 'code -> ward' does not hold in"),
        ("if code == 'zz' then end > 0", "rule \"if code == 'zz' then end > 0\": fewer than k=5 rows"),
    ],
)
def test_a_rule_of_whole_units_is_told_of_once(tmp_path, rule, told):
    rng, unit = np.random.default_rng(6), np.repeat(np.arange(150), 3)
    begin = rng.integers(1, 50, 450)
    table = {"unit": unit, "turn": np.tile([1, 2, 3], 150), "end": np.where(np.arange(450) % 15 == 0, 0, begin + 5)}
    late = "late" in rule
    table |= {"begin": pa.array(begin, mask=(np.arange(450) % 15 == 0) & late), "late": begin + 5}
    table |= {name: [f"{name}{at}" for at in rng.integers(0, 4, 450)] for name in ("code", "ward")}
    kinds = dict.fromkeys(("turn", "begin", "end", "late"), "integer") | {"code": "categorical", "ward": "categorical"}
    columns, whole = {"unit": {"role": "unit"}} | columns_of(**kinds), {"unit": "pseudonym", "order": "turn"}
    given = job_of(tmp_path, pa.table(table), columns, [rule], release=whole)
    for run in (small.run, preview):
        with pytest.raises(InputError) as caught:
            run(given)
        assert told in str(caught.value) and str(caught.value).count("rule ") == 1 and "(row" not in str(caught.value)


def test_pairs_of_units_are_those_of_k_units(tmp_path):
    """Each code has about four rows of men, of as many units; one unit has 60 rows, and alone a code as a man."""
    rng = np.random.default_rng(3)
    unit, code, male = np.sort(rng.integers(0, 1200, 2400)), rng.integers(0, 30, 2400), rng.random(2400) < 0.2
    unit[:60], code[:60], male[:60] = 0, 30, True
    code[60:100], male[60:100] = 30, False
    table = {"unit": unit, "code": [f"c{at}" for at in code], "sex": np.where(male, "m", "f").tolist()}
    columns = {"unit": {"role": "unit"}} | columns_of(code="categorical", sex="binary", x="continuous")
    table = pa.table({**table, "x": rng.normal(size=2400)})
    job = job_of(tmp_path, table, columns, ["pairs(code, sex)"])
    assert small.run(job).version
    released = small.released(job).to_pandas()
    assert ("c30", "m") not in set(zip(released["code"], released["sex"], strict=True))
    assert released.groupby("code")["sex"].nunique().drop("c30").min() == 2
    few = {**columns, "code": {"kind": "categorical"}, "x": {"kind": "categorical"}}
    table = table.set_column(3, "x", pa.array([f"x{at % 400}" for at in range(2400)]))
    with pytest.raises(InputError, match="'pairs\\(code, x\\)': no combination has k=5 records"):
        small.run(job_of(tmp_path, table, few, ["pairs(code, x)"]))


def test_a_lookup_and_pairs_give_away_no_rare_combination(tmp_path):
    """A county and a diagnosis of two persons: neither they nor the region, sex, rate or day behind them come out."""
    rng = np.random.default_rng(5)
    county = rng.integers(0, 4, 1200)
    sex = rng.integers(0, 2, 1200)
    table = {
        "county": [f"c{at}" for at in county],
        "region": [f"r{at // 2}" for at in county],
        "rate": [None if at == 3 else 0.25 * at for at in county],
        "since": [dt.date(1990, 1, 1 + at // 2) for at in county],
        "poverty": [None if at == 3 else int(at) for at in county],
        "sex": np.where(sex > 0, "m", "f").tolist(),
        "diagnosis": [f"d{at}" for at in np.where(sex > 0, rng.integers(0, 3, 1200), rng.integers(2, 5, 1200))],
        "x": rng.normal(size=1200),
    }
    for at in (0, 1):
        table["county"][at], table["region"][at] = "c9", "r9"
        table["rate"][at], table["since"][at], table["poverty"][at] = 9.0, dt.date(1999, 9, 9), 9
        table["sex"][at], table["diagnosis"][at] = "m", "d4"
    table = pa.table(table)
    columns = columns_of(
        county="categorical", region="categorical", sex="binary", diagnosis="categorical", x="continuous",
        rate="continuous", since="date", poverty="ordinal",
    )  # fmt: skip
    rules = [f"county -> {name}" for name in ("region", "rate", "since", "poverty")]
    job = job_of(tmp_path, table, columns, [*rules, "pairs(diagnosis, sex)"])
    assert small.run(job).version
    released = assert_released(job, table)
    assert not {"c9", "r9"} & {*released["county"].to_pylist(), *released["region"].to_pylist()}
    assert {*released["poverty"].to_pylist()} == {0, 1, 2, None}
    assert {*released["rate"].to_pylist()} == {0.0, 0.25, 0.5, None} and max(released["since"].to_pylist()).year == 1990
    assert ("d4", "m") not in set(zip(released["diagnosis"].to_pylist(), released["sex"].to_pylist(), strict=True))


# --- Workers, and going on after a stop


@pytest.mark.secret(runs.SECRET)
def test_workers_and_stops_change_no_byte(tmp_path, whole):
    table, first, _ = whole
    given = job_of(tmp_path, table, **PARTS)
    with small.as_by_others():
        assert small.run_with_stops(given, ("scan", "decode", "write")).version
    assert small.hashes(given) == small.hashes(first)


def test_the_example_of_the_page_runs():
    page = (Path(__file__).resolve().parent.parent / "docs" / "rules.md").read_text(encoding="utf-8")
    known = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], known)
    release, region = known["release"], known["table"].groupby("county")["region"].first()
    assert (release["fee"] == 5 * release["visits"]).all() and (
        release["county"].map(region) == release["region"]
    ).all()
    assert np.allclose(release["total"], release["cost"] + release["fee"])
    each = release["total"] / (release["visits"] + 1)
    assert np.allclose(release["each"], each, atol=0.0051) and release["each"].nunique() > 100


LOOSE = {"mean": 1, "covariance": 1, "unchanged_record_rate": 1, "mean_in_unit": 9, "variance_in_unit": 99}


def test_computed_days_beyond_the_original_are_named(tmp_path):
    rng = np.random.default_rng(3)
    first = rng.integers(0, 400, 1500)
    last = np.minimum(first + rng.integers(0, 60, 1500), 400)
    table = pa.table({name: pa.array(days, pa.int32()).cast(pa.date32()) for name, days in (("a", first), ("b", last))})
    for bounds, told in ({}, 1), ({"bounds": [None, "1971-02-05"]}, 0):
        columns = {"a": {"kind": "date", "bounds": ["1970-01-01", "1971-02-05"]}, "b": {"kind": "date", **bounds}}
        job = small.job(tmp_path, table, columns, rules=["a <= b"], measure=small.OFF, gates=LOOSE)
        outcome = small.run(job)
        assert outcome.version and sum(text.startswith("column 'b' (") for text in outcome.warnings) == told


@pytest.mark.parametrize("ruled", [False, True])
def test_a_limit_that_no_rule_keeps_is_told_to_recipients(tmp_path, ruled):
    """A register in which most are followed to its closing date: without the rule many are followed beyond it."""
    rng = np.random.default_rng(5)
    entry = rng.integers(CLOSING - 4000, CLOSING - 300, 3000)
    months = np.where(rng.random(3000) < 0.5, 1.0, rng.random(3000)) * (CLOSING - entry) / 30.4375
    dates = pa.array(entry.astype(np.int32)).cast(pa.date32())
    table = pa.table({"entry": dates, "months": months.round(1), "age": rng.integers(20, 90, 3000)})
    columns = {name: COLUMNS[name] for name in ("entry", "months")} | {"age": {"kind": "integer"}}
    job = job_of(tmp_path, table, columns, RULES[-1:] if ruled else (), measure={"utility": True, "risk": False})
    outcome = small.run(job)
    said = [warning for warning in outcome.warnings if "must not compute with columns" in warning]
    assert outcome.version and len(said) == (not ruled)
    released = small.released(job)
    beyond = released["entry"].cast(pa.int32()).to_numpy() + 30.4375 * released["months"].to_numpy() - CLOSING
    assert (beyond > 2).mean() == 0 if ruled else (beyond > 2).mean() > 0.1
    assert not ruled or abs((np.abs(beyond) < 1.6).mean() - 0.5) < 0.05
