"""What the command line advises where a gate failed."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import cli, display, errors
from anonpipe.errors import GateError
from anonpipe.evaluate.utility import auc
from anonpipe.job.wide import TIMES
from anonpipe.verify.catalogue import KINDS, held, kind_of
from anonpipe.verify.words import remedies
from tests import runs, small


def told(*keys: str, measured: float = 1.0, **about: bool) -> tuple[str, ...]:
    return remedies(tuple(held(key, measured, 0.5, about=about) for key in keys))


@pytest.mark.parametrize(
    ("key", "name", "words"),
    [
        ("covariance.keys", "covariance with key variables", "strata.by"),
        ("covariance.keys", "covariance (all but category probabilities) with key variables", "strata.by"),
        ("covariance", "covariance (all but category probabilities)", "finer step"),
        ("covariance.stratum", "covariance in each stratum", "wider bounds"),
        ("mean", "mean", "gates.mean"),
        (
            "mean.own_unit",
            "mean in original units (transformed columns)",
            "gates.mean_in_unit",
        ),
        (
            "variance.own_unit",
            "variance in original units (columns by normal scores)",
            "finer step",
        ),
        ("risk.reidentification_rate", "re-identification rate", "larger k"),
        ("risk.homogeneity", "homogeneity rate, worst sensitive variable", "l_diversity"),
    ],
)
def test_failed_gates_have_a_remedy(key, name, words):
    about = {"probabilities": "probabilities" in name}
    (line,) = told(key, **about)
    assert line.startswith(f"{name}: ") and words in line
    assert told(key, measured=0.1, **about) == ()
    (worst,) = remedies((held(key, 1.0, 0.5, columns=("visits",), about=about),))
    assert worst.startswith(f"{name}, most in column 'visits': ")


@pytest.mark.parametrize("key", ["covariance", "covariance.stratum"])
def test_times_of_units_are_told_as_the_order_of_rows(key):
    """A job has no such column, of which categories could be joined."""
    (line,) = remedies((held(key, 1.0, 0.5, columns=("invited (row 2)", TIMES)),), ("local_synthesis",))
    assert "release.order" in line and "join rare categories" not in line
    (other,) = remedies((held(key, 1.0, 0.5, columns=("invited (row 2)", "sex")),), ("local_synthesis",))
    assert "join rare categories" in other and "release.order" not in other


def test_small_strata_are_named_where_a_stratum_fails():
    for on, key, named in (
        (("strata",), "covariance.stratum", True),
        (("strata",), "covariance", False),
        ((), "covariance.stratum", False),
    ):
        (line,) = remedies((held(key, 9.0, 0.5, columns=("age",)),), ("local_synthesis", *on))
        assert ("join small strata, or leave strata.by out; " in line) == named


def test_gaps_between_rows_are_told_of_bounds():
    on = ("local_synthesis", "gaps of seen")
    for column, said in (("seen (row 3)", True), ("seen (row 3) - seen (row 2)", True), ("wage (row 3)", False)):
        for key in ("mean", "covariance", "utility.column_shapes"):
            (line,) = remedies((held(key, 9.0, 0.5, columns=(column,)),), on)
            assert ("declare bounds of release.order" in line) is said


@pytest.mark.parametrize("key", ["risk.membership_auc", "risk.attribute_inference"])
def test_gate_failing_by_interval_names_sufficient_hold_out(key):
    (line,) = remedies((held(key, 0.62, 0.6, point=0.55, records=146, of=3_000),))
    assert "0.55, is within the limit" in line and "rests on 146 records" in line
    assert "about 287, 1.96 times as many" in line and "a larger k" in line
    (line,) = remedies((held(key, 0.72, 0.6, point=0.65, records=146, of=3_000),))
    assert "it rests on" not in line
    (line,) = remedies((held("risk.reidentification_rate", 0.1, 0.09, point=0.08, records=146, of=3_000),))
    assert "it rests on" not in line


def test_the_hold_out_that_would_do_would():
    """The area of as many persons as are advised is held with 95 % confidence below the limit."""
    rng = np.random.default_rng(0)
    few = auc(rng.normal(0.1, 1, 146), rng.normal(size=146))
    limit = few.value + 0.5 * (few.high - few.value)
    (line,) = remedies((held("risk.membership_auc", few.high, limit, point=few.value, records=146, of=3_000),))
    wanted = int(line.partition("about ")[2].partition(",")[0])
    ranks = np.random.default_rng(1).normal(size=(2, wanted))
    shift = np.sqrt(2) * NormalDist().inv_cdf(few.value)
    many = auc(ranks[0] + shift, ranks[1])
    assert many.high - many.value == pytest.approx(limit - few.value, rel=0.1)


@pytest.mark.parametrize("key", ["covariance", "category_share", "null_share"])
def test_what_repairs_move_is_told_where_rules_are(key):
    (line,) = remedies((held(key, 1.0, 0.5),), ("local_synthesis", "rules"))
    assert "leave out rules (if ... then ...)" in line and line.endswith(f"or raise gates.{key}")
    (other,) = remedies((held(key, 1.0, 0.5),), ("local_synthesis",))
    assert "rules" not in other and other.endswith(f"raise gates.{key}")


MASKED = ("local_synthesis", "normal_scores")


@pytest.mark.parametrize("key", [key for key, kind in KINDS.items() if kind.remedy])
def test_no_remedy_names_what_is_on(key):
    """Nor a synthesizer to a job that forms no groups."""
    (line,) = remedies((held(key, 1.0 if not KINDS[key].at_least else 0.1, 0.5),), MASKED)
    _, _, advice = line.partition(": ")
    said = advice.partition(": transform: none")[0]
    assert not any(word in said for word in (*MASKED, "synthesize:", "refine"))
    assert len(advice) > 10


@pytest.mark.parametrize("on", [("recoded",), ("recoded", "pram", "unchanged outside strata")], ids=str)
@pytest.mark.parametrize("key", [key for key, kind in KINDS.items() if kind.remedy])
def test_where_keys_are_recoded_remedies_name_no_other_mask(key, on):
    (line,) = remedies((held(key, 1.0 if not KINDS[key].at_least else 0.1, 0.5),), on)
    assert "mask: {" not in line and ("mask.retain" not in line or "pram" in on)
    if key.startswith("risk."):
        assert "coarser levels in disclosure.recode" in line and ("a lower mask.retain" in line) == ("pram" in on)


RISKY = ("a smaller k", "lower k", "moments: expected", "extremes: keep", "raise gates.unchanged", "raise gates.exact")
"""Advice that raises a risk."""
EFFECT = re.compile(r"^[^.;]*?(\d %|which releases|with which)")


def advice_of(kind, on):
    return kind.remedy if isinstance(kind.remedy, str) else kind.remedy(on)


@pytest.mark.parametrize("on", [("groups",), ("groups", "normal_scores"), ("noise",), MASKED], ids=str)
@pytest.mark.parametrize("key", [key for key, kind in KINDS.items() if kind.remedy])
def test_a_remedy_that_raises_risk_says_what_it_does(key, on):
    advice = advice_of(KINDS[key], on)
    for phrase in RISKY:
        for after in advice.split(phrase)[1:]:
            assert EFFECT.match(after), (phrase, advice)


@pytest.mark.parametrize("name", ["reidentification_rate", "membership_auc", "attribute_inference", "linkability"])
@pytest.mark.parametrize("on", [("groups",), ("noise",)], ids=str)
def test_the_mask_that_links_least_stands_first(name, on):
    assert advice_of(kind_of(name), on).startswith(f"mask: {{method: local_synthesis}} ({errors.MASK_LINKS})")
    for key in ("mean", "records.unchanged", "cells.exact", "risk.tail_linkage", "utility.pair_shapes"):
        advice = advice_of(KINDS[key], ("groups", "normal_scores"))
        others = [advice.find(phrase) for phrase in ("synthesize", "larger k", "smaller k", "raise")]
        assert 0 <= advice.find("mask: {method: local_synthesis}") < min(place for place in others if place >= 0)


@pytest.mark.parametrize("on", [("noise",), MASKED, ("local_synthesis",)], ids=str)
@pytest.mark.parametrize("key", [key for key, kind in KINDS.items() if kind.remedy and not key.startswith("risk.")])
def test_a_remedy_for_a_mask_has_no_figures_of_groups(key, on):
    """Its k may be 300."""
    assert errors.GROUPS_LINK not in advice_of(KINDS[key], on)


def test_refusals_of_a_mask_have_no_figures_of_groups(tmp_path):
    """Of strata, of rows, and of categories that are all rare."""
    table = small.plain_table(400)
    columns = small.COLUMNS | {"place": {"kind": "categorical", "role": "key"}}
    for at, (rows, changes) in enumerate(((400, {"strata": {"by": ["place"]}}), (100, {}))):
        for method in ({"mask": {"method": "local_synthesis"}}, {}):
            folder = tmp_path / f"{at}{bool(method)}"
            job = small.job(folder, table.slice(0, rows), columns, k=300, **changes, **method)
            with pytest.raises(errors.InputError) as refused:
                small.run(job)
            assert (errors.GROUPS_LINK in str(refused.value)) != bool(method)
            assert (errors.LOWER_K_OF_MASK in str(refused.value)) == bool(method)


def ranges(text):
    """Lowest and highest share in per cent of each "a to b %"."""
    return [(float(low), float(high)) for low, high in re.findall(r"([\d.]+) to ([\d.]+) %", text)]


def test_effects_of_advice_are_those_of_the_table():
    with (Path(__file__).parents[2] / "data" / "frontier.csv").open() as file:
        cells = [row for row in csv.DictReader(file) if row["measure"] == "linked"]

    def linked(method, k, digits=0):
        shares = [100 * float(row["value"]) for row in cells if method in row["method"] and row["k"] == str(k)]
        assert len(shares) >= 7
        return round(min(shares), digits), round(max(shares), digits)

    assert ranges(errors.MASK_LINKS) == [linked("local_synthesis", 5, 1)]
    few, many = ranges(errors.GROUPS_LINK)
    assert few == linked("mdav + micro_perturbation", 5) and many == linked("mdav", 20)
    assert ranges(errors.EXPECTED_LINKS) == [linked("gaussian, expected", 5)]
    assert errors.GROUPS_LINK in errors.SMALLER_K and errors.GROUPS_LINK in errors.LOWER_K


def test_no_message_asks_for_a_smaller_k_in_silence():
    """Error texts take the words of `anonpipe.errors`, which say what it does."""
    package = Path(errors.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    asking = {name for name, text in texts.items() if re.search(r"(lower|smaller) k\b", text)}
    assert asking == {"errors.py", "catalogue.py", "quantiles.py"}  # the last one in a comment


def visits(rows: int = 1_000) -> pa.Table:
    """Counts, five of six of them 0, beside an age and an income."""
    rng = np.random.default_rng(3)
    counts = rng.negative_binomial(0.6, 0.12, rows) * (rng.random(rows) < 0.25)
    age, income = rng.integers(18, 90, rows), rng.lognormal(10.0, 0.5, rows)
    return pa.table({"age": age, "visits": counts, "income": income})


def released_visits(folder, column=None, **changes):
    """How far the share of 0 is from the original's, and the smallest released count."""
    columns = small.unscored(
        {
            "age": {"kind": "integer", "bounds": [0, 120]},
            "visits": {"kind": "integer", "bounds": [0, 500]} | (column or {}),
            "income": {"kind": "continuous", "bounds": [0, None]},
        }
    )
    job = small.job(folder, visits(), columns, **changes)
    assert small.run(job).verdict.passed
    counts = small.released(job).column("visits").to_numpy()
    return abs((counts == 0).mean() - (visits().column("visits").to_numpy() == 0).mean()), counts.min()


