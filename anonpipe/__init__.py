"""anonpipe: anonymise large microdata - group, synthesise, verify, publish, or publish nothing.

The public names; each is imported when it is first used, so that `import anonpipe` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anonpipe.api import Anonymized as Anonymized
    from anonpipe.api import anonymize as anonymize
    from anonpipe.errors import AnonpipeError as AnonpipeError
    from anonpipe.estimators import Microaggregation as Microaggregation
    from anonpipe.job.model import Job as Job
    from anonpipe.job.model import load_job as load_job
    from anonpipe.job.model import parse_job as parse_job
    from anonpipe.replicates import Combined as Combined
    from anonpipe.replicates import combine as combine

_PLACES = {
    "Anonymized": "anonpipe.api",
    "AnonpipeError": "anonpipe.errors",
    "Combined": "anonpipe.replicates",
    "Job": "anonpipe.job.model",
    "Microaggregation": "anonpipe.estimators",
    "anonymize": "anonpipe.api",
    "combine": "anonpipe.replicates",
    "load_job": "anonpipe.job.model",
    "parse_job": "anonpipe.job.model",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("anonpipe")
    raise AttributeError(f"module 'anonpipe' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
