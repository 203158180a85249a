"""Gates: from what was measured to the lines of the verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.cluster import CONFIDENCE, ClassDisclosure, LossBound
from anonpipe.moments import (
    GroupedMoments,
    GroupSpread,
    Moments,
    PairwiseMoments,
    expected_covariance,
    merge_all,
    sampling_limit,
)
from anonpipe.verify.verdict import Check, Outcome, Verdict, at_least, at_most
from anonpipe.verify.view import View

FloatArray = npt.NDArray[np.float64]

EXACT = 1e-9
"""Relative tolerance of what a method promises exactly, before decoding."""

DEVIATIONS = 6.0
"""Width of sampling limits in standard errors: a correct run fails one of 10,000 entries about once in 50,000 runs."""


@dataclass(frozen=True)
class Limits:
    """The limits that the job declares; see the job's `gates`."""

    mean: float
    covariance: float
    covariance_unchanged: float
    category_share: float
    null_share: float
    rows_under_k: int
    share_as_they_were: float
    suppressed_share: float


@dataclass(frozen=True)
class Promise:
    """What the chosen synthesizer promises.

    Attributes
    ----------
    method, form
        Its name and the form of its noise (None where it has none).
    strata
        Whether it promises the same in every stratum.
    exact_groups
        Whether every group's mean and scatter are kept exactly.
    """

    method: str
    form: str | None
    strata: bool
    exact_groups: bool = False


