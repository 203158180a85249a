"""What is known of a masker, in one record; the table of all; the way to use one alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.points import LARGEST
from anonpipe.methods.masking._data_shuffle import data_shuffle
from anonpipe.methods.masking._driver import run_steps
from anonpipe.methods.masking._expected import Expected
from anonpipe.methods.masking._generalize import generalize
from anonpipe.methods.masking._local_synthesis import expect_local, local_synthesis
from anonpipe.methods.masking._noise import expect_noisy, noise
from anonpipe.methods.masking._sequential_regression import expect_sequential, sequential_regression
from anonpipe.methods.masking._spectral_swap import expect_swapped, spectral_swap
from anonpipe.methods.masking._steps import Step
from anonpipe.methods.masking._suppression import expect_suppressed, suppression
from anonpipe.methods.masking._synthesis import expect_synthesized, synthesis
from anonpipe.methods.mixture import SHAPES
from anonpipe.types import FloatArray


@dataclass(frozen=True)
class Masker:
    """One method that masks a whole table, without groups made beforehand.

    Attributes
    ----------
    function
        `function(**options) -> steps`; its parameters are the options.
    name
        What the job calls it.
    published
        Name in the literature.
    reference
        DOI and place.
    cost
        Time and memory, in n records of w columns.
    options
        Its options and what each is for.
    promise
        What is kept, and what is not protected.
    expect
        `expect(moments, **options) -> Expected`, the moments to expect and
        their standard errors, or None with options for which they are not
        known. None for methods that promise nothing of the covariance.
    exact_means, exact_covariance, exact_columns
        Whether means, the covariance, or the values of each column are kept
        exactly with the default options.
    same_person
        Whether record i of the result is made from record i of the table.
    leaves_scores
        Whether the columns of the option `categories` come out as scores with
        mean and variance of the indicators, to be cut into categories, and
        not as indicators.
    permutes
        Whether it permutes along axes, so that `expect` is told the largest
        size of a record along each, as the option `largest`.
    identical_rows
        Whether each part's rows are equal in groups of the option k or more,
        with the default options.
    grouped
        Whether it forms groups of the option k or more, which span the parts,
        and keeps the means and the covariance of each exactly; the steps then
        leave the number of each row's group as the last channel.
    """

    function: Callable[..., tuple[Step, ...]]
    name: str
    published: str
    reference: str
    cost: str
    options: Mapping[str, str]
    promise: str
    expect: Callable[..., Expected | None] | None
    exact_means: bool
    exact_covariance: bool
    exact_columns: bool
    same_person: bool
    identical_rows: bool = False
    grouped: bool = False
    leaves_scores: bool = False
    permutes: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """Options that have no default."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.default is p.empty)

    def steps(self, **options: Any) -> tuple[Step, ...]:
        """The steps for these options.

        Raises
        ------
        JobError
            An unknown option, a missing one, or a value that is not allowed.
        """
        known = ", ".join(self.options) or "none"
        if unknown := [name for name in options if name not in self.options]:
            raise JobError(f"{self.name} has no option {', '.join(unknown)}; its options: {known}")
        if missing := [name for name in self.required if name not in options]:
            raise JobError(f"{self.name} needs the option {', '.join(missing)}; its options: {known}")
        return self.function(**options)


_BASIS = "'spectral' (default): along the principal components; 'columns': along the columns as they are"

