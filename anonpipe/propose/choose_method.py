"""By which mask, or in groups, a job is proposed to replace records, and which limits it is proposed to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from anonpipe.columns import Role
from anonpipe.encoding.identifiers import Repeats, UnitColumn
from anonpipe.evaluate.risk import (
    EffectiveDimension,
    effective_dimension,
    least_shown,
    membership_from_moments,
    rows_for_membership,
)
from anonpipe.job.measure import Measure, usual_hold_out
from anonpipe.propose.guesses import Guess
from anonpipe.propose.names import quoted
from anonpipe.propose.profile import Floats, Look

# Fewer records than this are not drawn by a mixture: covariances come out 0.1 off, and more (`by_mask.EXCHANGED`)
FEW_RECORDS = 50

MERGED = 100  # By the default limit `strata.small: merge` moves strata of fewer records (`by_mask.needed`)

SMALL_STRATUM = 4  # Times k: in a smaller stratum categories that a quarter of its records have are of fewer than k

# Proposed limit of differences of distributions and survival curves, as a multiple of what chance allows
BESIDE_CHANCE = 1

# Proposed limit of the re-identification rate: the European Medicines Agency's (Policy 0070, external guidance)
LINKED = 0.09

# Proposed limit of that area for members and others: above what drawn records came to, and below groups of 5
TOLD = 0.6

# Proposed limit of what is given away of a stratum: above what groups of 4 in the demonstration's eleven columns come
# to (0.69 to 0.79 in 1,500 records), so that nothing but near certainty is refused before the steward has chosen
OF_STRATUM = 0.85


@dataclass(frozen=True)
class Road:
    """How records are proposed to be replaced: by which mask, or in groups (None), and why not by `local_synthesis`.

    With `merge`, strata that are too small for it join another; `told` is whether what they give away can be
    measured (`tells_strata`). `enough` is how many records it would take for their columns not to tell who is in
    the table (`anonpipe.evaluate.risk.membership_from_moments`), 0 where there are as many.
    """

    mask: str | None
    why: str = ""
    merge: bool = False
    told: bool = True
    enough: int = 0
    unit: str | None = None  # The column that names units of several rows
    constant: tuple[str, ...] = ()  # Masked columns with one value in all rows of a unit


IN_GROUPS = Road(None)  # Where nothing is known of the table


def road(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int, k: int = 5) -> Road:
    """`local_synthesis` where it can be had, else what suits; no figure of the data is told.

    Masks need two records more than feature columns in each stratum (`by_mask.procedure`),
    records of k units, and `FEW_RECORDS` for covariances that are worth more than those of
    groups; a few persons whose status nearly nobody else has join another stratum. Of
    categories alone there is nothing to form groups by, and groups of equal records would
    hand them on: records of no person are drawn in the spectral basis.
    """
    masked, several = [look for look in looks if guesses[look.name].role.synthesized], of_several(looks, guesses)
    width = _feature_columns(looks, guesses)
    strata, unit = _strata(looks, guesses, rows), _unit(several, k)
    least = max(FEW_RECORDS, width + 2, unit.sure)
    merge = strata.min() < least and _can_join(strata, max(MERGED, least))
    if strata.min() < least and not merge:
        few = f"the table, or a stratum of it, has fewer than the {least} records that masks need for it"
        return Road(None, few, _can_join(strata, k))
    kept = _kept(masked, guesses)
    smallest = int(strata[strata >= least].min()) if (strata >= least).any() else rows
    crowded = kept.columns > 0 and membership_from_moments(max(2, unit.independent(smallest)), kept) > TOLD
    enough = math.ceil(rows_for_membership(kept, TOLD) * unit.mean_rows) if crowded else 0
    if all(guesses[look.name].kind.coded for look in masked):
        if several is not None:
            return Road(None, f"{quoted(several.name)} names units of several rows, and no masked column is a number")
        why = "no masked column is a number or a date, and local_synthesis forms groups by these"
        return Road("spectral_swap", why, merge, enough=enough)
    return Road("local_synthesis", merge=merge, enough=enough)


def _kept(masked: Sequence[Look], guesses: Mapping[str, Guess]) -> EffectiveDimension:
    """Of the masked columns what decides how much their moments tell, as the sample has them."""
    shares = [np.bincount(look.codes + 1) / max(1, len(look.codes)) for look in masked]
    coded = [guesses[look.name].kind.coded for look in masked]
    nulls = [np.array([each[0], 1.0 - each[0]]) for each, one in zip(shares, coded, strict=True) if not one]
    return effective_dimension(
        coded.count(False), [*nulls, *(each for each, one in zip(shares, coded, strict=True) if one)]
    )


def without_rare_status(looks: Sequence[Look], guesses: dict[str, Guess], rows: int, k: int = 5) -> dict[str, Guess]:
    """The same with a masked status and time, if a value is too rare for a stratum and can join no other.

    Of fewer than k persons it ends the run. Of a few k, other categories would be suppressed inside the stratum, and
    what groups give away of it could not be measured (`tells_strata`).
    """
    status = next((look for look in looks if guesses[look.name].role is Role.SURVIVAL_STATUS), None)
    strata = _strata(looks, guesses, rows)
    # Of a mask all that have fewer records than it needs, in groups those of fewer than k
    sure = _unit(of_several(looks, guesses), k).sure
    of_mask = max(MERGED, _feature_columns(looks, guesses) + 2, sure)
    least = of_mask if strata.min() < FEW_RECORDS and _can_join(strata, of_mask) else k
    if _can_join(strata, least):
        strata = strata[strata >= least]
    if status is None:
        return guesses
    if strata.min() >= SMALL_STRATUM * k and (strata.min() >= FEW_RECORDS or tells_strata(looks, guesses, rows)):
        return guesses
    found = dict(guesses)
    for name, guessed in guesses.items():
        if guessed.role is Role.SURVIVAL_TIME:
            found[name] = replace(guessed, role=Role.MASKED, reason=TIME_OF_FEW)
        elif guessed.role is Role.SURVIVAL_STATUS:
            found[name] = replace(guessed, role=Role.MASKED, reason=_RARE_STATUS, event=())
    return found


_RARE_STATUS = (
    "CHECK: a value is too rare for a stratum, which would disclose the status of its few records. So the status is "
    "masked as any other column; values of fewer than k are released as others. Survival curves of so few say little"
)

TIME_OF_FEW = "CHECK: a time until an event of so few that its status is masked, and no survival curve is held"


def tells_strata(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int) -> bool:
    """Whether a run of the default size can measure what strata give away, to the proposed limit at least.

    Of units with several rows it takes a hold-out, of persons of two values enough of the rarer; see `least_shown`.
    """
    strata, held = _strata(looks, guesses, rows), usual_hold_out(rows)
    if not held and of_several(looks, guesses):
        return False
    asked = min(Measure().queries, rows)
    return least_shown(1.0 - strata.max() / strata.sum(), asked, round(held * rows) or asked) <= OF_STRATUM


def of_several(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> Look | None:
    """The column that names units of several rows."""
    for look in looks:
        role = guesses[look.name].role
        if role is Role.UNIT or (role is Role.IDENTIFIER and look.distinct < look.filled):
            return look
    return None


def _unit(several: Look | None, k: int) -> UnitColumn:
    """How often the unit repeats in the sample; without one each row is a unit."""
    if several is None:
        return UnitColumn("", 0, 0, 1, sure=k, mean_rows=1.0)
    counts = np.sort(np.bincount(several.codes[several.codes >= 0]))[::-1]
    rows, largest, squares = int(counts.sum()), tuple(counts[: k - 1].tolist()), int(np.square(counts).sum())
    return UnitColumn.of(Repeats(several.name, rows, 0, len(counts), int(counts[0]), largest, squares))


def _strata(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int) -> Floats:
    """About how many records the proposed strata have, nulls being one."""
    for look in looks:
        if guesses[look.name].role is Role.SURVIVAL_STATUS:
            counts = np.bincount(look.codes + 1)
            return np.asarray(counts[counts > 0] * (rows / len(look.codes)))
    return np.array([float(rows)])


def _can_join(strata: Floats, least: int) -> bool:
    """Whether some strata have fewer records, and two or more have as many: these have both event statuses."""
    small = strata < least
    return bool(small.any()) and int((~small).sum()) > 1


def _feature_columns(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> int:
    return sum(_width(look, guesses[look.name]) for look in looks if guesses[look.name].role.synthesized)


def _width(look: Look, guessed: Guess) -> int:
    """Feature columns that a masked column takes, nulls of a category being one more."""
    nulls = look.filled < len(look.codes)
    if not guessed.kind.coded:
        return 1 + nulls
    found = look.distinct + nulls
    return {1: 0, 2: 1}.get(found, found)
