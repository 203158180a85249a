"""Pictures show the figures they are given."""

from __future__ import annotations

import re

import pytest

from anonpipe.report import figures
from anonpipe.report.content import (
    AnalysisPart,
    Coefficient,
    Correlations,
    Interval,
    MeasureLine,
    Panel,
    Picture,
)


def widths(drawing, name):
    return [float(w) for w in re.findall(rf'width="([0-9.]+)" height="[0-9.]+" class="{name}"', drawing)]


def test_bars_are_as_long_as_shares():
    picture = Picture(
        name="sex", kind="binary", treatment="synthetic", labels=("f", "m"), original=(0.25, 0.75), released=(0.5, 0.5)
    )
    drawing = figures.distribution(picture)
    before, after = widths(drawing, "original"), widths(drawing, "bar")
    assert before[1] / before[0] == pytest.approx(3, rel=0.02) and after[0] == after[1]
    assert "25.0 % → 50.0 %" in drawing


def test_unequal_bins_are_drawn_as_densities():
    picture = Picture(
        name="age",
        kind="continuous",
        treatment="synthetic",
        edges=(None, 0.0, 10.0, 30.0, 40.0, None),
        original=(0.0, 0.25, 0.5, 0.25, 0.0),
        released=(0.0, 0.25, 0.5, 0.25, 0.0),
    )
    path = re.search(r'd="([^"]*)Z" class="original"', figures.distribution(picture)).group(1)
    heights = re.findall(r"V([0-9.]+)", path)
    assert heights[1] == heights[2] == heights[3] != heights[0]  # the same density
    assert figures.bin_names(picture)[0] == "below 0" and figures.bin_names(picture)[-1] == "40 and more"


def test_survival_curves_fall_from_the_top_in_time():
    panel = Panel(
        column="stage", group="II", times=(0, 10, 20), original=(1, 0.5, 0.25), released=(1, 0.75, 0), records=50
    )
    drawn = figures.survival(panel, "survival")
    line = re.search(r'd="M([^"]*)" class="released"', drawn)[1]
    points = [tuple(map(float, point.split())) for point in line.split("L")]
    assert points == [(40.0, 8.0), (184.0, 38.5), (328.0, 130.0)]  # 0 to 100 % from the bottom to the top
    shape = re.search(r'd="M([^"]*)" class="original"', drawn)[1]
    assert shape == "40.0 130L40.0 8.0L184.0 69.0L328.0 99.5V130Z"
    assert "survival of stage II" in drawn and ">20<" in drawn
    assert [f">{share}<" in drawn for share in ("0 %", "50 %", "100 %")] == [True] * 3


def test_dates_are_dates():
    picture = Picture(
        name="d",
        kind="date",
        treatment="unchanged",
        edges=(None, 0.0, 365.0, None),
        original=(0.5, 0.25, 0.25),
        released=(0.5, 0.25, 0.25),
    )
    assert "1970-01-01" in figures.distribution(picture)
    assert figures.bin_names(picture)[1] == "1970-01-01 to 1971-01-01"


def test_changes_of_correlations_largest_first():
    found = Correlations(
        names=("a", "b", "c"),
        original=((1, 0.5, 0.1), (0.5, 1, None), (0.1, None, 1)),
        released=((1, 0.4, 0.6), (0.4, 1, 0.2), (0.6, 0.2, 1)),
    )
    assert [(one, two) for one, two, _, _ in figures.changes(found)] == [("a", "c"), ("a", "b")]
    drawing = figures.heat_map(found)
    assert drawing.count("<rect") == 4 + 2 and "+0.5" in drawing  # two pairs, twice each, and the legend
    assert figures.changes(found.model_copy(update={"original": None})) == []
    assert figures.heat_map(found.model_copy(update={"original": None})).count("<rect") == 6 + 2


def test_a_wide_heat_map_keeps_the_strongest():
    size = 40
    values = [[0.0] * size for _ in range(size)]
    values[3][39] = values[39][3] = 0.9
    found = Correlations(names=tuple(f"v{at}" for at in range(size)), original=None, released=values)
    drawing = figures.heat_map(found)
    assert figures.MOST_VARIABLES == 24 and ">v3 " in drawing and ">v39 " in drawing and ">v30 " not in drawing


