import math

import numpy as np
import pandas as pd
import pytest

from anonpipe.columns import Kind
from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.utility import MEASURES, utility
from anonpipe.evaluate.utility._measure import UtilityMeasure
from anonpipe.evaluate.utility._moments import centred, il1s, moment_changes
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.evaluate.utility._utility import _measured, _with_interval
from anonpipe.verify.output_control import disclosive
from tests.benchmarks._correlations import abico, abim, abisd
from tests.benchmarks._lasko_table import lasko_table

KINDS = {
    "x": Kind.CONTINUOUS,
    "y": Kind.CONTINUOUS,
    "count": Kind.INTEGER,
    "day": Kind.DATE,
    "sex": Kind.BINARY,
    "stage": Kind.ORDINAL,
}


def table(rows, seed, nulls=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(10, 2, rows)
    frame = pd.DataFrame(
        {
            "x": x,
            "y": x + rng.gamma(2, size=rows),
            "count": pd.array(rng.poisson(9, rows), dtype="Int64"),
            "day": pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 999, rows), unit="D"),
            "sex": rng.choice(["f", "m"], rows),
            "stage": pd.Categorical(rng.choice(["I", "II", "III"], rows), ["I", "II", "III"], ordered=True),
        }
    )
    if nulls:
        for name in KINDS:
            frame.loc[rng.random(rows) < 0.1, name] = None
    return frame


def measured(old, new, kinds=KINDS, seed=0, least=5, of=None, **options):
    rng = np.random.default_rng(seed)
    found = utility(old, new, kinds, rng=rng, least=least, of=of or len(old), **options)
    assert len({one.name for one in found}) == len({one.title for one in found}) == len(found) == 35
    for one in found:
        assert one.title and one.source and one.records <= one.of
        assert math.isfinite(one.value) or "Not defined" in one.note or "left out" in one.note or "No ratio" in one.note
        assert one.low is None or one.low <= one.value <= one.high
        assert len(one.parts) <= 20
        assert [value for _, value in one.parts] == sorted((value for _, value in one.parts), reverse=True)
        one.to_dict()
    return {one.name: one for one in found}


def test_as_the_single_measures():
    old, new = table(300, 0), table(250, 1)
    before, after = old.copy(), new.copy()
    found = measured(old, new)
    pd.testing.assert_frame_equal(old, before)
    pd.testing.assert_frame_equal(new, after)
    days = [(frame["day"] - pd.Timestamp("1970-01-01")).dt.days for frame in (old, new)]
    tables = [
        np.column_stack([f["x"], f["y"], f["count"].astype(float), d]) for f, d in zip((old, new), days, strict=True)
    ]
    assert found["bias.means"].value == pytest.approx(abim(*tables).mean)
    assert found["basic.sums"].value == pytest.approx(abim(*tables).mean)
    assert found["bias.deviations"].value == pytest.approx(abisd(*tables).mean)
    assert found["bias.correlations"].value == pytest.approx(abico(*tables).mean)
    lasko = lasko_table(*tables)
    assert found["basic.means"].value == pytest.approx(lasko.means.mean)
    assert found["pairs.correlation"].value == pytest.approx(lasko.correlations.mean)
    assert found["pairs.rank_correlation"].value == pytest.approx(lasko.rank_correlations.mean)
    for order, name in ((3, "third"), (4, "fourth")):
        changes, _ = moment_changes(*map(centred, tables), order)
        assert found[f"moments.{name}"].value == pytest.approx(np.median(changes))
    shares = [(frame["sex"] == "f").mean() for frame in (old, new)]
    assert dict(found["distance.variation"].parts)["sex"] == pytest.approx(abs(shares[1] - shares[0]))
    middle = abs(new["x"].median() - old["x"].median()) / old["x"].std()
    assert dict(found["basic.medians"].parts)["x"] == pytest.approx(middle)
    assert math.isnan(found["loss.il1s"].value)
    assert found["missing.shares"].value == 0
    # Two samples of one population: no more apart than halves of the original, and told apart by chance only.
    assert found["distance.ks"].value < 2 * found["distance.ks"].baseline
    assert found["distinguishability"].low < 0.5 < found["distinguishability"].high
    paired = measured(old, new.sample(300, replace=True, random_state=0), paired=True)["loss.il1s"]
    again = new.sample(300, replace=True, random_state=0)
    assert dict(paired.parts)["x"] == pytest.approx(il1s(old[["x"]].to_numpy(), again[["x"]].to_numpy())[0])


def test_a_copy_changes_nothing():
    old = table(200, 2, nulls=True)
    found = measured(old, old.copy(), paired=True)
    for name, one in found.items():
        if name == "distinguishability":
            assert one.value == 0.5
        elif one.name.endswith(".similarity"):
            assert one.value == 1
        elif name.startswith("survival"):
            assert math.isnan(one.value)  # no endpoint was given
        elif one.value != 0:
            # A regression on two equal tables.
            assert one.value == pytest.approx(0, abs=1e-9), name
    shuffled = measured(old, old.sample(frac=1, random_state=0))
    assert all(
        abs(one.value - name.endswith(".similarity")) < 1e-9
        for name, one in shuffled.items()
        if name not in ("loss.il1s", "distinguishability") and not name.startswith("survival")
    )


