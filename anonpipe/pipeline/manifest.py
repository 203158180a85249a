"""The manifest of a release: what its recipients may know of it."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from anonpipe.columns import TRANSFORMS
from anonpipe.installed import installed
from anonpipe.job.model import Job
from anonpipe.pipeline.collect import group_sizes
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.not_kept import not_to_be_added_up
from anonpipe.pipeline.partitioning import Cut
from anonpipe.rng import steward_secret
from anonpipe.storage import release
from anonpipe.storage.release_log import mark
from anonpipe.verify.output_control import group_size_histogram, released_checks
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import line


def manifest(work: Work, fitted: Fitted, cut: Cut, verdict: Verdict) -> dict[str, Any]:
    """What a recipient may know of the release: nothing secret, no count under k, no path of the input."""
    job = fitted.job
    written = work.staging.results("write").read_all(cut.files)
    columns, sizes = _columns(fitted), group_sizes(work, fitted, cut)
    transforms = {each["transform"] for each in columns.values() if "transform" in each}
    return {
        "anonpipe": version("anonpipe"),
        "secret_mark": mark(steward_secret()),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": cut.released,
        "k": job.k,
        "rows_per_unit": job.rows_per_unit,
        "k_counts": "rows" if fitted.unit is None else "units of several rows",
        "methods": _methods(job),
        **({"held_out": job.measure.held_out} if job.measure.held_out else {}),
        **({"counts_rounded_to": job.fewest_changed} if job.repeat.growing else {}),
        "schema": release.describe_schema(fitted.schema),
        "columns": columns,
        "transforms": {name: told for name, told in TRANSFORMS.items() if name in transforms},
        "group_sizes": None if sizes is None else group_size_histogram(sizes, job.k, fitted.unit is not None),
        "verdict": {
            "verdict": verdict.word,
            "checks": [
                line(each).to_dict()
                for each in released_checks(verdict, job.k, cut.released, job.repeat.growing, fitted.least_told)
            ],
        },
        "versions": {name: told for name, told in installed().items() if name != "anonpipe"},
        "files": [{key: result[key] for key in ("name", "rows", "bytes", "sha256")} for result in written],
    }


def _columns(fitted: Fitted) -> dict[str, dict[str, Any]]:
    """What each column of the release is, in its order."""
    told: dict[str, dict[str, Any]] = {}
    restored, lost = fitted.procedure.decoder.restored, not_to_be_added_up(fitted)
    for at, (name, column) in enumerate(zip(fitted.cells.names, fitted.cells.columns, strict=True)):
        told[name] = {"kind": column.kind.value, "treatment": "unchanged" if column.role.unchanged else "synthetic"}
        if column.can_be_scored and at not in restored:
            told[name]["transform"] = column.transform or "none"
        if name in lost:
            told[name]["sum"] = "not kept"
        told[name] |= _labels(fitted, name)
    told |= {field.name: {"treatment": "end of an interval"} for field in fitted.added}
    if fitted.probabilities is not None:
        told |= fitted.probabilities.described()
    return {name: told[name] for name in fitted.schema.names}


def _labels(fitted: Fitted, name: str) -> dict[str, Any]:
    """What the input calls the column, and the codes of released categories: `export` writes them again."""
    labels = fitted.labels.get(name)
    if labels is None:
        return {}
    released: list[Any] = []
    if (categories := fitted.cells.categories.get(name)) is not None:
        released = categories.filter(fitted.scan.code_counts(name)[: len(categories)] > 0).to_pylist()
    codes = {label: labels.codes[label] for label in released if label in labels.codes}
    return ({"label": labels.text} if labels.text else {}) | ({"codes": codes} if codes else {})


def _methods(job: Job) -> dict[str, Any]:
    """The sections of the job that say how records were replaced."""
    sections = {"cluster", "sensitive", "synthesize", "mask", "decode"}
    return {name: options for name, options in job.model_dump(mode="json", include=sections).items() if options}
