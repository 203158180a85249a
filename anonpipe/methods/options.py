"""Options of methods and sections of the job: models that nobody changes and that refuse unknown names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def _title(model: type) -> str:
    return model.__name__.removesuffix("Options") or model.__name__


class Options(BaseModel):
    """Options that nobody changes and that refuse unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", model_title_generator=_title)


class MethodOptions(Options):
    """What a job can tell one method; which one, its name says: `method: Literal["mdav"]`."""

    method: str
