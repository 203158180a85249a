"""By which mask, or in groups, a job is proposed to replace records, and which limits it is proposed to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from anonpipe.columns import Kind, Role
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
from anonpipe.propose.names import REASONS, names_design, quoted
from anonpipe.propose.profile import Look
from anonpipe.types import FloatArray

# Fewer records than this are not drawn by a mixture: covariances are off by 0.1 or more (`by_mask.COVARIANCE_ERROR`)
FEW_RECORDS = 50

MERGED = 100  # By the default limit `strata.small: merge` moves strata of fewer records (`by_mask.needed`)

SMALL_STRATUM = 4  # Times k: in a smaller stratum categories that a quarter of its records have are of fewer than k

# Proposed limit of differences of distributions and survival curves, in split-half units
SHAPES_LIMIT = 1

# Proposed limit of the re-identification rate: the European Medicines Agency's (Policy 0070, external guidance)
LINKAGE_LIMIT = 0.09

# Proposed limit of membership inference (AUC): above the figures of synthetic records, below those of groups of 5
MEMBERSHIP_LIMIT = 0.6

# Proposed limit of stratum inference: above the figures of groups of 4 in the demonstration's eleven columns (0.69 to
# 0.79 in 1,500 records), so that only near certainty is refused before the steward has chosen
STRATUM_LIMIT = 0.85


@dataclass(frozen=True)
class MethodChoice:
    """How records are proposed to be replaced."""

    mask: str | None  # None for groups
    why: str = ""  # Why not by `local_synthesis`
    merge: bool = False  # Whether strata that are too small for it join another
    strata_measurable: bool = True  # Whether a run can measure how far the release discloses the stratum
    # Records from which on the moments of so many columns do not disclose membership; 0 where there are as many
    records_needed: int = 0
    unit: str | None = None  # The column that names units of several rows
    constant: tuple[str, ...] = ()  # Masked columns with one value in all rows of a unit
    # order, text: the column that orders the rows of a unit; where it is of texts, whose order is not kept
    order: str | None = None
    text: str | None = None


def choose_method(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int, k: int = 5) -> MethodChoice:
    """Choose `local_synthesis` where it is possible, else another mask or groups; reasons hold no figure of the data.

    Masks need two records more than feature columns in each stratum (`by_mask.procedure`), records of k units, and
    `FEW_RECORDS` for better covariances than those of groups. A few persons with a rare status join another stratum.
    Categories alone are masked by `spectral_swap`: groups of equal records would be released unchanged.
    """
    masked = [look for look in looks if guesses[look.name].role.synthesized]
    several, width = unit_of_several_rows(looks, guesses), feature_columns(looks, guesses)
    strata, unit = _strata(looks, guesses, rows), _unit(several, k)
    least = max(FEW_RECORDS, width + 2, unit.sure)
    merge = strata.min() < least and _can_join(strata, max(MERGED, least))
    if strata.min() < least and not merge:
        few = f"the table, or a stratum of it, has fewer than the {least} records that masks need for it"
        return MethodChoice(None, few, _can_join(strata, k))
    dimension = _dimension(masked, guesses, k / rows)
    smallest = int(strata[strata >= least].min()) if (strata >= least).any() else rows
    records, needed = max(2, unit.independent(smallest)), 0
    if dimension.columns > 0 and membership_from_moments(records, dimension) > MEMBERSHIP_LIMIT:
        needed = math.ceil(rows_for_membership(dimension, MEMBERSHIP_LIMIT) * unit.mean_rows)
    if all(guesses[look.name].kind.coded for look in masked):
        if several is not None:
            why = f"{quoted(several.name)} names units of several rows, and no masked column is a number"
            return MethodChoice(None, why)
        why = "no masked column is a number or a date, and local_synthesis forms groups by these"
        return MethodChoice("spectral_swap", why, merge, records_needed=needed)
    return MethodChoice("local_synthesis", merge=merge, records_needed=needed)


def _dimension(masked: Sequence[Look], guesses: Mapping[str, Guess], least: float = 0.0) -> EffectiveDimension:
    """The effective dimension of masked columns in the sample, whose moments disclose membership; no rarer values."""
    shares = [np.bincount(look.codes + 1) / max(1, len(look.codes)) for look in masked]
    shares = [np.where(each < least, 0.0, each) for each in shares]  # a run releases these as common values
    coded = [guesses[look.name].kind.coded for look in masked]
    missing = [each[0] or guesses[look.name].zeros for look, each in zip(masked, shares, strict=True)]
    nulls = [np.array([each, 1.0 - each]) for each, one in zip(missing, coded, strict=True) if not one]
    return effective_dimension(coded.count(False), [*nulls, *compress(shares, coded)])


def without_rare_status(looks: Sequence[Look], guesses: dict[str, Guess], rows: int, k: int = 5) -> dict[str, Guess]:
    """The same with a masked status and time, if a value is too rare for a stratum and can join no other."""
    # Of fewer than k persons it ends the run. Of a few k, other categories would be suppressed inside the stratum, and
    # stratum inference could not be measured (`strata_measurable`).
    status = next((look for look in looks if guesses[look.name].role is Role.SURVIVAL_STATUS), None)
    strata = _strata(looks, guesses, rows)
    # Of a mask all that have fewer records than it needs, in groups those of fewer than k
    sure = _unit(unit_of_several_rows(looks, guesses), k).sure
    of_mask = max(MERGED, feature_columns(looks, guesses) + 2, sure)
    least = of_mask if strata.min() < FEW_RECORDS and _can_join(strata, of_mask) else k
    if _can_join(strata, least):
        strata = strata[strata >= least]
    if status is None:
        return guesses
    if strata.min() >= SMALL_STRATUM * k and (strata.min() >= FEW_RECORDS or strata_measurable(looks, guesses, rows)):
        return guesses
    times = [name for name, guessed in guesses.items() if guessed.role is Role.SURVIVAL_TIME]
    found = {name: replace(guesses[name], role=Role.MASKED, reason=REASONS["time_of_few"]) for name in times}
    found[status.name] = replace(guesses[status.name], role=Role.MASKED, reason=REASONS["rare_status"], event=())
    return guesses | found


def strata_measurable(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int) -> bool:
    """Whether a run of the default size can measure stratum inference, at least to the proposed limit."""
    # Of units with several rows it takes a hold-out, of persons of two values enough of the rarer; see `least_shown`.
    strata, held = _strata(looks, guesses, rows), usual_hold_out(rows)
    if not held and unit_of_several_rows(looks, guesses):
        return False
    asked = min(Measure().queries, rows)
    return least_shown(1.0 - strata.max() / strata.sum(), asked, round(held * rows) or asked) <= STRATUM_LIMIT


def unit_of_several_rows(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> Look | None:
    """The column that names units of several rows."""
    for look in looks:
        role = guesses[look.name].role
        if role is Role.UNIT or (role is Role.IDENTIFIER and look.distinct < look.filled):
            return look
    return None


def order_of_rows(looks: Sequence[Look], guesses: Mapping[str, Guess], unit: Look, texts: bool = False) -> str | None:
    """The date or whole number (or text) that no unit has twice, of several that with the fewest values."""
    rows = int((unit.codes >= 0).sum())
    if unit.distinct == rows:
        return None

    def once(look: Look) -> bool:
        pairs = np.stack([unit.codes, look.codes], axis=1)[(unit.codes >= 0) & (look.codes >= 0)]
        return len(pairs) == rows and len(np.unique(pairs, axis=0)) == rows

    whole = (Kind.INTEGER, Kind.CATEGORICAL, Kind.BINARY, Kind.DATE)
    able = [look for look in looks if (look.numbers is None) == texts and guesses[look.name].kind in whole]
    able = [look for look in able if guesses[look.name].role.synthesized and once(look)]
    return min(able, key=lambda look: (not look.date, look.distinct)).name if able else None


def _unit(several: Look | None, k: int) -> UnitColumn:
    """How often the unit repeats in the sample; without one each row is a unit."""
    if several is None:
        return UnitColumn("", 0, 0, 1, sure=k, mean_rows=1.0)
    counts = np.sort(np.bincount(several.codes[several.codes >= 0]))[::-1]
    rows, largest, squares = int(counts.sum()), tuple(counts[: k - 1].tolist()), int(np.square(counts).sum())
    return UnitColumn.of(Repeats(several.name, rows, 0, len(counts), int(counts[0]), largest, squares))


def _strata(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int) -> FloatArray:
    """About how many records the proposed strata have, nulls being one."""
    for look in looks:
        if guesses[look.name].role is Role.SURVIVAL_STATUS:
            counts = np.bincount(look.codes + 1)
            return np.asarray(counts[counts > 0] * (rows / len(look.codes)))
    return np.array([float(rows)])


def _can_join(strata: FloatArray, least: int) -> bool:
    """Whether some strata have fewer records, and two or more have as many: these have both event statuses."""
    small = strata < least
    return bool(small.any()) and int((~small).sum()) > 1


def feature_columns(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> int:
    """Feature columns of the masked columns, nulls being one more category; of two categories one says it all."""
    total = 0
    for look in (look for look in looks if guesses[look.name].role.synthesized):
        coded, nulls = guesses[look.name].kind.coded, look.filled < len(look.codes) or guesses[look.name].zeros > 0
        categories = look.distinct + nulls
        total += {1: 0, 2: 1}.get(categories, categories) if coded else 1 + nulls
    return total


# --- The strata and sampling units of a survey, where names and nesting are plain -------------------------------------

_FEWEST_PSUS = 4  # Of a stratum: two for each of two random groups
_SPREADS = 3.0  # Standard deviations by which the smaller of two random groups may be below half of a stratum


@dataclass(frozen=True)
class ProposedDesign:
    """What a job may say of a survey's design."""

    strata: str
    cluster: str
    said: str  # What was found, with counts
    doubt: str  # Why it is a comment; empty where it is proposed as an active key


