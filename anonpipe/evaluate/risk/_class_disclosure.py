"""What groups disclose of the class of their records, compared with random groups."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import numpy as np

from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.risk._measure import AttackData, ClassShares, Measured, RiskMeasure, require
from anonpipe.types import FloatArray, IntArray

_LI_SARKAR, _L_DIVERSITY, _T_CLOSENESS = (
    "Li & Sarkar (2013)",
    "Machanavajjhala et al. (2007), doi:10.1145/1217299.1217302",
    "Li, Li & Venkatasubramanian (2007), doi:10.1109/ICDE.2007.367856",
)


_FURTHEST = "largest distance of a group from the whole table (t-closeness, {})"
# Of each figure what `ClassDisclosure` calls it, then key, title, source, unit, note; `*` stands for the class column
_TABLE = (
    ("homogeneous_share", "homogeneity", "share of records in groups with one value", f"{_LI_SARKAR}, section 7",
        "share", "Who finds the group of such a record knows its value."),
    ("single_records", "singles", "share of records with a value that is unique in their group",
        f"{_LI_SARKAR}, section 7", "share", ""),
    ("chi_square", "chi_square", "mean chi-square of groups against the whole table", f"{_LI_SARKAR}, eq. 13", "", ""),
    ("mean_divergence", "divergence", "mean Jensen-Shannon divergence of a record's group from the whole table",
        f"{_LI_SARKAR}, eq. 7, in base 2", "bits", "0 to 1; small random groups are above 0 too."),
    ("largest_divergence", "divergence_worst", "largest Jensen-Shannon divergence of a group from the whole table",
        f"{_LI_SARKAR}, eq. 5, in base 2", "bits", ""),
    ("smallest_distinct", "distinct_l", "fewest in a group (distinct l-diversity)", _L_DIVERSITY, "", ""),
    ("smallest_entropy_l", "entropy_l", "effective number in the least diverse group (entropy l-diversity)",
        _L_DIVERSITY, "", ""),
    ("largest_total_variation", "t", _FURTHEST.format("no order"), _T_CLOSENESS, "",
        "Total variation: the earth mover's distance where all values are equally far apart."),
    ("largest_ordered", "t_ordered", _FURTHEST.format("in order"), _T_CLOSENESS, "",
        "Earth mover's distance in the order of the values; means nothing for values without order."),
)  # fmt: skip
_FIGURES = {
    what: Figure(
        f"sensitive.*.{key}",
        title,
        unit,
        source,
        Audience.STEWARD if key == "singles" else Audience.ENOUGH,
        better="higher" if key.endswith("_l") else "lower",
        baseline_is="expected of random groups of the same sizes",
        note=note,
    )
    for what, key, title, source, unit, note in _TABLE
}


def class_risk(name: str, column: ClassShares) -> list[Measurement]:
    """Compare the class disclosure of a grouping with that of random groups, if the sizes of its groups are known."""
    disclosed = column.disclosed
    expected = () if column.sizes is None else random_groups(column.sizes, column.shares)
    groups = f"{disclosed.groups_with_a_single} of {disclosed.n_groups} groups"
    found = []
    for (what, figure), baseline in zip_longest(_FIGURES.items(), expected):
        value, note = float(getattr(disclosed, what)), None
        if what == "single_records":
            value, note = value / disclosed.n_rows, f"In {groups}; an intruder who knows both has found the record."
        named = replace(figure, key=figure.key.replace("*", name), title=f"Sensitive {name!r}: {figure.title}")
        found.append(named.measured(value, disclosed.n_rows, baseline=baseline, note=note))
    return found


def random_groups(sizes: IntArray, shares: FloatArray) -> tuple[float, ...]:
    """Expected disclosure of groups drawn without replacement from the table (hypergeometric).

    Shares of records in groups with one value, and of those that are the only one of their class in their group, and
    the mean chi-square of a group: the first of `_TABLE`.
    """
    from scipy.stats import hypergeom  # only where it is measured: it takes a second

    n = int(sizes.sum())
    size, groups = np.unique(sizes, return_counts=True)
    of_class = np.rint(n * shares)[shares > 0]
    of_group = hypergeom(n, of_class[:, None], size[None, :])
    alone, single = of_group.pmf(size).sum(axis=0), of_group.pmf(1).sum(axis=0)
    spread = (len(of_class) - 1) * (n - size) / max(1, n - 1)
    sums = (groups * size * alone).sum() / n, (groups * single).sum() / n, (groups * spread).sum() / len(sizes)
    return tuple(map(float, sums))


def _of_columns(data: AttackData) -> Measured:
    return [one for name, column in require(data.classes).items() for one in class_risk(name, column)]


MEASURE = RiskMeasure(
    "sensitive", "sensitive values in groups", tuple(_FIGURES.values()), _of_columns, counts_units=True
)
