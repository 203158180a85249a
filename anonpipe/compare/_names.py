"""The names of measures that a job can have, so that a misspelt one is refused before hours of trials."""

from __future__ import annotations

from difflib import get_close_matches

from anonpipe.errors import JobError
from anonpipe.evaluate.utility import MEASURES
from anonpipe.job.model import Job
from anonpipe.verify.catalogue import MEASURED

_ANALYSES = ("changed_significance", "changed_direction", "outside", "overlap")

_CLASS = (
    *("homogeneous", "singles", "chi_square", "divergence", "divergence_worst"),
    *("distinct_l", "entropy_l", "t", "t_ordered"),
)

_RISKS = {
    "linkage": ("first", "first_or_second", "group", "expected"),
    "rank_linkage": ("first", "first_or_second", "group"),
    "lasko": (
        *("distance", "ambiguity", "uncertainty", "match_rate"),
        *("match_auc_distance", "match_auc_ambiguity", "match_auc_uncertainty", "match_auc_together"),
    ),
    "known_attribute": ("closest", "moments", "mean"),
    "collusion": ("recovered",),
    "probabilistic_k_anonymity": ("bound",),
    "membership": ("auc", "advantage", "found_at_1_percent"),
    "attribute_inference": ("risk", "success"),
    "closest_record": ("p5", "p5_ratio", "median", "equal", "nndr"),
}
"""Of each family of risk its measures; those of classes and analyses are named after the job's."""


def known_names(job: Job) -> tuple[str, ...]:
    """The names of all measures that there may be for some setting of a job.

    Examples
    --------
    >>> from anonpipe.job.model import parse_job
    >>> asked = parse_job({"input": "-", "output": "-", "k": 5, "columns": {"x": {"kind": "continuous"}}})
    >>> names = known_names(asked)
    >>> names[:2], "closest_record.p5" in names, "analyses.overlap" in names
    (('linked_share', 'homogeneous_share'), True, False)
    """
    families = dict(_RISKS)
    if job.analyses:
        families["analyses"] = _ANALYSES
    families |= {f"analysis.{one.name}": _ANALYSES for one in job.analyses}
    families |= {f"class.{name}": _CLASS for name in job.columns}
    privacy = ("conditional_privacy", "conditional_privacy.categories")
    utility = (name for measure in MEASURES for name in measure.figures)
    return (*MEASURED, *privacy, *utility, *(f"{name}.{one}" for name, all_ in families.items() for one in all_))


def check_names(job: Job, axes: tuple[str | None, str | None]) -> None:
    """Refuse what no measure is called.

    Parameters
    ----------
    axes
        What was asked for as utility and risk; None for nothing.

    Raises
    ------
    JobError
        A name is misspelt; it lists those that come near, or all.
    """
    known = known_names(job)
    for what, name in zip(("utility", "risk"), axes, strict=True):
        if name is not None and name not in known:
            near = get_close_matches(name, known, 3, 0.6)
            those = [one for one in known if not one.startswith("class.")]
            told = f"near to it are: {', '.join(near)}" if near else f"known are: {', '.join(those)}"
            raise JobError(f"--{what} is {name!r}, and no measure is called so; {told}")
