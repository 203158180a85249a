"""What a release tells of the stratum of who is found: the law of the figure, and its words."""

import math

import numpy as np
import pytest

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import exact
from anonpipe.evaluate.risk import StratumGuesses
from anonpipe.evaluate.risk._inference import stratum_inference, stratum_risks


def guesses(members, controls, rows=400, linked=None, seed=0, held=False):
    rng = np.random.default_rng(seed)
    right = rng.random(rows) < members
    return StratumGuesses(right, rng.random(rows) < controls, linked, 0.6, held)


def test_the_figure_is_what_others_do_not_tell_anyway():
    told = {"status": guesses(0.9, 0.6), "region": guesses(0.3, 0.3, seed=1)}
    columns = stratum_risks(told)
    for one, (name, each) in zip(columns, told.items(), strict=True):
        s, c = each.members.mean(), each.controls.mean()
        assert one.name == name and one.risk == pytest.approx((s - c) / (1 - c))
        assert one.low < one.risk < one.high
        # of a share of controls that is known the interval is that of the members alone, and this one is wider
        alone = [1 - (1 - end) / (1 - c) for end in exact(int(each.members.sum()), 400, 0.0125)]
        assert one.low < alone[0] and one.high > alone[1]
    risk, success = stratum_inference(told, 9_000)
    assert risk.value == columns[0].risk and risk.worst == ("status",)
    assert success.value == told["status"].members.mean() and success.baseline == told["status"].controls.mean()
    assert "closest other original record" in success.baseline_is and (risk.records, risk.of) == (400, 9_000)


def test_who_is_found_is_known():
    linked = np.arange(400) < 100
    one = guesses(0.5, 0.5, linked=linked)
    one.members[:100] = True
    note = stratum_inference({"status": one}, 400)[1].note
    assert note.startswith("Who is found is known: of 25.0 % of the persons") and "100.0 % of these have" in note
    nobody = stratum_inference({"status": guesses(0.5, 0.5, linked=np.zeros(400, bool))}, 400)
    assert "Who is found" not in nobody[1].note
    unlinked = stratum_inference({"status": guesses(0.5, 0.5, held=True)}, 400)
    assert "Who is found" not in unlinked[1].note and unlinked[1].baseline_is == "held-out persons"


def test_a_release_that_tells_no_more_seldom_shows_a_risk():
    """The interval of the worst of two columns lies above 0 in no more than 2.5 % of such releases, but for chance."""
    above = sum(
        max(
            one.low
            for one in stratum_risks(
                {"a": guesses(0.7, 0.7, 200, seed=2 * at), "b": guesses(0.4, 0.4, 200, seed=2 * at + 1)}
            )
        )
        > 0
        for at in range(400)
    )
    assert above <= 20


def test_control_that_is_always_right_leaves_nothing_to_give():
    found = stratum_inference({"status": guesses(1.0, 1.1)}, 400)[0]
    assert math.isnan(found.value) and found.note.startswith("Not defined")
    with pytest.raises(JobError, match="no column makes strata"):
        stratum_inference({}, 9)
