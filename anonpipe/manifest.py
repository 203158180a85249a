"""The manifest of a release: what its recipients may know of it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from anonpipe import release
from anonpipe.context import Context
from anonpipe.job import Job
from anonpipe.verify.verdict import Verdict


def manifest(ctx: Context, verdict: Verdict) -> dict[str, Any]:
    """What a recipient may know of the release: nothing secret, no count under k, no path of the input."""
    job = ctx.job
    written = ctx.staging.receipts("write").read_all(ctx.plan.files)
    return {
        "anonpipe": version("anonpipe"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": ctx.plan.rows,
        "k": job.k,
        "methods": _methods(job),
        "schema": release.describe_schema(ctx.schema),
        "columns": {
            name: {"kind": column.kind.value, "treatment": "unchanged" if column.role.unchanged else "synthetic"}
            for name, column in zip(ctx.cells.names, ctx.cells.columns, strict=True)
        }
        | {field.name: {"treatment": "end of an interval"} for field in list(ctx.schema)[len(ctx.cells.names) :]},
        "group_sizes": group_size_histogram(ctx) if job.mask is None else None,
        "verdict": {
            "verdict": "passed" if verdict.passed else "failed",
            "checks": _releasable(verdict, job.k, ctx.plan.rows),
        },
        "versions": {name: version(name) for name in ("numpy", "pyarrow", "numba", "scipy")},
        "files": [{key: receipt[key] for key in ("name", "rows", "bytes", "sha256")} for receipt in written],
    }


def _methods(job: Job) -> dict[str, Any]:
    """The sections of the job that say how records were replaced."""
    sections = {"cluster", "classes", "synthesize", "mask", "decode"}
    return {name: options for name, options in job.model_dump(mode="json", include=sections).items() if options}


def _releasable(verdict: Verdict, k: int, rows: int) -> list[dict[str, Any]]:
    """The checks as a recipient may see them: a number of rows between 0 and k is not told, as a share neither."""
    checks: list[dict[str, Any]] = verdict.to_dict()["checks"]
    for check in checks:
        name, measured = check["name"], check["measured"]
        if name.startswith("rows ") and measured.isdigit() and 0 < int(measured) < k:
            check["measured"] = f"fewer than {k}"
        if name.startswith(("share of rows ", "risk, ")) and 0 < _share(measured) * rows < k - 0.5:
            check["measured"] = f"fewer than {k} rows"
    return checks


def _share(measured: str) -> float:
    """A measured share; 0 for a text that is none."""
    try:
        return float(measured)
    except ValueError:
        return 0.0


def group_size_histogram(ctx: Context) -> list[dict[str, Any]]:
    """Groups by size, in ranges of at least k groups each, so that no cell of the manifest is under k."""
    k, counts = ctx.job.k, Counter[int]()
    for receipt in ctx.staging.receipts("group").read_all(len(ctx.plan.partitions)):
        counts.update({int(size): number for size, number in receipt["group_sizes"].items()})
    cells: list[dict[str, Any]] = []
    for size in sorted(counts):
        if cells and (cells[-1]["groups"] < k):
            cells[-1] = {"from": cells[-1]["from"], "to": size, "groups": cells[-1]["groups"] + counts[size]}
        else:
            cells.append({"from": size, "to": size, "groups": counts[size]})
    if len(cells) > 1 and cells[-1]["groups"] < k:
        last = cells.pop()
        cells[-1] = {"from": cells[-1]["from"], "to": last["to"], "groups": cells[-1]["groups"] + last["groups"]}
    if len(cells) == 1 and cells[0]["groups"] < k:
        return [{"from": cells[0]["from"], "to": cells[0]["to"], "groups": f"fewer than {k}"}]
    return cells
