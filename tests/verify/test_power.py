"""Gates on what a method promises: honest draws pass, and a mean that is shifted is caught."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.gate_power import SHIFTED, cases, measured, normal, scores

CASES = cases(scores(normal(np.random.default_rng(1), 90)), 3)


@pytest.mark.parametrize("case", CASES, ids=lambda each: f"{each.method} {each.form}".strip())
def test_honest_draws_are_within_the_limits(case):
    rng = np.random.default_rng(2)
    assert all(0 <= measured(case.target, case.draw(rng))[0] < 1 for _ in range(5))


@pytest.mark.parametrize("case", [each for each in CASES if each.form == "centred"], ids=lambda each: each.method)
def test_a_shifted_mean_is_caught_where_means_are_exact(case):
    assert measured(case.target, case.draw(np.random.default_rng(2), SHIFTED))[0] > 1
