"""Options of methods and sections of the job: models that nobody changes and that refuse unknown names."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


def _title(model: type) -> str:
    return model.__name__.removesuffix("Options") or model.__name__


class Options(BaseModel):
    """Options that nobody changes and that refuse unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", model_title_generator=_title)


class MethodOptions(Options):
    """What a job can tell one method; which one, its name says: `method: Literal["mdav"]`."""

    method: str


class MaskOptions(MethodOptions):
    """Options of a masker that sees the table part by part, or as one."""

    @property
    def by_stratum(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return False


class ScopedMaskOptions(MaskOptions):
    """Options of every mask that learns from the table.

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