MASKERS: dict[str, Masker] = {
    masker.name: masker
    for masker in (
        Masker(
            function=noise,
            name="noise",
            published="additive noise with corrected mean and variance",
            reference="Oganian & Domingo-Ferrer (2017), section 5, eq. 10; Lasko & Vinterbo (2010), "
            "doi:10.1109/TKDE.2009.88, section IV.B; Muralidhar & Sarathy (2008), Transactions on Data Privacy 1",
            cost="time n · w², one to two passes; memory: one part, twice with form='exact'",
            options={
                "amount": "variance of the noise over that of the data, 0.15 by default",
                "form": "'expected' (default): moments on average; 'centred': means exact; 'exact': covariance too",
                "basis": "'spectral' (default): noise of the data's covariance; 'columns': independent noise",
            },
            promise=(
                "means and covariance kept on average (expected), means exactly (centred), both exactly (exact); "
                "independent noise shrinks covariances by 1/(1 + amount); most records can be linked again"
            ),
            expect=expect_noisy,
            exact_means=False,
            exact_covariance=False,
            exact_columns=False,
            same_person=True,
        ),
        Masker(
            function=data_shuffle,
            name="data_shuffle",
            published="data shuffling",
            reference="Muralidhar & Sarathy (2006), doi:10.1287/mnsc.1050.0503",
            cost="time n · (log n + w) · w; memory: one part, and three columns of all rows",
            options={
                "k": "records that share a value at least: 1 (default) is the paper's form, which hands on every "
                "value, the only one of its kind included; in a job its k",
                "kept": "columns that stay, and that the others are drawn given; none by default; numbers of columns, "
                "in a job names of unchanged ones",
                "categories": "columns of each categorical attribute, in -1 and +1, which come out as normal scores to "
                "be cut into categories; none by default, in a job all",
            },
            promise=(
                "with k=1 every column keeps exactly its values, true extremes included; with k above, and so in a "
                "job, values that k or more records hold, and averages of k to 2k - 1 neighbours by rank: means stay, "
                "variances shrink where a column has a long tail; rank correlations on average, less well where "
                "columns have ties; records have no link to persons but by their kept columns; in a job, decoding "
                "exchanges values until covariances are those of the table (within 0.01 on the demonstration "
                "registry, 0.34 without)"
            ),
            expect=None,
            exact_means=True,
            exact_covariance=False,
            exact_columns=True,
            same_person=False,
            leaves_scores=True,
        ),
        Masker(
            function=spectral_swap,
            name="spectral_swap",
            published="spectral swapping",
            reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section III.B.1",
            cost="time n · w²; memory: one part, and two columns of all rows",
            options={"basis": _BASIS},
            promise=(
                "means and total variance exact, covariance on average; no record is made from one person; relations "
                "that are not linear are lost; basis='columns' keeps columns, and no relation between them; in a job, "
                "decoding exchanges categories until pairs of columns have that covariance (cut off by the largest "
                "score alone, -0.55 becomes -0.24 on the demonstration registry)"
            ),
            expect=expect_swapped,
            exact_means=True,
            exact_covariance=False,
            exact_columns=False,
            same_person=False,
            permutes=True,
        ),
        Masker(
            function=synthesis,
            name="synthesis",
            published="synthesis in a spectral basis",
            reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V",
            cost="time n · (w² + w log n with draw='quantiles'); memory: one part, and three columns of all rows",
            options={
                "basis": _BASIS,
                "draw": "'normal' (default), or 'quantiles' of each component",
            },
            promise="means and covariance on average; records of no person; relations that are not linear are lost",
            expect=expect_synthesized,
            exact_means=False,
            exact_covariance=False,
            exact_columns=False,
            same_person=False,
        ),
        Masker(
            function=suppression,
            name="suppression",
            published="cell suppression in a spectral basis",
            reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V",
            cost="time n · w²; memory: one part",
            options={
                "basis": _BASIS,
                "share": "of the variance that the suppressed components may have, 0.05 by default",
                "outside": "standard deviations beyond which single cells are suppressed; none by default",
            },
            promise=(
                "means exact without 'outside', the covariance that of the components left; records stay those of "
                "persons with less detail, and can be linked"
            ),
            expect=expect_suppressed,
            exact_means=True,
            exact_covariance=False,
            exact_columns=False,
            same_person=True,
        ),
        Masker(
            function=sequential_regression,
            name="sequential_regression",
            published="fully synthetic data by sequential regressions",
            reference="Oganian & Domingo-Ferrer (2017), sections 5 and 7; Raghunathan et al. (2001), Survey "
            "Methodology 27",
            cost=(
                "time n · w² and rounds; with categories 5 to 30 passes of time n · (q w)² for each of q values; "
                "memory: one part, and (q w)² numbers for each category"
            ),
            options={
                "categories": "columns of each categorical attribute, in -1 and +1; none by default, in a job all",
                "rounds": "1 (default): each attribute given those before; more: further rounds given all others",
                "parameters": "'estimated' (default), or 'drawn' from their posterior",
                "penalty": "of slopes of logistic regressions, 0.001 by default",
            },
            promise=(
                "records of no person; means and covariance of numbers on average; shapes that are not normal and "
                "relations that are not linear are lost"
            ),
            expect=expect_sequential,
            exact_means=False,
            exact_covariance=False,
            exact_columns=False,
            same_person=False,
        ),
        Masker(
            function=generalize,
            name="generalize",
            published="Mondrian multidimensional k-anonymity",
            reference="LeFevre, DeWitt & Ramakrishnan (2006), doi:10.1109/ICDE.2006.101",
            cost="time n · w · log n; memory: one part three times",
            options={
                "k": "smallest number of records that share their intervals; in a job its k",
                "release": "'midpoint' (default), or 'interval': all low ends, then all high ends; in a job the "
                "middle, and columns NAME_from and NAME_to",
                "cuts": "'relaxed' (default): equal values may be cut apart; 'strict': they stay together",
                "steps": "intervals are widened to multiples of these, one a column, in a job by name; none by default",
                "origin": "where the steps are counted from, one a column, in a job by name; 0 by default",
                "suppress_above": "share of a column's range above which an interval is suppressed; none by default; "
                "not in a job",
            },
            promise=(
                "groups of k or more share all their intervals; ends are true values unless steps widen them; neither "
                "means nor covariances are kept"
            ),
            expect=None,
            exact_means=False,
            exact_covariance=False,
            exact_columns=False,
            same_person=True,
            identical_rows=True,
        ),
        Masker(
            function=local_synthesis,
            name="local_synthesis",
            published="local synthesis in the groups of a mixture (hybrid data)",
            reference="Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10, sections 3, 5 and 6",
            cost=(
                "time n · c · w², c components of w numbers, and seconds for a mixture chosen on 4,000 records and "
                "fitted to 40,000; memory: one part three times, and 4,000² numbers"
            ),
            options={
                "k": "smallest size of a group; in a job its k",
                "categories": "columns of each categorical attribute, in -1 and +1; none by default, in a job all",
                "components": "number of components; by default that of the largest BIC from 2 to 10",
                "shape": f"of their covariances: {', '.join(SHAPES)}; by default full or vev, by BIC",
                "tails": "'gaussian' (default), or 't': components whose degrees of freedom are estimated",
                "variance_share": "of the numbers, that the principal components keep which groups are formed by; 1 by "
                "default, less for many columns",
                "classes": "number of latent classes of the categories; by default that of the largest BIC up to 16",
                "iterations": "most passes over its sample for the mixture, 50 by default",
            },
            promise=(
                "means and covariance of every group exact, and so those of the table; groups of k or more, few and "
                "large; records of no person; shapes that are not normal inside a group are lost"
            ),
            expect=expect_local,
            exact_means=True,
            exact_covariance=True,
            exact_columns=False,
            same_person=False,
            grouped=True,
        ),
    )
}
"""All maskers by name."""


