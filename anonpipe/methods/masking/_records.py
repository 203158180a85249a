"""What steps count and learn: the records that lie on disk between two steps."""

from __future__ import annotations

from anonpipe.methods.masking._basis import Axes
from anonpipe.methods.masking._data_shuffle import Copula
from anonpipe.methods.masking._generalize import Range
from anonpipe.methods.masking._local_synthesis import RECORDS as OF_DRAWS
from anonpipe.methods.masking._logistic import Logit, Slope, Slopes
from anonpipe.methods.masking._mixture_groups import RECORDS as OF_GROUPS
from anonpipe.methods.masking._noise import Mixing, Noise
from anonpipe.methods.masking._sequential_regression import Block, Chain, Linear
from anonpipe.methods.masking._suppression import Suppressed
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
        *OF_DRAWS,
        *OF_GROUPS,
    )
}
"""By name; all are dataclasses of arrays, numbers and each other."""
