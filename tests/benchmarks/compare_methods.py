"""Twelve methods and four k side by side on a cancer registry: a table, a risk-utility map, and the setting to take.

    python -m tests.benchmarks.compare_methods [--out folder] [--draws 1] [--rows 3000] [--queries 1000] [--k 5 20]

Finnish colon carcinoma (colon_finland.csv below ANONPIPE_BENCH_DATA/data,
15,564 patients) and three models of its recipients, as in
`recipient_models`, with limits on what may become of their coefficients, and
at most one patient in twenty linked correctly. One patient in five may equal
an original of its group: in whole months and years, and four categories,
chance alone makes many equal. First a setting is run that passes (k = 20), and
one that fails and releases nothing (k = 5); then all are compared. Printed are
the commands, what they print, and seconds.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.benchmarks.recipient_models import COLUMNS, PREDICTORS, registry

LIMITS = {"changed_significance": 0.25, "changed_direction": 0.1, "outside": 0.35, "overlap": 0.5}


def job(rows, queries):
    dead = "vital == 'Dead'"
    columns = COLUMNS | {"months": {**COLUMNS["months"], "step": 1}}
    return {
        "input": "colon.parquet",
        "output": "release-folder",
        "k": 20,
        "columns": columns,
        "strata": {"by": ["vital"]},
        "cluster": {"method": "mdav", "response_weight": 0.5},
        "synthesize": {"method": "pca", "moments": "expected"},
        "gates": {"reidentification_rate": 0.05, "unchanged_record_rate": 0.2, "stratum_inference": None},
        "measure": {"rows": rows, "queries": queries, "hold_out": 0},  # the models are of all patients
        "analyses": [
            {"name": "linear", "model": "linear", "formula": f"months ~ {PREDICTORS}", "subset": dead},
            {"name": "logistic", "model": "logistic", "formula": f"I(months >= 12) ~ {PREDICTORS}", "subset": dead},
            {"name": "cox", "model": "cox", "formula": f"months ~ age + {PREDICTORS}", "event": dead},
        ],
    }


def call(folder, *arguments):
    """Run `anonpipe`, and print the command, what it prints, and its seconds."""
    print(f"$ anonpipe {shlex.join(arguments)}", flush=True)
    begin = time.time()
    done = subprocess.run([sys.executable, "-m", "anonpipe", *arguments], cwd=folder, check=False)
    print(f"exit code {done.returncode}, {time.time() - begin:.0f} s\n", flush=True)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20, 50])
    parser.add_argument("--passes", nargs="*", default=["k=20"])
    parser.add_argument("--fails", nargs="*", default=["k=5"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        os.environ |= {"ANONPIPE_HOME": f"{temporary}/home", "ANONPIPE_STAGING": f"{temporary}/staging"}
        os.environ["ANONPIPE_SECRET"] = "5e1b07c93ad264f8" * 4
        os.environ.setdefault("COLUMNS", "110")
        registry().to_parquet(folder / "colon.parquet")
        content = job(given.rows, given.queries)
        for analysis in content["analyses"]:
            analysis["limits"] = LIMITS
        (folder / "job.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        for settings in (given.passes, given.fails):
            call(folder, "run", "job.yaml", *(part for text in settings for part in ("--set", text)))
        ks = ",".join(map(str, given.k))
        call(folder, "compare", "job.yaml", "--k", ks, "--draws", str(given.draws), "--out", "comparison")


if __name__ == "__main__":
    main()
