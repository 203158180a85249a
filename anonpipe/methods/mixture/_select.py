"""Number and shape of the components, by the Bayesian information criterion on a sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from anonpipe.errors import InputError
from anonpipe.methods.mixture._estimate import Fit, bic, fit, m_step, over
from anonpipe.methods.mixture._model import DIAGONAL, Constraints, Mixture, constraints
from anonpipe.methods.mixture._statistics import Statistics, hard_statistics
from anonpipe.methods.mixture._tree import agglomerate
from anonpipe.types import FloatArray, IntArray

SAMPLE_ROWS = 4_000  # Rows of a sample

TREE_ROWS = 2_000  # Of them those that first groups are made of, which takes 4 bytes for each pair

START_PASSES = 10  # Passes from every start; only the likeliest then goes on

# Passes that shapes and numbers of components are compared after; then the best go on, in their order
SHORT_PASSES = 25

BEATEN = 3  # Candidates in turn that went on to their end and are not the best: then nobody else goes on

_T = TypeVar("_T")


@dataclass(frozen=True)
class Candidate:
    """The best mixture of one shape and number of components."""

    # shape, groups: which it is
    shape: str
    groups: int
    bic: float  # Of the sample; larger is better
    log_likelihood: float  # Of the sample
    start: int  # Number of small groups that its start was joined from
    passes: int  # Passes over the sample
    converged: bool  # Whether its likelihood settled


@dataclass(frozen=True, eq=False)
class Selection:
    """The mixture of the largest BIC, and all that were tried."""

    mixture: Mixture  # Fitted to the sample: the start for a fit to the whole table
    constraints: Constraints  # What it kept to, in numbers of the whole table
    candidates: tuple[Candidate, ...]  # In the order of shapes, then of numbers of groups


def evenly_spaced(n_rows: int, most: int = SAMPLE_ROWS) -> IntArray:
    """At most `most` row numbers out of `n_rows`, evenly spaced.

    Examples
    --------
    >>> evenly_spaced(10, 4).tolist()
    [0, 2, 5, 7]
    """
    size = min(n_rows, most)
    return np.arange(size) * n_rows // max(size, 1)


def select(
    sample: FloatArray,
    k: int,
    n_rows: int,
    *,
    numbers: Iterable[int] = range(2, 11),
    shapes: Iterable[str] = ("full", "vev"),
    rule: str = "published",
    prior: float = 1e-6,
    degrees: float | None = math.inf,
    starts: Iterable[int] = (50, 150, 450),
    idle: int | None = None,
    tolerance: float = 1e-5,
    iterations: int = 200,
) -> Selection:
    """Fit every number and shape of components to a sample and take the one of the largest BIC.

    Each is fitted from several of `agglomerate`'s groupings of the sample: all
    take a few passes, and the most likely one some more. By their BIC then the
    best of all candidates go on to their end, until it is clear which one wins (`race`).

    Shapes: sample (sample_rows, width).

    Notes
    -----
    The BIC is that of the sample as it is. A small sample therefore favours
    fewer components than the whole table would; scaling its likelihood up to
    the table would instead count its overfit many times.

    References
    ----------
    Oganian and Domingo-Ferrer 2017, Trans. Data Privacy 10:61-81, section 5;
    Wehrens, Buydens, Fraley and Raftery 2004, J. Classif. 21:231-253 (sample,
    then the whole table); Biernacki, Celeux and Govaert 2003, Comput. Stat.
    Data Anal. 41:561-575, doi:10.1016/S0167-9473(02)00163-6 (short runs from
    several starts, the best of which goes on); Fraley and Raftery 2002, J. Am.
    Stat. Assoc. 97:611-631, section 5 (first groups of a part of the records).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sample = np.concatenate([rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 9])
    >>> select(sample, 20, 160).mixture.n_groups
    2
    """
    if len(sample) == 0:
        raise InputError("the sample for choosing a mixture has no rows; give some hundred")
    variances = sample.var(axis=0)
    wanted, smalls = list(numbers), list(dict.fromkeys(starts))
    few = np.ascontiguousarray(sample[evenly_spaced(len(sample), max(TREE_ROWS, *wanted, 0))])
    allowed = _allowed(wanted, k, n_rows, few)
    trees = dict(zip(smalls, agglomerate(few, allowed[-1], smalls), strict=True))
    runs: list[_Run] = []
    for shape in shapes:
        latest: list[float] = []
        for groups in allowed:
            bounds = constraints(k, n_rows, groups, variances, shape=shape, rule=rule, prior=prior, degrees=degrees)
            here = on_sample(bounds, len(sample), n_rows)
            firsts = {small: tree[groups - 1] for small, tree in trees.items() if tree[groups - 1].max() + 1 == groups}
            found = _likeliest(sample, few, firsts, here, (tolerance, iterations))
            if found is None:
                continue
            runs.append(_Run(bounds, here, *found, len(sample)))
            latest.append(runs[-1].bic)
            if idle is not None and len(latest) - 1 - int(np.argmax(latest)) >= idle:
                break
    if not runs:
        raise InputError("no mixture was tried; name one or more shapes, and one or more numbers to start from")
    ended = race(runs, lambda run: run.bic, lambda run: run.ended(sample, tolerance, iterations), BEATEN)
    best = max(ended, key=lambda run: run.bic)
    return Selection(best.fit.mixture, best.bounds, tuple(run.candidate for run in ended))


def race(
    candidates: Sequence[_T], criterion: Callable[[_T], float], go_on: Callable[[_T], _T], beaten: int
) -> tuple[_T, ...]:
    """The candidates of short runs, the promising ones after a long run.

    They go on in the order of their criterion until so many in turn have not
    become the best of those that went on.

    Examples
    --------
    >>> race([1.0, 7.0, 5.0, 6.0], lambda short: short, lambda short: short + 0.5, 1)
    (1.0, 7.5, 5.0, 6.5)
    """
    ended, best, since = list(candidates), -math.inf, 0
    for at in sorted(range(len(ended)), key=lambda one: -criterion(candidates[one])):
        ended[at] = go_on(candidates[at])
        since = 0 if criterion(ended[at]) > best else since + 1
        best = max(best, criterion(ended[at]))
        if since == beaten:
            break
    return tuple(ended)


@dataclass(frozen=True, eq=False)
class _Run:
    """The fit of a shape and number so far: what it keeps to on the table and on the sample, and its start."""

    bounds: Constraints
    here: Constraints
    small: int
    fit: Fit
    rows: int

    @property
    def bic(self) -> float:
        return bic(self.fit.log_likelihoods[-1], self.bounds.parameters(self.fit.mixture.n_groups), self.rows)

    @property
    def candidate(self) -> Candidate:
        likelihoods = self.fit.log_likelihoods
        groups = self.fit.mixture.n_groups
        return Candidate(
            self.bounds.shape, groups, self.bic, likelihoods[-1], self.small, len(likelihoods), self.fit.converged
        )

    def ended(self, sample: FloatArray, tolerance: float, iterations: int) -> _Run:
        """The same, fitted to its end."""
        return replace(self, fit=_longer(over([sample]), self.fit, self.here, tolerance, iterations))


def on_sample(bounds: Constraints, rows: int, n_rows: int) -> Constraints:
    """The constraints for `rows` of `n_rows` records: the prior keeps its share, not its number of records."""
    return replace(bounds, prior_rows=bounds.prior_rows * rows / n_rows)


def _allowed(numbers: Iterable[int], k: int, n_rows: int, few: FloatArray) -> list[int]:
    """Those of the numbers of components that the table and the distinct ones of a few records admit, else one."""
    distinct = len(np.unique(few, axis=0))
    return sorted({g for g in numbers if 1 <= g <= distinct and (g == 1 or g * k < n_rows)}) or [1]


def _likeliest(
    sample: FloatArray,
    few: FloatArray,
    firsts: dict[int, IntArray],
    bounds: Constraints,
    limits: tuple[float, int],
) -> tuple[int, Fit] | None:
    """The most likely of the short fits from several first groupings of `few`, and which one; None without any."""
    best: tuple[int, Fit] | None = None
    seen: list[IntArray] = []
    expect, (tolerance, iterations) = over([sample]), limits
    for small, labels in firsts.items():
        if any(np.array_equal(labels, other) for other in seen):
            continue
        seen.append(labels)
        start = m_step(hard_statistics(few, labels, diagonal=bounds.shape in DIAGONAL), bounds)
        result = fit(expect, start, bounds, tolerance=tolerance, iterations=min(START_PASSES, iterations))
        if best is None or result.log_likelihoods[-1] > best[1].log_likelihoods[-1]:
            best = small, result
    if best is None:
        return None
    return best[0], _longer(expect, best[1], bounds, tolerance, min(SHORT_PASSES, iterations))


def _longer(
    expect: Callable[[Mixture], Statistics], begun: Fit, bounds: Constraints, tolerance: float, iterations: int
) -> Fit:
    """The fit gone on with, up to so many passes in all."""
    passes = len(begun.log_likelihoods)
    if begun.converged or iterations <= passes:
        return begun
    # The pass that the run ended with is made once more: it goes on from its estimates.
    rest = fit(expect, begun.mixture, bounds, tolerance=tolerance, iterations=iterations - passes + 1)
    return replace(rest, log_likelihoods=begun.log_likelihoods[:-1] + rest.log_likelihoods)
