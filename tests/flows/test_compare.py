"""The flow of comparisons: one setting that can be tried, one that cannot, on a worker of its own cluster."""

from __future__ import annotations

import json

from tests.flows.poison import Poison, private

POISON = Poison("canary-compared", 98765.4321)

FLOW = """
import sys
from anonpipe.job.model import load_job
from flows.compare import compare_settings, main
assert main([]) == 2
methods = ["kd_tree+centroid", "crest+centroid"]
axes = {"utility": "analyses.outside", "risk": "reidentification_rate"}  # the usual one is for the steward alone
compare_settings(load_job(sys.argv[1]), sys.argv[2], methods, [5], **axes)
"""


def test_table_and_map_are_artifacts_and_nothing_is_released(tmp_path, server):
    job = POISON.table(
        tmp_path,
        measure={"utility": False, "risk": True, "rows": 300, "queries": 50},
        analyses=[{"name": "pay", "model": "linear", "formula": "income ~ age + region"}],
        gates={"mean": 1, "covariance": 3, "category_share": 0.5},
        run={"workers": 1, "memory_per_worker": "2GiB", "retries": 0},
    )
    done = POISON.program(tmp_path, server, FLOW, job, tmp_path / "compared")
    assert done.returncode == 0, done.stderr[-3000:]
    run = server.last_run()
    assert run["state_name"] == "Completed"
    (table,) = server.artifacts(run["id"], "anonpipe-comparison")
    first, second = json.loads(table["data"])
    assert first["gates"] == "pass" and first[""] == "choice" and first["reidentification_rate"].endswith(")")
    assert second["gates"] == "not feasible" and "role sensitive" in second["why"]
    assert "kd_tree+centroid, k=5" in table["description"]
    (picture,) = server.artifacts(run["id"], "anonpipe-comparison-map")
    assert "](data:image/png;base64," in picture["data"]
    assert not (tmp_path / "out").exists() and not any(path.is_dir() for path in (tmp_path / "staging").iterdir())
    assert sorted(path.name for path in (tmp_path / "compared").iterdir()) == [
        "compare.csv",
        "compare.json",
        "compare.png",
    ]
    assert private(tmp_path / "compared") and private(tmp_path / "home")
    (tmp_path / "console.log").write_text(done.stdout + done.stderr)
    assert POISON.found_in(tmp_path, server.home) == {tmp_path / "poisoned.parquet"}
