"""95 % intervals of shares: of independent trials, and of trials that come in groups.

statsmodels is imported where it is called: the risk of a run without
intervals does not wait for it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) for no trial.

    Parameters
    ----------
    successes, trials
        Counts; need not be whole, as an effective number of trials is not.

    References
    ----------
    Wilson (1927), doi:10.1080/01621459.1927.10502953.

    Examples
    --------
    >>> [round(end, 4) for end in wilson(0, 10)]
    [0.0, 0.2775]
    """
    if trials <= 0:
        return 0.0, 1.0
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, trials, method="wilson")
    # Rounding must not leave the share outside.
    return max(0.0, min(successes / trials, float(low))), min(1.0, max(successes / trials, float(high)))


def exact(successes: int, trials: int, tail: float = 0.025) -> tuple[float, float]:
    """Interval of a share that errs with a chance of no more than `tail` on either side.

    Holds for few trials and shares near 0 and 1 too, where Wilson's is too
    short far out in the tails.

    References
    ----------
    Clopper & Pearson (1934), doi:10.1093/biomet/26.4.404.

    Examples
    --------
    >>> [round(end, 4) for end in exact(0, 10)]
    [0.0, 0.3085]
    """
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(successes, trials, alpha=2 * tail, method="beta")
    return float(low), float(high)


def difference(first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
    """95 % interval of the difference of two independent shares, from Wilson's of each.

    Parameters
    ----------
    first, second
        Successes and trials of each, one trial or more.

    References
    ----------
    Newcombe (1998), Statistics in Medicine 17:873-890, method 10.

    Examples
    --------
    >>> [round(end, 4) for end in difference((56, 70), (48, 80))]
    [0.0524, 0.3339]
    """
    from statsmodels.stats.proportion import confint_proportions_2indep

    low, high = confint_proportions_2indep(*first, *second, method="newcomb", compare="diff")
    return float(low), float(high)


def grouped_share(hits: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[float, float, float]:
    """A share whose trials come in groups: (share, low, high).

    Trials of one group hit or miss together, so that their number says little.
    Wilson's interval is taken with the number of independent trials that would
    have the variance between groups (of a ratio: total hits / total trials),
    at most the number of trials, and the number of groups where all or none hit.

    Parameters
    ----------
    hits, trials
        Counts of each group, shape (n_groups,); trials above 0.

    Examples
    --------
    >>> [round(x, 3) for x in grouped_share([2, 0, 2, 0], [2, 2, 2, 2])]
    [0.5, 0.125, 0.875]
    """
    hit, tried = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    groups, total = len(tried), float(tried.sum())
    if not total:
        return math.nan, 0.0, 1.0
    share = float(hit.sum()) / total
    effective = float(groups)
    if groups > 1 and 0 < share < 1:
        left = hit - share * tried
        variance = groups / (groups - 1) * float(left @ left) / total**2
        effective = min(total, share * (1 - share) / variance) if variance > 0 else total
    return share, *wilson(share * effective, effective)
