"""The names of measures that a job can have, so that a misspelt one is refused before hours of trials."""

from __future__ import annotations

from difflib import get_close_matches

from anonpipe.compare._trial import FURTHEST
from anonpipe.errors import JobError
from anonpipe.evaluate import risk, utility
from anonpipe.job.model import Job
from anonpipe.verify.catalogue import MEASURED

_ANALYSES = ("changed_significance", "changed_direction", "outside", "overlap")


def known_names(job: Job) -> tuple[str, ...]:
    """The names of all measures that there may be for some setting of a job.

    Examples
    --------
    >>> from anonpipe.job.model import parse_job
    >>> asked = parse_job({"input": "-", "output": "-", "k": 5, "columns": {"x": {"kind": "continuous"}}})
    >>> names = known_names(asked)
    >>> names[:2], "closest_record.p5" in names, "analyses.overlap" in names
    (('reidentification_rate', 'group_linkage'), True, False)
    """
    families = ["analyses"] if job.analyses else []
    families += [f"analysis.{one.name}" for one in job.analyses]
    risks = (name for measure in risk.MEASURES for name in measure.figures)
    return (
        *MEASURED,
        FURTHEST,
        *(name for measure in utility.MEASURES for name in measure.figures),
        *(name.replace("*", named) for name in risks for named in _named(job, name)),
        *(f"{name}.{one}" for name in families for one in _ANALYSES),
    )


def _named(job: Job, figure: str) -> tuple[str, ...]:
    """What `*` stands for in the name of a figure."""
    if figure.startswith("scenarios."):
        return tuple(one.name for one in job.measure.scenarios)
    return tuple(job.columns) if "*" in figure else ("",)


def check_names(job: Job, axes: tuple[str | None, str | None]) -> None:
    """Refuse what no measure is called."""
    known = known_names(job)
    for what, name in zip(("utility", "risk"), axes, strict=True):
        if name is not None and name not in known:
            near = get_close_matches(name, known, 3, 0.6)
            those = [one for one in known if not one.startswith("sensitive.")]
            told = f"near to it are: {', '.join(near)}" if near else f"known are: {', '.join(those)}"
            raise JobError(f"--{what} is {name!r}, and no measure is called so; {told}")
