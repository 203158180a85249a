import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError, JobError
from anonpipe.risk import conditional_privacy
from tests.naive import finding as naive

NORMAL = math.sqrt(2 * math.pi * math.e)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(8, 40), st.sampled_from(["normal", "few", "constant"]))
def test_as_the_twin(seed, neighbours, rows, kind):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=rows)
    b = {"normal": a + rng.normal(size=rows), "few": np.round(a), "constant": np.zeros(rows)}[kind]
    found = conditional_privacy(a[:, None], b[:, None], neighbours=neighbours)
    scaled = [((column - a.mean()) / a.std()).tolist() for column in (a, b)]
    assert found.values[0] == pytest.approx(math.exp(naive.conditional_entropy(*scaled, neighbours)), rel=1e-9)


@pytest.mark.parametrize("related", [0.0, 0.5, 0.9, 0.99])
def test_normal_pairs_have_the_known_value(related):
    """h(A|B) of a normal pair is that of a normal variable of variance 1 - r²."""
    rng = np.random.default_rng(0)
    a, other = rng.normal(size=(2, 10_000))
    b = related * a + math.sqrt(1 - related**2) * other
    found = conditional_privacy(a[:, None], b[:, None])
    expected = NORMAL * math.sqrt(1 - related**2)
    assert found.mean == pytest.approx(expected, rel=0.05)
    assert found.linear[0] == pytest.approx(expected, rel=0.05)
    assert found.mean_alone == pytest.approx(NORMAL, rel=0.03)
    assert found.low < found.mean < found.high and found.high - found.low < 0.1 * expected


def test_a_uniform_column_and_noise_that_is_uniform():
    """Of width w = √12 standard deviations; seen through uniform noise of half that, about half is left."""
    rng = np.random.default_rng(1)
    a = rng.random((10_000, 1))
    apart = conditional_privacy(a, rng.random((10_000, 1)))
    assert apart.mean == pytest.approx(math.sqrt(12), rel=0.04)
    # A on [0, 1], B = A + U on [0, 1/2]: A|B is uniform, of 1/2 wide save near the ends: h = -log 2 - 2 · ∫ ...
    b = a + 0.5 * rng.random((10_000, 1))
    # Of width w(b) = min(b, 1/2, 3/2 - b) and density 2 w(b): E log w = log(1/2) · 1/2 + 2 ∫_0^½ 2 w log w dw.
    expected = math.exp(0.5 * math.log(0.5) + 4 * (0.125 * math.log(0.5) - 1 / 16))
    assert conditional_privacy(a, b).mean == pytest.approx(expected * math.sqrt(12), rel=0.05)


def test_group_means_leave_what_is_inside_the_groups():
    """Two values of B: inside each, A is uniform on half of its range."""
    rng = np.random.default_rng(2)
    a = rng.random((4_000, 1))
    found = conditional_privacy(a, np.where(a < 0.5, 0.25, 0.75))
    assert found.mean == pytest.approx(0.5 * math.sqrt(12), rel=0.05)


def test_more_noise_leaves_more_and_a_copy_nothing():
    rng = np.random.default_rng(3)
    a, noise = rng.normal(size=(2, 3_000, 2))
    values = [conditional_privacy(a, a + size * noise).mean for size in (0.0, 0.01, 0.1, 1.0, 10.0)]
    assert values == sorted(values) and values[0] < 0.01 and values[-1] == pytest.approx(NORMAL, rel=0.05)


def test_neither_scale_nor_origin_of_a_column_matters():
    rng = np.random.default_rng(4)
    a = rng.normal(size=(500, 1))
    b = a + rng.normal(size=(500, 1))
    assert conditional_privacy(1e6 + 1e3 * a, 1e6 + 1e3 * b).mean == pytest.approx(conditional_privacy(a, b).mean)


def test_columns_without_a_density_are_left_out_and_said():
    rng = np.random.default_rng(5)
    a = np.column_stack([rng.normal(size=400), rng.integers(0, 3, 400), np.full(400, 2.0)])
    found = conditional_privacy(a, a + rng.normal(size=a.shape), ["age", "stage", "site"], records=1_000)
    assert np.isfinite(found.values).tolist() == [True, False, False]
    (only,) = found.measurements()
    assert only.parts == (("age", found.values[0]),) and only.value == found.values[0] == found.mean
    assert only.sampled and only.baseline == found.alone[0] and "2 of 3 columns have repeated values" in only.note
    (nothing,) = conditional_privacy(a[:, 1:], a[:, 1:]).measurements()
    assert math.isnan(nothing.value) and nothing.low is None and nothing.baseline is None


def test_refusals():
    table = np.arange(10.0)[:, None]
    for arguments, options, error, words in (
        ((table, table[:5]), {}, InputError, "shapes"),
        ((table[:6], table[:6]), {}, InputError, "6 records are too few for 5"),
        ((table, table), {"neighbours": 0}, JobError, "neighbours is 0"),
        ((table, table, ["a", "b"]), {}, JobError, "2 names"),
        ((table, table), {"records": 9}, JobError, "of 9"),
    ):
        with pytest.raises(error, match=words):
            conditional_privacy(*arguments, **options)
