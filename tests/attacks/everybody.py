"""The attack of who knows everybody: records are given to persons all at once, in blocks of equal unchanged columns.

The demonstration's registry with region and sex released unchanged. One record by one the nearest is right for fewer
than one assignment of all.

`python -m tests.attacks.everybody`
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from anonpipe.job.model import Job, parse_job
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.pipeline.evaluation.measures import gated, load_assessment
from anonpipe.pipeline.run import Run, unpublished
from anonpipe.propose.demo import demo_job, write_registry
from tests import small

ROWS, K = 4_000, 5
SETTINGS: dict[str, dict[str, Any]] = {
    "noise 0.1 of the variance": {"mask": {"method": "noise", "amount": 0.1}},
    "noise 0.5 of the variance": {"mask": {"method": "noise", "amount": 0.5}},
    "noise 0.5, region and sex unchanged": {
        "unchanged": ("region", "sex"),
        "mask": {"method": "noise", "amount": 0.5},
    },
    "micro_perturbation": {},
    "micro_perturbation, region and sex unchanged": {"unchanged": ("region", "sex")},
}


class Found(NamedTuple):
    """Records linked rightly: by the nearest record, by Mahalanobis distance, by assignment; what the gate holds."""

    nearest: float
    whitened: float
    assigned: float
    held: float

    def __str__(self) -> str:
        whitened = f"by Mahalanobis distance {self.whitened:6.1%}, " if self.whitened else ""
        return (
            f"nearest {self.nearest:6.1%}, {whitened}assigned {self.assigned:6.1%}, held by the gate {self.held:6.1%}"
        )


def setting(folder: Path, rows: int = ROWS, unchanged: tuple[str, ...] = (), **changes: Any) -> Job:
    """A job for so many persons, some columns of whom are released unchanged."""
    folder.mkdir(exist_ok=True)
    data = folder / "registry.parquet"
    write_registry(data, rows)
    content = load_yaml(demo_job(str(data), str(folder / "out"), K))
    for name in unchanged:
        content["columns"][name]["role"] = "key"
    gates = {"rows_under_k": rows, "mean": 9, "covariance": 9, "covariance_with_keys": 9, "null_share": 1}
    content |= {"measure": {"utility": False, "queries": rows}, "gates": gates}
    return parse_job(small.changed(content, **changes))


def attack(job: Job) -> Found:
    """Run the job, whatever its verdict, and link."""

    def found(run: Run) -> Found:
        measured = load_assessment(run.context.work).measured
        risks = {one.name: one.value for one in measured}
        held = gated("reidentification_rate", measured)
        assert held is not None
        return Found(
            risks.get("reidentification_rate", 0.0),
            risks.get("mahalanobis_linkage.first", 0.0),
            risks["linkage.assigned"],
            held.value,
        )

    return unpublished(job, False, lambda _: None, "ignore", found)


def main() -> None:
    """Print a line a setting."""
    print(f"{ROWS} persons, k={K}")
    for name, changes in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:46}", attack(setting(Path(folder), **changes)), flush=True)


if __name__ == "__main__":
    main()