@pytest.mark.secret(runs.SECRET)  # how many zeros are lost is a matter of the draw
def test_what_is_advised_for_counts_with_many_zeros_keeps_them(tmp_path):
    """Wider bounds, which keep the mean too, release counts below 0."""
    (line,) = told("mean")
    assert "transform: log" in line and "synthesize: {method: pca, moments: expected}" in line
    plain, least = released_visits(tmp_path / "plain")
    assert plain > 0.02 and least == 0
    assert released_visits(tmp_path / "wide", {"bounds": [-200, 700]})[1] < 0
    for remedy in (
        {"mask": {"method": "local_synthesis"}},
        {"column": {"transform": "normal_scores"}},
        {"column": {"transform": "log", "step": 1}},
        {"synthesize": {"method": "pca", "moments": "expected"}},
    ):
        moved, least = released_visits(tmp_path / str(remedy), **remedy)
        assert moved < plain / 2 and least >= 0


def test_a_mean_that_a_rule_moves_is_told_to_leave_the_rule(tmp_path):
    """A small part of a cost, mostly 0: the rule moves its mean, and nothing else does."""
    columns = {name: {"kind": "integer", "bounds": [0, None]} for name in ("age", "stays", "cost")}
    rng = np.random.default_rng(5)
    stays = np.where(rng.random(1_500) < 0.1, 1 + rng.poisson(1.0, 1_500), 0)
    cost = np.round(stays * rng.lognormal(4.0, 0.8, 1_500)).astype(int)
    table = pa.table({"age": rng.integers(18, 90, 1_500), "stays": stays, "cost": cost})
    off = {}
    for rules in (["0 <= stays <= cost"], []):
        job = small.job(tmp_path / str(len(rules)), table, columns, rules=rules, mask={"method": "local_synthesis"})
        verdict = small.run(job).verdict
        (check,) = (check for check in verdict.checks if check.key == "mean")
        off[len(rules)] = check.measured
        (line,) = remedies((held("mean", 1.0, 0.5, columns=check.columns),), job.in_force)
        assert ("out of rules" in line) == bool(rules) and "two columns" not in line and "kind:" not in line
    assert off[0] < 1e-3 and off[1] > 2e-3, off


