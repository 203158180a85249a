"""What a steward can do where a gate failed: one line a gate, of those that have a known remedy."""

from __future__ import annotations

import re

from anonpipe.verify.verdict import Outcome, Verdict

_DECODING = (
    "for a column with many values at a bound that it cannot cross (counts and costs with many 0), transform: log, or "
    "synthesize: {method: pca, moments: expected}, whose noise is that of the group; for others a finer step, or wider "
    "bounds if values beyond them make sense; or"
)
"""Wider bounds alone would release visits below 0."""

_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"covariance\b.* with unchanged columns",
        "put an unchanged column of few values into strata.by, so that groups do not cross it, make it synthetic, or "
        "raise gates.covariance_unchanged",
    ),
    (
        r"(rows, nulls or categories|means and variances of the rows) in the staging",
        "input or staging changed, or was damaged, while the run was at work; run again",
    ),
    (r"mean, in its own unit", "leave out transform: log of the column, or raise gates.mean_in_unit"),
    (r"mean\b", f"{_DECODING} raise gates.mean"),
    (r"covariance\b", f"{_DECODING} raise gates.covariance"),
    (r"risk, linked_share", "a larger k, or for a mask more change, links fewer records"),
    (r"risk, homogeneous_share", "a larger k, or classes.l_diversity with a method that heeds it, mixes classes"),
    (r"risk, membership_auc", "a larger k, or for a mask more change, tells members less from others"),
    (r"risk, attribute_inference", "a larger k, or for a mask more change, gives away less"),
    (
        r"rows whose unchanged columns",
        "make a column of many values synthetic or dropped, or coarsen it in the input",
    ),
    (
        r"values of masked numbers and dates",
        "take another method, or a form that does not hand on values of persons: decode.jitter_restored_times for "
        "restored survival times, mask.basis spectral, more noise; where the values are coarse, declare their step",
    ),
    (
        r"share of rows changed by suppression",
        "join rare categories in the input, take fewer or coarser columns into strata.by, inside which categories are "
        "counted, drop the column, or take a smaller k",
    ),
)
"""Patterns at the beginning of a check's name, the first that fits counts; what to do."""


def remedies(verdict: Verdict) -> tuple[str, ...]:
    """For each failed check that has a known remedy a line, with what to do; the same advice once.

    What a method promises and did not keep, or what was not measured, has none.

    Examples
    --------
    >>> from anonpipe.verify.verdict import at_most
    >>> failed = at_most("mean in each stratum", 0.3, 0.1, "-"), at_most("mean: as promised", 9, 6, "-")
    >>> (advice,) = remedies(Verdict(failed))
    >>> advice.partition(",")[0]
    'mean in each stratum: for a column with many values at a bound that it cannot cross (counts and costs with many 0)'
    """
    found: dict[str, str] = {}
    for check in verdict.checks:
        told = check.outcome is Outcome.FAILED and check.measured != "not measured"
        if not told or check.name.endswith(": as promised"):
            continue
        advice = next((text for pattern, text in _REMEDIES if re.match(pattern, check.name)), None)
        if advice is not None:
            found.setdefault(advice, check.name)
    return tuple(f"{name}: {advice}" for advice, name in found.items())
