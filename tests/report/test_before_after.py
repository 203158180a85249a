"""The picture of both tables: what is in it, whatever names and groups there are."""

from __future__ import annotations

import pytest

from anonpipe.report import external, internal
from anonpipe.report.before_after import _curves, _draw_numbers, _draw_survival, draw, figure
from anonpipe.report.content import Compared, Panel, SurvivalPart
from tests.report import made


def _panel(column, group, end, *levels):
    times = tuple(end * at / (len(levels) - 1) for at in range(len(levels)))
    return Panel(column=column, group=group, times=times, original=levels, released=levels, records=100)


def _part(*panels):
    return SurvivalPart(name="", time="months", status="status", panels=panels, left_out=0)


WHOLE = _panel("", "", 10.0, 1.0, 0.5)
SEXES = _panel("sex", "f", 10.0, 1.0, 0.6), _panel("sex", "m", 10.0, 1.0, 0.4)


def test_curves_drawn_by_most_telling_column_while_groups_last():
    stages = _panel("stage", "early", 10.0, 1.0, 0.9, 0.8), _panel("stage", "late", 5.0, 1.0, 0.1)
    found = dict(_curves(_part(WHOLE, *SEXES, *stages)))
    assert found == {"survival: all": [WHOLE], "survival by stage": [*stages]}
    far_later = _panel("site", "a", 10.0, 1.0, 0.99, 0.0), _panel("site", "b", 5.0, 1.0, 0.9)
    assert "survival by sex" in dict(_curves(_part(WHOLE, *SEXES, *far_later)))


@pytest.mark.parametrize("panels, titles", [((), []), ((WHOLE, SEXES[0]), ["survival: all"])])
def test_a_single_group_is_not_drawn_beside_nothing(panels, titles):
    assert [title for title, _ in _curves(_part(*panels))] == titles


@pytest.mark.parametrize("text", ["$", "$\\x$", "a_b^", "{", "é"])
def test_names_are_drawn_as_they_are(text):
    stages = _panel("stage", text, 10.0, 1.0, 0.9), _panel("stage", "late", 5.0, 1.0, 0.1)
    report = internal(made.facts(), "v").model_copy(update={"survival": (_part(WHOLE, *stages),)})
    assert draw(report)[:4] == b"\x89PNG"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("days", [20, 780, 980, 1500])
def test_dates_of_any_range_have_few_marks(days):
    from matplotlib.figure import Figure

    axis, edges = Figure().subplots(), (7000.0, 7000.0 + days / 2, 7000.0 + days)
    shares = (0.5, 0.5)
    picture = (
        internal(made.facts(), "v")
        .pictures[0]
        .model_copy(update={"kind": "date", "edges": edges, "original": shares, "released": shares})
    )
    _draw_numbers(axis, picture)
    assert 2 <= len(axis.get_xticks()) <= 6


def test_shares_that_survive_are_per_cent_as_in_the_report():
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    _draw_survival(axis, [WHOLE])
    assert [label.get_text() for label in axis.get_yticklabels()] == ["0 %", "50 %", "100 %"]


def test_recipients_see_report_categories_and_no_correlations():
    report = external(made.facts())
    pictures = {one.name: one for one in report.pictures if one.labels}
    axes = {axis.get_title(): axis for axis in figure(report).axes}
    assert report.compared is None and pictures and "correlations" not in axes
    for name, one in pictures.items():
        heights = [bar.get_height() for bar in axes[name].patches]
        assert heights == [*one.original, *one.released]
    both = report.model_copy(update={"compared": Compared(numbers=(), shares=(), pairs=(), pairs_compared=0)})
    assert "correlations" in [axis.get_title() for axis in figure(both).axes]
