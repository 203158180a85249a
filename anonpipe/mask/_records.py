"""What steps count and learn: the records that lie on disk between two steps."""

from __future__ import annotations

from anonpipe.mask._basis import Axes
from anonpipe.mask._data_shuffle import Copula
from anonpipe.mask._generalize import Range
from anonpipe.mask._latent_categories import RECORDS as OF_CATEGORIES
from anonpipe.mask._local_synthesis import RECORDS as OF_DRAWS
from anonpipe.mask._logistic import Logit, Slope, Slopes
from anonpipe.mask._mixture_groups import RECORDS as OF_GROUPS
from anonpipe.mask._noise import Mixing, Noise
from anonpipe.mask._sequential_regression import Block, Chain, Linear
from anonpipe.mask._suppression import Suppressed
from anonpipe.moments import Moments

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Axes,
        Block,
        Chain,
        Copula,
        Linear,
        Logit,
        Mixing,
        Moments,
        Noise,
        Range,
        Slope,
        Slopes,
        Suppressed,
        *OF_CATEGORIES,
        *OF_DRAWS,
        *OF_GROUPS,
    )
}
"""By name; all are dataclasses of arrays, numbers and each other."""
