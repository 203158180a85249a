"""Main effects and interactions of the columns of two tables, as the columns of one regression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise, product
from math import comb

import numpy as np

from anonpipe.errors import JobError
from anonpipe.types import FloatArray

_MOST_ORDER = 20
_MOST_TERMS = 1_000_000


def interaction_terms(columns: Sequence[int], order: int, *, powers: Sequence[int] = ()) -> tuple[tuple[int, ...], ...]:
    """Every choice of up to `order` of some columns.

    Parameters
    ----------
    columns
        Numbers of the columns.
    order
        Most columns in a term: 1 for main effects alone.
    powers
        Those of them that a term may hold more than once: ``(0, 0, 1)`` is
        the square of column 0 times column 1. None by default.

    Raises
    ------
    JobError
        An order below 1 or above 20, or more than a million terms.

    Examples
    --------
    >>> interaction_terms([0, 1, 4], 2)
    ((0,), (1,), (4,), (0, 1), (0, 4), (1, 4))
    >>> interaction_terms([0, 1], 2, powers=[0])
    ((0,), (1,), (0, 0), (0, 1))
    """
    if order < 1:
        raise JobError(f"terms of up to {order} columns were asked for; give 1 or more")
    if order > _MOST_ORDER or sum(comb(len(columns) + size - 1, size) for size in range(1, order + 1)) > _MOST_TERMS:
        raise JobError(
            f"terms of up to {order} of {len(columns)} columns are too many; give an order up to {_MOST_ORDER}, "
            f"and up to {_MOST_TERMS} terms"
        )
    once = set(columns) - set(powers)
    return tuple(
        term
        for size in range(1, order + 1)
        for term in combinations_with_replacement(columns, size)
        if all(left != right or left not in once for left, right in pairwise(term))
    )


def checked_terms(terms: Sequence[Sequence[int]], width: int, categories: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The same terms, if each is a choice of columns that exist, and categories are in it once."""
    checked = tuple(tuple(int(column) for column in term) for term in terms)
    for term in checked:
        if not term or not all(0 <= column < width for column in term):
            raise JobError(f"a term names {len(term)} columns, not all known; give numbers from 0 to {width - 1}")
        if any(term.count(column) > 1 for column in categories):
            raise JobError("a term names a categorical column twice; name it once, as it has no powers")
    if not checked:
        raise JobError("no terms were given; give one or more, such as interaction_terms(range(width), 2)")
    return checked


def column_codes(table: FloatArray, categories: Sequence[int]) -> list[FloatArray]:
    """For each column the numbers that stand for it: a z-score, or a dummy for each category but the commonest.

    Examples
    --------
    >>> [codes.tolist() for codes in column_codes(np.array([[7.0], [7.0], [9.0]]), [0])]
    [[[0.0], [0.0], [1.0]]]
    """
    coded = []
    for place in range(table.shape[1]):
        column = table[:, place]
        if place in categories:
            values, counts = np.unique(column, return_counts=True)
            others = np.delete(values, counts.argmax())
            coded.append((column[:, None] == others).astype(np.float64))
        elif (column == column[0]).all():
            coded.append(np.zeros((len(column), 0)))
        else:
            # Halves, so that the difference of two huge numbers is finite.
            centred = column / 2 - (column / 2).mean()
            centred /= np.abs(centred).max()
            coded.append((centred / centred.std())[:, None])
    return coded


def numbers_of(terms: Sequence[Sequence[int]], coded: Sequence[FloatArray]) -> int:
    """Columns that the terms come to.

    Examples
    --------
    >>> numbers_of([(0,), (1,), (0, 1)], [np.zeros((4, 1)), np.zeros((4, 3))])
    7
    """
    return sum(int(np.prod([coded[column].shape[1] for column in term])) for term in terms)


def design(terms: Sequence[Sequence[int]], coded: Sequence[FloatArray]) -> FloatArray:
    """The constant, then the products of the numbers of each term's columns, in z-scores; 0 where constant."""
    out = np.empty((len(coded[0]), 1 + numbers_of(terms, coded)), order="F")
    out[:, 0] = 1.0
    at = 1
    for term in terms:
        for factors in product(*(coded[column].T for column in term)):
            made = np.prod(factors, axis=0)
            made = made - made.mean()
            spread = made.std()
            out[:, at] = made / spread if spread > 0 else 0.0
            at += 1
    return out
