"""Sections of a job as `anonpipe plan` shows them."""

from __future__ import annotations

from typing import Any

from anonpipe.verify.catalogue import MEASURED

_ONLY_WHERE_GIVEN = (*MEASURED, "probability_step")


def options_text(options: Any) -> str:
    """The options of a section, but its method, on one line."""
    content = options.model_dump(mode="json", exclude={"method"})
    if content.get("units") == "split":  # of units of a row each there is nothing to say
        del content["units"]
    shown = (f"{key}={value}" for key, value in content.items() if key not in _ONLY_WHERE_GIVEN or value is not None)
    return ", ".join(shown)
