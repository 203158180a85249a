"""The attack of who knows everybody: records are given to persons all at once, in blocks of equal unchanged columns.

The demonstration's registry with region and sex released unchanged. One record by one the nearest is right for fewer
than one assignment of all.

`python -m tests.attacks.everybody`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from anonpipe.job.model import Job, parse_job
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.pipeline.evaluation.measures import gated
from anonpipe.propose.demo import demo_job, write_registry
from tests import small
from tests.attacks.runs import assessed, show

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
    measured = assessed(job).measured
    risks = {one.name: one.value for one in measured}
    held = gated("reidentification_rate", measured)
    assert held is not None
    nearest, whitened = (risks.get(name, 0.0) for name in ("reidentification_rate", "mahalanobis_linkage.first"))
    return Found(nearest, whitened, risks["linkage.assigned"], held.value)


def main() -> None:
    """Print a line a setting."""
    print(f"{ROWS} persons, k={K}")
    show(SETTINGS, lambda folder, **changes: attack(setting(folder, **changes)))


if __name__ == "__main__":
    main()
