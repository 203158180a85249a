"""How well a logistic regression tells released records from original ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility._check import checked_tables
from anonpipe.evaluate.utility._logistic import fit_logistic
from anonpipe.evaluate.utility._terms import checked_terms, column_codes, design, interaction_terms, numbers_of

_MOST_NUMBERS = 50_000_000  # Numbers in the regression's table (400 MB)


@dataclass(frozen=True)
class Propensity:
    """The propensity measure of a release."""

    # U_p: mean squared difference of the fitted probability and the share of released records; 0 (nothing tells them
    # apart) to c (1 - c), which is 1/4 for tables of equal size
    value: float
    scaled: float  # 2N · U_p, N being the records of both tables: what the authors print
    # U_p to expect of records drawn again from the original's own distribution: (rank - 1) (1 - c)² c / N
    expected: float
    # value / expected, the pMSE ratio: about 1 for such records, 2 for a second sample of the population, 0 for a copy;
    # NaN where no column varies
    ratio: float
    records: int  # N
    rank: int  # Independent columns of the regression, the constant included
    dropped: int  # Columns of the regression that follow from the others, constant ones included, and that add nothing
    # Whether some records are told apart without error, so that the likelihood has no maximum. `value` is then its
    # limit.
    separated: bool


def propensity(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    *,
    order: int = 3,
    powers: bool = True,
    categories: Sequence[int] = (),
    terms: Sequence[Sequence[int]] | None = None,
) -> Propensity:
    """Propensity score measure: both tables are stacked, and which is which is regressed on the columns.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width), one row or more each.
    order
        Most columns in a product: 1 for main effects alone, 2 for products of
        pairs too, and so on. The authors go to 3.
    powers
        Whether a number may be in a product more than once. A category never is.
    categories
        Numbers of the columns that are codes of categories: each category but
        the commonest is a column of the regression.
    terms
        Columns of each main effect and interaction, such as ``[(0,), (1,),
        (0, 1)]``, in place of those that `order` and `powers` give; see
        `interaction_terms`.

    Notes
    -----
    *Equation 11* takes 1/2 off the fitted probability, for tables of equal
    size. In general it is the share c of released records, with which it was
    first published.

    *N* is "the total number of records in the merged data set". Twice N in
    the table of the authors is therefore four times the records of a table.

    *"Interactions from first to the third order among all the variables"* may
    mean products of up to three or of up to four columns, different ones or
    with powers, and no reading gives all figures of their table. Without
    powers a column that differs in its spread or skewness only is not
    noticed: noise as in eq. 10 comes to 5 on the five THYROID columns, a fresh
    draw from the original to 6, printed is 301. With powers, products of three
    give local synthesis 28 for k = 60 and 78 for k = 200, printed 23 and 77,
    and noise 22; products of four give 92, 143 and 297. So powers are on, and
    `order` is the number of columns in a product.

    *A release with exact means and covariances* has a value of 0 up to
    `order` 2, whatever else it lost.

    *Separation.* The likelihood is maximised without a penalty. Where records
    are told apart without error it has no maximum, but fitted probabilities
    still converge, and so does U_p; the iteration ends when they have, and
    `separated` is set. Dependent columns are left out, which changes no
    probability; so scale and origin of a column do not matter as long as the
    main effects of an interaction are terms too.

    *The ratio.* With p̂ from a regression of the right size, N·U_p of two
    independent samples is χ² / 4 with rank - 1 degrees of freedom if c = 1/2.
    A release made from the original itself differs from it by its own
    sampling error only, which is half of that variance: hence `expected`. A
    release that copies records, or keeps moments exactly, may well stay
    below 1.

    Memory: the records of both tables times the columns of the regression,
    three times.

    Raises
    ------
    InputError
        The tables are not as described, the regression has as many columns as
        records, or it does not settle.
    JobError
        Terms or categories that do not exist.

    References
    ----------
    Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10:61-81,
    section 5, eq. 11; Woo, Reiter, Oganian & Karr (2009), Journal of Privacy
    and Confidentiality 1(1):111-124; expectation: Snoke, Raab, Nowok, Dibben
    & Slavkovic (2018), J. R. Stat. Soc. A 181:663-688, doi:10.1111/rssa.12358.

    Examples
    --------
    >>> old = np.array([[0.0], [0.0], [0.0], [1.0]])
    >>> found = propensity(old, 1 - old)
    >>> round(found.value, 9), round(found.scaled, 9), found.records
    (0.0625, 1.0, 8)
    """
    old, new = checked_tables(original, released, least_rows=1)
    width = old.shape[1]
    if any(not 0 <= column < width for column in categories):
        raise JobError(f"categories name columns that do not exist; there are {width}, counted from 0")
    if terms is None:
        numbers = [column for column in range(width) if column not in categories]
        chosen = interaction_terms(range(width), order, powers=numbers if powers else ())
    else:
        chosen = checked_terms(terms, width, categories)
    both = np.concatenate([old, new])
    coded = column_codes(both, categories)
    total, wide = len(both), numbers_of(chosen, coded)
    if wide + 1 >= total:
        raise InputError(
            f"the terms come to {wide} columns for {total} records of both tables, which would all be told apart; "
            "give a lower order or fewer terms"
        )
    if total * wide > _MOST_NUMBERS:
        raise InputError(
            f"{wide} columns for {total} records are {total * wide} numbers, and {_MOST_NUMBERS} are the most; "
            "give a lower order, fewer terms, or a sample of both tables"
        )
    ones = np.arange(total) >= len(old)
    fit = fit_logistic(design(chosen, coded), ones)
    share = len(new) / total
    value = float(np.mean((fit.probabilities - share) ** 2))
    expected = (fit.rank - 1) * (1 - share) ** 2 * share / total
    return Propensity(
        value=value,
        scaled=2 * total * value,
        expected=expected,
        ratio=value / expected if expected > 0 else float("nan"),
        records=total,
        rank=fit.rank,
        dropped=1 + wide - fit.rank,
        separated=fit.separated,
    )
