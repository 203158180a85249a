"""What is loaded only where it is needed, stage by stage of one process."""

from __future__ import annotations

import subprocess
import sys

from tests import small

HEAVY = ["scipy.stats", "scipy.spatial", "pandas", "sklearn", "statsmodels", "matplotlib", "pyarrow", "zarr", "dask"]
DRIVERS = [
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "adbc_driver_sqlite",
    "duckdb",
    "pyreadstat",
    "deltalake",
    "pyiceberg",
]

SCRIPT = """
import sys
loaded = lambda names: print([name for name in names if name in sys.modules])
import anonpipe.job.model
loaded({heavy})  # together they take two seconds, also of a user who only mistyped a key
from anonpipe.source import open_source, opened
open_source({path!r})
opened({path!r}).__enter__()
loaded({drivers} + [name for name in sys.modules if name.startswith("adbc")])
import anonpipe.evaluate.utility
loaded(["statsmodels", "patsy"])
from anonpipe.propose.propose import propose_job
propose_job({path!r}, "release", 5)
loaded(["scipy.optimize", "scipy.stats", "statsmodels", "zarr", "matplotlib", "sklearn"])
"""


def test_libraries_are_loaded_only_where_they_are_needed(tmp_path):
    script = SCRIPT.format(heavy=HEAVY, drivers=DRIVERS, path=small.write_table(tmp_path, small.plain_table()))
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n" * 4


THREADS = """
import sys
from pathlib import Path
from types import SimpleNamespace
from anonpipe.pipeline import start
from tests import small
start.Work = lambda _: SimpleNamespace(source=SimpleNamespace(rows=1))
for measured in (False, True):
    job = small.job(Path({folder!r}), small.plain_table(), measure={{"utility": measured, "risk": measured}})
    with start.open_executor(job, None):
        print([name for name in ("sklearn.ensemble", "sklearn.tree", "sklearn.model_selection") if name in sys.modules])
"""


def test_threads_find_loaded_what_their_measures_need(tmp_path):
    """Modules of scikit-learn import each other: where two threads loaded some at once, 3 of 40 trials failed."""
    script = THREADS.format(folder=str(tmp_path))
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["[]", "['sklearn.ensemble', 'sklearn.tree', 'sklearn.model_selection']"]
