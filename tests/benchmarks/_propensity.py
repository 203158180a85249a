"""The propensity measure by an order of interactions, as its authors print it; a release is measured by named terms.

"Interactions from first to the third order" of the authors have several readings, of which none gives all their figures
(`python -m tests.benchmarks.local_synthesis`). Twice N, "the total number of records in the merged data set", is four
times the records of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise

import numpy as np

from anonpipe.evaluate.utility import _two_sample
from anonpipe.evaluate.utility._two_sample import Propensity
from anonpipe.types import FloatArray


def interaction_terms(columns: Sequence[int], order: int, *, powers: Sequence[int] = ()) -> tuple[tuple[int, ...], ...]:
    """Every choice of up to `order` of some columns; those of `powers` may be in a term more than once."""
    once = set(columns) - set(powers)
    return tuple(
        term
        for size in range(1, order + 1)
        for term in combinations_with_replacement(columns, size)
        if all(left != right or left not in once for left, right in pairwise(term))
    )


def propensity(
    original: FloatArray,
    released: FloatArray,
    *,
    order: int = 3,
    powers: bool = True,
    categories: Sequence[int] = (),
    terms: Sequence[Sequence[int]] | None = None,
) -> Propensity:
    """With products of up to `order` columns, in which `powers` let a number be more than once; or with `terms`."""
    width = np.asarray(original).shape[1]
    if terms is None:
        numbers = [column for column in range(width) if column not in categories]
        terms = interaction_terms(range(width), order, powers=numbers if powers else ())
    return _two_sample.propensity(original, released, terms, categories=categories)


def scaled(original: FloatArray, released: FloatArray, **options: object) -> float:
    """2N · U_p, N being the records of both tables."""
    return 2 * (len(original) + len(released)) * propensity(original, released, **options).value  # type: ignore[arg-type]
