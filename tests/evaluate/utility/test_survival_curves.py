"""Survival curves before and after: as published, as the twin, in split-half units, and as pictures."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Kind
from anonpipe.errors import InputError
from anonpipe.evaluate.utility import Binning, Endpoint, survival_pictures, utility
from anonpipe.evaluate.utility._survival import SURVIVAL, compared_endpoints, curves_apart, kaplan_meier
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.verify.output_control import bins_for_recipients, bins_for_steward
from tests.naive import shapes as naive

KINDS = {"months": Kind.CONTINUOUS, "vital": Kind.BINARY, "stage": Kind.ORDINAL, "sex": Kind.BINARY}
END = Endpoint("", "months", "vital", ("Dead",))


def patients(rows, seed, worse=0.0, nulls=0.0):
    rng = np.random.default_rng(seed)
    stage = rng.choice(["I", "II", "III"], rows, p=[0.6, 0.3, 0.1])
    hazard = 0.03 * np.exp(0.7 * (stage == "III") + worse * (stage == "II"))
    months, censored = rng.exponential(1 / hazard), rng.uniform(0, 120, rows)
    frame = pd.DataFrame(
        {
            "months": np.minimum(months, censored).round(),
            "vital": np.where(months <= censored, "Dead", "Alive"),
            "stage": stage,
            "sex": rng.choice(["f", "m"], rows),
        }
    )
    return frame.mask(rng.random(frame.shape) < nulls) if nulls else frame


def measured(old, new, endpoints=(END,), least=5, seed=0, kinds=KINDS):
    tables = typed_tables(old, new, kinds, least=least)
    tables = replace(tables, endpoints=compared_endpoints(tables, endpoints))
    return {one.name: one for one in SURVIVAL.of(tables, np.random.default_rng(seed))}


def test_the_remission_times_of_freireich():
    """6-mercaptopurine, 21 patients (Freireich et al. 1963, Blood 21:699-716), as textbooks tabulate the estimate."""
    events, censored = [6, 6, 6, 7, 10, 13, 16, 22, 23], [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    at, alive = kaplan_meier(events + censored, [True] * len(events) + [False] * len(censored))
    assert at.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert alive.tolist() == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4)


lists = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=14)


@settings(deadline=None, max_examples=60)
@given(lists, lists, st.integers(0, 6))
def test_as_the_twins(old, new, last):
    sides = [[list(part) for part in zip(*side, strict=True)] for side in (old, new)]
    for times, events in sides:
        at, alive = kaplan_meier(times, events)
        expected = naive.kaplan_meier(times, events)
        assert at.tolist() == [time for time, _ in expected]
        assert alive.tolist() == pytest.approx([share for _, share in expected])
        assert ((alive >= 0) & (alive <= 1)).all() and (np.diff(alive) <= 0).all()
    times = np.array(sides[0][0] + sides[1][0], dtype=float)
    order = np.argsort(times, kind="stable")
    side = (np.arange(len(times)) >= len(old)).astype(np.int64)[order]
    events = np.array(sides[0][1] + sides[1][1])[order]
    # the same persons as two groups, the second of them with both sides changed
    twice = np.repeat(np.arange(2), len(times))
    both = np.argsort(np.tile(times[order], 2), kind="stable")
    found = curves_apart(
        np.tile(times[order], 2)[both],
        np.tile(events, 2)[both],
        np.concatenate([side, 1 - side])[both],
        twice[both],
        np.full(2, float(last)),
    )
    assert found.tolist() == pytest.approx([naive.curves_apart(*sides, last)] * 2)


def test_as_part_of_all_measures():
    old, new = patients(300, 5), patients(300, 6)
    given = {"rng": np.random.default_rng(0), "least": 5, "of": 300}
    found = {one.name: one for one in utility(old, new, KINDS, **given, endpoints=(END,))}
    assert found["survival.difference"].value == measured(old, new)["survival.difference"].value
    assert math.isnan({one.name: one for one in utility(old, new, KINDS, **given)}["survival.difference"].value)


def test_as_statsmodels():
    from statsmodels.duration.survfunc import SurvfuncRight

    frame = patients(400, 1)
    at, alive = kaplan_meier(frame["months"], frame["vital"] == "Dead")
    other = SurvfuncRight(frame["months"], (frame["vital"] == "Dead").astype(int))
    assert at.tolist() == other.surv_times.tolist() and alive.tolist() == pytest.approx(other.surv_prob.tolist())


def test_every_group_with_enough_records_and_events():
    old, new = patients(500, 2, nulls=0.05), patients(300, 3, nulls=0.05)
    found = measured(old, new)["survival.difference"]
    expected = {}
    for title, column, level in [
        ("all records", None, None),
        *((f"stage {level}", "stage", level) for level in ("I", "II", "III")),
        *((f"sex {level}", "sex", level) for level in "fm"),
    ]:
        sides = []
        for frame in (old, new):
            rows = frame[frame["months"].notna() & frame["vital"].notna()]
            rows = rows if column is None else rows[rows[column] == level]
            sides.append((rows["months"].tolist(), (rows["vital"] == "Dead").tolist()))
        if len(sides[0][0]) >= 50 and sum(sides[0][1]) >= 5:
            expected[title] = naive.curves_apart(*sides, naive.last_time(sides[0][0], 5))
    assert 4 <= len(expected) < 6  # stage III is too small
    assert dict(found.parts) == pytest.approx(expected) and found.value == max(expected.values())


def test_another_sample_passes_and_another_curve_does_not():
    old = patients(4_000, 0)
    for seed in range(1, 9):
        one = measured(old, patients(4_000, seed), seed=seed)["survival_curves"]
        assert one.high < 1 and 0 < one.baseline < 1
    worse = measured(old, patients(4_000, 9, worse=0.8))
    assert worse["survival_curves"].low > 1
    assert worse["survival_curves"].worst == ("months", "vital", "stage")
    assert worse["survival.difference"].parts[0][0] == "stage II"
    assert worse["survival.difference"].value > 2 * worse["survival.difference"].baseline


def test_a_copy_has_the_same_curves_and_a_lost_group_none():
    old = patients(600, 4)
    same = measured(old, old.sample(frac=1, random_state=0))
    assert same["survival.difference"].value == 0 and same["survival_curves"].value == 0
    lost = measured(old, old[old["stage"] != "II"])["survival.difference"]
    assert dict(lost.parts)["stage II"] == 1.0


@pytest.mark.parametrize("event", [("Dead",), ("Alive",), ("Dead", "Alive"), ("Gone",)])
def test_the_event_is_what_the_endpoint_says(event):
    old, new = patients(300, 5), patients(300, 6)
    found = measured(old, new, [Endpoint("", "months", "vital", event)])["survival.difference"]
    if event == ("Gone",):
        assert math.isnan(found.value) and "Not defined" in found.note
        return
    sides = [(frame["months"].tolist(), frame["vital"].isin(event).tolist()) for frame in (old, new)]
    expected = naive.curves_apart(*sides, naive.last_time(sides[0][0], 5))
    assert dict(found.parts)["all records"] == pytest.approx(expected)


def test_a_status_of_numbers_or_truths():
    old, new = patients(300, 5), patients(300, 6)
    (expected,) = {measured(old, new)["survival.difference"].value}
    for kind, values, event in (
        (Kind.INTEGER, [1, 0], 1),
        (Kind.BINARY, [1, 0], 1),
        (Kind.BINARY, [True, False], True),
    ):
        sides = [f.assign(vital=np.where(f["vital"] == "Dead", *values)) for f in (old, new)]
        kinds = KINDS | {"vital": kind}
        found = measured(*sides, [Endpoint("", "months", "vital", (event,))], kinds=kinds)["survival.difference"]
        assert found.value == expected


def test_several_endpoints_and_columns_that_are_not_there():
    old, new = patients(300, 5), patients(300, 6)
    cause = Endpoint("of any", "months", "vital", ("Dead", "Alive"))
    found = measured(old, new, [END, cause, Endpoint("gone", "years", "vital", ("Dead",))])["survival.difference"]
    assert {"all records", "of any: all records"} <= dict(found.parts).keys()
    tables = typed_tables(old, new, KINDS)
    assert compared_endpoints(tables, [Endpoint("", "stage", "vital", ("Dead",))]) == ()


def test_what_nobody_can_measure():
    old = patients(300, 5)
    for one in measured(old, old, ()).values():
        assert math.isnan(one.value) and "declares no survival analysis" in one.note
    tiny = patients(3, 5).assign(vital="Dead")
    difference, beyond = measured(tiny, tiny).values()
    assert difference.value == 0 and math.isnan(beyond.value)
    without = old.assign(months=np.nan)
    for one in measured(without, old).values():
        assert math.isnan(one.value)
    with pytest.raises(InputError, match="one record or more"):
        kaplan_meier([], [])


def shown(old, new, binning):
    (picture,) = survival_pictures(typed_tables(old, new, KINDS), [END], binning)
    return picture


def side(frame, panel):
    rows = frame[frame["months"].notna() & frame["vital"].notna()]
    rows = rows if not panel.column else rows[rows[panel.column] == panel.group]
    return rows["months"].to_numpy(float), (rows["vital"] == "Dead").to_numpy()


def before(curve, time):
    """What the curve is just before a time."""
    return next((share for at, share in reversed(curve) if at < time), 1.0)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 5, 8]), st.booleans())
def test_points_are_true_and_k_events_lie_between_them(seed, k, recipients):
    old, new = patients(400, seed, nulls=0.03), patients(350, seed + 1, nulls=0.03)
    binning = bins_for_recipients(k) if recipients else bins_for_steward(k)
    picture = shown(old, new, binning)
    assert picture.panels[0].column == "" and len(picture.panels) >= 3
    for panel in picture.panels:
        told = panel.original, panel.released
        for frame, shares, enough in ((old, told[0], k), (new, told[1], k if recipients else 0)):
            times, events = side(frame, panel)
            counts = [((times[events] >= a) & (times[events] < b)).sum() for a, b in pairwise([*panel.times, np.inf])]
            assert min(counts) >= enough
            curve = naive.kaplan_meier(times.tolist(), events.tolist())
            grain = k / len(times) if recipients and frame is old else 0
            expected = [before(curve, time) for time in panel.times]
            assert np.abs(np.array(shares) - expected).max() <= grain / 2 + 1e-12
            if grain:
                assert all(abs(share / grain - round(share / grain)) < 1e-6 or share == 1.0 for share in shares)
        assert panel.records % (k if recipients else 1) == 0


def test_times_for_recipients_follow_from_the_release_alone():
    new = patients(500, 1)
    pictures = [shown(patients(600, seed), new, bins_for_recipients(5)) for seed in (2, 3)]
    steps = [set(picture.panels[0].times) for picture in pictures]
    assert len(steps[0] & steps[1]) > 3  # joined as the original asks, and no other times
    moved = patients(600, 2)
    moved["months"] += 0.25  # an original whose times are others
    assert set(shown(moved, new, bins_for_recipients(5)).panels[0].times) <= set(
        shown(new, new, bins_for_recipients(1)).panels[0].times
    )


def test_no_group_is_told_by_what_the_others_leave():
    old = patients(600, 4)
    old.loc[:7, "stage"] = None  # eight that no group has: all less the drawn ones would tell of them
    picture = shown(old, patients(600, 5), bins_for_recipients(5))
    drawn = {panel.group for panel in picture.panels if panel.column == "stage"}
    assert drawn == {"I", "II"}  # III, the smallest, is left out with them
    whole = shown(patients(600, 4), patients(600, 5), bins_for_recipients(5))
    assert {panel.group for panel in whole.panels if panel.column == "stage"} == {"I", "II", "III"}


@pytest.mark.parametrize("frame", [patients(30, 1).assign(vital="Alive"), patients(6, 2)])
def test_too_few_events_have_no_curve(frame):
    assert shown(frame, frame, bins_for_steward(5)).panels == ()


def test_many_groups_are_drawn_in_part():
    rows = 4_000
    frame = pd.DataFrame({"months": np.arange(rows) % 50 + 1.0, "vital": "Dead", "stage": np.arange(rows) % 40})
    kinds = {name: KINDS[name] for name in frame}
    (picture,) = survival_pictures(typed_tables(frame, frame, kinds), [END], Binning(2))
    assert len(picture.panels) == 25 and picture.left_out == 16
