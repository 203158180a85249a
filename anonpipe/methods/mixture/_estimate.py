"""Estimating a mixture: the maximisation step, and the iteration over a table in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from anonpipe.errors import JobError
from anonpipe.methods.mixture._covariance import covariances
from anonpipe.methods.mixture._model import DIAGONAL, Constraints, Mixture
from anonpipe.methods.mixture._statistics import Statistics, e_step
from anonpipe.methods.mixture._tails import new_degrees
from anonpipe.methods.mixture._weights import RULES
from anonpipe.moments import merge_all
from anonpipe.types import FloatArray


def m_step(statistics: Statistics, constraints: Constraints) -> Mixture:
    """New estimates from the sums over all records.

    Weights are the shares Σ z / n, lifted to the bound by the rule of the
    constraints. Means are Σ z u x / Σ z u. Covariances are those of
    `covariances` for the scatters and counts of the records and of the prior.

    Notes
    -----
    The prior is `prior_rows` records with covariance diag(variances) about the
    component's mean: the objective that iterations raise is the log-likelihood
    less prior_rows / 2 · Σ_g (log|Σ_g| + tr(Σ_g⁻¹ diag(variances))), see
    `penalty`. A component without any records becomes as wide as the table.

    References
    ----------
    Oganian and Domingo-Ferrer 2017, Trans. Data Privacy 10:61-81, section 3;
    t components: Peel and McLachlan 2000, Stat. Comput. 10:339-348,
    doi:10.1023/A:1008981510081.
    """
    s = statistics
    weights = RULES[constraints.rule](s.counts / s.rows, constraints.least_weight)
    steps = np.divide(s.sums, s.heavy[:, None], out=np.zeros_like(s.sums), where=s.heavy[:, None] > 0)
    diagonal = constraints.shape in DIAGONAL
    prior = constraints.prior_rows * constraints.variances
    if diagonal:
        scatters = s.scatters - (s.sums * steps)[:, None, :]
        scatters = np.maximum(scatters, 0.0) + prior
    else:
        scatters = s.scatters - np.einsum("gj,gh->gjh", s.sums, steps)
        scatters = scatters + np.diag(prior)
    shaped = covariances(scatters, s.counts + constraints.prior_rows, constraints.shape)
    if constraints.degrees is None:
        degrees = new_degrees(s.counts, s.tails, s.degrees, s.centres.shape[1])
    else:
        degrees = np.full(len(weights), float(constraints.degrees))
    return Mixture(weights, s.centres + steps, shaped, degrees, diagonal)


def penalty(mixture: Mixture, constraints: Constraints) -> float:
    """What the prior takes off the log-likelihood; see `m_step`."""
    _, factors, *_ = mixture.arguments
    logs = -2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
    traces = (factors**2 * constraints.variances).sum()
    return float(constraints.prior_rows / 2 * (logs + traces))


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture."""

    mixture: Mixture  # The last estimates
    log_likelihoods: tuple[float, ...]  # Before each step, the last one that of `mixture`
    converged: bool  # Whether the iteration ended because it no longer changed


def over(pieces: Iterable[FloatArray]) -> Callable[[Mixture], Statistics]:
    """The expectation step over pieces of a table that can be gone through again and again, such as a list."""
    return lambda mixture: merge_all([e_step(piece, mixture) for piece in pieces])


def fit(
    expect: Callable[[Mixture], Statistics],
    start: Mixture,
    constraints: Constraints,
    *,
    tolerance: float = 1e-5,
    iterations: int = 200,
) -> Fit:
    """Iterate expectation and maximisation until the log-likelihood settles.

    Notes
    -----
    The penalised likelihood (see `m_step`) never falls, to rounding, while
    no weight is at the bound, and with the rule "constrained" also at the
    bound. With the published rule (eq. 3 and 4), which is not a maximum of
    anything, it may fall; weights keep to the bound all the same, and the
    iteration ends when steps no longer matter, or after `iterations` passes.

    Examples
    --------
    >>> from anonpipe.methods.mixture._model import constraints
    >>> features = np.array([[0.0], [1.0], [2.0], [8.0], [9.0], [10.0]])
    >>> start = Mixture(np.full(2, 0.5), np.array([[0.0], [5.0]]), np.ones((2, 1, 1)), np.full(2, np.inf))
    >>> bounds = constraints(2, 6, 2, features.var(axis=0))
    >>> fit(over([features[:3], features[3:]]), start, bounds).mixture.means.round(3).tolist()
    [[1.0], [9.0]]
    """
    if not tolerance > 0 or iterations < 1:
        raise JobError(f"tolerance {tolerance} and {iterations} iterations; give a positive number and 1 or more")
    mixture, likelihoods = start, list[float]()
    for step in range(iterations):
        statistics = expect(mixture)
        likelihoods.append(statistics.log_likelihood)
        converged = step > 0 and abs(likelihoods[-1] - likelihoods[-2]) <= tolerance * (1.0 + abs(likelihoods[-1]))
        if converged or step + 1 == iterations:
            return Fit(mixture, tuple(likelihoods), converged)
        mixture = m_step(statistics, constraints)
    raise AssertionError("the last pass returns")


def bic(log_likelihood: float, parameters: int, n_rows: int) -> float:
    """Twice the log-likelihood less parameters · log(records): larger is better (eq. 6)."""
    return 2.0 * log_likelihood - parameters * float(np.log(n_rows))
