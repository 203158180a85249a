"""Survival curves before and after: as published, as the literal twin, and beside two halves of the original."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Kind
from anonpipe.evaluate.utility import Endpoint, utility
from anonpipe.evaluate.utility._survival import SURVIVAL, compared_endpoints, cumulative_incidence, curves_apart
from anonpipe.evaluate.utility._tables import typed_tables
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
    at, risen = cumulative_incidence(np.array(events + censored), np.repeat([1, 0], [len(events), len(censored)]))
    assert at.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert (1 - risen).tolist() == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4)


lists = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=14)


@settings(deadline=None, max_examples=60)
@given(lists, lists, st.integers(0, 6))
def test_as_the_twins(old, new, last):
    """A record of weight 3 counts as three records."""
    counted = [[each[:2] for each in side for _ in range(each[2])] for side in (old, new)]
    sides = [[list(part) for part in zip(*side, strict=True)] for side in counted]
    for (times, outcomes), side in zip(sides, (old, new), strict=True):
        at, risen = cumulative_incidence(*np.array(side)[:, :2].T, np.array(side, dtype=float)[:, 2])
        expected = naive.cumulative_incidence(times, outcomes)
        assert at.tolist() == [time for time, _ in expected]
        assert risen.tolist() == pytest.approx([share for _, share in expected])
        assert ((risen >= 0) & (risen <= 1 + 1e-9)).all() and (np.diff(risen) > 0).all()
    times, events, weights = np.array(old + new).T
    order = np.argsort(times, kind="stable")
    side = (np.arange(len(times)) >= len(old)).astype(np.int64)[order]
    times, events, weights = times.astype(float), events[order], weights[order].astype(float)
    # the same persons as two groups, the second of them with both sides changed
    twice = np.repeat(np.arange(2), len(times))
    both = np.argsort(np.tile(times[order], 2), kind="stable")
    found = curves_apart(
        np.tile(times[order], 2)[both],
        np.tile(events, 2)[both],
        np.tile(weights, 2)[both],
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
    at, risen = cumulative_incidence(frame["months"], frame["vital"] == "Dead")
    other = SurvfuncRight(frame["months"], (frame["vital"] == "Dead").astype(int))
    assert at.tolist() == other.surv_times.tolist() and (1 - risen).tolist() == pytest.approx(other.surv_prob.tolist())


def causes(rows, seed, other=0.02):
    """Patients of whom some die of another cause, and not of the first any more."""
    rng = np.random.default_rng(seed + 1_000)
    frame, also = patients(rows, seed), rng.exponential(1 / other, rows).round()
    first = also < frame["months"]
    return frame.assign(months=frame["months"].where(~first, also), vital=frame["vital"].mask(first, "Other"))


COMPETING = Endpoint("", "months", "vital", ("Dead",), ("Other",))


def test_incidence_of_competing_events():
    from statsmodels.duration.survfunc import CumIncidenceRight

    kinds = KINDS | {"vital": Kind.CATEGORICAL}
    old, new = causes(4_000, 1), causes(4_000, 2)
    outcomes = old["vital"].map({"Alive": 0, "Dead": 1, "Other": 2}).to_numpy()
    other = CumIncidenceRight(old["months"], outcomes)
    for event in (1, 2):
        coded = np.where(outcomes == event, 1, np.where(outcomes > 0, 2, 0))
        at, risen = cumulative_incidence(old["months"], coded)
        places = np.searchsorted(other.times, at)
        assert risen.tolist() == pytest.approx(other.cinc[event - 1][places].tolist())
    both = risen[-1] + cumulative_incidence(old["months"], outcomes)[1][-1]
    assert both == pytest.approx(cumulative_incidence(old["months"], outcomes > 0)[1][-1])
    ends = (COMPETING, Endpoint("other", "months", "vital", ("Other",), ("Dead",)))
    found = measured(old, new, ends, kinds=kinds)
    assert found["survival_curves"].high < 1
    # more of the other cause leaves the hazard of the first as it was, and the share that dies of it smaller
    more = causes(4_000, 3, other=0.06)
    assert measured(old, more, [COMPETING], kinds=kinds)["survival_curves"].low > 1
    censored = Endpoint("", "months", "vital", ("Dead",))
    assert measured(old, more, [censored], kinds=kinds)["survival_curves"].high < 1


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
    assert dict(found.parts) == pytest.approx(expected) and found.value == pytest.approx(max(expected.values()))


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
    assert {"all records", "all records (of any)"} <= dict(found.parts).keys()
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
