"""Models of counts, categories and groups, and Cox models by strata and with late entry, against plain likelihoods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp
from scipy.stats import norm, t

from anonpipe.errors import JobError
from anonpipe.evaluate.utility import Analysis, fit_models


def table(rows=400, seed=1):
    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=rows), rng.integers(0, 25, rows)
    years, sex = rng.uniform(0.5, 3, rows), rng.choice(["f", "m"], rows)
    score = 0.6 * x + (sex == "m")
    rate = years * np.exp(0.3 + 0.4 * score)
    entry = rng.uniform(0, 1, rows)
    frame = pd.DataFrame({"x": x, "sex": sex, "years": years, "entry": entry, "group": [f"g{g:02d}" for g in group]})
    return frame.assign(
        visits=rng.poisson(rate),
        stays=rng.negative_binomial(2, 2 / (2 + rate)),
        grade=pd.Categorical(
            np.array(["low", "mid", "high"])[np.digitize(score + rng.logistic(size=rows), [0, 1.5])],
            ["low", "mid", "high"],
            ordered=True,
        ),
        pain=score + rng.normal(size=25)[group] + rng.normal(size=rows),
        time=entry + np.round(rng.exponential(np.exp(-score)), 1) + 0.05,
        dead=rng.random(rows) < 0.7,
    )


def predictors(frame, intercept=True):
    columns = [np.ones(len(frame))] * intercept + [frame["sex"] == "m", frame["x"]]
    return np.column_stack(columns).astype(float)


def largest(likelihood, size, weights):
    """The maximum of a likelihood of records with weights, and standard errors by numerical differences.

    Of equal weights by second ones; of others by what each weight does to the gradient.
    """
    found = minimize(lambda v: -likelihood(v, weights), np.zeros(size) + 0.01, method="BFGS", options={"gtol": 1e-7}).x
    step, unit = 1e-3, np.eye(size)

    def second(i, j):
        a, b = step * unit[i], step * unit[j]
        four = [likelihood(found + p * a + q * b, weights) * p * q for p in (1, -1) for q in (1, -1)]
        return -sum(four) / (4 * step * step)

    bread = np.linalg.inv([[second(i, j) for j in range(size)] for i in range(size)])
    if np.ptp(weights) == 0:
        return found, np.sqrt(np.diag(bread))
    more = weights + 0.1 * np.eye(len(weights))
    ends = np.array(
        [[[likelihood(found + p * step * each, m) * p for each in unit] for m in (*more, weights)] for p in (1, -1)]
    )
    gradients = ends.sum(axis=0) / (2 * step)
    scores = weights[:, None] * (gradients[:-1] - gradients[-1]) / 0.1
    return found, np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * len(more) / (len(more) - 1))


def linear(frame, weights):
    z, y = predictors(frame), frame["pain"].to_numpy()
    return largest(lambda v, w: float(-(w * (y - z @ v) ** 2).sum() / 2), 3, weights)


def logistic(frame, weights):
    z, y = predictors(frame), frame["dead"].to_numpy()
    return largest(lambda v, w: float((w * (y * (z @ v) - np.logaddexp(0, z @ v))).sum()), 3, weights)


def poisson(frame, weights):
    z, y, offset = predictors(frame), frame["visits"].to_numpy(), np.log(frame["years"].to_numpy())
    return largest(lambda v, w: float((w * (y * (z @ v + offset) - np.exp(z @ v + offset))).sum()), 3, weights)


def negative_binomial(frame, weights):
    z, y, offset = predictors(frame), frame["stays"].to_numpy(), np.log(frame["years"].to_numpy())

    def likelihood(v, w):
        size, mean = np.exp(-v[3]), np.exp(z @ v[:3] + offset)
        terms = (
            gammaln(y + size) - gammaln(size) + size * np.log(size / (size + mean)) + y * np.log(mean / (size + mean))
        )
        return float((w * terms).sum())

    found, errors = largest(likelihood, 4, weights)
    return found[:3], errors[:3]


def ordinal(frame, weights):
    z, y = predictors(frame, intercept=False), frame["grade"].cat.codes.to_numpy()

    def likelihood(v, w):
        cuts = np.array([-np.inf, v[2], v[2] + np.exp(v[3]), np.inf])
        up, low = (1 / (1 + np.exp(-(cuts[y + at] - z @ v[:2]))) for at in (1, 0))
        return float((w * np.log(up - low)).sum())

    found, errors = largest(likelihood, 4, weights)
    return found[:2], errors[:2]


def multinomial(frame, weights):
    z, y = predictors(frame), frame["grade"].cat.codes.to_numpy()

    def likelihood(v, w):
        scores = np.column_stack([np.zeros(len(z)), z @ v[:3], z @ v[3:]])
        return float((w * (scores[np.arange(len(z)), y] - logsumexp(scores, axis=1))).sum())

    return largest(likelihood, 6, weights)


def mixed(frame, weights):
    """Restricted likelihood; given the ratio of variances, generalised least squares."""
    z, y, group = predictors(frame), frame["pain"].to_numpy(), frame["group"].to_numpy()
    same = (group[:, None] == group[None]).astype(float)

    def of(logarithm):
        inverse = np.linalg.inv(np.eye(len(y)) + np.exp(logarithm) * same)
        bread = np.linalg.inv(z.T @ inverse @ z)
        values = bread @ z.T @ inverse @ y
        left = y - z @ values
        variance = left @ inverse @ left / (len(y) - 3)
        logs = (np.linalg.slogdet(each)[1] for each in (inverse, bread))
        return -(len(y) - 3) * np.log(variance) + sum(logs), values, np.sqrt(variance * np.diag(bread))

    best = minimize(lambda v: -of(v[0])[0], [0.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x[0]
    return of(best)[1:]


def cox(frame, weights, by="sex", late=True):
    """Efron's likelihood, event time by event time and stratum by stratum; records of a tie have its mean weight."""
    z, time, dead = frame[["x"]].to_numpy(), frame["time"].to_numpy(), frame["dead"].to_numpy()
    entry = frame["entry"].to_numpy() if late else np.zeros(len(frame))
    strata = frame[by].to_numpy() if by else np.zeros(len(frame))
    sets = []
    for stratum in np.unique(strata):
        for at in np.unique(time[dead & (strata == stratum)]):
            here = (strata == stratum) & (time >= at) & (entry < at)
            tied = here & dead & (time == at)
            sets.append((np.flatnonzero(here), np.flatnonzero(tied), np.arange(tied.sum()) / tied.sum()))

    def likelihood(v, w):
        scores, total = z @ v, 0.0
        hazards = w * np.exp(scores)
        for here, tied, gone in sets:
            logs = np.log(hazards[here].sum() - gone * hazards[tied].sum())
            total += w[tied] @ scores[tied] - w[tied].mean() * logs.sum()
        return float(total)

    return largest(likelihood, 1, weights)


