"""Whether a release can be said to be probabilistically k-anonymous, and on what assumptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from anonpipe.evaluate.measurement import Audience, Figure
from anonpipe.evaluate.risk._measure import AttackData, Link, Measured, RiskMeasure, require
from anonpipe.methods.record import Masker, Synthesizer
from anonpipe.types import FloatArray, IntArray

Answer = Literal["holds", "does not hold", "cannot be said"]

_BOUND = Figure(
    "probabilistic_k_anonymity.bound",
    "Largest probability that a record is linked to the released one that stands for it",
    "probability",
    "Oganian & Domingo-Ferrer (2017), Definition 1; Soria-Comas & Domingo-Ferrer (2012)",
    Audience.ENOUGH,
)


class ProbabilisticBound(NamedTuple):
    """The bound on the probability of a correct link, and whether it keeps to 1/k."""

    answer: Answer  # `holds`, `does not hold`, or `cannot be said`
    bound: float  # Largest probability of a correct link; NaN where none follows
    reasons: tuple[str, ...]  # Why it does not hold or cannot be said; empty where it holds


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


def fewest_alike(labels: IntArray, own_cells: FloatArray) -> int:
    """Fewest records of a group that are alike in all columns that records keep for themselves.

    - `labels`: whole numbers, shape (n_rows,), one row or more.
    - `own_cells`: those columns, numbers or codes with NaN for null, shape (n_rows, n_columns).
    """
    joint = np.unique(labels, return_inverse=True)[1].reshape(-1)
    for column in own_cells.T:
        # Numbered again after each column, so that the numbers stay below n_rows squared.
        codes = np.unique(column, return_inverse=True)[1].reshape(-1)
        joint = np.unique(joint * (int(codes.max()) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return int(np.bincount(joint).min())


def probabilistic_bound(data: AttackData) -> ProbabilisticBound:
    """Judge Definition 1 by how the release was made, in an order that tells nothing.

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
    smallest, k, width, own = require(data.smallest_group), data.k, len(data.features), data.own_columns
    group = data.rows if smallest is None else smallest
    alike = data.fewest_alike if own else group
    broken = ["each released record is made from one person's record"] if data.link == "own" else []
    open_ = (
        ["what a released record owes to one person's is not known for this method"] if data.link == "unknown" else []
    )
    if own and alike is None:
        open_.append(f"records keep {own} columns of their own, and how many are alike in them is not known")
    elif own and alike is not None and alike < k:
        broken.append(f"records keep {own} columns of their own, in which only {alike} of a group are alike")
    if group < k:
        broken.append(f"the smallest group has {group} records")
    if data.exact_moments and 1 < group <= width + 1:
        if group == 2:
            broken.append("exact mean and scatter release a group of two as it was")
        else:
            open_.append(
                f"exact mean and scatter leave a group of {group} in the span of its originals, with {width} columns"
            )
    tied = bool(open_) or data.link != "none" or (data.exact_moments and group == 2)
    answer: Answer = "does not hold" if broken else "cannot be said" if open_ else "holds"
    bound = float("nan") if tied or alike is None else 1.0 / min(group, alike)
    return ProbabilisticBound(answer, bound, (*broken, *open_))


def _of_release(data: AttackData) -> Measured:
    """The bound compared with 1/k, the answer in words, and what it takes for granted."""
    found = probabilistic_bound(data)
    alike = "the method treats the members of a group alike"
    whole = "a model of the whole table remembers no single record"
    assumed = "the intruder has no other release of these records; one record a person; "
    words = [f"Probabilistic {data.k}-anonymity: {found.answer}."]
    words += [f"{reason[:1].upper()}{reason[1:]}." for reason in found.reasons]
    words.append(f"Assumed: {assumed}{whole if data.smallest_group is None else alike}.")
    figure = replace(_BOUND, baseline_is=f"what the definition allows for k = {data.k}")
    return (figure.measured(found.bound, data.rows, baseline=1.0 / data.k, note=" ".join(words)),)


MEASURE = RiskMeasure("probabilistic", "probabilistic k-anonymity", (_BOUND,), _of_release)