def propose_design(
    looks: Sequence[Look], guesses: dict[str, Guess], rows: int, k: int = 5
) -> tuple[dict[str, Guess], ProposedDesign | None]:
    """The guesses with the roles of a design, and the design; None where no weight or no sampling units are found."""
    weighted = any(guessed.role is Role.SAMPLING_WEIGHT for guessed in guesses.values())
    varied = [look for look in looks if weighted and look.distinct > 1 and not look.date]
    units, strata = ([look for look in varied if names_design(look.name, what)] for what in ("psu", "strata"))
    if not units or not strata or not ((strata[0].codes >= 0) & (units[0].codes >= 0)).any():
        return guesses, None
    said, smallest, doubts = _nested(strata[0], units[0], rows)
    roles = {"strata of the design": strata, "sampling units, released as random groups of them": units}
    keyed = dict(guesses)
    for reason, (look, *_) in roles.items():
        booked = replace(guesses[look.name], step=None, bounds=None, codes={})
        keyed[look.name] = replace(booked, kind=Kind.CATEGORICAL, role=Role.KEY, reason=reason)
    doubts = [
        f"several columns may be the {what}: {', '.join(each.name for each in several)}"
        for what, several in (("strata", strata), ("sampling units", units))
        if len(several) > 1
    ] + doubts
    if any(guessed.role is Role.SURVIVAL_STATUS for guessed in guesses.values()):
        doubts.append("records are also masked by survival status")
    if smallest < (least := _least_of_group(looks, keyed, k)):
        few = f"a random group may have {smallest:,} rows, and masks need {least:,}"
        doubts.append(f"{few}: join strata or mask fewer columns")
    found = ProposedDesign(strata[0].name, units[0].name, said, doubts[0] if doubts else "")
    return guesses if doubts else keyed, found


