"""Options of all grouping methods, with those that the pipeline adds."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from anonpipe.methods.options import MethodOptions, options_of

# True and quick are the same job: they must draw the same noise
Refine = Annotated[
    Literal[False, "quick", "normal"], BeforeValidator(lambda value: "quick" if value is True else value)
]


class GroupingOptions(MethodOptions):
    """Options of all grouping methods.

    The method runs inside blocks of near records, `block_rows` at the most, or 3 k where that is more (null: in the
    whole partition at once). `refine` is the effort of the local search that follows (true is quick). `distance`:
    differences in standard deviations (`z_score`), or in parts of the column's declared bounds with 0/1 for equal and
    unequal categories (`range`). `response_weight` is the share that the survival time has in distances. `units`:
    `whole` keeps all records of a unit (of role unit) in one group: what is grouped are the means of the units, and how
    many records they have.
    """

    block_rows: int | None = Field(default=2_000, ge=10)
    refine: Refine = "quick"
    distance: Literal["z_score", "range"] = "z_score"
    response_weight: float | None = Field(default=None, gt=0, lt=1)
    units: Literal["split", "whole"] = "split"

    @property
    def effort(self) -> Literal["quick", "normal"] | None:
        """How far the local search goes; None for none."""
        return self.refine or None

    @property
    def own(self) -> dict[str, Any]:
        """The method's own options."""
        return self.model_dump(exclude=set(GroupingOptions.model_fields))


class ClassGroupingOptions(GroupingOptions):
    """What the methods share that mix the classes of role sensitive; no local search follows, it would undo that."""

    refine: Refine = False


UNBLOCKED: dict[str, Any] = {"block_rows": (int | None, Field(default=None, ge=10))}  # The whole partition at once

grouping_options = partial(options_of, base=GroupingOptions)
