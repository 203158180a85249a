"""What a picture of survival curves tells: true curves at round times, none of them by fewer events than k."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Kind
from anonpipe.evaluate.utility import Binning, survival_pictures
from anonpipe.evaluate.utility._survival import cumulative_incidence
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.verify.output_control import bins_for_recipients, bins_for_steward
from tests.evaluate.utility.test_survival_curves import END, KINDS, patients
from tests.naive import shapes as naive


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
            grain = k / panel.records if recipients and frame is old else 0  # not of the exact number
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


def test_no_step_is_told_that_one_weight_makes_up():
    """Weights of the events of a step add up to twice the largest one, or more."""
    rng, end, kinds = np.random.default_rng(1), replace(END, weight="weight"), KINDS | {"weight": Kind.CONTINUOUS}
    old, new = (patients(400, seed).assign(weight=rng.lognormal(0, 1.2, 400)) for seed in (1, 2))
    (picture,) = survival_pictures(typed_tables(old, new, kinds), [end], bins_for_steward(2))
    panel, dead = picture.panels[0], old["vital"] == "Dead"
    steps = pd.cut(old["months"][dead], [*panel.times, np.inf], right=False)
    weights = old["weight"][dead].groupby(steps, observed=True).agg(["sum", "max"])
    assert len(weights) > 3 and (weights["sum"] >= 2 * weights["max"]).all()
    at, risen = cumulative_incidence(old["months"], dead, old["weight"].to_numpy())
    assert panel.original[-1] == pytest.approx(1 - risen[at < panel.times[-1]][-1])
    old.loc[dead.idxmax(), "weight"] = 2 * old["weight"].sum()
    (picture,) = survival_pictures(typed_tables(old, new, kinds), [end], bins_for_steward(2))
    assert not any(each.column == "" for each in picture.panels)
