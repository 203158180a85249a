"""How far the class shares of a group lie from those of the whole table.

Counts are whole numbers held as float64. Results are rounded to steps of 2^-40: equal distributions get equal figures
whatever the order of the sums, and rounding errors decide nothing where figures are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping._units import unit_codes
from anonpipe.types import FloatArray, IntArray

STEPS = 2.0**40


@nb.njit(cache=True, nogil=True)
def rounded(value: float) -> float:
    """The nearest multiple of 2^-40."""
    return float(np.rint(value * STEPS) / STEPS)


@nb.njit(cache=True, nogil=True)
def jensen_shannon(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Jensen-Shannon divergence in base 2 of counts / total from `shares`, 0 to 1.

    Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, definitions 1 and 2; a term of share 0 counts 0.
    """
    value = 0.0
    for c in range(shares.shape[0]):
        here = counts[c] / total
        there = shares[c]
        middle = (here + there) / 2.0
        if here > 0.0:
            value += here * np.log2(here / middle)
        if there > 0.0:
            value += there * np.log2(there / middle)
    return rounded(value / 2.0)


@nb.njit(cache=True, nogil=True)
def total_variation(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Half the sum of the differences of shares, 0 to 1: the earth mover's distance of unordered classes."""
    value = 0.0
    for c in range(shares.shape[0]):
        value += abs(counts[c] / total - shares[c])
    return rounded(value / 2.0)


@nb.njit(cache=True, nogil=True)
def ordered_distance(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Earth mover's distance of ordered classes, 0 to 1; from the first to the last class is 1.

    Li, Li and Venkatasubramanian 2007, doi:10.1109/ICDE.2007.367856, section 5.
    """
    if shares.shape[0] < 2:
        return 0.0
    value = 0.0
    moved = 0.0
    for c in range(shares.shape[0]):
        moved += counts[c] / total - shares[c]
        value += abs(moved)
    return rounded(value / (shares.shape[0] - 1))


@nb.njit(cache=True, nogil=True)
def entropy(counts: FloatArray, total: float) -> float:
    """Entropy of counts / total in natural units."""
    value = 0.0
    for c in range(counts.shape[0]):
        if counts[c] > 0.0:
            value -= counts[c] / total * np.log(counts[c] / total)
    return rounded(value)


MOST_CODES = 100_000  # Counts are kept for every code up to the largest: codes beyond are meant for something else


def checked_classes(
    classes: IntArray | None, shares: FloatArray | None, n_rows: int, method: str
) -> tuple[IntArray, FloatArray]:
    """Classes as int64 and their shares in the whole table, once it is sure that they fit."""
    if classes is None:
        raise ValueError(f"{method} needs classes: the class of each record, codes from 0, shape ({n_rows},)")
    classes = np.asarray(classes)
    if classes.shape != (n_rows,) or not np.issubdtype(classes.dtype, np.integer):
        raise ValueError(
            f"classes has shape {classes.shape} and type {classes.dtype} for {n_rows} records; "
            f"give whole numbers from 0, shape ({n_rows},)"
        )
    classes = np.ascontiguousarray(classes, dtype=np.int64)
    if classes.min() < 0:
        raise ValueError("a class is negative; give codes from 0")
    if classes.max() >= MOST_CODES:
        raise ValueError(
            f"the largest class code is {MOST_CODES:,} or more; number the classes from 0, "
            "for example by np.unique(classes, return_inverse=True)[1]"
        )
    if shares is None:
        shares = np.bincount(classes) / len(classes)
    shares = np.ascontiguousarray(shares, dtype=np.float64)
    if shares.ndim != 1 or not (shares >= 0).all() or abs(float(shares.sum()) - 1.0) > 1e-6:
        raise ValueError("class_shares are not the shares of the classes; give numbers from 0 that sum to 1")
    if classes.max() >= len(shares) or (shares[classes] == 0).any():
        raise ValueError(f"class_shares has {len(shares)} entries and leaves a class of the records without a share")
    return classes, shares


def diagonal(features: FloatArray) -> float:
    """Diagonal of the box around the points, which no distance exceeds; 1 where all points are equal."""
    length = float(np.sqrt(np.square(np.ptp(features, axis=0)).sum()))
    return length if length > 0.0 else 1.0


CHI_SQUARE, DIVERGENCE, DISTINCT, SINGLES, ENTROPY, VARIATION, ORDERED = range(7)  # Rows of what `_class_figures` gives


@nb.njit(cache=True, nogil=True)
def _class_figures(order: IntArray, starts: IntArray, classes: IntArray, shares: FloatArray) -> FloatArray:
    """Figures of every group, rows `CHI_SQUARE` to `ORDERED` of shape (7, n_groups); see `ClassDisclosure`."""
    n_groups = starts.shape[0] - 1
    out = np.zeros((7, n_groups))
    counts = np.empty(shares.shape[0])
    for g in range(n_groups):
        total = float(starts[g + 1] - starts[g])
        counts[:] = 0.0
        for i in order[starts[g] : starts[g + 1]]:
            counts[classes[i]] += 1.0
        for c in range(shares.shape[0]):
            expected = total * shares[c]
            if expected > 0.0:
                out[CHI_SQUARE, g] += (counts[c] - expected) ** 2 / expected
            if counts[c] > 0.0:
                out[DISTINCT, g] += 1.0
            if counts[c] == 1.0:
                out[SINGLES, g] += 1.0
        out[DIVERGENCE, g] = jensen_shannon(counts, total, shares)
        out[ENTROPY, g] = entropy(counts, total)
        out[VARIATION, g] = total_variation(counts, total, shares)
        out[ORDERED, g] = ordered_distance(counts, total, shares)
    return out


@dataclass(frozen=True)
class ClassDisclosure:
    """How far the classes inside groups tell the class of a record."""

    # n_rows, n_groups: number of records and of groups
    n_rows: int
    n_groups: int
    # Mean over groups of the chi-square of their class counts against the table's shares (Li and Sarkar 2013, eq. 13).
    chi_square: float
    # mean_divergence, largest_divergence: jensen-Shannon divergence (base 2, 0 to 1) of a group from the whole table:
    # mean over *records* (eq. 7), and the largest.
    mean_divergence: float
    largest_divergence: float
    homogeneous_share: float  # Share of records in groups with one sensitive value
    # Number of groups in which a class has one record only: who knows all others of the group learns from it
    groups_with_a_single: int
    # Number of records that are the only one of their class in their group (Li and Sarkar 2013, section 7): who knows
    # one of its group and its class has found it
    single_records: int
    smallest_distinct: int  # Fewest classes in a group: the grouping is distinctly l-diverse up to this l
    smallest_entropy_l: float  # exp of the least entropy: entropy l-diverse up to this l
    # largest_total_variation, largest_ordered: largest distance of a group from the whole table, 0 to 1: t-close down
    # to this t, for classes without order and for ordered ones
    largest_total_variation: float
    largest_ordered: float

    def merge(self, other: ClassDisclosure) -> ClassDisclosure:
        """Both parts of a table together, measured against the same shares; no group may have records in both."""
        n_rows, n_groups = self.n_rows + other.n_rows, self.n_groups + other.n_groups
        of_rows, of_groups = self.n_rows / n_rows, self.n_groups / n_groups  # what this part weighs in means

        def mean(share: float, mine: float, theirs: float) -> float:
            return float(share * mine + (1.0 - share) * theirs)

        return ClassDisclosure(
            n_rows=n_rows,
            n_groups=n_groups,
            chi_square=mean(of_groups, self.chi_square, other.chi_square),
            mean_divergence=mean(of_rows, self.mean_divergence, other.mean_divergence),
            largest_divergence=max(self.largest_divergence, other.largest_divergence),
            homogeneous_share=mean(of_rows, self.homogeneous_share, other.homogeneous_share),
            groups_with_a_single=self.groups_with_a_single + other.groups_with_a_single,
            single_records=self.single_records + other.single_records,
            smallest_distinct=min(self.smallest_distinct, other.smallest_distinct),
            smallest_entropy_l=min(self.smallest_entropy_l, other.smallest_entropy_l),
            largest_total_variation=max(self.largest_total_variation, other.largest_total_variation),
            largest_ordered=max(self.largest_ordered, other.largest_ordered),
        )


def class_disclosure(labels: IntArray, classes: IntArray, class_shares: FloatArray | None = None) -> ClassDisclosure:
    """Measure how the sensitive values in groups differ from those of the whole table.

    Shapes: labels (n_rows,); classes (n_rows,).

    Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, eq. 7 and 13, section 7; for l-diversity and t-closeness see
    `constrain_classes`.
    """
    labels = unit_codes(labels, "labels", np.size(labels))
    classes, shares = checked_classes(classes, class_shares, len(labels), "class_disclosure")
    order, starts = sort_groups(labels)
    of_groups = _class_figures(order, starts, classes, shares)
    weights = np.diff(starts) / len(labels)
    return ClassDisclosure(
        n_rows=len(labels),
        n_groups=len(weights),
        chi_square=float(of_groups[CHI_SQUARE].mean()),
        mean_divergence=float((weights * of_groups[DIVERGENCE]).sum()),
        largest_divergence=float(of_groups[DIVERGENCE].max()),
        homogeneous_share=float(weights[of_groups[DISTINCT] == 1].sum()),
        groups_with_a_single=int((of_groups[SINGLES] > 0).sum()),
        single_records=int(of_groups[SINGLES].sum()),
        smallest_distinct=int(of_groups[DISTINCT].min()),
        smallest_entropy_l=float(np.exp(of_groups[ENTROPY].min())),
        largest_total_variation=float(of_groups[VARIATION].max()),
        largest_ordered=float(of_groups[ORDERED].max()),
    )
