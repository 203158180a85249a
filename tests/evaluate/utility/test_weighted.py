"""Weighted means, shares and totals, against slow twins and another sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from anonpipe.columns import Kind
from anonpipe.evaluate.measurement import Reason
from anonpipe.evaluate.utility import utility
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.evaluate.utility._weighted import WEIGHTED, Psus, design_effect, weighted_means
from anonpipe.pipeline.evaluation.measures import checks
from anonpipe.verify.verdict import Assessment
from tests.naive.weights import design_effect as slow_effect
from tests.naive.weights import design_error, weighted_mean

KINDS = {"x": Kind.CONTINUOUS, "c": Kind.CATEGORICAL, "weight": Kind.CONTINUOUS}


def sample(seed: int, rows: int = 1500, shift: float = 0.0) -> pd.DataFrame:
    """Persons with a weight that goes with both other columns."""
    rng = np.random.default_rng(seed)
    c = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    weight = pd.Series(c).map({"a": 10.0, "b": 30.0, "c": 90.0}).to_numpy() * rng.uniform(0.8, 1.2, rows)
    return pd.DataFrame({"x": rng.normal(shift + (c == "c"), 1.0), "c": c, "weight": weight})


def figures(old: pd.DataFrame, new: pd.DataFrame) -> dict[str, float]:
    """All figures by name."""
    tables = replace(typed_tables(old, new, KINDS, least=5), weight="weight")
    return {each.name: each.value for each in WEIGHTED.of(tables)}


def test_means_and_errors_are_those_of_the_slow_twin() -> None:
    """By category and overall, with nulls."""
    table = sample(3, 200)
    values = np.where(np.arange(200) % 7 == 0, np.nan, table["x"])
    codes, weights = table["c"].map({"a": 0.0, "b": 1.0, "c": 2.0}).to_numpy(), table["weight"].to_numpy()
    means, errors = weighted_means(values, weights, codes, 3)
    for code in range(3):
        assert (means[code], errors[code]) == pytest.approx(weighted_mean(values, weights, codes, code))
    whole = [each[0] for each in weighted_means(values, weights)]
    assert whole == pytest.approx(weighted_mean(values, weights, None, 0))
    assert design_effect(weights) == pytest.approx(slow_effect(weights))


def test_errors_of_a_design_are_those_of_the_slow_twin() -> None:
    """Numbers of PSUs begin again in each stratum; by category, and with nulls."""
    table, rng = sample(3, 200), np.random.default_rng(1)
    strata, numbers = rng.integers(0, 3, 200).astype(float), rng.integers(0, 6, 200).astype(float)
    psus, weights = Psus.of(strata, numbers), table["weight"].to_numpy()
    values = np.where(np.arange(200) % 7 == 0, np.nan, table["x"])
    known, codes = ~np.isnan(values), table["c"].map({"a": 0.0, "b": 1.0, "c": 2.0}).to_numpy()
    found = float(weighted_means(values, weights, psus=psus)[1][0])
    assert found == pytest.approx(design_error(values[known], weights[known], strata[known], numbers[known]))
    for code, error in enumerate(weighted_means(values, weights, codes, 3, psus)[1]):
        inside = np.where((codes == code) & known, values, 0.0)
        assert error == pytest.approx(design_error(inside, weights, strata, numbers))
    assert psus.degrees == 15 and psus.degrees_of(np.zeros(200), 1).tolist() == [15]
    assert psus.degrees_of(np.where(strata == 1.0, 0.0, np.nan), 2).tolist() == [5, 0]


def test_errors_are_those_of_repeated_samples() -> None:
    """The standard deviation of the mean over 400 samples is its standard error."""
    found = [weighted_means(each["x"].to_numpy(), each["weight"].to_numpy()) for each in map(sample, range(400))]
    means, errors = (np.array([each[at][0] for each in found]) for at in (0, 1))
    assert means.std() == pytest.approx(errors.mean(), rel=0.1)


def test_another_sample_is_seldom_beyond_the_limit() -> None:
    """Once in 20; and a shifted mean is beyond it, as are weights that lost their ties."""
    beyond = [figures(sample(seed), sample(seed + 500))["weighted_estimates"] > 1 for seed in range(40)]
    assert sum(beyond) <= 6
    old, untied = sample(1), sample(2)
    assert figures(old, sample(2, shift=0.3))["weighted_estimates"] > 1
    untied["weight"] = np.random.default_rng(1).permutation(untied["weight"])
    found = figures(old, untied)
    assert found["weighted_estimates"] > 2 and found["weighted.without"] < 4


def test_another_sample_with_dominant_firms_is_seldom_beyond() -> None:
    """Few records decide totals, and the error of a sample that has none of these is too small."""

    def drawn(seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({"x": np.exp(rng.normal(0, 2.5, 1500)), "c": rng.integers(0, 20, 1500).astype(str)})
        return table.assign(weight=10.0)

    beyond = [figures(drawn(seed), drawn(seed + 500))["weighted_estimates"] > 1 for seed in range(20)]
    assert sum(beyond) <= 3


def test_another_sample_of_few_psus_is_seldom_beyond_the_limit() -> None:
    """Of one stratum an error rests on two differences alone, and may be small by chance."""

    def drawn(seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        stratum, psu = np.repeat(np.arange(4), 90), np.repeat(np.arange(12), 30)
        x = rng.normal(size=12)[psu] + rng.normal(size=360)
        return pd.DataFrame({"x": x, "s": stratum, "p": psu, "weight": 10.0 * 2**stratum})

    kinds, values = {"x": Kind.CONTINUOUS, **dict.fromkeys("sp", Kind.CATEGORICAL), "weight": Kind.CONTINUOUS}, []
    for seed in range(40):
        tables = typed_tables(drawn(seed), drawn(seed + 100), kinds, least=5)
        found = WEIGHTED.of(replace(tables, weight="weight", cluster="p", design_strata="s"))
        values.append({each.name: each.value for each in found}["weighted_estimates"])
    assert sum(value > 1 for value in values) <= 6 and np.median(values) > 0.1


def test_a_category_in_one_psu_hides_no_other() -> None:
    """It has no degrees of freedom of its own; another with too many records is as far off as without it."""
    rng, stratum, psu = np.random.default_rng(1), np.repeat(np.arange(4), 200), np.tile([0, 1], 400)
    old = pd.DataFrame({"s": stratum, "p": psu, "a": np.char.add(stratum.astype(str), psu.astype(str)), "weight": 1.0})
    old["weight"], old["sex"] = rng.uniform(1, 3, 800), rng.choice(["f", "m"], 800)
    kinds = {**dict.fromkeys(("s", "p", "a", "sex"), Kind.CATEGORICAL), "weight": Kind.CONTINUOUS}
    tables = replace(typed_tables(old, old.assign(sex="f"), kinds, least=5), weight="weight", cluster="p")
    (worst,) = (each for each in WEIGHTED.of(replace(tables, design_strata="s")) if each.name == "weighted_estimates")
    assert worst.value > 1 and worst.parts[0][0].startswith("sex") and worst.worst == ("sex",)
    assert all(np.isfinite(value) for _, value in worst.parts)
    assert "Not judged: 12 with fewer than 2 degrees of freedom, such as a 00 (0)." in worst.note


@pytest.mark.parametrize(("asked", "judged"), [(1, ["s 0", "s 1"]), (2, ["x", "s 0", "s 1"]), (0, [])])
def test_a_number_known_in_few_strata_has_their_degrees(asked: int, judged: list[str]) -> None:
    """One stratum of two PSUs says nothing of its error, and where nothing is judged the check says why."""
    rng, stratum, psu = np.random.default_rng(1), np.repeat(np.arange(2 if asked else 1), 300), np.tile([0, 1, 2], 200)
    psu = psu[: len(stratum)] if asked else psu[:300] % 2
    x = np.where((stratum < asked) & (psu < 2) | (asked == 0), rng.normal(size=len(psu)), np.nan)
    old = pd.DataFrame({"s": stratum, "p": psu, "x": x, "weight": rng.uniform(1, 3, len(psu))})
    kinds = {**dict.fromkeys("sp", Kind.CATEGORICAL), "x": Kind.CONTINUOUS, "weight": Kind.CONTINUOUS}
    tables = replace(typed_tables(old, old, kinds, least=5), weight="weight", cluster="p", design_strata="s")
    found = {each.name: each for each in WEIGHTED.of(tables)}
    assert sorted(name for name, _ in found["weighted.means"].parts) == sorted(judged)
    for each in found.values() if not asked else ():
        assert (each.reason, each.note[:11]) == (Reason.FEW_DEGREES, "Not judged:")
    for limit, outcome in ((None, "not checked"), (1.0, "failed")) if not asked else ():
        (line,) = checks(Assessment(utility=tuple(found.values())), {"weighted_estimates": limit})
        assert (line.outcome, line.reason) == (outcome, Reason.FEW_DEGREES)


@pytest.mark.parametrize(("known", "judged"), [(29, False), (30, True)])
def test_a_total_of_a_number_that_few_records_have_is_not_judged(known: int, judged: bool) -> None:
    """Its error says nothing: nearly all of a category of 300 have no value, and few of those that have are not 0."""
    old = sample(4)
    old["x"] = np.where(old["c"] == "c", np.nan, old["x"])
    old.loc[old.index[old["c"] == "c"][:known], "x"] = 1.0 * (np.arange(known) == 0)
    new = old.assign(x=lambda t: t["x"].where(t["c"] != "c", 9.0 * t["x"]))
    tables = replace(typed_tables(old, new, KINDS, least=5), weight="weight")
    (totals,) = [each for each in WEIGHTED.of(tables) if each.name == "weighted.totals"]
    assert ("x in c c" in dict(totals.parts)) == judged


def test_a_number_that_the_release_has_not_is_not_passed_over() -> None:
    """Its mean is no number, and the gate does not take the others for the furthest."""
    assert np.isnan(figures(sample(1), sample(2).assign(x=np.nan))["weighted_estimates"])


def test_no_weight_no_figure() -> None:
    """Jobs without the role have the figures that they had."""
    found = utility(sample(1), sample(2), KINDS, rng=np.random.default_rng(1), least=5, of=1500)
    assert not [each for each in found if each.name.startswith("weighted")]
    given = utility(sample(1), sample(2), KINDS, rng=np.random.default_rng(1), least=5, of=1500, weight="weight")
    assert {each.name for each in given} - {each.name for each in found} == set(WEIGHTED.keys)