def test_nulls_are_left_out_and_compared_beside():
    old = table(400, 3)
    new = old.copy()
    new.loc[:99, ["x", "sex"]] = None
    found = measured(old, new)
    assert dict(found["missing.shares"].parts)["x"] == 0.25
    assert found["missing.pairs"].parts == (("x x sex", 0.25),)
    kept = abs(old["x"][100:].mean() - old["x"].mean()) / old["x"].std()
    assert dict(found["basic.means"].parts)["x"] == pytest.approx(kept)
    assert dict(found["basic.sums"].parts)["x"] == pytest.approx(100 * old["x"][:100].sum() / old["x"].sum())


def test_higher_moments_pass_over_columns_that_are_mostly_null():
    old, new = table(100, 12), table(100, 13)
    kinds = {"x": Kind.CONTINUOUS, "y": Kind.CONTINUOUS}
    plain = measured(old, new, kinds)["moments.third"]
    with_empty = measured(old.assign(z=np.nan), new.assign(z=1.0), {**kinds, "z": Kind.INTEGER})["moments.third"]
    assert with_empty.value == plain.value
    assert "mostly null: 1" in with_empty.note
    assert "mostly null" in measured(old.assign(x=np.nan), new, {"x": Kind.CONTINUOUS})["moments.third"].note


def test_units_and_order_of_records_do_not_matter():
    old, new = table(150, 14, nulls=True), table(130, 15, nulls=True)
    frames = [f.assign(x=f["x"] * 1000 - 7, y=-f["y"]) for f in (old, new.sample(frac=1, random_state=0))]
    tables = [typed_tables(*pair, KINDS, least=5) for pair in ((old, new), frames)]
    for one, other in zip(*(_measured(given) for given in tables), strict=True):
        # the first two depend on where zero lies, the third on which side of a bin is closed
        if one.name not in ("basic.sums", "bias.means", "distance.hellinger"):
            assert other.value == pytest.approx(one.value, nan_ok=True), one.name


def test_a_sample_has_intervals_and_the_whole_table_has_none():
    old = table(600, 4)
    new = old.assign(x=old["x"] + 1)
    whole, sample = measured(old, new, paired=True), measured(old, new, of=6000, paired=True)
    for name in ("basic.means", "loss.il1s", "distance.ks"):
        assert whole[name].low is None
        assert sample[name].low < sample[name].value < sample[name].high
        assert sample[name].value == whole[name].value
        assert (sample[name].records, sample[name].of) == (600, 6000)
    assert sample["subgroups.standard_errors"].low is None
    again = measured(old, new, of=6000, paired=True)
    assert [one.to_dict() for one in again.values()] == [one.to_dict() for one in sample.values()]


def test_pairs_stay_together_in_parts_and_samples():
    old = pd.DataFrame({"x": np.arange(50.0)})
    tables = typed_tables(old, old + 100, {"x": Kind.CONTINUOUS}, paired=True)
    parts = tables.blocks(4, np.random.default_rng(0))
    for part in (*parts, tables.sample(20, np.random.default_rng(0))):
        (column,) = part.columns
        assert (column.new == column.old + 100).all()
        assert part.rows == part.released == len(column.old)
    assert sorted(np.concatenate([part.columns[0].old for part in parts])) == old["x"].tolist()
    low = tables.halves(np.random.default_rng(0)).columns[0]
    assert sorted([*low.old, *low.new]) == old["x"].tolist()
    loose = typed_tables(old, old[:30], {"x": Kind.CONTINUOUS})
    parts = loose.blocks(4, np.random.default_rng(0))
    assert sorted(np.concatenate([part.columns[0].new for part in parts])) == old["x"][:30].tolist()


def test_intervals_by_hand():
    def figure(value, name="distance.ks"):
        return Measurement(name, "", value, "", "lower", "", 10, 40)

    # Four parts of mean 6 and deviation 2, a quarter of the table: t(3) = 3.182, and chance (6 - 5) / (2 - 1) * 3/4.
    parts = [[figure(value)] for value in (4.0, 5.0, 6.0, 9.0)]
    (found,) = _with_interval([figure(5.0)], parts, 0.25)
    reach = 3.182446 * np.std([4, 5, 6, 9], ddof=1) * math.sqrt(0.75 / 4)
    assert (found.value, found.high) == (5, pytest.approx(5 + reach))
    assert found.low == pytest.approx(5 - 0.75 - reach)
    (found,) = _with_interval([figure(7.0)], parts, 0.25)
    assert found.low == pytest.approx(7 - reach)
    assert _with_interval([figure(0.1)], parts, 0.25)[0].low == 0
    assert _with_interval([figure(5.0, "moments.third")], parts, 0.25)[0].low is None
    assert _with_interval([figure(5.0)], [*parts, [figure(math.nan)]], 0.25)[0].low is None


