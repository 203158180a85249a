"""The measures themselves, in pieces that workers do side by side: utility, risk, and each of the analyses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anonpipe.columns import Kind
from anonpipe.errors import EngineError, JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.job.analyses import endpoints_of
from anonpipe.job.model import Job
from anonpipe.pipeline.context import Fitted, Work
from anonpipe.pipeline.cut import Cut
from anonpipe.pipeline.evaluation._tables import typed
from anonpipe.pipeline.evaluation.attacks import measured_risk
from anonpipe.pipeline.evaluation.samples import FOLDER, model_columns, read_pairs, read_samples, wanted_rows
from anonpipe.verify.assessment import RECORDS, AnalysisOutcome, Assessment, NotChecked

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = "assessment.npz"


@dataclass(frozen=True, eq=False)
class SampledTables:
    """Some records of both tables, typed, row for row beside each other."""

    # original, released: the same columns and numbers of rows
    original: pd.DataFrame
    released: pd.DataFrame
    kinds: dict[str, Kind]  # Of each column
    of: int  # Records of the release


def sampled_tables(work: Work, fitted: Fitted, cut: Cut) -> SampledTables | None:
    """The paired sample as tables; None where neither utility nor risk was asked for, or there are probabilities only.

    Columns in whose place probabilities are released are in neither table.
    """
    if not wanted_rows(fitted.job, cut.rows):
        return None
    every = zip(fitted.cells.names, fitted.cells.columns, strict=True)
    kinds = {name: column.kind for name, column in every if name not in fitted.job.as_probabilities}
    if not kinds:
        return None
    pairs, names = read_pairs(work, cut), tuple(kinds)
    places = [fitted.cells.names.index(name) for name in names]
    before, after = (typed(fitted.cells, part[:, places], names) for part in (pairs.original, pairs.released))
    return SampledTables(before, after, kinds, cut.rows)


def pieces(job: Job) -> tuple[str, ...]:
    """Names of the pieces, in a fixed order: `utility`, `risk`, and `analysis` once for each."""
    named = [name for name in ("utility", "risk") if getattr(job.measure, name)]
    return (*named, *("analysis" for _ in job.analyses))


def measure_piece(work: Work, fitted: Fitted, cut: Cut, index: int) -> dict[str, Any]:
    """Do one piece, and leave what it found in the staging."""
    names = pieces(fitted.job)
    if names[index] == "utility":
        rows, found = _utility(work, fitted, cut)
    elif names[index] == "risk":
        rows, found = _risk(work, fitted, cut)
    else:
        rows, found = _analysis(work, fitted, cut, index - names.index("analysis"))
    work.staging.write_record(_file(index), found)
    return {"rows": rows}


def _utility(work: Work, fitted: Fitted, cut: Cut) -> tuple[int, Assessment]:
    from anonpipe.evaluate.utility import utility

    tables = sampled_tables(work, fitted, cut)
    if tables is None and fitted.job.as_probabilities:
        return 0, Assessment()
    if tables is None:
        raise EngineError("utility is measured on a sample, and none was kept; go on with --resume")
    found = utility(
        tables.original,
        tables.released,
        tables.kinds,
        rng=work.rng("assess utility", 0),
        least=fitted.min_rows,
        of=tables.of,
        paired=fitted.procedure.row_for_row,
        endpoints=endpoints_of(fitted.job),
    )
    return len(tables.original), Assessment(utility=found)


def _risk(work: Work, fitted: Fitted, cut: Cut) -> tuple[int, Assessment]:
    found, not_checked = measured_risk(work, fitted, cut)
    return work.job.measure.queries, Assessment(risk=found, not_checked=tuple(not_checked))


def _analysis(work: Work, fitted: Fitted, cut: Cut, index: int) -> tuple[int, Assessment]:
    """Fit one of the recipient's models to both tables."""
    from anonpipe.evaluate.utility import fit_models

    wanted = fitted.job.analyses[index]
    names = model_columns(fitted)
    before, after = read_samples(work, cut, "model_original", "model_released")
    (model,) = fit_models(typed(fitted.cells, before, names), [wanted.analysis])
    if model.fit.problem is not None:
        raise JobError(
            f"analysis {wanted.name!r} cannot be fitted to the original ({model.fit.problem}), so that no release "
            "can be held against it; correct or remove it"
        )
    comparison = model.compare(typed(fitted.cells, after, names))
    outcome = AnalysisOutcome(comparison, wanted.declared, len(before), cut.rows)
    return len(before), Assessment(analyses=(outcome,))


def save_assessment(work: Work) -> Assessment:
    """Put the pieces together, in their order, and keep the whole in the staging."""
    parts = (work.staging.read_record(_file(index), *RECORDS) for index in range(len(pieces(work.job))))
    assessment = sum(parts, Assessment()) + Assessment(not_checked=_switched_off(work.job))
    work.staging.write_record(_WHOLE, assessment)
    return assessment


def _switched_off(job: Job) -> tuple[NotChecked, ...]:
    found = []
    if not job.measure.utility:
        found.append(NotChecked("unmeasured.utility", Reason.UTILITY_OFF))
    elif job.as_probabilities:
        about = {"names": ", ".join(job.as_probabilities)}
        found.append(NotChecked("unmeasured.utility_of_columns", Reason.PROBABILITIES, about))
    if not job.measure.risk:
        found.append(NotChecked("unmeasured.risk", Reason.RISK_OFF))
    if not job.analyses:
        found.append(NotChecked("unmeasured.analyses", Reason.NO_ANALYSES))
    return tuple(found)


def load_assessment(work: Work) -> Assessment:
    """What `save_assessment` kept."""
    assessment: Assessment = work.staging.read_record(_WHOLE, *RECORDS)
    return assessment


def _file(index: int) -> str:
    return f"{FOLDER}/measured-{index}.npz"
