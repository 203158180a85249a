"""Post-randomisation of categories (PRAM), invariant: expected frequencies stay; numbers get noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field

from anonpipe.methods.executor import Reduce, Rows, Step
from anonpipe.methods.masking._draws import Categories, dummies
from anonpipe.methods.masking._noise import NoiseMask, add
from anonpipe.methods.record import Masker
from anonpipe.moments import Expected, Moments, form_eigenvalue, noise_factor, product_variance
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class Transitions:
    """What every part needs to know."""

    noise: NoiseMask  # Of the numbers
    matrices: tuple[FloatArray, ...]  # Of each categorical attribute, shape (m, m); row: original, column: released


def transition_matrix(shares: FloatArray, retain: float) -> FloatArray:
    """The matrix of an invariant post-randomisation: `shares @ matrix` are the shares again.

    - `shares`: of each category, adding up to 1, shape (m,).
    - `retain`: probability that the first draw keeps a category; else it takes another one, all alike.

    The second draw takes a category by the probability that the first came from it (Bayes). Returns the matrix of both,
    shape (m, m); the column of a category that nobody has is 0.

    Examples
    --------
    >>> matrix = transition_matrix(np.array([0.8, 0.2]), 0.75)
    >>> matrix.round(3).tolist()
    [[0.835, 0.165], [0.659, 0.341]]
    >>> (np.array([0.8, 0.2]) @ matrix).round(12).tolist()
    [0.8, 0.2]

    Gouweleeuw, Kooiman, Willenborg & de Wolf (1998), Journal of Official Statistics 14(4), section 4.
    """
    size = len(shares)
    first = np.full((size, size), (1.0 - retain) / max(1, size - 1))
    np.fill_diagonal(first, retain if size > 1 else 1.0)
    drawn = shares @ first
    back = (first * shares[:, None]).T / np.where(drawn > 0, drawn, 1.0)[:, None]
    return np.asarray(first @ back)


def pram(
    *,
    retain: Annotated[float, Field(ge=0, lt=1)] = 0.8,
    amount: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.15,
    categories: Categories = (),
) -> tuple[Step, ...]:
    """Draw each category again, given the original one, so that its frequency stays on average.

    Records are drawn one by one, each column by itself, with `transition_matrix`. Numbers are masked by normal noise as
    by `noise`, of `amount` times their covariance.
    """
    find = partial(_found, retain=retain, amount=amount, categories=categories)
    return Reduce("moments", Moments.of, find), Rows("draw", partial(_draw, categories=categories))


def _found(moments: Moments, retain: float, amount: float, categories: Categories) -> Transitions:
    """Matrices by the shares of categories, which are means of dummies; and the noise."""
    covariance, coded = amount * moments.covariance, [place for each in categories for place in each]
    covariance[coded], covariance[:, coded] = 0.0, 0.0
    factor = noise_factor(covariance) if len(covariance) else covariance
    used = np.ascontiguousarray(factor[:, factor.any(axis=0)])
    mask = NoiseMask(moments, used, float(np.sqrt(1.0 + amount)), np.zeros(len(factor)))
    means = [(1.0 + moments.mean[list(each)]) / 2.0 for each in categories]
    shares = [np.append(1.0 - each, each) if len(each) == 1 else each for each in means]
    return Transitions(mask, tuple(transition_matrix(np.clip(each, 0.0, 1.0), retain) for each in shares))


def _draw(part: FloatArray, *, params: Transitions, rng: np.random.Generator, categories: Categories) -> FloatArray:
    """Categories by one uniform draw each; noise of numbers."""
    out = add(part, params=params.noise, rng=rng) if part.shape[1] else part.copy()
    codes = np.empty((len(part), len(categories)), dtype=np.int64)
    for at, (each, matrix) in enumerate(zip(categories, params.matrices, strict=True)):
        places = list(each)
        before = (part[:, places[0]] > 0).astype(np.int64) if len(places) == 1 else part[:, places].argmax(axis=1)
        below = np.cumsum(matrix, axis=1)[:, :-1]
        codes[:, at] = (rng.random(len(part))[:, None] >= below[before]).sum(axis=1)
    dummies(codes, categories, out)
    return out


def _expect(moments: Moments, *, retain: float = 0.8, amount: float = 0.15, categories: Categories = ()) -> Expected:
    """Expected covariance; standard errors are those of another sample, which are larger."""
    covariance = moments.covariance
    found = _found(moments, retain, amount, categories)
    slopes = np.eye(len(covariance)) / found.noise.shrink
    kept = np.ones(covariance.shape, dtype=np.bool_)  # of numbers, and of the categories of one column
    for each, matrix in zip(categories, found.matrices, strict=True):
        places = list(each)
        slopes[places, places] = 0.0
        slopes[np.ix_(places, places)] = matrix[1, 1] - matrix[0, 1] if len(places) == 1 else matrix
        kept[places], kept[:, places] = False, False
    for each in categories:
        kept[np.ix_(each, each)] = True
    n = max(moments.n, 2)
    # Of two dummies the fourth moment follows from how often both are there; rare ones have more than normals have
    coded = [place for each in categories for place in each]
    both = np.ix_(coded, coded)
    t = np.clip((1.0 + moments.mean[coded]) / 2.0, 0.0, 1.0)
    joint, one, other = np.outer(t, t) + covariance[both] / 4.0, np.square(1.0 - t), np.square(t)
    fourth = joint * np.outer(one, one) + (t[:, None] - joint) * np.outer(one, other)
    fourth += (t - joint) * np.outer(other, one) + (1.0 - t[:, None] - t + joint) * np.outer(other, other)
    variance = product_variance(covariance)
    variance[both] = np.maximum(variance[both], 16.0 * fourth)
    error = np.sqrt(variance / (n - 1))
    expected = np.where(kept, covariance, slopes.T @ covariance @ slopes)
    scale = 2.0 * form_eigenvalue(covariance) / (n - 1)
    return Expected(np.sqrt(np.diag(covariance) / n), expected, error, scale)


METHOD = Masker(
    function=pram,
    summary=(
        "Categories are drawn again, given the original one, so that their frequencies stay on average (PRAM). "
        "Recipients find the probabilities in the manifest. Numbers get normal noise."
    ),
    published="invariant post-randomisation (PRAM)",
    reference="Gouweleeuw, Kooiman, Willenborg & de Wolf (1998), Journal of Official Statistics 14(4)",
    cost="time n · w · categories, two passes; memory: one part",
    about={
        "retain": "probability that the first of two draws keeps a category, 0.8 by default",
        "amount": "variance of the noise of numbers over that of the data, 0.15 by default",
        "categories": "columns of each categorical attribute, in -1 and +1; none by default, in a job all",
    },
    keeps="frequencies of categories on average, which recipients correct tables for by the matrices in the manifest; "
    "covariances of categories shrink; of numbers as noise",
    expect=_expect,
    link="person",
    learns=(Transitions,),
    follows=lambda options, features: {"categories": features.categories},
)
