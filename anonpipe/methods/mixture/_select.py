"""Number and shape of the components, by the Bayesian information criterion on a sample."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from anonpipe.errors import InputError
from anonpipe.methods.mixture._estimate import Fit, bic, fit, m_step, over
from anonpipe.methods.mixture._model import DIAGONAL, Constraints, Mixture, constraints
from anonpipe.methods.mixture._statistics import hard_statistics
from anonpipe.methods.mixture._tree import agglomerate
from anonpipe.types import FloatArray, IntArray

SAMPLE_ROWS = 4_000
"""Rows of a sample; the first groups take 4 bytes for each pair of them."""

SHORT_PASSES = 25
"""Passes from every start; only the likeliest then goes on."""


@dataclass(frozen=True)
class Candidate:
    """The best mixture of one shape and number of components.

    Attributes
    ----------
    shape, groups
        Which it is.
    bic
        Of the sample; larger is better.
    log_likelihood
        Of the sample.
    start
        Number of small groups that its start was joined from.
    passes
        Passes over the sample.
    converged
        Whether its likelihood settled.
    """

    shape: str
    groups: int
    bic: float
    log_likelihood: float
    start: int
    passes: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Selection:
    """The mixture of the largest BIC, and all that were tried.

    Attributes
    ----------
    mixture
        Fitted to the sample: the start for a fit to the whole table.
    constraints
        What it kept to, in numbers of the whole table.
    candidates
        In the order of shapes, then of numbers of groups.
    """

    mixture: Mixture
    constraints: Constraints
    candidates: tuple[Candidate, ...]


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
    tolerance: float = 1e-5,
    iterations: int = 200,
) -> Selection:
    """Fit every number and shape of components to a sample and take the one of the largest BIC.

    Each is fitted from several of `agglomerate`'s groupings of the sample: all
    take a few passes, and the most likely one then goes on to its end.

    Parameters
    ----------
    sample
        Finite, shape (sample_rows, width): the whole table, or a random or
        evenly spaced sample of a few thousand rows.
    k
        Smallest size of a group.
    n_rows
        Records of the whole table.
    numbers
        Numbers of components to try; the authors tried 2 to 10. Those of
        n_rows / k and more, and those above the number of distinct rows in the
        sample, are left out; where none is left, one component is taken.
    shapes, rule, prior, degrees
        See `constraints`.
    starts
        Numbers of small groups for `agglomerate`, at least one.
    tolerance, iterations
        See `fit`.

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
    several starts, the best of which goes on).

    Raises
    ------
    InputError
        The sample is empty, or no shape or start is given.
    JobError
        An option is not allowed.

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
    allowed = _allowed(numbers, k, n_rows, sample)
    smalls = list(dict.fromkeys(starts))
    trees = dict(zip(smalls, agglomerate(sample, allowed[-1], smalls), strict=True))
    best: tuple[Mixture, Constraints] | None = None
    tried: list[Candidate] = []
    for shape in shapes:
        for groups in allowed:
            bounds = constraints(k, n_rows, groups, variances, shape=shape, rule=rule, prior=prior, degrees=degrees)
            here = on_sample(bounds, len(sample), n_rows)
            firsts = {small: tree[groups - 1] for small, tree in trees.items() if tree[groups - 1].max() + 1 == groups}
            found = _best_fit(sample, firsts, here, (tolerance, iterations))
            if found is None:
                continue
            small, result = found
            likelihood = result.log_likelihoods[-1]
            criterion = bic(likelihood, bounds.parameters(groups), len(sample))
            if not tried or criterion > max(candidate.bic for candidate in tried):
                best = result.mixture, bounds
            passes = len(result.log_likelihoods)
            tried.append(Candidate(shape, groups, criterion, likelihood, small, passes, result.converged))
    if best is None:
        raise InputError("no mixture was tried; name one or more shapes, and one or more numbers to start from")
    return Selection(*best, tuple(tried))


def on_sample(bounds: Constraints, rows: int, n_rows: int) -> Constraints:
    """The constraints for `rows` of `n_rows` records: the prior keeps its share, not its number of records."""
    return replace(bounds, prior_rows=bounds.prior_rows * rows / n_rows)


def _allowed(numbers: Iterable[int], k: int, n_rows: int, sample: FloatArray) -> list[int]:
    """Those of the numbers of components that the table and the distinct records of the sample admit, else one."""
    distinct = len(np.unique(sample, axis=0))
    return sorted({g for g in numbers if 1 <= g <= distinct and (g == 1 or g * k < n_rows)}) or [1]


def _best_fit(
    sample: FloatArray, firsts: dict[int, IntArray], bounds: Constraints, limits: tuple[float, int]
) -> tuple[int, Fit] | None:
    """The most likely of the fits from several first groupings, with the name of its grouping; None without any."""
    best: tuple[int, Fit] | None = None
    seen: list[IntArray] = []
    expect, few = over([sample]), min(SHORT_PASSES, limits[1])
    for small, labels in firsts.items():
        if any(np.array_equal(labels, other) for other in seen):
            continue
        seen.append(labels)
        start = m_step(hard_statistics(sample, labels, diagonal=bounds.shape in DIAGONAL), bounds)
        result = fit(expect, start, bounds, tolerance=limits[0], iterations=few)
        if best is None or result.log_likelihoods[-1] > best[1].log_likelihoods[-1]:
            best = small, result
    if best is None or best[1].converged or limits[1] <= few:
        return best
    # The pass that the short run ended with is made once more: the long run begins from its estimates.
    rest = fit(expect, best[1].mixture, bounds, tolerance=limits[0], iterations=limits[1] - few + 1)
    likelihoods = best[1].log_likelihoods[:-1] + rest.log_likelihoods
    return best[0], replace(rest, log_likelihoods=likelihoods)
