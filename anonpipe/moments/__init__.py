"""Means and scatters that merge, and what they say about a synthesizer.

Each statistic is a frozen record: `of` counts one piece, `merge` joins two, `merge_all` joins many in the given order;
any split of a table merges to the moments of the whole, to rounding. From them follow the noise of micro-perturbation
(`s_delta`, `noise_factor`, `exact_factor`), and what is expected of synthetic records: `expected_of_scopes` on average,
`limit_of_scopes` and `limit_by_group` for the standard errors about it, `mean_limit` and `covariance_limit` for how far
these lead.
"""

from anonpipe.moments._limits import (
    FORMS,
    Expected,
    NoiseScatter,
    SamplingLimit,
    covariance_limit,
    exact_factor,
    expect_together,
    expected_of_scopes,
    form_eigenvalue,
    limit_by_group,
    limit_of_scopes,
    mean_limit,
    noise_factor,
    product_variance,
    s_delta,
)
from anonpipe.moments._moments import (
    GroupedMoments,
    GroupSpread,
    Moments,
    PairwiseMoments,
    Statistic,
    least_free,
    merge_all,
    noise_scopes,
    scopes_of,
    together,
)

__all__ = [
    "FORMS",
    "Expected",
    "GroupSpread",
    "GroupedMoments",
    "Moments",
    "NoiseScatter",
    "PairwiseMoments",
    "SamplingLimit",
    "Statistic",
    "covariance_limit",
    "exact_factor",
    "expect_together",
    "expected_of_scopes",
    "form_eigenvalue",
    "least_free",
    "limit_by_group",
    "limit_of_scopes",
    "mean_limit",
    "merge_all",
    "noise_factor",
    "noise_scopes",
    "product_variance",
    "s_delta",
    "scopes_of",
    "together",
]
