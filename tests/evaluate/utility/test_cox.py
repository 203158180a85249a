"""Cox's model: published fits, the textbook, another library, and likelihoods without a maximum."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from statsmodels.duration.hazard_regression import PHReg

from anonpipe.evaluate.utility import Analysis, fit_models
from anonpipe.evaluate.utility._models import fit_cox
from tests.analyses import compare_models
from tests.naive import models as naive


def survival(seed, n, ratio, prevalence=0.05, whole=True):
    """A rare factor with a hazard ratio, and an age; times in whole months or not; some are censored."""
    rng = np.random.default_rng(seed)
    rare, age = (rng.random(n) < prevalence) * 1.0, rng.normal(size=n)
    died = rng.exponential(1 / (0.01 * np.exp(np.log(ratio) * rare + 0.2 * age)))
    left = rng.uniform(0, 200, n)
    times = np.minimum(died, left)
    return np.ceil(times) if whole else times, died <= left, np.column_stack([rare, age])


def column(*values):
    return np.array(values, dtype=np.float64)[:, None]


def censored(*values):
    """Times; a negative one is censored."""
    times = np.array(values, dtype=np.float64)
    return np.abs(times), times > 0


AML = censored(9, 13, -13, 18, 23, -28, 31, 34, -45, 48, -161, 5, 5, 8, 8, 12, -16, 23, 27, 30, 33, 43, 45)
OVARIAN = censored(
    59, 115, 156, -421, 431, -448, 464, 475, -477, 563, 638, -744, -769, -770, -803, -855, -1040, -1106, -1129, -1206,
    -1227, 268, 329, 353, 365, -377,
)  # fmt: skip
AGE = column(
    72.3315, 74.4932, 66.4658, 53.3644, 50.3397, 56.4301, 56.9370, 59.8548, 64.1753, 55.1781, 56.7562, 50.1096,
    59.6301, 57.0521, 39.2712, 43.1233, 38.8932, 44.6000, 53.9068, 44.2055, 59.5890, 74.5041, 43.1370, 63.2192,
    64.4247, 58.3096,
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "predictor", "value", "error"),
    [
        pytest.param(AML, np.r_[np.zeros((11, 1)), np.ones((12, 1))], 0.9155, 0.5119, id="aml: maintained or not"),
        pytest.param(OVARIAN, AGE, 0.16162, 0.04974, id="ovarian: age"),
    ],
)
def test_as_coxph_of_r_survival(data, predictor, value, error):
    """As its manual's examples print them; `aml` has tied times."""
    found = fit_cox(*data, predictor - predictor.mean())
    assert found.converged and found.monotone is None
    assert found.values[0] == pytest.approx(value, abs=6e-5)
    assert np.sqrt(found.covariance[0, 0]) == pytest.approx(error, abs=6e-5)


def test_the_closed_form_of_efrons_ties():
    """Therneau and Grambsch (2000), Modeling Survival Data, appendix E.1."""
    times, events = censored(1, -1, 6, 6, -8, 9)
    angle = np.arccos(45 / 23 * np.sqrt(3 / 23))
    ratio = 2 * np.sqrt(23 / 3) * np.cos(angle / 3)
    found = fit_cox(times, events, column(1, 1, 1, 0, 0, 0))
    assert found.values[0] == pytest.approx(np.log(ratio), rel=1e-9)
    likelihood = 2 * np.log(ratio) - np.log(3 * ratio + 3) - np.log((ratio + 5) / 2) - np.log(ratio + 3)
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_as_the_textbook_and_as_statsmodels(seed):
    times, events, columns = survival(seed, 60, 3.0, prevalence=0.4)
    times = np.ceil(times / 12)
    found = fit_cox(times, events, columns)
    wanted, errors = naive.cox(columns.tolist(), times.tolist(), events.tolist())
    np.testing.assert_allclose(found.values, wanted, rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), errors, rtol=1e-7)
    other = PHReg(times, columns, status=events, ties="efron").fit()
    np.testing.assert_allclose(found.covariance, other.cov_params(), rtol=1e-6)
    assert found.log_likelihood == pytest.approx(other.llf, rel=1e-10)


@pytest.mark.parametrize("ratio", [10.0, 50.0, 500.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_rare_factor_with_a_large_hazard_has_a_fit(ratio, seed):
    times, events, columns = survival(seed, 2_000, ratio)
    found = fit_cox(times, events, columns / columns.std(axis=0))
    assert found.converged and found.steps <= 10
    value, error = found.values[0] / columns[:, 0].std(), np.sqrt(found.covariance[0, 0]) / columns[:, 0].std()
    assert abs(value - np.log(ratio)) < 4 * error + 0.1 * np.log(ratio)  # months are cut to whole ones


def registry(hazards, n=2_000):
    """Months by stage, followed for twenty years."""
    rng = np.random.default_rng(5)
    stage = rng.choice(list(hazards), n, p=[0.6, 0.3, 0.1])
    months = np.ceil(rng.exponential(1 / pd.Series(stage).map(hazards).to_numpy())).clip(max=240)
    status = np.where(months < 240, "Dead", "Alive")
    return pd.DataFrame({"months": months, "status": status, "stage": stage, "age": rng.normal(60, 9, n).round()})


def test_a_registry_by_stage_has_a_fit():
    frame = registry({"I": 0.002, "II": 0.02, "III": 0.4})
    analysis = Analysis("by stage", "cox", "months ~ age + stage", event="status == 'Dead'")
    (found,) = compare_models(frame, frame, [analysis])
    assert found.original.problem is None and found.shares.lost == 0
    assert found.original.estimates["stage[T.III]"].value == pytest.approx(np.log(200), abs=0.6)


def has_no_maximum(times, events, columns):
    """Bryson and Johnson (1981), by linear programming: a direction in which every event is first of those at risk."""
    differences = np.array(
        [columns[i] - columns[j] for i in np.flatnonzero(events) for j in np.flatnonzero(times >= times[i]) if i != j]
    ).reshape(-1, columns.shape[1])
    solved = linprog(
        -differences.sum(axis=0), A_ub=-differences, b_ub=np.zeros(len(differences)), bounds=(-1, 1), method="highs"
    )
    return -solved.fun > 1e-7


def test_only_a_likelihood_without_a_maximum_is_called_monotone():
    told = {True: 0, False: 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, width = int(rng.integers(5, 11)), int(rng.integers(1, 4))
        columns = (rng.random((n, width)) < 0.4) * 1.0 if seed % 2 else rng.normal(size=(n, width))
        columns = columns - columns.mean(axis=0)
        if np.linalg.matrix_rank(columns) < width:
            continue
        times, events = rng.integers(1, 6, n) * 1.0, rng.random(n) < 0.7
        events[0] = True
        found, wanted = fit_cox(times, events, columns), has_no_maximum(times, events, columns)
        assert (found.monotone is not None) == wanted and found.converged == (not wanted), seed
        told[wanted] += 1
    assert min(told.values()) > 20


def test_only_predictor_that_separates_the_outcomes_is_named():
    frame = registry({"I": 0.002, "II": 0.02, "III": 0.4})
    frame.loc[frame["stage"] == "II", "status"] = "Alive"
    (model,) = fit_models(frame, [Analysis("a", "cox", "months ~ age + stage", event="status == 'Dead'")])
    assert model.fit.problem.startswith("the fit did not converge: stage may separate the outcomes")