@dataclass(frozen=True)
class ClassConditions:
    """What the job asks of the classes in every group; see the job's `classes`."""

    l_diversity: float | None
    diversity: str
    t_closeness: float | None
    closeness: str


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured in a run; lists hold one entry a stratum."""

    rows_in: int
    rows_dropped: int
    rows_out: int
    smallest_group: int
    rows_under_k: int
    rows_as_they_were: int
    suppressed_share: float
    unchanged: tuple[str, ...]
    released_names: tuple[str, ...]
    forbidden_names: tuple[str, ...]
    beyond_limits: int
    files: int
    view: View
    original: list[PairwiseMoments]
    released: list[PairwiseMoments]
    grouped: list[GroupedMoments]
    bound: LossBound | None
    synthesized: list[Moments]
    classes: dict[str, ClassDisclosure]
    spread: list[GroupSpread] | None


def judge(evidence: Evidence, promise: Promise, k: int, limits: Limits, asked: ClassConditions) -> Verdict:
    """All checks of a run.

    Parameters
    ----------
    evidence
        What was measured.
    promise
        What the synthesizer promises.
    k
        Smallest permissible group.
    limits
        The job's limits on the written rows.
    asked
        The job's conditions on the classes in groups.
    """
    checks = [
        *_counts(evidence, k, limits),
        *_classes(evidence, asked),
        *_unchanged(evidence, k, limits),
        *_before_decoding(evidence, promise),
        *_written(evidence, promise, limits),
        Check("disclosure risk (linkage and attribute attacks)", Outcome.NOT_CHECKED, "not measured", "none", "-"),
    ]
    return Verdict(tuple(checks), _notes(evidence, promise))


def _counts(evidence: Evidence, k: int, limits: Limits) -> list[Check]:
    on = f"{evidence.files} written files"
    lost = abs(evidence.rows_in - evidence.rows_dropped - evidence.rows_out)
    forbidden = len(set(evidence.released_names) & set(evidence.forbidden_names))
    return [
        at_most("rows lost or added (beyond declared drops)", lost, 0, on, mandatory=True),
        at_least("smallest group", evidence.smallest_group, k, "all groups", unit="records", mandatory=True),
        at_most("identifier or dropped columns released", forbidden, 0, on, mandatory=True),
        at_most(
            "share of rows changed by suppression of rare categories, in the column with most",
            evidence.suppressed_share,
            limits.suppressed_share,
            "the input",
        ),
        at_most("values beyond declared bounds or steps", evidence.beyond_limits, 0, on),
    ]


def _classes(evidence: Evidence, asked: ClassConditions) -> list[Check]:
    """Conditions on the classes in groups, which are released: one line a class column and condition."""
    checks = []
    for name, told in evidence.classes.items():
        if asked.l_diversity is not None:
            distinct = asked.diversity == "distinct"
            measured = told.smallest_distinct if distinct else told.smallest_entropy_l
            text = f"{asked.diversity} l-diversity of {name!r}, the least diverse group"
            checks.append(at_least(text, measured, asked.l_diversity, "all groups", unit="classes", mandatory=True))
        if asked.t_closeness is not None:
            ordered = asked.closeness == "ordered"
            measured = told.largest_ordered if ordered else told.largest_total_variation
            text = f"t-closeness of {name!r} ({asked.closeness.replace('_', ' ')}), the furthest group"
            checks.append(at_most(text, measured, asked.t_closeness, "all groups", mandatory=True))
    return checks


def _unchanged(evidence: Evidence, k: int, limits: Limits) -> list[Check]:
    names = ", ".join(evidence.unchanged) or "none"
    return [
        at_most(
            f"rows whose unchanged columns ({names}) occur fewer than {k} times together",
            evidence.rows_under_k,
            limits.rows_under_k,
            f"{evidence.files} written files",
            mandatory=True,
        ),
        at_most(
            f"share of rows that equal an original row of their group shared by fewer than {k}",
            evidence.rows_as_they_were / max(1, evidence.rows_out),
            limits.share_as_they_were,
            "all groups, after decoding",
        ),
    ]


def _before_decoding(evidence: Evidence, promise: Promise) -> list[Check]:
    """Hold the synthetic points against what the method promises: in the whole table, and in each stratum."""
    checks = _promise("", _whole(evidence), merge_all(evidence.synthesized), promise)
    if promise.strata and len(evidence.grouped) > 1:
        pairs = zip(_strata(evidence), evidence.synthesized, strict=True)
        each = [_promise(" in each stratum", grouping, made, promise) for grouping, made in pairs]
        checks += [max(same, key=_severity) for same in zip(*each, strict=True)]
    return checks


@dataclass(frozen=True)
class _Grouping:
    """Moments of groups, and their spread where the method needs it."""

    moments: GroupedMoments
    spread: GroupSpread | None


def _whole(evidence: Evidence) -> _Grouping:
    return _Grouping(merge_all(evidence.grouped), merge_all(evidence.spread) if evidence.spread else None)


def _strata(evidence: Evidence) -> list[_Grouping]:
    spreads: list[GroupSpread] | list[None] = evidence.spread or [None] * len(evidence.grouped)
    return [_Grouping(moments, spread) for moments, spread in zip(evidence.grouped, spreads, strict=True)]


def _severity(check: Check) -> tuple[bool, float]:
    return check.outcome is Outcome.FAILED, float(check.measured.split()[0])


def _promise(where: str, grouping: _Grouping, made: Moments, promise: Promise) -> list[Check]:
    grouped = grouping.moments
    on = "synthetic points before decoding"
    scale = np.sqrt(np.diag(grouped.total.covariance))
    safe = np.where(scale > 0, scale, 1.0)
    mean_off = np.abs(made.mean - grouped.total.mean)
    target = expected_covariance(grouped, promise.method, promise.form)
    covariance_off = np.abs(made.covariance - target)
    limit = sampling_limit(grouped, promise.method, promise.form, spread=grouping.spread)
    return [
        _against_promise(f"mean{where}: as promised", mean_off, limit.mean, safe, on),
        _against_promise(f"covariance{where}: as promised", covariance_off, limit.covariance, np.outer(safe, safe), on),
    ]


def _against_promise(name: str, off: FloatArray, error: FloatArray, scale: FloatArray, on: str) -> Check:
    """Exact promises in parts of the standard deviation, random ones in standard errors."""
    if not error.any():
        return at_most(name, float(np.max(off / scale)), EXACT, on, unit="sd", mandatory=True)
    rounding = EXACT * scale
    return at_most(
        name, float(np.max(off / (error + rounding))), DEVIATIONS, on, unit="standard errors", mandatory=True
    )


def _written(evidence: Evidence, promise: Promise, limits: Limits) -> list[Check]:
    """Hold the written rows against the original: what the method takes plus what decoding may add."""
    on = f"{evidence.files} written files"
    allowed_mean, allowed_covariance = _allowance(_whole(evidence), promise)
    original, released = merge_all(evidence.original), merge_all(evidence.released)
    checks = _differences("", original, released, evidence.view, allowed_mean, allowed_covariance, limits, on)
    if len(evidence.original) > 1 and promise.strata:
        pairs = list(zip(evidence.original, evidence.released, _strata(evidence), strict=True))
        each = [
            _differences(" in each stratum", o, r, evidence.view, *_allowance(g, promise), limits, on)[:2]
            for o, r, g in pairs
        ]
        checks += [max(same, key=_severity) for same in zip(*each, strict=True)]
    return checks


def _allowance(grouping: _Grouping, promise: Promise) -> tuple[float, float]:
    """What the method itself may change: its known bias plus six standard errors, in standard deviations."""
    grouped = grouping.moments
    scale = np.sqrt(np.diag(grouped.total.covariance))
    safe = np.where(scale > 0, scale, 1.0)
    limit = sampling_limit(grouped, promise.method, promise.form, spread=grouping.spread)
    bias = np.abs(expected_covariance(grouped, promise.method, promise.form) - grouped.total.covariance)
    covariance = (bias + DEVIATIONS * limit.covariance) / np.outer(safe, safe)
    return float(np.max(DEVIATIONS * limit.mean / safe)), float(np.max(covariance))


def _differences(
    where: str,
    original: PairwiseMoments,
    released: PairwiseMoments,
    view: View,
    allowed_mean: float,
    allowed_covariance: float,
    limits: Limits,
    on: str,
) -> list[Check]:
    made = view.synthesized
    kept = ~made
    scale = np.sqrt(np.clip(np.diag(original.covariance), 0.0, None))  # a constant may come out below zero
    safe = np.where(scale > 0, scale, 1.0)
    mean = np.abs(released.mean - original.mean) / safe
    covariance = np.abs(released.covariance - original.covariance) / np.outer(safe, safe)
    category = np.array([variable.category is not None for variable in view.variables]) & made
    sd = np.array([variable.sd for variable in view.variables])
    share = np.abs(released.mean - original.mean)[category] * sd[category]
    null = np.abs(released.null_share - original.null_share)
    mandatory = {"mandatory": True}
    checks = [
        at_most(f"mean{where}", _largest(mean[made]), allowed_mean + limits.mean, on, unit="sd", **mandatory),
        at_most(
            f"covariance{where}",
            _largest(covariance[np.ix_(made, made)]),
            allowed_covariance + limits.covariance,
            on,
            unit="sd x sd",
            **mandatory,
        ),
        at_most(f"share of a category{where}", _largest(share), limits.category_share, on),
        at_most(f"share of nulls{where}", _largest(null), limits.null_share, on),
    ]
    if kept.any():
        checks.append(
            at_most(
                f"covariance with unchanged columns{where}",
                _largest(covariance[np.ix_(made, kept)]),
                allowed_covariance + limits.covariance_unchanged,
                on,
                unit="sd x sd",
            )
        )
    return checks


def _largest(values: FloatArray) -> float:
    """The largest entry; 0 for none, and NaN (which fails) where one is missing."""
    return float(np.max(values)) if values.size else 0.0


def _bound_in_words(bound: LossBound | None) -> str:
    if bound is None:
        return "averaged over several groupings"
    how = "exact neighbours of every record"
    if bound.sampled is not None:
        how = f"exact neighbours of {bound.sampled} records, confidence {CONFIDENCE:.0%}"
    return f"and no grouping of this k loses less than {bound.percent:.2f} % ({how})"


def _classes_in_words(name: str, told: ClassDisclosure) -> str:
    return (
        f"class {name!r}: {100 * told.homogeneous_share:.2f} % of the records are in groups of one class, chi-square "
        f"{told.chi_square:.3g}, mean Jensen-Shannon divergence {told.mean_divergence:.3g}, fewest classes in a group "
        f"{told.smallest_distinct}, largest distance from the table's shares {told.largest_total_variation:.3g}"
    )


def _notes(evidence: Evidence, promise: Promise) -> tuple[str, ...]:
    whole = merge_all(evidence.grouped)
    loss = 100.0 * np.trace(whole.within) / max(np.trace(whole.total.scatter), np.finfo(float).tiny)
    notes = [
        f"group centroids keep {100 - loss:.2f} % of the variance of the points (z-scores and -1/+1 indicators); "
        f"information loss of the grouping {loss:.2f} %, {_bound_in_words(evidence.bound)}",
        "limits on the written rows are the method's own bias and six standard errors, plus the job's gates for "
        "what steps, bounds, categories and nulls add",
    ]
    notes += [_classes_in_words(name, told) for name, told in evidence.classes.items()]
    if promise.method != "centroid":
        notes.append("groups have at least k records; that is not k-anonymity of the release")
    return tuple(notes)
