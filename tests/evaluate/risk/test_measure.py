"""Records of measures of risk, and what they refuse."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.measurement import Reason
from anonpipe.evaluate.risk import (
    MEASURES,
    ClassShares,
    Coding,
    InferenceTask,
    Nearest,
    NearestMatches,
    RiskMeasure,
    guess_nearest,
)
from anonpipe.methods.grouping import class_disclosure

BY_KEY = {measure.key: measure for measure in MEASURES}


def found(seed=0, groups=None):
    rng = np.random.default_rng(seed)
    squared = np.sort(rng.random((60, 5)), axis=1)
    return NearestMatches(Nearest(squared, rng.integers(0, 60, (60, 5)), rng.random((60, 5, 2))), groups)


def test_every_key_and_figure_is_named_once():
    figures = [name for measure in MEASURES for name in measure.keys]
    assert len(BY_KEY) == len(MEASURES) and len(set(figures)) == len(figures)
    assert len({measure.title for measure in MEASURES}) == len(MEASURES)


def test_what_is_missing_is_told_as_a_reason():
    nothing = SimpleNamespace(
        own_row=None, own_group=None, unlinked=Reason.NO_LINK, pairs=Reason.NO_PAIRS, groups=Reason.NO_GROUPS,
        classes=Reason.NO_CLASS, held=Reason.NO_HOLD_OUT, guessed=Reason.FEW_HELD, grouped=False, features=("x", "y"),
        smallest_group=Reason.AVERAGED_UNDEFINED, strata=Reason.NO_STRATA,
        moments=Reason.ONLY_A_RUN,
        scenarios=Reason.NO_SCENARIO, assigned=Reason.SPANNING, singled=Reason.NO_HOLD_OUT, halves=Reason.FEW_HELD,
    )  # fmt: skip
    told = {key: measure.of(nothing) for key, measure in BY_KEY.items() if key not in ("lasko", "closest_record")}
    assert told == {
        "linkage": Reason.NO_LINK,
        "rank_linkage": Reason.NO_LINK,
        "mahalanobis_linkage": Reason.NO_LINK,
        "assignment": Reason.SPANNING,
        "tails": Reason.NO_LINK,
        "scenarios": Reason.NO_SCENARIO,
        "conditional_privacy": Reason.NO_PAIRS,
        "known_attribute": Reason.NO_GROUPS,
        "collusion": Reason.NO_GROUPS,
        "probabilistic": Reason.AVERAGED_UNDEFINED,
        "sensitive": Reason.NO_CLASS,
        "membership": Reason.NO_HOLD_OUT,
        "moments": Reason.ONLY_A_RUN,
        "singling_out": Reason.NO_HOLD_OUT,
        "linkability": Reason.FEW_HELD,
        "attribute_inference": Reason.FEW_HELD,
        "strata": Reason.NO_STRATA,
    }


def test_measures_need_no_run():
    known = SimpleNamespace(
        rows=60, released=found(1), original=found(2), held=found(3), guessed=Reason.FEW_HELD, mean_distances=None
    )
    assert [one.name for one in BY_KEY["closest_record"].of(known)] == list(BY_KEY["closest_record"].keys)
    trained = {"membership.trained_auc", "membership.traced_auc", "membership.counted_auc"}  # need guesses besides
    assert {one.name for one in BY_KEY["membership"].of(known)} | trained == set(BY_KEY["membership"].keys)
    members, controls = (np.random.default_rng(at).random((40, 3)) for at in (4, 5))
    told = guess_nearest(members, np.concatenate([members, controls]), Coding.of(members, controls))
    known.guessed = InferenceTask(members, members, controls, told, ["a", "b", "c"], [0, 1, 2], [])
    assert trained <= {one.name for one in BY_KEY["membership"].of(known)}
    told = class_disclosure(np.arange(20) // 5, np.arange(20) % 2, np.array([0.5, 0.5]))
    known = SimpleNamespace(classes={"a.b": ClassShares(told, np.array([0.5, 0.5]), None)})
    assert "sensitive.a.b.homogeneity" in [one.name for one in BY_KEY["sensitive"].of(known)]


def test_measure_giving_other_figures_than_said_is_refused():
    measure = RiskMeasure("closest", "closest", BY_KEY["closest_record"].figures[:1], BY_KEY["closest_record"].function)
    with pytest.raises(AnonpipeError, match="closest gave other figures"):
        measure.of(SimpleNamespace(rows=60, released=found(1), original=found(2)))
