"""What a release is expected to hold: its view, and kept groups."""

from __future__ import annotations

import numpy as np

from anonpipe.columns import Column, Role
from anonpipe.methods.masking import RecordsAndDraws
from anonpipe.verify.catalogue import Outcome
from anonpipe.verify.expectations import KeptGroups, build_view

COLUMNS = {
    "age": Column(kind="integer"),
    "stage": Column(kind="ordinal"),
    "sex": Column(kind="binary"),
    "site": Column(kind="categorical"),
    "status": Column(kind="categorical", role="key"),
    "code": Column(kind="categorical", role="key"),
}
COUNTS = {
    "stage": np.array([1, 2, 1]),
    "sex": np.array([1, 3]),
    "site": np.array([1, 1, 2]),
    "status": np.array([2, 2]),
    "code": np.full(60, 1),
}
VIEW = build_view(COLUMNS, {"age": 50.0, "stage": 1.0}, {"age": 10.0, "stage": 0.5}, COUNTS)


def test_a_column_with_a_limit_is_judged_and_not_its_share():
    columns = {name: Column(kind="integer") for name in ("share", "entry", "total")}
    columns |= {name: columns[name].model_copy(update={"role": Role.DERIVED}) for name in ("entry", "total")}
    own = dict.fromkeys(columns, 1.0)
    view = build_view(columns, own, own, {}, limited={"entry": "share"})
    assert [each.column for each in view.variables] == ["entry", "total"]
    assert view.synthesized.tolist() == [True, False] and view.derived.tolist() == [False, True]


def test_variables_are_columns_and_positions_never_values():
    found = [(variable.column, variable.category) for variable in VIEW.variables]
    stages = [("stage", at) for at in (None, 0, 1, 2)]
    assert found == [("age", None), *stages, ("sex", 1), ("site", 0), ("site", 1), ("site", 2), ("status", 1)]
    assert VIEW.synthesized.tolist() == [True] * 9 + [False]


def test_measured_values_by_hand():
    cells = np.array([[60.0, 2, 1, 0, 1, 7], [np.nan, np.nan, 0, 2, 0, 7]])
    measured = VIEW.measure(cells)
    share, spread = 0.75, np.sqrt(0.75 * 0.25)
    assert measured[0, [0, 1, 5]].tolist() == [1.0, 2.0, (1 - share) / spread]
    assert np.isnan(measured[1, :2]).all() and measured[1, 5] == -share / spread
    assert measured[1, 8] == (1 - 0.5) / 0.5 and measured[0, 8] == -1.0


def test_the_measured_original_has_mean_zero_and_deviation_one():
    sex = np.repeat([0.0, 1.0], [1, 3])
    cells = np.zeros((4, 6))
    cells[:, 2] = sex
    measured = VIEW.measure(cells)[:, 5]
    assert abs(measured.mean()) < 1e-15 and abs(measured.std() - 1) < 1e-15


def test_constant_columns_do_not_divide_by_zero():
    view = build_view({"a": Column(kind="integer")}, {"a": 3.0}, {"a": 0.0}, {})
    assert view.measure(np.array([[3.0], [4.0]])).tolist() == [[0.0], [1.0]]


def stratum(rng, spoilt=False):
    """Two groups of ten records in two partitions, kept as they were."""
    parts = []
    for _ in range(2):
        records, labels = rng.normal(size=(10, 2)), np.repeat([0, 1], 5)
        draws = records.copy()
        if spoilt:
            draws[0, 0] = np.nan
        parts.append(RecordsAndDraws.of(records, draws, labels))
    return parts


def test_a_missing_number_fails_in_whichever_stratum():
    rng = np.random.default_rng(0)
    good = KeptGroups.of([stratum(rng), stratum(rng)])
    assert good.sizes == (10,) * 4
    assert all(check.outcome is Outcome.PASSED for check in good.checks(10, 3))
    for at in range(2):
        found = KeptGroups.of([stratum(rng, spoilt=at == place) for place in range(2)])
        outcomes = [check.outcome for check in found.checks(10, 3)]
        assert outcomes == [Outcome.PASSED, Outcome.FAILED, Outcome.FAILED]


def test_differences_are_in_standard_deviations_of_the_group():
    """Draws of the first group lie higher by 0.7; another unit of the columns changes nothing."""
    rng = np.random.default_rng(1)
    records, labels = rng.normal(size=(10, 2)), np.repeat([0, 1], 5)
    draws = records + 0.7 * (labels == 0)[:, None]
    expected = 0.7 / records[:5].std(axis=0).min()
    for unit in (1.0, 1000.0):
        found = KeptGroups.of([[RecordsAndDraws.of(unit * records, unit * draws, labels)]])
        assert np.isclose(found.mean_off, expected) and found.covariance_off < 1e-9
