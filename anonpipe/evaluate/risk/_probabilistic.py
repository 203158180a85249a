"""Whether a release can be said to be probabilistically k-anonymous, and on what assumptions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.risk._measure import AttackData, Link, Measured, RiskMeasure, require
from anonpipe.methods.record import Masker, Synthesizer

Answer = Literal["holds", "does not hold", "cannot be said"]

_BOUND = Figure(
    "probabilistic_k_anonymity.bound",
    "Largest probability that a record is linked to the released one that stands for it",
    "probability",
    "Oganian & Domingo-Ferrer (2017), Definition 1; Soria-Comas & Domingo-Ferrer (2012)",
    Audience.ENOUGH,
)


@dataclass(frozen=True)
class ProbabilisticBound:
    """The bound on the probability of a correct link, and whether it keeps to 1/k."""

    k: int  # What was asked
    answer: Answer  # `holds`, `does not hold`, or `cannot be said`
    bound: float  # Largest probability of a correct link; NaN where none follows
    reasons: tuple[str, ...]  # Why it does not hold or cannot be said; empty where it holds
    assumptions: tuple[str, ...]  # What the answer takes for granted
    records: int  # Records of the release

    def measurements(self) -> tuple[Measurement, ...]:
        """The bound compared with 1/k, and the answer in words."""
        words = [f"Probabilistic {self.k}-anonymity: {self.answer}."]
        words += [f"{reason[:1].upper()}{reason[1:]}." for reason in self.reasons]
        figure = replace(_BOUND, baseline_is=f"what the definition allows for k = {self.k}")
        note = " ".join([*words, "Assumed:", "; ".join(self.assumptions) + "."])
        return (figure.measured(self.bound, self.records, baseline=1.0 / self.k, note=note),)


def link_by(record: Synthesizer | Masker) -> Link:
    """What ties a released record to one person, by the record of a synthesizer or masker.

    `none`: it is made from its group (or the whole table) and from draws. `own`: it is made from one record. `unknown`:
    neither can be said.
    """
    masker = record if isinstance(record, Masker) else None
    # Equal records cannot be distinguished, whatever they were made from.
    if record.link == "person" and not (masker and masker.identical_rows):
        return "own"
    # Made from the whole table, but of true values of persons.
    return "unknown" if masker and masker.exact_columns else "none"


def fewest_alike(labels: npt.ArrayLike, own_cells: npt.ArrayLike) -> int:
    """Fewest records of a group that are alike in all columns that records keep for themselves.

    - `labels`: whole numbers, shape (n_rows,), one row or more.
    - `own_cells`: those columns, numbers or codes with NaN for null, shape (n_rows, n_columns).
    """
    groups, cells = np.asarray(labels), np.asarray(own_cells, dtype=np.float64)
    if groups.ndim != 1 or not len(groups) or cells.ndim != 2 or len(cells) != len(groups):
        raise InputError(
            f"labels has shape {groups.shape} and the cells {cells.shape}; give one row or more of both, (n_rows,) "
            "and (n_rows, n_columns)"
        )
    joint = np.unique(groups, return_inverse=True)[1].reshape(-1)
    for column in cells.T:
        # Numbered again after each column, so that the numbers stay below n_rows squared.
        codes = np.unique(column, return_inverse=True)[1].reshape(-1)
        joint = np.unique(joint * (int(codes.max()) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return int(np.bincount(joint).min())


def probabilistic_bound(
    k: int,
    smallest_group: int | None,
    *,
    link: Link,
    records: int,
    exact_moments: bool = False,
    width: int | None = None,
    own_columns: int = 0,
    fewest_alike: int | None = None,
) -> ProbabilisticBound:
    """Judge Definition 1 by how the release of so many records was made, in an order that tells nothing.

    - `k`: links may be right with a probability of 1/k.
    - `smallest_group`: records of the smallest group that records were made from; None for the whole table.
    - `link`: what ties a released record to one person; see `link_by`.
    - `exact_moments`, `width`: whether mean and scatter of every group were kept exactly, and of how many columns.
    - `own_columns`, `fewest_alike`: columns of which each released record keeps one person's values, and fewest records
      of a group that are alike in them; None for unknown.

    *Definition 1* bounds the probability that an intruder who knows the release, any named table and the method links a
    record correctly. Where records of a group are made from the group alone, by draws that treat its members alike,
    each of its n released records stands for the victim with probability 1/n, whatever the intruder knows: linking to
    the group is the best there is. That covers equal records too.

    *What breaks it:* columns that a record keeps for itself, unless k records of its group are alike in them; draws
    that can be repeated; a telling order of rows. With exact mean and scatter a group of two is released as it was, and
    one of up to width + 1 records lies in the span of its originals: there the law of the draws is alike for all
    members, but values are close to solved for (see `known_attribute`), so that nothing is promised here.

    *The definition is about links,* not about what is learnt of a person: a group whose members are all ill tells on
    each.
    """
    group = records if smallest_group is None else smallest_group
    if min(k, group, records) < 1 or own_columns < 0 or (fewest_alike is not None and fewest_alike < 1):
        raise JobError(
            f"k={k}, smallest_group={smallest_group}, records={records}, own_columns={own_columns} and "
            f"fewest_alike={fewest_alike} were given; give whole numbers of 1 or more (columns: 0 or more)"
        )
    if link not in get_args(Link):
        raise JobError(f"unknown link {link!r}; known are: {', '.join(get_args(Link))}")
    if exact_moments and width is None:
        raise JobError("exact moments were given without width; give the number of columns synthesized together")
    alike = group if not own_columns else fewest_alike
    broken = ["each released record is made from one person's record"] if link == "own" else []
    open_ = ["what a released record owes to one person's is not known for this method"] if link == "unknown" else []
    if own_columns and alike is None:
        open_.append(f"records keep {own_columns} columns of their own, and how many are alike in them is not known")
    elif own_columns and alike is not None and alike < k:
        broken.append(f"records keep {own_columns} columns of their own, in which only {alike} of a group are alike")
    if group < k:
        broken.append(f"the smallest group has {group} records")
    if exact_moments and width is not None and 1 < group <= width + 1:
        if group == 2:
            broken.append("exact mean and scatter release a group of two as it was")
        else:
            open_.append(
                f"exact mean and scatter leave a group of {group} in the span of its originals, with {width} columns"
            )
    tied = bool(open_) or link != "none" or (exact_moments and group == 2)
    answer: Answer = "does not hold" if broken else "cannot be said" if open_ else "holds"
    return ProbabilisticBound(
        k=k,
        answer=answer,
        bound=float("nan") if tied or alike is None else 1.0 / min(group, alike),
        reasons=(*broken, *open_),
        assumptions=(
            "the intruder has no other release of these records",
            "one record a person",
            "the method treats the members of a group alike"
            if smallest_group is not None
            else "a model of the whole table remembers no single record",
        ),
        records=records,
    )


def _of_release(data: AttackData) -> Measured:
    smallest = require(data.smallest_group)
    found = probabilistic_bound(
        data.k,
        smallest,
        link=data.link,
        records=data.rows,
        exact_moments=data.exact_moments,
        width=len(data.features),
        own_columns=data.own_columns,
        fewest_alike=data.fewest_alike,
    )
    return found.measurements()


MEASURE = RiskMeasure("probabilistic", "probabilistic k-anonymity", (_BOUND.key,), _of_release)
