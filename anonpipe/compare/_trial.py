"""One trial on a worker: a setting's whole job on the private copy of the input, measured and thrown away.

Trials share the copy and nothing else. Of the processor time of 48 settings on
15,564 records (of four on 100,000) the scan takes 7 % (4), routing 2 (1),
encoding 2 (3), the fits of the recipients' models to the original 4, and what
masks without regard to k do again for each k 4; measures of the release take
half of it, and methods a quarter. To hand results on, all settings would draw
with one key, and every file be sealed again for each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anonpipe.engine import Task, TaskResult, account
from anonpipe.errors import OutputError
from anonpipe.evaluate.utility import Measurement, shares_changed
from anonpipe.evaluate.utility._measurement import Better
from anonpipe.job.model import parse_job
from anonpipe.pipeline.evaluation import Assessment, gated
from anonpipe.pipeline.run import assess_only
from anonpipe.rng import trial_secret
from anonpipe.storage.staging import Staging, read_json
from anonpipe.verify import words
from anonpipe.verify.catalogue import KINDS, MEASURED
from anonpipe.verify.output_control import disclosive
from anonpipe.verify.verdict import Verdict

# What is kept of a measurement: no parts and no curves
KEPT = ("name", "title", "value", "unit", "better", "low", "high", "baseline", "baseline_is")


@dataclass(frozen=True)
class Trial:
    """A setting and a draw, as the worker is told of them."""

    key: str  # Names the result; see `digest_of`
    setting: int  # Position among the settings
    draw: int  # Which of the draws, from 0
    job: dict[str, Any]  # The job's content, its input the private copy


def measure_trial(task: Task) -> TaskResult:
    """Run the job of a trial in this process, and keep its verdict and its figures.

    A setting that is not feasible is a result too: `problem` is its reason.
    What stopped by an unforeseen error is told, and not `final`: it is tried
    again the next time.
    """
    staging = Staging(Path(task.staging))
    trial = Trial(**read_json(staging.file("trials") / f"{task.index}.json"))
    begin = time.monotonic()
    result: TaskResult = {"rows": 0, "key": trial.key, "final": True, "problem": None}
    failure = None
    try:
        with trial_secret(staging.file(f"draw-{trial.draw}.key").read_bytes()):
            verdict, assessment = assess_only(parse_job(trial.job))
    except OutputError:  # the disk: every other trial would fail too
        raise
    except Exception as error:
        failure = account(error, "this setting")
    if failure is not None:
        final = failure.kind in ("JobError", "InputError", "InfeasibleError")
        return result | {"problem": failure.message, "final": final}
    return result | told(verdict, assessment) | {"seconds": time.monotonic() - begin}


def told(verdict: Verdict, assessment: Assessment) -> dict[str, Any]:
    """The verdict and the figures of a trial, JSON-able."""
    failed = [[words.name(check), f"{words.measured(check)}, limit {words.limit(check)}"] for check in verdict.failed]
    of_limits = of_gates(assessment)
    found = (*assessment.measured, *of_analyses(assessment), *of_limits, *furthest(of_limits))
    measures = {
        one.name: {name: one.to_dict()[name] for name in KEPT} | {"disclosive": disclosive(one)} for one in found
    }
    return {
        "passed": verdict.passed,
        "failed": failed,
        "measures": measures,
        "utility": [one.name for one in assessment.utility],
        "risk": [one.name for one in assessment.risk],
    }


def of_gates(assessment: Assessment) -> tuple[Measurement, ...]:
    """What each gate on measures judges, by the gate's name, so that methods can be compared whose attacks differ."""
    judged = [(gate, gated(gate.name, assessment.measured)) for gate in MEASURED.values()]
    return tuple(replace(one, name=gate.name, title=gate.limited) for gate, one in judged if one is not None)


FURTHEST = "distributions.furthest"  # The name of `furthest`

_DISTRIBUTIONS = ("column_shapes", "pair_shapes", "survival_curves")

# Measures that are multiples of what chance allows: 1 is another sample of the same population
BESIDE_CHANCE = (FURTHEST, *_DISTRIBUTIONS)


def furthest(of_limits: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    """The column, pair of columns or survival curve that is furthest from the original, of all; none where none is.

    Examples
    --------
    >>> furthest(())
    ()
    """
    found = [one for one in of_limits if one.name in _DISTRIBUTIONS and one.value == one.value]
    if not found:
        return ()
    worst = max(found, key=lambda one: one.value)
    title = "column, pair of columns or survival curve furthest from the original, as a multiple of what chance allows"
    return (replace(worst, name=FURTHEST, title=title),)


_ANALYSES: dict[str, tuple[str, Better]] = {
    "changed_significance": ("coefficients whose significance changed", "lower"),
    "changed_direction": ("significant coefficients that changed direction", "lower"),
    "outside": ("coefficients outside the original's 95 % interval", "lower"),
    "overlap": ("mean overlap of the 95 % intervals", "higher"),
}


def of_analyses(assessment: Assessment) -> tuple[Measurement, ...]:
    """What became of the recipient's analyses: of all together (`analyses.outside`), and of each by name.

    A share that is not defined, as no coefficient is significant, is left out.
    """
    if not assessment.analyses:
        return ()
    comparisons = {"analyses": [one.comparison for one in assessment.analyses]}
    comparisons |= {f"analysis.{one.comparison.analysis.name}": [one.comparison] for one in assessment.analyses}
    records, of = assessment.analyses[0].records, assessment.analyses[0].of
    found = []
    for prefix, several in comparisons.items():
        shares = shares_changed(several)
        whose = "all analyses" if prefix == "analyses" else f"analysis {prefix.removeprefix('analysis.')!r}"
        for name, (title, better) in _ANALYSES.items():
            value, audience = getattr(shares, name), KINDS[f"analysis.{name}"].audience
            if value == value:
                found.append(
                    Measurement(
                        f"{prefix}.{name}",
                        f"{title}, {whose}",
                        value,
                        "share",
                        better,
                        "Gal et al. (2014), section 3, doi:10.1016/j.jbi.2014.01.001",
                        records,
                        of,
                        audience=audience,
                    )
                )
    return tuple(found)
