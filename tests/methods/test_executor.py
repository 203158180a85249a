"""Steps run in passes: the same numbers however they are joined, split and counted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import AnonpipeError
from anonpipe.methods.executor import Columns, Reduce, Rows, execute, passes, stream_of
from anonpipe.rng import generator
from tests.in_memory import run_steps

KEY = b"k" * 16


@dataclass(frozen=True)
class Sum:
    """Sums by stratum, as pairs."""

    found: tuple[tuple[int, float], ...]

    def merge(self, other):
        both = dict(self.found)
        for stratum, value in other.found:
            both[stratum] = both.get(stratum, 0.0) + value
        return Sum(tuple(sorted(both.items())))


def noisy(part, *, params, rng):
    return part + rng.normal(size=part.shape)


def doubled(part, *, params, rng):
    return np.concatenate([part, part], axis=1)


def drawn(part, *, params, draws, stratum):
    return Sum(((stratum, float(draws("later").normal(size=len(part)).sum())),))


def kept(found, *, params, rng):
    return dict(found.found)


def less_mean(part, *, params, rng, stratum):
    return part + params[stratum] + 0.0 * rng.normal()


STEPS = (
    Rows("noise", noisy),
    Rows("double", doubled, channels=lambda given, params: 2 * given),
    Reduce("draws", drawn, kept),
    Rows("add", less_mean, stream="later"),
    Columns("turn", lambda column, *, place, params, rng: column[::-1] * (place + 1)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 10**6))
def test_passes_are_the_steps_one_after_the_other(parts, seed):
    """A literal twin: every step by itself, with the generator of its stream and part."""
    features = np.random.default_rng(seed).normal(size=(sum(parts), 2))
    strata = [at % 2 for at in range(len(parts))]
    edges = np.concatenate([[0], np.cumsum(parts)])
    rows = [slice(low, high) for low, high in pairwise(edges)]
    wanted = features.copy()
    for at, inside in enumerate(rows):
        wanted[inside] += generator(KEY, "mask 0 noise", at).normal(size=wanted[inside].shape)
    wanted = np.concatenate([wanted, wanted], axis=1)
    sums = {}
    for at, inside in enumerate(rows):
        draws = generator(KEY, "later", at).normal(size=len(wanted[inside])).sum()
        sums[strata[at]] = sums.get(strata[at], 0.0) + draws
    for at, inside in enumerate(rows):
        wanted[inside] += sums[strata[at]]
    wanted = wanted[::-1] * np.arange(1, 5)
    found = run_steps(features, STEPS, key=KEY, parts=parts, strata=strata)
    assert np.allclose(found, wanted, rtol=1e-12)


def test_what_is_counted_beforehand_is_what_is_drawn_later():
    later = []

    def make(part, *, params, rng):
        later.append(float(rng.normal(size=len(part)).sum()))
        return part

    steps = (STEPS[2], Rows("make", make, stream="later"), Rows("see", lambda part, *, params, rng: part + params[0]))
    features = np.zeros((7, 1))
    seen = run_steps(features, steps, key=KEY, parts=[3, 4])
    assert seen[0, 0] == pytest.approx(sum(later))


def test_a_pass_counts_its_channels_step_by_step():
    one = passes(STEPS)[0]
    assert one.of_rows and one.channels(3, None) == 6
    assert [stream_of(at, step) for at, step in enumerate(STEPS)][:4] == [
        "mask 0 noise",
        "mask 1 double",
        "mask 2 draws",
        "later",
    ]


def test_a_step_that_learns_is_asked_again_until_it_has_enough():
    turns = []

    class Table:
        def learn(self, one, turn):
            turns.append(turn)
            return turn < 3

    execute(passes((STEPS[2],)), Table())
    assert turns == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda part, *, params, rng: part[1:], "returned shape"),
        (lambda part, *, params, rng: part[:, :1], "returned shape"),
        (lambda part, *, params, rng: part * np.nan, "not finite"),
    ],
)
def test_a_step_inside_a_pass_that_loses_something_is_named(function, text):
    steps = (Rows("noise", noisy), Rows("careless", function), Rows("noise", noisy))
    with pytest.raises(AnonpipeError, match=f"the step careless .*{text}"):
        run_steps(np.ones((4, 2)), steps, key=KEY, parts=[4])