CASES = {
    "poisson": (Analysis("a", "poisson", "visits ~ sex + x", exposure="years"), poisson),
    "negative_binomial": (Analysis("a", "negative_binomial", "stays ~ sex + x", exposure="years"), negative_binomial),
    "ordinal": (Analysis("a", "ordinal", "grade ~ sex + x"), ordinal),
    "multinomial": (Analysis("a", "multinomial", "grade ~ sex + x"), multinomial),
    "mixed": (Analysis("a", "mixed", "pain ~ sex + x", groups="group"), mixed),
    "strata": (
        Analysis("a", "cox", "time ~ x", event="dead", strata="sex"), lambda f, w: cox(f, w, late=False),
    ),
    "entry": (Analysis("a", "cox", "time ~ x", event="dead", entry="entry"), lambda f, w: cox(f, w, by=None)),
    "both": (Analysis("a", "cox", "time ~ x", event="dead", strata="sex", entry="entry"), cox),
    "linear": (Analysis("a", "linear", "pain ~ sex + x"), linear),
    "logistic": (Analysis("a", "logistic", "dead ~ sex + x"), logistic),
}  # fmt: skip


def weights_of(frame):
    """Unequal, and of the sexes apart."""
    return np.random.default_rng(4).lognormal(0, 0.8, len(frame)) * np.where(frame["sex"] == "m", 1, 2)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("mixed", "strata", "entry")])
