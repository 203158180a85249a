"""The manifest of a release: what its recipients may know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from anonpipe import release
from anonpipe.context import Context
from anonpipe.evidence import group_sizes
from anonpipe.job import Job
from anonpipe.ledger import mark
from anonpipe.rng import steward_secret
from anonpipe.verify.verdict import Outcome, Verdict


def manifest(ctx: Context, verdict: Verdict) -> dict[str, Any]:
    """What a recipient may know of the release: nothing secret, no count under k, no path of the input."""
    job = ctx.job
    written = ctx.staging.receipts("write").read_all(ctx.plan.files)
    return {
        "anonpipe": version("anonpipe"),
        "secret_mark": mark(steward_secret()),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": ctx.plan.rows,
        "k": job.k,
        "rows_per_unit": job.rows_per_unit,
        "methods": _methods(job),
        "schema": release.describe_schema(ctx.schema),
        "columns": _columns(ctx),
        "group_sizes": None if (sizes := group_sizes(ctx)) is None else group_size_histogram(sizes, job.k),
        "verdict": {
            "verdict": "passed" if verdict.passed else "failed",
            "checks": releasable_checks(verdict, job.k, ctx.plan.rows, _compared_columns(ctx)),
        },
        "versions": {name: version(name) for name in ("numpy", "pyarrow", "numba", "scipy")},
        "files": [{key: receipt[key] for key in ("name", "rows", "bytes", "sha256")} for receipt in written],
    }


def _columns(ctx: Context) -> dict[str, dict[str, Any]]:
    """What each column of the release is, in its order."""
    told: dict[str, dict[str, Any]] = {
        name: {"kind": column.kind.value, "treatment": "unchanged" if column.role.unchanged else "synthetic"}
        for name, column in zip(ctx.cells.names, ctx.cells.columns, strict=True)
    }
    told |= {field.name: {"treatment": "end of an interval"} for field in ctx.added}
    if ctx.probabilities is not None:
        told |= ctx.probabilities.described()
    return {name: told[name] for name in ctx.schema.names}


def _methods(job: Job) -> dict[str, Any]:
    """The sections of the job that say how records were replaced."""
    sections = {"cluster", "classes", "synthesize", "mask", "decode"}
    return {name: options for name, options in job.model_dump(mode="json", include=sections).items() if options}


SEVERAL = 3
"""Columns from which on the worst difference of all of them does not give a moment of the original."""

_WITHIN = "within the limit"


def fewest_told(k: int) -> int:
    """Records that a figure has to be measured on before recipients see it: in one of few, single persons show.

    Examples
    --------
    >>> fewest_told(5)
    100
    """
    return 20 * k


def releasable_checks(verdict: Verdict, k: int, rows: int, columns: dict[str, int]) -> list[dict[str, Any]]:
    """The checks as a recipient may see them.

    A number of rows between 0 and k is not told, as a share neither. Nor is
    what was measured on fewer records than `fewest_told`. Nor is
    the overlap of intervals, from which those of the original follow where
    the model has few coefficients; nor the difference of a moment where so
    few columns have one that, with the release, it gives the original's.

    Parameters
    ----------
    verdict, k, rows
        Of the release.
    columns
        How many columns there are whose difference a check may tell, by how
        the check's name begins.
    """
    checks: list[dict[str, Any]] = verdict.to_dict()["checks"]
    for check in checks:
        name, measured = check["name"], check["measured"]
        if name.startswith("rows ") and measured.replace(",", "").isdigit() and 0 < int(measured.replace(",", "")) < k:
            check["measured"] = f"fewer than {k}"
        if name.startswith(("share of rows ", "risk, ")) and 0 < _share(measured) * rows < k - 0.5:
            check["measured"] = f"fewer than {k} rows"
        few = any(name.startswith(start) and 0 < many < SEVERAL for start, many in columns.items())
        few |= name.startswith("analysis ") and "overlap" in name.rpartition(": ")[2]
        few |= name.startswith(("risk, ", "analysis ")) and _records(check["on"]) < fewest_told(k)
        if few and check["outcome"] != Outcome.FAILED:
            check["measured"] = _WITHIN if check["outcome"] == Outcome.PASSED else "not told"
    return checks


def _compared_columns(ctx: Context) -> dict[str, int]:
    """Of each kind of check of moments, the synthetic columns that have such a moment."""
    columns = zip(ctx.cells.names, ctx.cells.columns, strict=True)
    made = {name: column for name, column in columns if column.role.synthesized}
    logarithms = sum(variable.own_unit for variable in ctx.view.variables)
    return {
        "mean": len(made),
        "mean, in its own unit": logarithms,
        "covariance": len(made),
        "share of a category": sum(name in ctx.cells.categories for name in made),
        "share of nulls": sum(ctx.scan.columns[name].nulls > 0 for name in made),
    }


def _records(on: str) -> float:
    """On how many records a check was measured that says so; infinity for others.

    Examples
    --------
    >>> _records("3 coefficients, 1,500 of 9,000 records"), _records("2 written files")
    (1500.0, inf)
    """
    found = re.search(r"([\d,]+) of [\d,]+ records", on)
    return float(found.group(1).replace(",", "")) if found else float("inf")


def _share(measured: str) -> float:
    """A measured share; 0 for a text that is none."""
    try:
        return float(measured)
    except ValueError:
        return 0.0


def group_size_histogram(counts: Mapping[int, int], k: int) -> list[dict[str, Any]]:
    """Groups by size, in ranges of at least k groups each, so that no cell of the manifest is under k.

    Examples
    --------
    >>> group_size_histogram({5: 7, 6: 2, 9: 1}, 3)
    [{'from': 5, 'to': 5, 'groups': 7}, {'from': 6, 'to': 9, 'groups': 3}]
    """
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
