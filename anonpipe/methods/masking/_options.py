"""What maskers can be told of where they mask."""

from __future__ import annotations

from typing import Literal

from anonpipe.methods.options import MethodOptions


class MaskOptions(MethodOptions):
    """Options of a masker that sees the table part by part, or as one."""

    @property
    def by_stratum(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return False


class ScopedMaskOptions(MaskOptions):
    """What every mask can be told that learns from the table.

    `scope`: each `stratum` is masked as a table of its own, so that what the
    masked columns have to do with those of strata.by stays; or the `table` as
    one, whatever the strata. Relations with key variables that are not in
    strata.by are lost either way, but for `conditioning` of data_shuffle.
    """

    scope: Literal["stratum", "table"] = "stratum"

    @property
    def by_stratum(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return self.scope == "stratum"
