"""Made-up facts of a run, with canaries wherever recipients may see nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from anonpipe.columns import Kind
from anonpipe.evaluate.measurement import Audience, Curve, Measurement, Reason
from anonpipe.evaluate.utility import (
    Analysis,
    CoefficientChange,
    CorrelationMatrices,
    Distribution,
    Endpoint,
    Estimate,
    ModelComparison,
    ModelFit,
    SurvivalPanel,
    SurvivalPicture,
)
from anonpipe.job.model import parse_job
from anonpipe.report import Facts
from anonpipe.verify.catalogue import Check, held
from anonpipe.verify.verdict import AnalysisOutcome, Assessment, NotChecked, Verdict

CANARY = "canary-90417"
"""A text that no recipient may see."""

CANARY_NUMBER = 0.8173645
"""A figure that no recipient may see; also looked for as the page rounds it."""

HOSTILE = "<script>alert(\"x\")</script>&'age'"
"""A column's name."""


def job(**changes: Any) -> Any:
    """A job with a hostile column name and an input whose path nobody may see."""
    content: dict[str, Any] = {
        "input": f"/data/{CANARY}/persons.parquet",
        "output": f"/releases/{CANARY}",
        "k": 5,
        "columns": {
            f"name {CANARY}": {"kind": "categorical", "role": "identifier"},
            HOSTILE: {"kind": "integer", "bounds": [0, 110]},
            "income": {"kind": "continuous", "bounds": [0, 81736.45]},
            "diagnosed": {"kind": "date"},
            "site": {"kind": "categorical"},
            "status": {"kind": "categorical", "role": "key"},
        },
        "strata": {"by": ["status"]},
    }
    return parse_job(content | changes)


def measurement(name: str = "reidentification_rate", **changes: Any) -> Measurement:
    """A measure of risk."""
    content: dict[str, Any] = {
        "name": name,
        "title": "records that their own released record is closest to",
        "value": 0.034,
        "unit": "share",
        "better": "lower",
        "source": "Domingo-Ferrer and Torra 2001",
        "records": 2000,
        "of": 20000,
        "audience": Audience.ENOUGH,
        "low": 0.027,
        "high": 0.043,
        "baseline": 0.0001,
        "baseline_is": "a guess at random",
        "note": "numbers only",
        "parts": (("age", 0.3), ("income", 0.1)),
        "curves": (
            Curve(
                "prediction distance",
                "distance, sd",
                "share of records",
                tuple(np.linspace(0, 3, 40)),
                tuple(np.linspace(0, 1, 40) ** 0.5),
                tuple(np.linspace(0, 1, 40)),
            ),
        ),
    }
    return Measurement(**(content | changes))


def checks(failed: bool = False) -> tuple[Check, ...]:
    """Lines of a verdict."""
    return (
        held("group.smallest", 3 if failed else 5, 5),
        held("mean", 0.0031, 0.02, about={"files": 2}, records=20000, compared=3),
        held("covariance", 0.034, 0.09, about={"files": 2}, records=20000, compared=3),
        held("risk.reidentification_rate", 0.034, None, records=2000, of=20000),
    )


def distributions(bins: int = 30, names: tuple[str, ...] = (HOSTILE, "income")) -> tuple[Distribution, ...]:
    """Two columns of numbers, one of dates, two of categories."""
    rng = np.random.default_rng(1)
    inner = np.linspace(20.0, 95.0, bins - 1)
    bell = 4000 * np.exp(-(((np.arange(bins) - bins / 2) / (bins / 5)) ** 2)) + 9
    numbers = [
        Distribution(
            name,
            Kind.CONTINUOUS,
            (None, *inner, None),
            (),
            tuple(map(int, bell)),
            tuple(map(int, bell * rng.uniform(0.9, 1.1, bins))),
            20000,
            20000,
            120,
            118,
            "",
        )
        for name in names
    ]
    dates = Distribution(
        "diagnosed",
        Kind.DATE,
        (None, 11000.0, 13000.0, 17000.0, None),
        (),
        (50, 700, 900, 60),
        (55, 690, 905, 60),
        1710,
        1710,
        None,
        3,
        "",
    )
    sites = Distribution(
        "site",
        Kind.CATEGORICAL,
        (),
        ("lung", "breast", "colon and rectum, other parts of the bowel", "(other)"),
        (400, 900, 300, 20),
        (410, 880, 310, 20),
        1620,
        1620,
        0,
        0,
        "",
    )
    return (*numbers, dates, sites)


