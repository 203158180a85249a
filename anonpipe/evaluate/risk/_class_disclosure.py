"""What groups tell of the class of their records, as measurements beside random groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Measurement
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._measure import AttackData, Measure, Measured
from anonpipe.methods.grouping import ClassDisclosure
from anonpipe.types import FloatArray

_PAPER = "Li & Sarkar (2013)"
_RANDOM = "expected of random groups of the same sizes"


@dataclass(frozen=True)
class RandomGroups:
    """What to expect of groups of given sizes that are drawn at random."""

    homogeneous_share: float  # Share of records in groups with one sensitive value
    single_share: float  # Share of records that are the only one of their class in their group
    chi_square: float  # Mean chi-square of a group


@dataclass(frozen=True)
class ClassRisk:
    """The disclosure of one class column."""

    column: str  # Its name
    disclosed: ClassDisclosure  # The figures
    expected: RandomGroups | None  # Those of random groups; None where sizes and shares were not given

    def measurements(self) -> tuple[Measurement, ...]:
        """Homogeneity, single records, chi-square, divergence, l-diversity and t-closeness."""
        told, by_chance = self.disclosed, self.expected

        def one(key: str, title: str, value: float, baseline: float | None = None, **other: str) -> Measurement:
            return Measurement(
                name=f"sensitive.{self.column}.{key}",
                title=f"Sensitive {self.column!r}: {title}",
                value=float(value),
                baseline=baseline,
                baseline_is="" if baseline is None else _RANDOM,
                unit=other.get("unit", ""),
                better="higher" if key.endswith("_l") else "lower",
                source=other["source"],
                note=other.get("note", ""),
                records=told.n_rows,
                of=told.n_rows,
                audience=Audience.STEWARD if key == "singles" else Audience.ENOUGH,
            )

        return (
            one(
                "homogeneity",
                "share of records in groups with one value",
                told.homogeneous_share,
                by_chance.homogeneous_share if by_chance else None,
                unit="share",
                source=f"{_PAPER}, section 7",
                note="Who finds the group of such a record knows its value.",
            ),
            one(
                "singles",
                "share of records that are the only one with their value in their group",
                told.single_records / told.n_rows,
                by_chance.single_share if by_chance else None,
                unit="share",
                source=f"{_PAPER}, section 7",
                note=f"In {told.groups_with_a_single} of {told.n_groups} groups; who knows both has found the record.",
            ),
            one(
                "chi_square",
                "mean chi-square of groups against the whole table",
                told.chi_square,
                by_chance.chi_square if by_chance else None,
                source=f"{_PAPER}, eq. 13",
            ),
            one(
                "divergence",
                "mean Jensen-Shannon divergence of a record's group from the whole table",
                told.mean_divergence,
                unit="bits",
                source=f"{_PAPER}, eq. 7, in base 2",
                note="0 to 1; small random groups are above 0 too.",
            ),
            one(
                "divergence_worst",
                "largest Jensen-Shannon divergence of a group from the whole table",
                told.largest_divergence,
                unit="bits",
                source=f"{_PAPER}, eq. 5, in base 2",
            ),
            one(
                "distinct_l",
                "fewest in a group (distinct l-diversity)",
                told.smallest_distinct,
                source="Machanavajjhala et al. (2007), doi:10.1145/1217299.1217302",
            ),
            one(
                "entropy_l",
                "effective number in the least diverse group (entropy l-diversity)",
                told.smallest_entropy_l,
                source="Machanavajjhala et al. (2007), doi:10.1145/1217299.1217302",
            ),
            one(
                "t",
                "largest distance of a group from the whole table (t-closeness, no order)",
                told.largest_total_variation,
                source="Li, Li & Venkatasubramanian (2007), doi:10.1109/ICDE.2007.367856",
                note="Total variation: the earth mover's distance where all values are equally far apart.",
            ),
            one(
                "t_ordered",
                "largest distance of a group from the whole table (t-closeness, in order)",
                told.largest_ordered,
                source="Li, Li & Venkatasubramanian (2007), doi:10.1109/ICDE.2007.367856",
                note="Earth mover's distance in the order of the values; means nothing for values without order.",
            ),
        )


def class_risk(
    disclosed: ClassDisclosure,
    *,
    column: str = "class",
    shares: npt.ArrayLike | None = None,
    sizes: npt.ArrayLike | None = None,
) -> ClassRisk:
    """Put the class disclosure of a grouping beside that of random groups.

    Parameters
    ----------
    disclosed
        From `class_disclosure`, of the whole table.
    column
        Name of the class column.
    shares, sizes
        Share of each class in the whole table, shape (n_classes,), and
        records of each group, shape (n_groups,), which add up to the table's;
        both, or neither for no baseline.

    Raises
    ------
    InputError
        One was given without the other, or they do not fit the disclosure.

    Examples
    --------
    >>> from anonpipe.methods.grouping import class_disclosure
    >>> told = class_disclosure(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]))
    >>> risk = class_risk(told, shares=[0.5, 0.5], sizes=[2, 2])
    >>> risk.disclosed.homogeneous_share, round(risk.expected.homogeneous_share, 4)
    (1.0, 0.3333)
    """
    if (shares is None) != (sizes is None):
        raise InputError("only one of shares and sizes was given; give both for a baseline, or neither")
    if shares is None or sizes is None:
        return ClassRisk(column, disclosed, None)
    share, size = np.asarray(shares, dtype=np.float64), np.asarray(sizes, dtype=np.int64)
    if len(size) != disclosed.n_groups or int(size.sum()) != disclosed.n_rows or size.min() < 1:
        raise InputError(
            f"{len(size)} sizes that add up to {int(size.sum())} were given for {disclosed.n_groups} groups of "
            f"{disclosed.n_rows} records; give the records of each group"
        )
    if share.ndim != 1 or not len(share) or share.min() < 0 or not np.isclose(share.sum(), 1.0):
        raise InputError("the shares of the classes must be 0 or more and add up to 1")
    return ClassRisk(column, disclosed, random_groups(size, share))


def random_groups(sizes: npt.NDArray[np.int64], shares: FloatArray) -> RandomGroups:
    """Expected disclosure of groups drawn without replacement from the table (hypergeometric).

    Examples
    --------
    >>> random_groups(np.array([1, 1]), np.array([0.5, 0.5])).homogeneous_share
    1.0
    """
    from scipy.stats import hypergeom  # only where it is measured: it takes a second

    n = int(sizes.sum())
    size, groups = np.unique(sizes, return_counts=True)
    of_class = np.rint(n * shares)[shares > 0]
    of_group = hypergeom(n, of_class[:, None], size[None, :])
    alone, single = of_group.pmf(size).sum(axis=0), of_group.pmf(1).sum(axis=0)
    spread = (len(of_class) - 1) * (n - size) / max(1, n - 1)
    return RandomGroups(
        homogeneous_share=float((groups * size * alone).sum() / n),
        single_share=float((groups * single).sum() / n),
        chi_square=float((groups * spread).sum() / len(sizes)),
    )


def _of_columns(data: AttackData) -> Measured | Reason:
    columns = data.classes
    if isinstance(columns, Reason):
        return columns
    found: list[Measurement] = []
    for name, column in columns.items():
        given = {"shares": column.shares, "sizes": column.sizes} if column.sizes is not None else {}
        found.extend(class_risk(column.told, column=name, **given).measurements())
    return found


MEASURE = Measure(
    key="sensitive",
    title="sensitive values in groups",
    figures=(
        "sensitive.*.homogeneity",
        "sensitive.*.singles",
        "sensitive.*.chi_square",
        "sensitive.*.divergence",
        "sensitive.*.divergence_worst",
        "sensitive.*.distinct_l",
        "sensitive.*.entropy_l",
        "sensitive.*.t",
        "sensitive.*.t_ordered",
    ),
    function=_of_columns,
    counts_units=True,
)
