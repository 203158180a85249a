import math

import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility._moments import ChangeSummary
from tests.benchmarks._correlations import abico, abim, abisd
from tests.evaluate.utility.tables import pairs
from tests.naive import measure as naive


@settings(deadline=None, max_examples=40)
@given(pairs(widths=(2, 3, 5)))
def test_as_the_twins(tables):
    for function, twin in ((abim, naive.abim), (abisd, naive.abisd), (abico, naive.abico)):
        options = {} if function is abisd else {"least": 0.0}
        assert function(*tables, **options).mean == pytest.approx(twin(*tables), rel=1e-7)


def test_hand_made():
    old = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 16.0]])
    new = np.array([[2.0, 12.0], [3.0, 12.0], [7.0, 12.0]])
    assert abim(old, new).mean == pytest.approx((100 / 3 + 0) / 2)
    # Deviations 2 and √12 become √7 and 0.
    assert abisd(old, new).mean == pytest.approx(100 * ((math.sqrt(7) / 2 - 1) + 1) / 2)
    assert abico(old, new) == ChangeSummary(
        pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True), 0, 0, 1
    )


@settings(deadline=None, max_examples=20)
@given(pairs(widths=(2, 3)))
def test_reordered_copy_and_scales_change_nothing(tables):
    old, new = tables
    before = old.copy()
    for function in (abim, abisd, abico):
        assert function(old, old[::-1]).mean == pytest.approx(0, abs=1e-8)
        assert function(old * 7, new * 7).mean == pytest.approx(function(old, new).mean)
    assert (old == before).all()


def test_terms_near_zero_are_left_out_and_counted():
    rng = np.random.default_rng(0)
    old = rng.normal(size=(400, 3))
    old -= old.mean(axis=0)
    old[:, 2] += 5
    new = old + 0.1
    found = abim(old, new)
    assert (found.terms, found.left_out, found.lost) == (1, 2, 0)
    assert found.mean == pytest.approx(2.0)
    # Orthogonal columns: what is left of a correlation is rounding.
    old = np.linalg.qr(np.c_[np.ones(400), old])[0][:, 1:]
    old = np.c_[old, old[:, 0] + old[:, 1]]
    found = abico(old, old)
    assert (found.terms, found.left_out) == (2, 4)
    assert abico(old, old, least=0.9).terms == 0


def test_constant_columns():
    old, new = np.array([[5.0, 1.0], [5.0, 2.0]]), np.array([[6.0, 1.0], [7.0, 2.0]])
    assert abim(old, new).mean == pytest.approx(15)
    assert abisd(old, new) == ChangeSummary(0.0, 0.0, 1, 1, 0)
    assert abico(old, new).left_out == 1
    assert abico(new, old).lost == 1
    assert math.isnan(abico(np.ones((3, 1)), np.ones((3, 1))).mean)
    # 0.1 has no exact mean; the column is constant all the same.
    assert abisd(np.full((7, 1), 0.1), np.full((7, 1), 0.3)).left_out == 1


def test_what_is_refused():
    table = np.ones((3, 2))
    for bad, message in (
        (np.ones(3), "shape"),
        (np.ones((1, 2)), "1 released records"),
        (np.full((3, 2), np.nan), "3 of 3 released"),
        (np.ones((3, 1)), "2 columns and the release 1"),
    ):
        with pytest.raises(InputError, match=message):
            abisd(table, bad)
    with pytest.raises(JobError, match="least=-1"):
        abico(table, table, least=-1)
