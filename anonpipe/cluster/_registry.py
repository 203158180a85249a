"""What is known of a clustering method, in one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Clusterer = Callable[..., npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Method:
    """One clustering method.

    Attributes
    ----------
    function
        `function(points, k, *, rng, **options) -> labels`; its keyword-only
        parameters besides `rng` are the method's options.
    name
        What the job calls it.
    published
        Name in the literature.
    reference
        DOI and place.
    cost
        Time and memory, in n records, width columns and block_rows b.
    needs
        What it needs besides points, for example class labels; often nothing.
    sizes
        What group sizes it gives.
    """

    function: Clusterer
    name: str
    published: str
    reference: str
    cost: str
    needs: tuple[str, ...]
    sizes: str
