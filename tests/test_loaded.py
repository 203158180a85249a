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
