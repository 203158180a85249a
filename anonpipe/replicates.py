"""Estimates from several synthetic copies of a table joined to one, with intervals that account for the synthesis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import t

from anonpipe.errors import InputError
from anonpipe.types import FloatArray

Rule = Literal["partial", "full"]


@dataclass(frozen=True, eq=False)
class Combined:
    """What `combine` gives; arrays have the shape of one copy's estimates.

    Attributes
    ----------
    estimate
        The mean over the copies.
    variance
        Its variance T.
    within, between
        The mean of the copies' own variances u, and the variance b between their estimates.
    df
        Degrees of freedom of Student's distribution; infinity where copies do not differ.
    """

    estimate: FloatArray
    variance: FloatArray
    within: FloatArray
    between: FloatArray
    df: FloatArray

    @property
    def error(self) -> FloatArray:
        """Standard errors."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of the confidence intervals."""
        if not 0 < level < 1:
            raise InputError(f"level is {level}; give a number between 0 and 1, such as 0.95")
        reach = t.ppf(0.5 + level / 2, self.df) * self.error
        return self.estimate - reach, self.estimate + reach

    @property
    def p(self) -> FloatArray:
        """Of the two-sided tests that the estimates are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(self.estimate) / self.error
        return np.asarray(2 * t.sf(ratio, self.df))


def combine(
    estimates: npt.ArrayLike,
    variances: npt.ArrayLike,
    *,
    rule: Rule = "partial",
    synthetic_rows: int | None = None,
    rows: int | None = None,
) -> Combined:
    r"""Join what was estimated on each synthetic copy of a table.

    With the mean :math:`\bar q` of m estimates, their variance b (over m - 1), and the mean u of their own variances:

    - ``partial``: T = u + b / m, with (m - 1) (1 + m u / b)² degrees of freedom (Reiter 2003, equations 4 to 7);
    - ``full``: T = (1 + 1 / m) b - u, with (m - 1) (1 - u / (1 + 1 / m) b)² degrees of freedom (Raghunathan, Reiter
      & Rubin 2003). Where that is negative it is taken as u `synthetic_rows` / `rows` (Reiter 2002).

    Releases of anonpipe are for ``partial``: their copies are drawn given the observed table, whose groups or mixture
    are not drawn again. The full rule needs parameters that are drawn for each copy; here its T is mostly negative.

    Parameters
    ----------
    estimates
        One of each copy, shape (m,) or (m, n_estimates).
    variances
        Squared standard errors of the same, as the model gives them on that copy alone.
    rule
        Which of the rules.
    synthetic_rows, rows
        Rows of a copy and of the original table, for ``full``; the same by default.

    Returns
    -------
    Combined
        Estimates, variances, intervals. Of one copy, b is not known and taken for 0: right where the release keeps the
        estimate, as means, and slopes of a linear model of columns without a transform; too narrow elsewhere.

    Raises
    ------
    InputError
        Shapes differ, a number is not finite, a variance is negative, or ``full`` was given one copy.

    References
    ----------
    Reiter (2003), Survey Methodology 29:181-188. Raghunathan, Reiter & Rubin (2003), Journal of Official Statistics
    19:1-16. Reiter (2002), Journal of Official Statistics 18:531-543. Raab, Nowok & Dibben (2016), Journal of Privacy
    and Confidentiality 7:67-97, doi:10.29012/jpc.v7i3.407 (parameters that are not drawn).

    Examples
    --------
    >>> found = combine([1.0, 1.2, 1.1], [0.04, 0.05, 0.03])
    >>> round(float(found.estimate), 3), round(float(found.variance), 4)
    (1.1, 0.0433)
    >>> low, high = found.interval()
    >>> bool(low < 1.1 < high)
    True
    """
    try:
        found, own = (np.atleast_1d(np.asarray(given, dtype=np.float64)) for given in (estimates, variances))
    except (ValueError, TypeError):
        raise InputError("estimates or variances are no array of numbers; give a number or row for each copy") from None
    copies = len(found)
    if found.shape != own.shape or not found.size:
        raise InputError(f"estimates have shape {found.shape} and variances {own.shape}; give one of each a copy")
    if not (np.isfinite(found).all() and np.isfinite(own).all() and (own >= 0).all()):
        raise InputError("an estimate or variance is not finite, or a variance negative; give those of models that fit")
    if rule not in ("partial", "full"):
        raise InputError(f"rule is {rule!r}; give 'partial' or 'full'")
    if min(1 if each is None else each for each in (synthetic_rows, rows)) < 1:
        raise InputError("synthetic_rows or rows is below 1; give the numbers of records of a copy and of the original")
    if rule == "full" and copies < 2:
        raise InputError("the full rule needs two copies or more; give more, or take 'partial'")
    within, between = own.mean(axis=0), found.var(axis=0, ddof=1) if copies > 1 else np.zeros(found.shape[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        if rule == "partial":
            variance = within + between / copies
            left = 1 + np.where(between > 0, copies * within / between, np.inf)
        else:
            total = (1 + 1 / copies) * between
            share = 1.0 if synthetic_rows is None or rows is None else synthetic_rows / rows
            variance = np.where(total > within, total - within, share * within)
            left = np.where(total > within, 1 - within / total, np.inf)  # where u counts, it is of many records
    return Combined(found.mean(axis=0), variance, within, between, max(copies - 1, 1) * left**2)
