"""A small form of `python -m tests.unseen`, and its attacks on releases of known worth."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.unseen import attacks, page
from tests.unseen.__main__ import LIMITS, Row, cells, criteria, look_at
from tests.unseen.attacks import Figure
from tests.unseen.release import Attempt, Desk, Released, next_remedy
from tests.unseen.tables import TABLES, CodeBook, drawn


def test_newcomer_holds_out_as_advised_omits_dropped_column(desk):
    desk.content["measure"] = {"hold_out": 0.1, "scenarios": [{"name": "one", "knows": ["size"]}]}
    text = "remedy: With about 389, 1.97 times as many, the same figure would pass; else fewer columns"
    refused, tried = Attempt(0, False, "failed", ["risk.membership_auc 1.02"], [text]), set()
    assert next_remedy(desk, refused, tried) == "the same figure would pass"
    assert desk.content["measure"]["hold_out"] == 0.2
    assert next_remedy(desk, refused, tried) == "fewer columns" and desk.content["measure"]["scenarios"] == []


@pytest.mark.parametrize(
    ("name", "size", "edits"),
    [("customers", 600, []), ("free_text", 600, []), ("tiny_strata", 800, ["status.event"]), ("panel", 1_000, [])],
)
def test_newcomer_releases_small_table_withstanding_attacks(name, size, edits):
    row = look_at(name, size=size, with_anonymeter=False)
    assert row.released, row.made.last.texts
    assert (row.made.edits, row.dropped, row.survival_kept) == (edits, [], True if edits else None)
    assert row.unit_kept == (True if name == "panel" else None)
    assert set(row.figures) == {"membership", "tracing", "counting", "linkage"}
    assert all(figure.low < LIMITS[risk] for risk, figure in row.figures.items()), row.figures


def test_attacks_find_copies_and_do_not_find_another_sample():
    original, control = drawn("households", size=400)
    another = drawn("households", seed=2, size=400).original
    copied, honest = (
        attacks.comparable(original, control, each.drop(columns="household_id"), "household_id")
        for each in (original, another)
    )
    assert attacks.membership(copied).low > 0.95
    assert attacks.linkage(copied).low > 0.9
    assert attacks.tracing(copied).low > 0.5 > attacks.tracing(honest).low
    assert attacks.counting(copied).low > 0.6 and attacks.counting(honest).low < 0.5
    assert attacks.membership(honest).low < 0.5
    assert attacks.linkage(honest).low < 0.0 < attacks.linkage(honest).high


@pytest.mark.parametrize("name", TABLES)
def test_original_and_control_are_other_units_of_one_population(name):
    original, control = drawn(name, size=40)
    book = TABLES[name].book
    assert list(original) == list(control)
    assert not original.equals(control)
    assert {*book.secrets, *book.names, *book.levels, *book.unknown} <= set(original)
    if book.unit is not None:
        assert original[book.unit].nunique() == control[book.unit].nunique() == 40
        assert not set(original[book.unit]) & set(control[book.unit])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    data = tmp_path / "data.parquet"
    pd.DataFrame({"size": ["small", "large"] * 50, "pay": [-9.0, 5.0] * 50}).to_parquet(data)
    columns = {"size": {"kind": "categorical", "role": "masked"}, "pay": {"kind": "continuous", "role": "masked"}}
    content = {"k": 5, "columns": columns, "cluster": {"method": "mdav"}}
    return Desk(content, data, CodeBook(["size"], levels={"size": ["small", "large"]}, unknown={"pay": -9.0}))


def test_a_newcomer_edits_what_the_proposal_asks_and_no_more(desk):
    entry = "  pay:\n    kind: continuous\n    # CHECK: a code for\n"
    assert desk.fill_in(entry.replace("CHECK: a code for", "bounds")) == []
    assert desk.fill_in(entry) == ["nulls in the input: pay"]
    assert pd.read_parquet(desk.data)["pay"].isna().sum() == 50


def test_newcomer_follows_printed_text_and_loosens_limit_last(desk):
    text = "remedy: declare ordered ones kind: ordinal, a larger k, fewer columns, or raise gates.mean"
    refused, tried, done = Attempt(0, False, "failed", ["mean 2.00"], [text, "warning: a finer step"]), set(), []
    while (remedy := next_remedy(desk, refused, tried)) is not None:
        done.append(remedy)
    assert done == ["ordinal", "a larger k", "fewer columns", "raise gates."]
    assert desk.columns["size"] == {"kind": "ordinal", "levels": ["small", "large"], "role": "dropped"}
    assert (desk.content["k"], desk.content["gates"]) == (10, {"mean": None})


def test_the_page_has_the_figures_of_the_file(tmp_path):
    (block,) = page.BETWEEN.findall(page.PAGE.read_text(encoding="utf-8"))
    rows = page.read()
    assert block.splitlines() == page.lines(rows)
    assert {row["table"] for row in rows if row["run"] == "after"} == set(TABLES)
    page.replace(rows, file := tmp_path / "figures.csv")
    page.replace([{**rows[0], "verdict": "failed"}], file)
    assert [row["verdict"] for row in page.read(file)] == ["failed", *(row["verdict"] for row in rows[1:])]


def test_no_table_with_passed_is_above_a_limit_in_the_file():
    released = [row for row in page.read() if row["run"] == "after" and row["verdict"].startswith("passed")]
    assert len(released) >= 14
    above = [(row["table"], risk) for row in released for risk in LIMITS if float(row[risk]) > LIMITS[risk]]
    assert above == []


def test_only_what_passed_is_a_finding(desk):
    columns = {"status": {"role": "masked"}, "time_months": {"role": "survival_time"}, "age": {"role": "dropped"}}
    attempt = Attempt(0, True, "passed", [], [])
    made = Released([], [attempt], desk.content | {"columns": columns}, "", 1.0, pd.DataFrame())
    row = Row("tiny_strata", made, {"linkage": Figure(0.2, 0.1, 0.3), "membership": Figure(0.5, 0.4, 0.6)})
    assert row.findings == ["tiny_strata: linkage 0.200 (0.100 to 0.300)"]
    assert "survival kept: 0 of 1" in criteria([row])
    assert cells(row)[:6] == ["tiny_strata", "mdav", "0", "1", "", "lost"]
    attempt.word = "failed"
    assert row.findings == []