def test_with_weights_as_a_plain_likelihood_has_it(name):
    """Whatever their scale."""
    frame = table(150)
    analysis, slowly = CASES[name]
    (model,) = fit_models(frame.assign(w=50 * weights_of(frame)), [replace(analysis, weights="w")])
    values, errors = slowly(frame, weights_of(frame))
    found = list(model.fit.estimates.values())
    np.testing.assert_allclose([one.value for one in found], values, atol=1e-4)
    np.testing.assert_allclose(
        [np.sqrt(one.variance) for one in found], errors, rtol=0.01 if name == "linear" else 2e-3
    )


# Formula, other columns, estimates, and standard errors of records drawn alone, and of PSUs in strata
OF_R = {
    "linear": (
        ("pain ~ sex + x", {}),
        [-0.086112283, 0.733983920, 0.684637022],
        [0.15587614, 0.22229411, 0.10227914],
        [0.15233125, 0.21270815, 0.10795078],
    ),
    "poisson": (
        ("visits ~ sex + x", {"exposure": "years"}),
        [0.28203880, 0.35647633, 0.33582108],
        [0.055380661, 0.072543376, 0.036727741],
        [0.051952593, 0.060415506, 0.036083989],
    ),
    "ordinal": (
        ("grade ~ sex + x", {}),
        [0.57875415, 0.55972647],
        [0.25532706, 0.16291307],
        [0.23496765, 0.15646983],
    ),
    "cox": (
        ("halves ~ sex + x", {"event": "dead"}),
        [0.77389127, 0.59967708],
        [0.157232706, 0.091021399],
        [0.155188294, 0.087787339],
    ),
}


@pytest.mark.parametrize("model", OF_R)
def test_with_weights_as_the_survey_package_of_r_prints_it(model):
    """4.1-1: svyglm, svyolr and svycoxph of svydesign(~1, weights = ~w) and svydesign(~psu, strata = ~stratum, …).

    Times in halves have many ties.
    """
    frame, rng = table(), np.random.default_rng(4)
    weights = rng.lognormal(0, 0.8, 400) * np.where(frame["sex"] == "m", 1, 2)
    stratum = rng.integers(0, 4, 400)
    psu, halves = stratum * 20 + rng.integers(0, 8, 400), np.ceil(2 * frame["time"]) / 2
    frame = frame.assign(w=weights, stratum=stratum, psu=psu, halves=halves)
    (formula, others), values, *both = OF_R[model]
    for errors, design in zip(both, ({}, {"cluster": "psu", "design_strata": "stratum"}), strict=True):
        (found,) = fit_models(frame, [Analysis("a", model, formula, weights="w", **others, **design)])
        estimates = found.fit.estimates.values()
        law = t(29 - len(estimates)) if design else t(397) if model == "linear" else norm()
        np.testing.assert_allclose([one.value for one in estimates], values, atol=1e-6)
        halved = [(one.high - one.low) / 2 / law.ppf(0.975) for one in estimates]
        np.testing.assert_allclose(halved, errors, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("linear", "logistic")])
def test_as_a_plain_likelihood_has_it(name):
    frame = table(120 if name == "mixed" else 400)
    analysis, slowly = CASES[name]
    (model,) = fit_models(frame, [analysis])
    assert model.fit.problem is None
    values, errors = slowly(frame, np.ones(len(frame)))
    found = list(model.fit.estimates.values())
    np.testing.assert_allclose([one.value for one in found], values, atol=2e-3)
    np.testing.assert_allclose([np.sqrt(one.variance) for one in found], errors, rtol=0.02)
    same = model.compare(frame.sample(frac=1, random_state=0))  # of the same records in another order
    assert same.shares.overlap == pytest.approx(1.0, abs=1e-3)
    assert same.shares.coefficients == len([each for each in model.fit.estimates if not each.endswith("Intercept")])
    (twice,) = fit_models(frame.assign(x=frame["x"] * 1000 + 7), [analysis])
    key = next(each for each in reversed(twice.fit.estimates) if each.endswith("x"))
    assert twice.fit.estimates[key].value * 1000 == pytest.approx(model.fit.estimates[key].value, abs=2e-4)


