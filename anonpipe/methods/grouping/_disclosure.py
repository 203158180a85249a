"""What a grouping discloses of the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import _class_figures_kernel as figures
from anonpipe.methods.grouping._classes import checked_classes
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True)
class ClassDisclosure:
    """How far the classes inside groups tell the class of a record."""

    # n_rows, n_groups: number of records and of groups
    n_rows: int
    n_groups: int
    # Mean over groups of the chi-square of their class counts against the shares of the whole table (Li and Sarkar
    # 2013, eq. 13).
    chi_square: float
    # mean_divergence, largest_divergence: jensen-Shannon divergence (base 2, 0 to 1) of a group from the whole table:
    # mean over *records* (eq. 7), and the largest.
    mean_divergence: float
    largest_divergence: float
    homogeneous_share: float  # Share of records in groups with one sensitive value
    # Number of groups in which a class has one record only: who knows all others of the group, or is that record,
    # learns from it
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
        rows, groups = self.n_rows + other.n_rows, self.n_groups + other.n_groups

        def mean(name: str, mine: int, all_of_both: int) -> float:
            share = mine / all_of_both
            return float(share * getattr(self, name) + (1.0 - share) * getattr(other, name))

        return ClassDisclosure(
            n_rows=rows,
            n_groups=groups,
            chi_square=mean("chi_square", self.n_groups, groups),
            mean_divergence=mean("mean_divergence", self.n_rows, rows),
            largest_divergence=max(self.largest_divergence, other.largest_divergence),
            homogeneous_share=mean("homogeneous_share", self.n_rows, rows),
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

    References
    ----------
    Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, eq. 7 and 13, section 7;
    for l-diversity and t-closeness see `constrain_classes`.

    Examples
    --------
    >>> found = class_disclosure(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1]))
    >>> found.homogeneous_share, found.smallest_distinct, round(found.chi_square, 3)
    (0.5, 1, 1.5)
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or not len(labels) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"labels has shape {labels.shape} and type {labels.dtype}; "
            f"give whole numbers of shape (n_rows,), for 1 record or more"
        )
    classes, shares = checked_classes(classes, class_shares, len(labels), "class_disclosure")
    order, starts = sort_groups(np.unique(labels, return_inverse=True)[1].reshape(-1))
    of_groups = figures.class_figures(order, starts, classes, shares)
    weights = np.diff(starts) / len(labels)
    return ClassDisclosure(
        n_rows=len(labels),
        n_groups=len(weights),
        chi_square=float(of_groups[figures.CHI_SQUARE].mean()),
        mean_divergence=float((weights * of_groups[figures.DIVERGENCE]).sum()),
        largest_divergence=float(of_groups[figures.DIVERGENCE].max()),
        homogeneous_share=float(weights[of_groups[figures.DISTINCT] == 1].sum()),
        groups_with_a_single=int((of_groups[figures.SINGLES] > 0).sum()),
        single_records=int(of_groups[figures.SINGLES].sum()),
        smallest_distinct=int(of_groups[figures.DISTINCT].min()),
        smallest_entropy_l=float(np.exp(of_groups[figures.ENTROPY].min())),
        largest_total_variation=float(of_groups[figures.VARIATION].max()),
        largest_ordered=float(of_groups[figures.ORDERED].max()),
    )