def test_a_computed_distribution_is_told_to_leave_the_rule(tmp_path):
    """Many houses are owed in full: what masked houses and debts leave is another distribution."""
    columns = {name: {"kind": "integer"} for name in ("house", "debt", "net")} | {"age": {"kind": "integer"}}
    rng = np.random.default_rng(5)
    house = rng.lognormal(5.0, 0.8, 1_500).round().astype(int)
    debt = np.where(rng.random(1_500) < 0.5, house, house // 2)
    table = pa.table({"house": house, "debt": debt, "net": house - debt, "age": rng.integers(18, 90, 1_500)})
    for rules in (["net = house - debt"], []):
        more = {"mask": {"method": "local_synthesis"}, "gates": {"column_shapes": 1}, "measure": {"risk": False}}
        job = small.job(tmp_path / str(len(rules)), table, columns, rules=rules, **more)
        (check,) = (check for check in small.run(job).verdict.checks if check.key == "utility.column_shapes")
        assert (check.outcome == "failed") == bool(rules), check
        assert ("remove the rule" in advice_of(check.kind, job.in_force)) == bool(rules)


def test_counts_taken_for_categories_keep_more_as_numbers(tmp_path):
    """The remedy that is printed leads to smaller deviations."""
    rng = np.random.default_rng(4)
    ill = rng.random(800) < 0.15
    stays = np.where(ill, 1 + rng.poisson(1.0, 800).clip(max=3), 0)
    visits = rng.poisson(0.5 + stays).clip(max=4)
    table = pa.table({"age": np.where(ill, 70, 50) + rng.integers(-20, 20, 800), "stays": stays, "visits": visits})
    (line,) = remedies((held("covariance", 1.0, 0.5),), MASKED)
    assert "kind: integer" in line
    off = {}
    for kind in ("categorical", "integer"):
        columns = {name: {"kind": "integer" if name == "age" else kind} for name in ("age", "stays", "visits")}
        job = small.job(tmp_path / kind, table, columns, mask={"method": "local_synthesis"})
        off[kind] = next(check.measured for check in small.run(job).verdict.checks if check.key == "covariance")
    assert off["integer"] < 0.015 < 0.02 < off["categorical"]


def test_what_has_no_remedy_and_what_is_said_once():
    assert told("expectation.mean", "expectation.covariance.stratum", "rows.lost") == ()
    assert len(told("mean", "mean.stratum", "covariance")) == 2
    missing = held("risk.reidentification_rate", None, 0.1)
    assert missing.outcome == "failed" and remedies((missing,)) == ()


def test_a_failed_run_prints_remedies(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(display, "out", display.Console(highlight=False, width=80))
    table = small.plain_table(300)
    place = pa.array(["hermitage", *table.column("place").to_pylist()[1:]])  # a category of one person
    job = small.job(tmp_path, table.set_column(2, "place", place), gates={"local_suppression_rate": 0})
    outcome = small.run(job)
    with pytest.raises(GateError):
        cli._finish(job, outcome, None)
    shown = capsys.readouterr().out
    assert "remedy: join rare categories in the input" in shown