def test_forest_rows_have_their_own_scale_and_zero():
    inside = Interval(value=0.01, low=-0.01, high=0.03, p=0.3)
    analysis = AnalysisPart(
        name="a",
        model="cox",
        formula="t ~ x",
        event="e",
        subset=None,
        records=9,
        of=9,
        rows_original=9,
        rows_released=9,
        problem=None,
        limits=(),
        shares=(),
        coefficients=(
            Coefficient(name="x", original=inside, released=None),
            Coefficient(name="z", original=Interval(value=500.0, low=400.0, high=600.0, p=0.0), released=inside),
        ),
    )
    drawing = figures.forest(analysis)
    assert "not determined by the release" in drawing
    zeros = re.findall(r'd="M([0-9.]+) [0-9.]+v18"', drawing)
    assert float(zeros[0]) == pytest.approx(12 + (340 - 24) / 4, abs=0.1) and float(zeros[1]) < 13


def test_gauges_hold_value_interval_and_baseline():
    shown = MeasureLine(
        name="n",
        title="t",
        value=0.2,
        unit="share",
        better="lower",
        source="s",
        records=1,
        of=2,
        low=0.1,
        high=0.3,
        baseline=0.05,
        baseline_is="chance",
    )
    drawing = figures.gauge(shown)
    assert 'aria-label="t: 20.0 %, baseline 5.0 %"' in drawing and "0.0 %" in drawing and "30.0 %" in drawing
    left, right = map(float, re.search(r'd="M([0-9.]+) 12H([0-9.]+)"', drawing).groups())
    dot = float(re.search(r'cx="([0-9.]+)"', drawing).group(1))
    assert left < dot < right and dot == pytest.approx((left + right) / 2, abs=0.2)


def test_long_names_keep_both_ends():
    assert figures.fitted("cost of drugs (row 2)", 70) == "cost …ow 2)" and figures.fitted("age", 70) == "age"
    assert len(figures.fitted("x" * 500, 70)) <= 70 / 6.2 + 1


def test_many_categories_are_counted_beyond_the_bars():
    shares = tuple(1 / 40 for _ in range(40))
    labels = tuple(f"code {at}" for at in range(40))
    kinds = {"name": "code", "kind": "categorical", "treatment": "synthetic"}
    picture = Picture(**kinds, labels=labels, original=shares, released=shares)
    drawn = figures.distribution(picture)
    bars = len(widths(drawn, "bar"))
    assert f"{40 - bars} more in numbers" in drawn and "code 15" in drawn and "code 16" not in drawn
    few = picture.model_copy(update={"labels": labels[:bars], "original": shares[:bars], "released": shares[:bars]})
    assert "more in numbers" not in figures.distribution(few)


@pytest.mark.parametrize("kind, names", [("integer", ["1 and less", "2 to 4", "5 and more"]), ("continuous", None)])
def test_bins_of_whole_numbers_are_named_by_them(kind, names):
    shares = (0.25, 0.5, 0.25)
    edges = (None, 1.5, 4.5, None)
    picture = Picture(name="n", kind=kind, treatment="synthetic", edges=edges, original=shares, released=shares)
    assert figures.bin_names(picture) == (names or ["below 1.5", "1.5 to 4.5", "4.5 and more"])
    assert (">2</text>" in figures.distribution(picture)) == (kind == "integer")


def test_names_and_figures_stay_inside_drawings():
    whole = Picture(
        name="x", kind="categorical", treatment="synthetic", labels=("w" * 99,), original=(1,), released=(1,)
    )
    drawn = figures.distribution(whole)
    ((at, text),) = re.findall(r'<text x="([0-9.]+)" y="[0-9.]+">([^<]*%)</text>', drawn)
    assert float(at) + 6.2 * len(text) <= figures.WIDTH + 6.2


def test_intervals_name_their_unit_once():
    assert figures.span(0.1, 0.25, "share") == "10.0 % to 25.0 %" and figures.span(1, 2, "sd") == "1 to 2 sd"
    assert figures.amount(0.5, "probability") == "0.5" and figures.amount(None, "sd") == "–"
