"""Make the demonstration registry: `python data/make_registry.py [ROWS] [PATH]`.

Without arguments it makes `registry_small.parquet` beside this file again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from anonpipe.propose.demo import PUBLIC_SEED, write_registry

SMALL_ROWS = 5_000
SMALL_PATH = Path(__file__).parent / "registry_small.parquet"


def main() -> None:
    """Read the command line and write the table."""
    parser = argparse.ArgumentParser(description="Write a cancer-registry-like table of invented persons to Parquet.")
    parser.add_argument("rows", nargs="?", type=int, default=SMALL_ROWS, help="number of persons (%(default)s)")
    parser.add_argument("path", nargs="?", type=Path, default=SMALL_PATH, help="file to write (%(default)s)")
    chosen = parser.parse_args()
    # Persons of a table of another size, and of anonpipe demo, are others: no release of one overlaps with another's
    write_registry(chosen.path, chosen.rows, seed=PUBLIC_SEED if chosen.rows == SMALL_ROWS else chosen.rows)
    print(f"{chosen.path}: {chosen.rows:,} invented persons")


if __name__ == "__main__":
    main()
