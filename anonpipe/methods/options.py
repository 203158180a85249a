"""Options of methods and sections of the job: models that nobody changes and that refuse unknown names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model


def _title(model: type) -> str:
    return model.__name__.removesuffix("Options") or model.__name__


def _described(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Describe each property that has no description: by what docstrings say of its name, or of its section."""
    for name, part in schema.get("properties", {}).items():
        part.setdefault("description", _about(name, model))


def _about(name: str, model: type[BaseModel]) -> str:
    for each in model.__mro__:
        field = each.__dict__.get("__pydantic_fields__", {}).get(name)
        if field is not None and field.description:
            return str(field.description)
    annotation = model.model_fields[name].annotation
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return (part.__doc__ or "").partition("\n")[0]
    for each in model.__mro__:
        sentences = re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join((each.__dict__.get("__doc__") or "").split()))
        if found := [one for one in sentences if f"`{name}`" in one]:
            return " ".join(found)
    return ""


class Options(BaseModel):
    """Options that nobody changes and that refuse unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", model_title_generator=_title, json_schema_extra=_described)


class MethodOptions(Options):
    """What a job can tell one method; which one, its name says: `method: Literal["mdav"]`."""

    method: str = Field(description="Name of the method; `anonpipe methods` lists them.")


class MaskOptions(MethodOptions):
    """Options of a masker that sees the table part by part, or as one."""

    @property
    def by_stratum(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return False


class ScopedMaskOptions(MaskOptions):
    """Options of every mask that learns from the table.

    `scope`: each `stratum` is masked as a table of its own, so that what the masked columns have to do with those of
    strata.by stays; or the `table` as one, whatever the strata. Relations with key variables that are not in strata.by
    are lost either way, but for `conditioning` of data_shuffle.
    """

    scope: Literal["stratum", "table"] = "stratum"

    @property
    def by_stratum(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return self.scope == "stratum"


# Keyword arguments of methods that no job gives: they follow from the run
OF_THE_RUN = {"rng", "k", "classes", "class_shares", "categories", "n_table", "statistics"}


def options_of(function: Callable[..., Any], about: str, base: type[MethodOptions]) -> type[MethodOptions]:
    """The model of a method's options, from the keyword arguments of its function, their limits and defaults.

    Limits stand in annotations (`Annotated[float, Field(ge=0)]`). The model of `mdav_1` is called `Mdav1Options`.
    """
    name = "".join(map(str.capitalize, function.__name__.split("_"))) + "Options"
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {"method": (Literal[function.__name__], ...)}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in OF_THE_RUN:
            fields[parameter.name] = (hints[parameter.name], parameter.default)
    model: type[MethodOptions] = create_model(name, __base__=base, __doc__=about, __module__=__name__, **fields)
    globals()[name] = model  # where pickle looks for the class of a job's options
    return model


# --- Options of all grouping methods, with those that the pipeline adds -----------------------------------------------


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


class UnblockedOptions(GroupingOptions):
    """Options of methods that are quick enough for a whole partition at once."""

    block_rows: int | None = Field(default=None, ge=10)


class UnblockedClassOptions(UnblockedOptions):
    """The same for those that mix classes."""

    refine: Refine = False