def _least_of_group(looks: Sequence[Look], guesses: Mapping[str, Guess], k: int) -> int:
    """Records that a random group needs, as it is masked by itself."""
    unit = _unit(unit_of_several_rows(looks, guesses), k)
    dimension = _dimension([look for look in looks if guesses[look.name].role.synthesized], guesses)
    shown = rows_for_membership(dimension, MEMBERSHIP_LIMIT) * unit.mean_rows if dimension.columns > 0 else 0.0
    return max(FEW_RECORDS, feature_columns(looks, guesses) + 2, unit.sure, math.ceil(shown))


def _nested(strata: Look, units: Look, rows: int) -> tuple[str, int, list[str]]:
    """What is found, the fewest records of a random group, and doubts; units may be numbered again in each stratum."""
    known = (strata.codes >= 0) & (units.codes >= 0)
    pairs, sizes = np.unique(np.stack([strata.codes, units.codes])[:, known], axis=1, return_counts=True)
    nulls, ends = int((~known).sum()), np.flatnonzero(np.diff(pairs[0])) + 1
    sampled = np.split(sizes * (rows * (1.0 - usual_hold_out(rows)) / len(known)), ends)
    counts = np.array([len(each) for each in sampled])
    many = {"count": len(counts), "least": counts.min(), "most": counts.max(), "rows": len(strata.codes)}
    said = REASONS["design"].format(strata=strata.name, units=units.name, **many)
    short, doubts = int((counts < _FEWEST_PSUS).sum()), []
    if short:
        doubts.append(f"{short:,} strata have fewer than {_FEWEST_PSUS} units: join strata in the input")
    if nulls:
        doubts.append(f"nulls in either, in {nulls:,} of the rows: fill or drop them")
    return said, int(min(map(_smaller_group, sampled))), doubts


def _smaller_group(sizes: FloatArray) -> float:
    """Records of the smaller of two random groups of units of these sizes, as few as they may be."""
    half = len(sizes) // 2
    spread = float(np.std(sizes)) * math.sqrt(half * (len(sizes) - half) / max(1, len(sizes) - 1))
    return max(float(np.sort(sizes)[:half].sum()), half * float(sizes.mean()) - _SPREADS * spread)
