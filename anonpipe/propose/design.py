"""The strata and sampling units of a survey, proposed where names and nesting are plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.columns import Kind, Role
from anonpipe.propose.guesses import Guess
from anonpipe.propose.names import names_sampling_unit, names_strata
from anonpipe.propose.profile import Look

_FEWEST_PSUS = 4  # Of a stratum: two for each of two random groups
_GROUP_ROWS = 50  # Records of a random group on average, which are masked by themselves
_DESIGN_ROLES = {
    "strata": "strata of the design",
    "cluster": "sampling units, released as random groups of two or more",
}


@dataclass(frozen=True)
class ProposedDesign:
    """What a job may say of a survey's design."""

    strata: str
    cluster: str
    said: str  # What was found, with counts
    doubt: str = ""  # Why it is a comment; empty where it is proposed as an active key


def propose_design(
    looks: Sequence[Look], guesses: dict[str, Guess], rows: int
) -> tuple[dict[str, Guess], ProposedDesign | None]:
    """The guesses with the roles of a design, and the design; None where no weight or no sampling units are found."""
    weighted = any(guessed.role is Role.SAMPLING_WEIGHT for guessed in guesses.values())
    varied = [look for look in looks if weighted and look.distinct > 1 and not look.date]
    units, strata = ([look for look in varied if names(look.name)] for names in (names_sampling_unit, names_strata))
    if len(units) != 1 or len(strata) != 1:
        return guesses, None
    timed = any(guessed.role is Role.SURVIVAL_STATUS for guessed in guesses.values())
    found = _nested(strata[0], units[0], rows, timed)
    if found.doubt:
        return guesses, found
    roles = {found.strata: "strata of the design", found.cluster: "sampling units, released as random groups of them"}
    return guesses | {name: Guess(Kind.CATEGORICAL, Role.KEY, reason) for name, reason in roles.items()}, found


def _nested(strata: Look, units: Look, rows: int, timed: bool) -> ProposedDesign:
    """What both columns say together; units may be numbered anew in each stratum."""
    pairs = np.unique(np.stack([strata.codes, units.codes]), axis=1)
    counts = np.bincount(pairs[0][pairs[0] >= 0])
    counts, sampled = counts[counts > 0], np.bincount(strata.codes[strata.codes >= 0])
    nulls = int(((strata.codes < 0) | (units.codes < 0)).sum())
    of_group = int(sampled[sampled > 0].min() * rows / len(strata.codes) / 2)
    said = (
        f"{len(counts):,} strata ({strata.name!r}) of {counts.min():,} to {counts.max():,} sampling units "
        f"({units.name!r}) in {len(strata.codes):,} sampled rows"
    )
    short = int((counts < _FEWEST_PSUS).sum())
    doubts = (
        (short, f"{short:,} strata have fewer than {_FEWEST_PSUS} units: join strata in the input"),
        (nulls, f"{nulls:,} rows have a null in either: fill or drop them"),
        (of_group < _GROUP_ROWS, f"a random group may have {of_group:,} rows: join strata in the input"),
        (timed, "records are also masked by survival status"),
    )
    return ProposedDesign(strata.name, units.name, said, next((text for there, text in doubts if there), ""))