def test_strata_do_not_share_hazards():
    """Of strata whose times lie apart the plain model is wrong, and nothing of one is at risk in the other."""
    frame = table()
    apart = frame.assign(time=frame["time"] + 100 * (frame["sex"] == "m"))
    one, other = (fit_models(f, [CASES["strata"][0]])[0].fit.estimates["x"].value for f in (frame, apart))
    assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize(
    ("changed", "analysis", "words"),
    [
        ({"visits": 0}, CASES["poisson"][0], "one value only"),
        ({"visits": lambda f: f["visits"] - 1}, CASES["poisson"][0], "whole numbers from 0"),
        ({"visits": lambda f: f["visits"] * (f["sex"] == "m")}, CASES["poisson"][0], "no counts"),
        ({"years": 0.0}, CASES["poisson"][0], "exposure is 0 or negative"),
        ({"stays": 2}, CASES["negative_binomial"][0], "one value only"),
        ({"stays": lambda f: np.rint(10 * f["years"])}, CASES["negative_binomial"][0], "show no overdispersion"),
        ({"group": "one"}, CASES["mixed"][0], "two groups or more"),
        ({"entry": lambda f: f["time"]}, CASES["entry"][0], "enter at or after"),
        ({"x": lambda f: f["grade"].cat.codes * 10.0}, CASES["ordinal"][0], "did not converge"),
        ({"x": lambda f: f["grade"].cat.codes * 10.0}, CASES["multinomial"][0], "did not converge"),
    ],
)
def test_failures_have_one_reason_and_count_as_lost(changed, analysis, words):
    frame = table()
    (model,) = fit_models(frame, [analysis])
    compared = model.compare(frame.assign(**changed))
    assert words in compared.released.problem
    assert compared.shares.overlap == 0.0


def test_a_category_without_records_is_told():
    frame = table()
    (model,) = fit_models(frame, [CASES["multinomial"][0]])
    assert "no record" in model.compare(frame[frame["grade"] != "mid"]).released.problem


def test_records_behind_a_category_are_those_that_have_it():
    frame = table()
    (model,) = fit_models(frame, [CASES["multinomial"][0]])
    assert model.fit.behind["high: x"] == (frame["grade"] == "high").sum()
    assert list(model.fit.behind) == list(model.fit.estimates)


def test_nulls_beside_the_formula_are_left_out():
    frame = table()
    frame.loc[:9, "years"] = np.nan
    (model,) = fit_models(frame, [CASES["poisson"][0]])
    assert (model.fit.rows, model.fit.left_out) == (390, 10)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "linear", "exposure": "years"}, "exposure goes with poisson and negative_binomial"),
        ({"model": "mixed"}, "groups goes with model mixed"),
        ({"model": "ordinal", "formula": "grade ~ 0 + x"}, "no intercept"),
        ({"model": "mixed", "groups": "group", "weights": "years"}, "survey weights go with linear, logistic"),
        ({"model": "linear", "cluster": "group", "design_strata": "sex"}, "and weights go together"),
        ({"model": "probit"}, "unknown model"),
        ({"model": "ordinal", "formula": "visits ~ x"}, "write C"),
        ({"model": "poisson", "formula": "visits ~ x", "exposure": "sex"}, "no number"),
    ],
)
def test_what_does_not_go_together_is_refused(given, words):
    with pytest.raises(JobError, match=words):
        fit_models(table(), [Analysis("a", **{"formula": "visits ~ x"} | given)])
