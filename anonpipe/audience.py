"""Who may see a figure: each check and each measure says it of itself; what says nothing is for the steward."""

from __future__ import annotations

from enum import StrEnum


class Audience(StrEnum):
    """For whom a figure is, and on which condition (see `anonpipe.verify.output_control`).

    `OPEN` tells nothing of persons or of the original. `ENOUGH` is for recipients where it rests on enough records,
    `SEVERAL` where it is of several columns besides: the difference of one mean and the released mean are the
    original's. `STEWARD` never leaves the steward.
    """

    OPEN = "open"
    ENOUGH = "enough records"
    SEVERAL = "enough records and several columns"
    STEWARD = "steward"
