"""The measures themselves, in pieces that workers do side by side: utility, risk, and each of the analyses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from anonpipe.columns import Kind
from anonpipe.errors import EngineError, JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.job.model import Job
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation._risk import measured_risk
from anonpipe.pipeline.evaluation._sample import FOLDER, model_columns, read_pairs, read_samples, wanted_rows
from anonpipe.pipeline.evaluation._tables import typed
from anonpipe.verify.assessment import AnalysisOutcome, Assessment, NotChecked, outcome_to_dict

if TYPE_CHECKING:
    from anonpipe.evaluate.utility import Measurement

Receipt = dict[str, Any]

_WHOLE = "assessment.json"


@dataclass(frozen=True, eq=False)
class SampledTables:
    """Some records of both tables, typed, row for row beside each other.

    Attributes
    ----------
    original, released
        The same columns and numbers of rows.
    kinds
        Of each column.
    of
        Records of the release.
    """

    original: pd.DataFrame
    released: pd.DataFrame
    kinds: dict[str, Kind]
    of: int


def sampled_tables(ctx: Context) -> SampledTables | None:
    """The paired sample as tables; None where neither utility nor risk was asked for, or there are probabilities only.

    Columns in whose place probabilities are released are in neither table.
    """
    if not wanted_rows(ctx):
        return None
    every = zip(ctx.cells.names, ctx.cells.columns, strict=True)
    kinds = {name: column.kind for name, column in every if name not in ctx.job.as_probabilities}
    if not kinds:
        return None
    pairs, names = read_pairs(ctx), tuple(kinds)
    places = [ctx.cells.names.index(name) for name in names]
    before, after = (typed(ctx.cells, part[:, places], names) for part in (pairs.original, pairs.released))
    return SampledTables(before, after, kinds, ctx.plan.rows)


def pieces(job: Job) -> tuple[str, ...]:
    """Names of the pieces, in a fixed order: `utility`, `risk`, and `analysis` once for each."""
    named = [name for name in ("utility", "risk") if getattr(job.measure, name)]
    return (*named, *("analysis" for _ in job.analyses))


def measure_piece(ctx: Context, index: int) -> Receipt:
    """Do one piece, and leave what it found in the staging."""
    names = pieces(ctx.job)
    if names[index] == "utility":
        rows, found = _utility(ctx)
    elif names[index] == "risk":
        rows, found = _risk(ctx)
    else:
        rows, found = _analysis(ctx, index - names.index("analysis"))
    ctx.staging.write_json(_file(index), found)
    return {"rows": rows}


def _utility(ctx: Context) -> tuple[int, dict[str, Any]]:
    from anonpipe.evaluate.utility import utility

    tables = sampled_tables(ctx)
    if tables is None and ctx.job.as_probabilities:
        return 0, {}
    if tables is None:
        raise EngineError("utility is measured on a sample, and none was kept; go on with --resume")
    found = utility(
        tables.original,
        tables.released,
        tables.kinds,
        rng=ctx.rng("assess utility", 0),
        least=ctx.job.k,
        of=tables.of,
        paired=_paired(ctx.job),
    )
    return len(tables.original), {"utility": _plain(found)}


def _paired(job: Job) -> bool:
    """Whether a released row replaces the original row beside it: it is of its group, or made from it."""
    from anonpipe.pipeline.masker import masker_of

    return job.mask is None or masker_of(job).same_person


def _risk(ctx: Context) -> tuple[int, dict[str, Any]]:
    found, not_checked = measured_risk(ctx)
    return ctx.job.measure.queries, {"risk": _plain(found), "not_checked": [asdict(each) for each in not_checked]}


def _plain(found: tuple[Measurement, ...]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in found]


def _analysis(ctx: Context, index: int) -> tuple[int, dict[str, Any]]:
    """Fit one of the recipient's models to both tables.

    Raises
    ------
    JobError
        It cannot be fitted to the original: nothing could be judged by it.
    """
    from anonpipe.evaluate.utility import fit_models

    wanted = ctx.job.analyses[index]
    names = model_columns(ctx)
    before, after = read_samples(ctx, "model_original", "model_released")
    (fitted,) = fit_models(typed(ctx.cells, before, names), [wanted.analysis])
    if fitted.fit.problem is not None:
        raise JobError(
            f"analysis {wanted.name!r} cannot be fitted to the original ({fitted.fit.problem}), so that no release "
            "can be held against it; mend or remove it"
        )
    comparison = fitted.compare(typed(ctx.cells, after, names))
    outcome = AnalysisOutcome(comparison, wanted.declared, len(before), ctx.plan.rows)
    return len(before), {"analyses": [outcome_to_dict(outcome)]}


def save_assessment(ctx: Context) -> Assessment:
    """Put the pieces together, in their order, and keep the whole in the staging."""
    parts = [ctx.staging.read_json(_file(index)) for index in range(len(pieces(ctx.job)))]
    content = {
        name: [each for part in parts for each in part.get(name, [])]
        for name in ("utility", "risk", "analyses", "not_checked")
    }
    content["not_checked"] += [asdict(each) for each in _switched_off(ctx.job)]
    assessment = Assessment.from_dict(content)
    ctx.staging.write_json(_WHOLE, content)
    return assessment


def _switched_off(job: Job) -> list[NotChecked]:
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
    return found


def load_assessment(ctx: Context) -> Assessment:
    """What `save_assessment` kept."""
    return Assessment.from_dict(ctx.staging.read_json(_WHOLE))


def _file(index: int) -> str:
    return f"{FOLDER}/measured-{index}.json"
