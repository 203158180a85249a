"""How far the class shares of a group lie from those of the whole table.

Counts are whole numbers held as float64. Results are rounded to steps of 2^-40: equal distributions get equal figures
whatever the order of the sums, and rounding errors decide nothing where figures are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anonpipe.errors import InfeasibleError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import checked_features, sort_groups
from anonpipe.methods.grouping._units import cheaper, unit_codes, ward_costs
from anonpipe.types import BoolArray, FloatArray, IntArray

STEPS = 2.0**40


@kernel
def rounded(value: float) -> float:
    """The nearest multiple of 2^-40."""
    return float(np.rint(value * STEPS) / STEPS)


@kernel
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


@kernel
def total_variation(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Half the sum of the differences of shares, 0 to 1: the earth mover's distance of unordered classes."""
    value = 0.0
    for c in range(shares.shape[0]):
        value += abs(counts[c] / total - shares[c])
    return rounded(value / 2.0)


@kernel
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


@kernel
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


@kernel
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

    n_rows: int  # Number of records
    n_groups: int  # Number of groups
    chi_square: float  # Mean over groups of the chi-square of class counts (Li and Sarkar 2013, eq. 13)
    # mean_divergence, largest_divergence: jensen-Shannon divergence (base 2, 0 to 1) of a group from the whole table:
    # mean over *records* (eq. 7), and the largest.
    mean_divergence: float
    largest_divergence: float
    homogeneous_share: float  # Share of records in groups with one sensitive value
    groups_with_a_single: int  # Groups in which a class has one record: who knows all others learns from it
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


# --- Groups that hold enough of the classes ---------------------------------------------------------------------------

HELP = 0.1  # A merger that only helps is taken where it costs less than this share of the cheapest that mends


class Limits(NamedTuple):
    """What a group must fulfil."""

    distinct: float  # Fewest classes that occur; 1 asks for no more
    entropy: float  # Least entropy in natural units; 0 asks for none
    t: float  # Largest distance from `shares`; 1 allows any
    ordered: bool  # Whether the distance is the ordered one, else total variation
    shares: FloatArray  # Share of each class in the whole table, shape (n_classes,)


@kernel
def _shortfall(counts: FloatArray, total: float, limits: Limits) -> float:
    """By how much class counts of `total` records break the limits, added up; 0 where they keep them."""
    short = 0.0
    if limits.distinct > 1.0:
        found = 0.0
        for c in range(counts.shape[0]):
            if counts[c] > 0.0:
                found += 1.0
        short += max(0.0, limits.distinct - found)
    if limits.entropy > 0.0:
        short += max(0.0, rounded(limits.entropy) - entropy(counts, total))
    if limits.t < 1.0 and limits.ordered:
        short += max(0.0, ordered_distance(counts, total, limits.shares) - rounded(limits.t))
    elif limits.t < 1.0:
        short += max(0.0, total_variation(counts, total, limits.shares) - rounded(limits.t))
    return short


@kernel
def _fulfils(counts: FloatArray, total: float, limits: Limits) -> bool:
    """Whether class counts of `total` records keep the limits."""
    return bool(_shortfall(counts, total, limits) <= 0.0)


