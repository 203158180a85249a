import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.evaluate.utility import _moments
from anonpipe.evaluate.utility._moments import centred, moment_changes
from tests.evaluate.utility.tables import pairs
from tests.naive import measure as naive


@settings(deadline=None, max_examples=40)
@given(pairs(), st.integers(1, 5), st.booleans())
def test_as_the_twin(tables, order, central):
    if central and order == 1:
        return
    found = moment_changes(*(map(centred, tables) if central else tables), order, least=0.0)
    changes = naive.moment_changes(*(t.tolist() for t in tables), order, central)
    assert found.terms == len(changes) == math.comb(tables[0].shape[1] + order - 1, order)
    assert found.mean == pytest.approx(sum(changes) / len(changes), rel=1e-6)
    assert found.median == pytest.approx(np.median(changes), rel=1e-6)


def test_hand_made():
    old, new = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[2.0, 2.0], [3.0, 0.0]])
    # E x³ 14 to 17.5, E x²y 1 to 4, E xy² 2 to 4, E y³ stays.
    assert moment_changes(old, new, 3).mean == pytest.approx((25 + 300 + 100 + 0) / 4)


def test_the_table_of_the_paper_has_35_and_70_moments():
    rng = np.random.default_rng(0)
    old = 4 + rng.normal(size=(100, 5))
    assert [moment_changes(old, old[::-1], order).terms for order in (3, 4)] == [35, 70]
    assert moment_changes(old, old[::-1], 4).mean == pytest.approx(0, abs=1e-9)


def test_wide_long_and_huge(monkeypatch):
    rng = np.random.default_rng(1)
    old, new = (3 + rng.normal(size=(60, 20)) for _ in range(2))
    whole = moment_changes(old, new, 4)
    monkeypatch.setattr(_moments, "_NUMBERS", 1_500)
    assert moment_changes(old, new, 4).mean == pytest.approx(whole.mean)
    assert moment_changes(old * 1e200, new * 1e200, 3).mean == pytest.approx(moment_changes(old, new, 3).mean)
    assert moment_changes(old * 1e-200, new * 1e-200, 3).mean == pytest.approx(moment_changes(old, new, 3).mean)


def test_moments_near_zero_are_left_out():
    old = np.array([[-1.0, 0.0, 2.0], [1.0, 0.0, 2.0]])
    found = moment_changes(old, old + 0.5, 3)
    # Of ten, those with an odd power of the first column or any of the second are 0.
    assert (found.terms, found.left_out) == (2, 8)
    assert moment_changes(centred(old), centred(old), 2).terms == 1
    constant = moment_changes(*2 * [centred(np.full((7, 1), 0.1))], 2)
    assert constant.left_out == 1 and math.isnan(constant.mean)
