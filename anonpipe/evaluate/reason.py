"""Why something was not measured; the words are those of `anonpipe.verify.catalogue`."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why something was not measured."""

    UTILITY_OFF = "utility off"
    RISK_OFF = "risk off"
    NO_ANALYSES = "no analyses"
    PROBABILITIES = "probabilities"
    ONLY_PROBABILITIES = "only probabilities"
    NO_HOLD_OUT = "no hold-out"
    FEW_HELD = "few held"
    NO_LINK = "no link"
    NO_PAIRS = "no pairs"
    NO_GROUPS = "no groups"
    NO_GROUP_SAMPLED = "no group sampled"
    ONE_GROUP_SAMPLED = "one group sampled"
    AVERAGED = "averaged"
    AVERAGED_UNDEFINED = "averaged, undefined"
    ONE_COLUMN = "one column"
    NO_TAILS = "no tails"
    NO_CELL = "no cell"
    SPANNING = "spanning"
    NO_CLASS = "no class"
    NO_STRATA = "no strata"
    ALL_GUESSED = "all guessed"
    NO_SCENARIO = "no scenario"
    UNITS = "units"
    UNITS_WITHOUT_CONTROL = "units without control"
    ONLY_A_RUN = "only a run"
    NO_PAIRING = "no row told"
    NO_CONTROL = "no control"
    REFUSED = "refused"
    WITHHELD = "withheld"