@kernel
def _merge_groups(means: FloatArray, sizes: FloatArray, counts: FloatArray, limits: Limits) -> IntArray:
    """For each group the lowest number among those it is merged with, shape (n_groups,); the arrays are overwritten."""
    # `means` (width, n_groups), `sizes` (n_groups,) and `counts` (n_groups, n_classes)
    n_groups = sizes.shape[0]
    ids = np.arange(n_groups)
    into = np.arange(n_groups)
    wrong = np.empty(n_groups, dtype=np.bool_)
    for g in range(n_groups):
        wrong[g] = not _fulfils(counts[g], sizes[g], limits)
    left = n_groups
    a = _smallest_wrong(wrong, sizes, ids, left)
    while a >= 0 and left > 1:
        b = _partner(means, sizes, counts, ids, left, a, limits)
        if ids[b] < ids[a]:
            a, b = b, a
        into[ids[b]] = ids[a]
        left -= 1
        for j in range(means.shape[0]):
            means[j, a] = (sizes[a] * means[j, a] + sizes[b] * means[j, b]) / (sizes[a] + sizes[b])
            means[j, b] = means[j, left]
        for c in range(counts.shape[1]):
            counts[a, c] += counts[b, c]
            counts[b, c] = counts[left, c]
        sizes[a] += sizes[b]
        wrong[a] = not _fulfils(counts[a], sizes[a], limits)
        ids[b], sizes[b], wrong[b] = ids[left], sizes[left], wrong[left]
        a = _smallest_wrong(wrong, sizes, ids, left)
    for g in range(n_groups):
        into[g] = into[into[g]]
    return into


@kernel
def _smallest_wrong(wrong: BoolArray, sizes: FloatArray, ids: IntArray, left: int) -> int:
    """Place of the smallest of the groups that break the limits, or -1."""
    at = -1
    for g in range(left):
        if wrong[g] and (at < 0 or sizes[g] < sizes[at] or (sizes[g] == sizes[at] and ids[g] < ids[at])):
            at = g
    return at


@kernel
def _partner(
    means: FloatArray, sizes: FloatArray, counts: FloatArray, ids: IntArray, left: int, a: int, limits: Limits
) -> int:
    """Place of the group that raises the within-group scatter least when group a takes it in."""
    # Groups that mend a come first, but for a group that brings it nearer to the limits for less than `HELP` of the
    # scatter: without these, one large group in the right shares would take in all the others one by one. Where there
    # is neither, any group will do; of equals the lowest number.
    costs, union = ward_costs(means, sizes, left, a), np.empty(counts.shape[1])
    short = _shortfall(counts[a], sizes[a], limits)
    mending = helping = other = int(-1)
    for g in range(left):
        if g == a:
            continue
        for c in range(union.shape[0]):
            union[c] = counts[a, c] + counts[g, c]
        after = _shortfall(union, sizes[a] + sizes[g], limits)
        if after <= 0.0:
            mending = cheaper(mending, g, costs, ids)
        elif after < short:
            helping = cheaper(helping, g, costs, ids)
        else:
            other = cheaper(other, g, costs, ids)
    if helping >= 0 and (mending < 0 or costs[helping] < HELP * costs[mending]):
        return helping
    return mending if mending >= 0 else other


DIVERSITIES = ("distinct", "entropy")
DISTANCES = ("total_variation", "ordered")


def constrain_classes(
    features: FloatArray,
    labels: IntArray,
    classes: IntArray,
    *,
    l_diversity: float | None = None,
    diversity: str = "distinct",
    t_closeness: float | None = None,
    distance: str = "total_variation",
    class_shares: FloatArray | None = None,
) -> IntArray:
    """Merge groups of any grouping until every one is l-diverse and t-close.

    The smallest group that breaks a limit, of equals the one of lowest label, is merged with the group that raises the
    within-group scatter least (Ward's criterion) among those with which it keeps the limits, or with one that brings it
    nearer to them where that costs less than a tenth; with any where there is neither. So until no group breaks a
    limit. Mixtures of groups that keep the limits keep them too, but a mixture with one that does not may break them:
    it is then merged further. All records in one group keep the limits, or the call is refused.

    Merging with the nearest group whatever its classes, as is usual, makes much larger groups, since near groups are
    alike in class: MDAV groups of 3 records of the diabetes data made 0.3-close lose 23 % instead of 30 %.

    Time O(wrong groups · groups · (width + n_classes)), memory O(n_rows + groups·(width + n_classes)).

    Shapes: features (n_rows, width); labels (n_rows,); classes (n_rows,).

    Machanavajjhala, Gehrke, Kifer and Venkitasubramaniam 2006, doi:10.1109/ICDE.2006.1 (l-diversity); Li, Li and
    Venkatasubramanian 2007, doi:10.1109/ICDE.2007.367856 (t-closeness, section 5 for the distances).
    """
    features = checked_features(features)
    groups = unit_codes(labels, "labels", len(features))
    classes, shares = checked_classes(classes, class_shares, len(features), "constrain_classes")
    limits = _limits(l_diversity, diversity, t_closeness, distance, shares)
    problem = _broken(np.bincount(classes, minlength=len(shares)).astype(np.float64), limits)
    if problem:
        raise InfeasibleError(problem)
    sizes = np.bincount(groups).astype(np.float64)
    means = np.stack([np.bincount(groups, weights=column) / sizes for column in features.T])
    counts = np.zeros((len(sizes), len(shares)))
    np.add.at(counts, (groups, classes), 1.0)
    into = _merge_groups(means, sizes, counts, limits)
    return np.unique(into[groups], return_inverse=True)[1].reshape(-1).astype(np.int64)