def mask(
    points: FloatArray,
    method: str,
    *,
    rng: np.random.Generator,
    partitions: Sequence[int] | None = None,
    **options: Any,
) -> FloatArray:
    """Mask a table in memory by a method of `MASKERS`.

    Parameters
    ----------
    points
        Finite numbers up to 1e100 in size, shape (n_rows, width), two rows or more. Not changed.
    method
        A key of `MASKERS`.
    rng
        Source of the key of all draws.
    partitions
        Rows of each part that the steps see, which add up to n_rows. The
        draws differ from those of another split; what the method promises does
        not. None for one part.
    **options
        The method's, see `MASKERS[method].options`.

    Returns
    -------
    float64, shape (n_rows, channels)
        As many channels as columns, but for `generalize` with intervals. Row
        i has something to do with row i of the points where
        `MASKERS[method].same_person`. No method protects a handful of rows:
        two rows that are swapped or shuffled can come out as they were.

    Raises
    ------
    JobError
        Unknown method or option, missing option, or a value that is not
        allowed.
    InputError
        Points that are not a finite table of two rows or more, partitions
        that do not add up, or a table that the method cannot mask.

    Examples
    --------
    >>> points = np.array([[1.0, 5.0], [2.0, 7.0], [4.0, 6.0]])
    >>> masked = mask(points, "data_shuffle", rng=np.random.default_rng())
    >>> np.sort(masked, axis=0).tolist()
    [[1.0, 5.0], [2.0, 6.0], [4.0, 7.0]]
    """
    if method not in MASKERS:
        raise JobError(f"unknown masker {method!r}; known are: {', '.join(MASKERS)}")
    steps = MASKERS[method].steps(**options)
    table = _checked(points)
    parts = [len(table)] if partitions is None else list(partitions)
    if any(rows < 0 for rows in parts) or sum(parts) != len(table):
        raise InputError(f"partitions have {sum(parts)} rows, and there are {len(table)}; give all rows to parts")
    masked = run_steps(table, steps, key=rng.bytes(32), parts=parts)
    return np.ascontiguousarray(masked[:, : table.shape[1]]) if MASKERS[method].grouped else masked


def _checked(points: FloatArray) -> FloatArray:
    if points.ndim != 2 or points.shape[1] == 0:
        raise InputError(f"points of shape {points.shape} are no table; give rows and one column or more")
    table = np.ascontiguousarray(points, dtype=np.float64)
    if len(table) < 2:
        raise InputError(f"a table of {len(table)} records cannot be masked; give two or more")
    if not (table.min() >= -LARGEST and table.max() <= LARGEST):
        raise InputError("points hold NaN, infinity or numbers above 1e100 in size; encode nulls and scale first")
    return table