def survival(share: float) -> tuple[SurvivalPicture, ...]:
    """Curves of all records and of two groups, one of which has few points."""
    times, after = (0.0, 12.0, 24.5, 60.0), (1.0, 0.81, 0.7, 0.5)
    panels = (
        SurvivalPanel("", "", times, (1.0, share, 0.7, 0.4), after, 20_000),
        SurvivalPanel("site", HOSTILE, times[:2], (1.0, share), after[:2], 100),
    )
    return (SurvivalPicture(Endpoint("", "income", "status", ("dead",)), panels, 3),)


def comparison() -> ModelComparison:
    """A Cox model whose original coefficients are canaries."""
    after = {
        "age": Estimate(0.031, 0.024, 0.038, 1e-9),
        "stage[T.Distant]": Estimate(1.31, 1.1, 1.5, 1e-9),
        "site[T.lung]": Estimate(-0.04, -0.2, 0.12, 0.6),
    }
    before = {
        "age": Estimate(CANARY_NUMBER, 0.7, 0.9, 1e-9),
        "stage[T.Distant]": Estimate(1.28, 1.07, 1.47, 1e-9),
        "site[T.lung]": Estimate(0.02, -0.14, 0.18, 0.8),
        f"site[T.{CANARY}]": Estimate(0.5, 0.1, 0.9, 0.02),
    }
    names = {**before, **{name: None for name in after if name not in before}}
    return ModelComparison(
        Analysis("survival", "cox", "months ~ age + stage + site", event="status == 'Dead'"),
        ModelFit(19990, 10, before, None),
        ModelFit(19985, 15, {**after, f"site[T.{CANARY}]": None}, None, dict.fromkeys(after, 900), learnt=False),
        tuple(CoefficientChange(name, before[name], after.get(name)) for name in names),
    )


def assessment(secret: tuple[Measurement, ...] = (), open_: tuple[Measurement, ...] = ()) -> Assessment:
    """Measures of risk and utility, an analysis, and what was not checked."""
    auc = measurement(
        "distinguishability",
        title="how well a model tells original from released rows",
        value=0.53,
        unit="",
        better="near baseline",
        low=0.52,
        high=0.54,
        baseline=0.5,
        baseline_is="no difference",
        curves=(),
        parts=(),
    )
    return Assessment(
        utility=(auc, *secret),
        risk=(measurement(), *open_, *secret),
        analyses=(AnalysisOutcome(comparison(), {"outside": 0.3, "overlap": 0.5}, 20000, 20000),),
        not_checked=(NotChecked("unmeasured.membership", Reason.NO_HOLD_OUT),),
    )


def matrices(names: tuple[str, ...] = (HOSTILE, "income", "diagnosed")) -> CorrelationMatrices:
    """Correlations; the original's first is a canary."""
    rng = np.random.default_rng(2)
    released = np.corrcoef(rng.normal(size=(len(names), 40)))
    original = np.corrcoef(rng.normal(size=(len(names), 40)))
    original[0, 1] = original[1, 0] = CANARY_NUMBER
    return CorrelationMatrices(names, original, released)


def facts(failed: bool = False, **changes: Any) -> Facts:
    """Facts of a run."""
    given = checks(failed)
    verdict = Verdict(given, (f"a note on {CANARY}",))
    content: dict[str, Any] = {
        "job": job(),
        "verdict": verdict,
        "assessment": assessment(),
        "warnings": (f"column x of {CANARY} has no bounds",),
        "columns": {
            name: {"kind": column.kind.value, "treatment": "unchanged" if column.role.unchanged else "synthetic"}
            for name, column in job().columns.items()
            if column.role.released
        },
        "least": None,
        "overlaps": False,
        "created": "2026-01-31T12:00:00+00:00",
        "anonpipe": "0.1.0",
        "rows": 20000,
        "partitions": 3,
        "identical": False,
        "group_sizes": [{"from": 5, "to": 5, "groups": 3000}, {"from": 6, "to": 9, "groups": 420}],
        "files": [{"name": "part-00000.parquet", "rows": 20000, "bytes": 123456, "sha256": "ab" * 32}],
        "distributions": {"internal": distributions(), "external": distributions(20)},
        "survival": {"internal": survival(CANARY_NUMBER), "external": survival(0.8)},
        "correlations": matrices(),
        "pictured": 20000,
    }
    return Facts(**(content | changes))