def _limits(
    l_diversity: float | None, diversity: str, t_closeness: float | None, distance: str, shares: FloatArray
) -> Limits:
    """The limits as the kernel takes them."""
    if diversity not in DIVERSITIES:
        raise ValueError(f"diversity is {diversity!r}; allowed are {', '.join(DIVERSITIES)}")
    if distance not in DISTANCES:
        raise ValueError(f"distance is {distance!r}; allowed are {', '.join(DISTANCES)}")
    if l_diversity is None and t_closeness is None:
        raise ValueError("neither l_diversity nor t_closeness is given; give one or both")
    if l_diversity is None and diversity != DIVERSITIES[0]:
        raise ValueError(f"diversity is {diversity!r} and l_diversity is not given; give both or neither")
    if t_closeness is None and distance != DISTANCES[0]:
        raise ValueError(f"distance is {distance!r} and t_closeness is not given; give both or neither")
    if l_diversity is not None and not 1 <= l_diversity < np.inf:
        raise ValueError(f"l_diversity is {l_diversity}; give 1 or more")
    if t_closeness is not None and not 0 <= t_closeness <= 1:
        raise ValueError(f"t_closeness is {t_closeness}; give a number from 0 to 1")
    least = 1.0 if l_diversity is None else float(l_diversity)
    return Limits(
        distinct=least if diversity == "distinct" else 1.0,
        entropy=float(np.log(least)) if diversity == "entropy" else 0.0,
        t=1.0 if t_closeness is None else float(t_closeness),
        ordered=distance == "ordered",
        shares=shares,
    )


def unreachable(
    counts: IntArray | FloatArray,
    class_shares: FloatArray,
    *,
    l_diversity: float | None = None,
    diversity: str = "distinct",
    t_closeness: float | None = None,
    distance: str = "total_variation",
) -> str | None:
    """Why no grouping of these records can keep the limits: as one group they break one. None where they keep all.

    Shapes: counts (n_classes,); class_shares (n_classes,).
    """
    limits = _limits(l_diversity, diversity, t_closeness, distance, class_shares)
    return _broken(np.asarray(counts, dtype=np.float64), limits)


def _broken(counts: FloatArray, limits: Limits) -> str | None:
    """Which limit one group of all records breaks."""
    total = float(counts.sum())
    if _fulfils(counts, total, limits):
        return None
    found = int((counts > 0).sum())
    if found < limits.distinct:
        return f"l_diversity is {limits.distinct:g} for records of {found} classes; give at most {found}"
    most = float(np.exp(entropy(counts, total)))
    if not _fulfils(counts, total, limits._replace(t=1.0)):
        return (
            f"l_diversity is {np.exp(limits.entropy):g} by entropy, and all records together reach {most:.4g}; "
            f"give less than that"
        )
    measure = ordered_distance if limits.ordered else total_variation
    return (
        f"t_closeness is {limits.t:g}, and all records together lie {measure(counts, total, limits.shares):.4g} from "
        f"class_shares; give more than that, or group a part of the table that is more like it"
    )
