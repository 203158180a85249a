"""The attack of neighbours: who knows age, sex and region of a person, and no more, looks the person up.

The demonstration's registry, in which most persons of a small region are single in age and sex. What is told beside
what the intruder of all columns finds (`linkage`), which says nothing of who knows three.

`python -m tests.attacks.neighbours`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from anonpipe.job.model import Job, parse_job
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.propose.demo import demo_job, write_registry
from tests import small
from tests.attacks.runs import assessed, show

ROWS, K = 4_000, 5
KNOWN = ("age", "sex", "region")
SETTINGS: dict[str, dict[str, Any]] = {
    "age, sex and region unchanged (role: key)": {"unchanged": KNOWN},
    "sex and region unchanged": {"unchanged": ("sex", "region")},
    "all masked, groups of 5": {},
    "all masked, groups of 20": {"k": 20},
    "all masked, local_synthesis": {"mask": {"method": "local_synthesis"}},
}


class Found(NamedTuple):
    """What is found; of the original, and of the release."""

    uniques: float
    below_k: float
    original: float
    linked: float
    linked_uniques: float
    all_columns: float

    def __str__(self) -> str:
        return (
            f"original: single {self.uniques:5.1%}, in classes < k {self.below_k:5.1%}, linked {self.original:5.1%}; "
            f"release: linked {self.linked:6.2%}, of the single ones {self.linked_uniques:6.2%}; "
            f"by all columns {self.all_columns:6.2%}"
        )


def setting(folder: Path, rows: int = ROWS, unchanged: tuple[str, ...] = (), **changes: Any) -> Job:
    """A job for so many persons, some columns of whom are released unchanged."""
    folder.mkdir(exist_ok=True)
    data = folder / "registry.parquet"
    if not data.exists():
        write_registry(data, rows)
    content = load_yaml(demo_job(str(data), str(folder / "out"), K))
    for name in unchanged:
        content["columns"][name]["role"] = "key"
    scenarios = [{"name": "neighbour", "knows": list(KNOWN)}]
    content |= {"measure": {"utility": False, "queries": pq.read_metadata(data).num_rows, "scenarios": scenarios}}
    gates = {"rows_under_k": rows, "mean": 9, "covariance": 9, "covariance_with_keys": 9}
    return parse_job(small.changed(content | {"gates": gates, "partition": {"rows": 5_000}}, **changes))


def attack(job: Job) -> Found:
    """Run the job, whatever its verdict, and look the persons up."""
    risks = {one.name: one.value for one in assessed(job).risk}
    names = ("original_uniques", "original_below_k", "marketer", "linked", "linked_uniques")
    figures = [risks[f"scenarios.neighbour.{name}"] for name in names]
    return Found(*figures, risks["reidentification_rate"])


def main() -> None:
    """Print a line a setting."""
    print(f"{ROWS} persons, of whom age, sex and region are known; k={K} where not said")
    show(SETTINGS, lambda folder, **changes: attack(setting(folder, **changes)))


if __name__ == "__main__":
    main()
