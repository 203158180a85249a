"""Options of methods and sections of the job: models that nobody changes and that refuse unknown names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model


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


# Keyword arguments of methods that no job gives: they follow from the run
_OF_THE_RUN = {"rng", "k", "classes", "class_shares", "categories", "n_table", "statistics"}


def options_of(
    function: Callable[..., Any], about: str, base: type[MethodOptions], **changed: Any
) -> type[MethodOptions]:
    """The model of a method's options, from the keyword arguments of its function, their limits and defaults.

    Limits stand in annotations (`Annotated[float, Field(ge=0)]`). `changed` are fields of `base` with other defaults.
    The model of `mdav_1` is called `Mdav1Options`.
    """
    name = "".join(map(str.capitalize, function.__name__.split("_"))) + "Options"
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {"method": (Literal[function.__name__], ...)} | changed
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in _OF_THE_RUN:
            fields[parameter.name] = (hints[parameter.name], parameter.default)
    model: type[MethodOptions] = create_model(name, __base__=base, __doc__=about, __module__=__name__, **fields)
    globals()[name] = model  # where pickle looks for the class of a job's options
    return model
