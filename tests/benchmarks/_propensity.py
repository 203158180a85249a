"""The propensity measure by an order of interactions, as its authors print it; a release is measured by named terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anonpipe.evaluate.utility import _two_sample
from anonpipe.evaluate.utility._two_sample import Propensity, interaction_terms


def propensity(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
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
