"""The gates of a job: limits that its release must meet, one field a gate of the catalogue."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from anonpipe.methods.options import Options
from anonpipe.verify.catalogue import GATES, MEASURED, Gate

DEFAULT: Literal["default"] = "default"  # What a job says of a limit, or of the hold-out, that it leaves to anonpipe


class _Gates(Options):
    """Limits that the release must meet, measured on the written rows; each is a record of `verify.catalogue`.

    Those on means and covariances are what decoding (steps, bounds, nulls) may add to the method's own error;
    covariances of categories that are released as probabilities are reported without a limit.

    Those on risk need `measure.risk`. `default` is the limit of a risk of which a job says nothing, and is held where
    the risk can be measured (`Job.limits`); null is no limit: it is measured then, and judged by nobody. The upper end
    of a 95 % interval is held against the limit; a default one allows for the wide interval of few records.
    """

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, content: Any) -> Any:
        """A limit is a number that something can be beyond: YAML reads yes and on as true, which would count as 1."""
        for name, limit in content.items() if isinstance(content, dict) else ():
            if isinstance(limit, bool):
                raise ValueError(
                    f"{name} is {str(limit).lower()}, as which YAML reads yes, no, on and off; give a number"
                )
            if isinstance(limit, float) and not math.isfinite(limit):
                raise ValueError(f"{name} is {limit:g}; give a number that is reached")
        return content

    @property
    def of_every_run(self) -> dict[str, float]:
        """The limits on what every run measures."""
        return {name: getattr(self, name) for name in GATES if name not in MEASURED}

    @property
    def given(self) -> dict[str, float]:
        """The limits of measures that the job gives a number."""
        every = {name: getattr(self, name) for name in MEASURED}
        return {name: limit for name, limit in every.items() if limit is not None and limit != DEFAULT}

    @property
    def at_default(self) -> tuple[str, ...]:
        """Measures whose limit is the default one."""
        return tuple(name for name in MEASURED if getattr(self, name) == DEFAULT)


def _field(gate: Gate) -> Any:
    """A gate as a field of the job."""
    bounds = {"ge": gate.least, "gt": gate.above, "le": gate.most}
    given: Any = {name: bound for name, bound in bounds.items() if bound is not None}
    if not gate.figures:
        return type(gate.default), Field(default=gate.default, description=gate.meaning, **given)
    number: Any = Annotated[float, Field(**given)]
    if gate.default is None:
        return number | None, Field(default=None, description=gate.meaning)
    return number | Literal["default"] | None, Field(default=DEFAULT, description=gate.meaning)


if TYPE_CHECKING:
    Gates = _Gates
else:
    Gates = create_model(
        "Gates",
        __base__=_Gates,
        __module__=__name__,
        __doc__=_Gates.__doc__,
        **{n: _field(g) for n, g in GATES.items()},
    )