def test_large_tables_are_sampled_for_classifiers(monkeypatch):
    monkeypatch.setattr("anonpipe.evaluate.utility._two_sample.MOST_RECORDS", 100)
    found = measured(table(300, 5), table(250, 6))
    for name in ("propensity.logistic", "propensity.tree_ratio", "distinguishability"):
        assert (found[name].records, found[name].of) == (100, 300)
    assert found["distance.ks"].records == 300


@pytest.mark.parametrize("name", list(KINDS))
def test_one_column(name):
    old, new = table(40, 7)[[name]], table(40, 8)[[name]]
    found = measured(old, new, {name: KINDS[name]})
    # What a recipient could solve for the original's figure stays with the steward.
    assert all(disclosive(one) for one in found.values() if one.name != "loss.il1s")


@pytest.mark.parametrize("rows", [1, 3, 21])
def test_tiny_constant_and_empty_columns(rows):
    old = pd.DataFrame({"x": [5.0] * rows, "y": [np.nan] * rows, "sex": ["m"] * rows, "z": np.arange(float(rows))})
    kinds = {"x": Kind.CONTINUOUS, "y": Kind.CONTINUOUS, "sex": Kind.BINARY, "z": Kind.INTEGER}
    new = old.assign(z=np.nan, sex=None)
    for released in (old, new, old.iloc[:1]):
        found = measured(old, released, kinds)
    assert measured(old, new, kinds)["distance.variation"].value == 1
    if rows > 1:
        assert "not defined in the release" in measured(old, new, kinds)["basic.means"].note
    assert found["missing.shares"].value == 0


def test_what_of_one_column_tells_of_the_original_is_disclosive():
    found = measured(table(60, 9), table(60, 10))
    open_ones = {name for name, one in found.items() if not disclosive(one)}
    assert open_ones == {
        "loss.il1s",
        "loss.eigenvalues",
        "propensity.logistic",
        "propensity.logistic_ratio",
        "propensity.tree",
        "propensity.tree_ratio",
        "distinguishability",
        "shapes.similarity",
        "column_shapes",
        "pairs.similarity",
        "pair_shapes",
    }


def test_types_of_columns():
    stamps = pd.to_datetime(pd.Series(["1970-01-02 12:00", None, "1970-01-01 00:00"]))
    ends = pd.Series(np.array(["0001-01-01", "NaT", "9999-12-31"], dtype="datetime64[s]"))
    for column, expected in (
        (ends, [-719162, np.nan, 2932896]),
        (stamps, [1.5, np.nan, 0]),
        (stamps.astype("datetime64[s]"), [1.5, np.nan, 0]),
    ):
        made = typed_tables(pd.DataFrame({"d": column}), pd.DataFrame({"d": column}), {"d": Kind.DATE})
        np.testing.assert_array_equal(made.columns[0].old, expected)
    old, new = pd.DataFrame({"c": [1, "a", None, True]}), pd.DataFrame({"c": pd.Categorical(["b", "a"])})
    made = typed_tables(old, new, {"c": Kind.CATEGORICAL}).columns[0]
    assert [made.levels[int(code)] for code in made.old[:2]] == [1, "a"]
    assert [made.levels[int(code)] for code in made.new] == ["b", "a"]
    declared = pd.DataFrame({"c": pd.Categorical(["lo", "hi"], ["lo", "mid", "hi"])})
    assert typed_tables(declared, declared.astype(object), {"c": Kind.ORDINAL}).columns[0].levels == ("lo", "hi")


def test_every_figure_is_named_by_one_record():
    names = [name for measure in MEASURES for name in measure.keys]
    assert len(names) == len(set(names))
    assert {figure.key for measure in MEASURES for figure in measure.without_interval} <= set(names)
    old, new = table(60, 4), table(60, 5)
    whole, counted, drawn = (
        utility(old, new, KINDS, rng=np.random.default_rng(0), least=5, of=60, draws=draws)
        for draws in (None, False, True)
    )
    alone = ("weighted", "relative_survival", "survival.without")  # of tables with a weight, or with a life table
    assert [one.name for one in whole] == [name for name in names if not name.startswith(alone)]
    assert counted and drawn and repr(counted + drawn) == repr(whole)


def test_measure_giving_other_figures_than_said_is_refused():
    tables = typed_tables(table(20, 4), table(20, 5), KINDS)
    with pytest.raises(AnonpipeError, match="other figures than distance"):
        UtilityMeasure(
            (Figure("distance.kss", "", "", "", Audience.STEWARD),), lambda tables: MEASURES[2].of(tables)[:1]
        ).of(tables)
