import itertools
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from anonpipe.columns import Column
from anonpipe.encoding.tracers import Tracer, comparable_sketches
from anonpipe.rng import number_keys
from anonpipe.storage.records import from_bytes, to_bytes
from anonpipe.storage.sketch import Sketch, chance_of, merge_sketches

KEY = b"k" * 16
COLUMNS = {
    "person": Column(role="identifier"),
    "x": Column(kind="continuous"),
    "place": Column(kind="categorical"),
    "note": Column(role="dropped"),
}


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    people = [f"p{seed}-{at}" for at in range(rows)]
    return pa.table(
        {"person": people, "x": rng.normal(size=rows), "place": rng.choice(["n", "s"], rows)}
    ).append_column("note", [people])


def traced(whole, step=10_000):
    tracer = Tracer.of(whole.schema, COLUMNS, KEY)
    for batch in whole.to_batches(max_chunksize=step):
        tracer.add(batch)
    return tracer


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 300), max_size=400), st.integers(1, 40), st.integers(0, 400))
def test_a_sketch_is_that_of_a_plain_count_however_it_is_cut(values, most, border):
    numbers = number_keys(KEY, np.array(values, dtype=np.int64))
    counted, level = Counter(numbers.tolist()), 0
    while sum(number >> (64 - level) == 0 for number in counted) > most:
        level += 1
    kept = {number: n for number, n in sorted(counted.items()) if number >> (64 - level) == 0}
    one, other = Sketch.empty(most).add(numbers[:border]), Sketch.empty(most).add(numbers[border:])
    for found in (Sketch.empty(most).add(numbers), one.merge(other), other.merge(one)):
        assert (found.level, dict(zip(found.numbers.tolist(), found.counts.tolist(), strict=True))) == (level, kept)


def test_sketches_of_parts_merge_and_are_kept_in_files():
    whole = table(900)
    together = traced(whole)
    merged = merge_sketches(
        from_bytes(to_bytes(traced(part, 77).sketches), [Sketch]) for part in (whole.slice(0, 100), whole.slice(100))
    )
    assert merged.keys() == together.sketches.keys()
    kinds = Counter(json.loads(subject)[0].partition(" +")[0] for subject in comparable_sketches(merged))
    # `person` and `note` number rows: no excerpt has `note`, and each of the others comes with three shifts
    assert kinds == {
        "record": 1,
        "with dropped": 1,
        "without one": 2,
        "excerpt of 2": 1,
        "identifier": 4,
        "numbered": 12,
    }
    for subject, sketch in together.sketches.items():
        other = merged[subject]
        assert (sketch.level, sketch.most) == (other.level, other.most)
        assert np.array_equal(sketch.numbers, other.numbers) and np.array_equal(sketch.counts, other.counts)


def plainly(one, other, share):
    """The chance of what is observed or more, by listing all outcomes.

    That is a sum of squared deviations that is at most the observed one, or,
    of tables of unlike size, as many contents in both.
    """
    totals = [a + b for a, b in zip(one, other, strict=True) if a + b >= 2]
    deviation = lambda a, t: (a - t * share) ** 2 / (t * share * (1 - share))  # noqa: E731
    missed = lambda a, t: float(a in (0, t))  # noqa: E731
    square = deviation if 1 / 3 <= share <= 2 / 3 else missed
    found = sum(square(a, a + b) for a, b in zip(one, other, strict=True) if a + b >= 2)
    chance = 0.0
    for outcome in itertools.product(*(range(t + 1) for t in totals)):
        if sum(square(a, t) for a, t in zip(outcome, totals, strict=True)) <= found + 1e-12:
            chance += np.prod([binom.pmf(a, t, share) for a, t in zip(outcome, totals, strict=True)])
    return chance


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ([1] * 6, [1] * 6, 0.5),
        ([1, 0, 1, 2, 1], [1, 1, 1, 0, 1], 0.5),
        ([2, 3, 1], [2, 2, 1], 0.5),
        ([1] * 3, [1] * 3, 0.2),
        ([1, 0, 2, 1], [1, 2, 1, 4], 0.1),
        ([1, 1, 4], [1, 1, 0], 0.9),
    ],
)
def test_the_chance_bounds_the_exact_one(one, other, share):
    bound, exact = chance_of(np.array(one), np.array(other), share), plainly(one, other, share)
    assert exact <= bound * (1 + 1e-9) and bound <= 1.0


@pytest.mark.parametrize("kinds", [3, 40, 1_000, 10**9])
def test_disjoint_samples_are_no_overlap_but_equal_records_are(kinds):
    rng = np.random.default_rng(kinds)
    weights = rng.dirichlet(np.ones(kinds)) if kinds <= 1_000 else None
    draw = lambda rows: rng.choice(kinds, rows, p=weights) if weights is not None else rng.integers(0, kinds, rows)  # noqa: E731
    lowest = 1.0
    for _ in range(100):
        one, other = draw(800), draw(rng.integers(100, 6_400))
        lowest = min(lowest, chance(one, other))
    assert lowest > 1e-6
    one = draw(800)
    if kinds > 3:  # of three kinds even equal counts are no wonder
        assert chance(one, one[1:]) < 1e-6


@pytest.mark.parametrize("times", [3, 5, 10, 40])
def test_a_table_inside_a_much_larger_one_is_an_overlap(times):
    """A pilot extract, then the register: the sizes must not hide that all of the first are in the second."""
    rng = np.random.default_rng(times)
    whole = rng.integers(0, 10**9, 400 * times)
    assert chance(whole[:400], whole) < 1e-6 and chance(whole, whole[:400]) < 1e-6


def chance(one, other):
    every = np.unique(np.concatenate([one, other]))
    found = [Counter(rows.tolist()) for rows in (one, other)]
    counts = [np.array([each[value] for value in every.tolist()]) for each in found]
    return chance_of(*counts, len(one) / (len(one) + len(other)))
