"""Make the demonstration registry: `python data/make_registry.py [ROWS] [PATH]`.

Without arguments it makes `registry_small.parquet` beside this file again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from anonpipe.propose.demo import write_registry

SMALL_ROWS = 5_000
SMALL_PATH = Path(__file__).parent / "registry_small.parquet"


def main() -> None:
    """Read the command line and write the table."""
    parser = argparse.ArgumentParser(description="Write a cancer-registry-like table of invented persons to Parquet.")
    parser.add_argument("rows", nargs="?", type=int, default=SMALL_ROWS, help="number of persons (%(default)s)")
    parser.add_argument("path", nargs="?", type=Path, default=SMALL_PATH, help="file to write (%(default)s)")
    chosen = parser.parse_args()
    write_registry(chosen.path, chosen.rows)
    print(f"{chosen.path}: {chosen.rows:,} invented persons")


if __name__ == "__main__":
    main()
