"""Compile what most tests need, once, before two processes would do it side by side: python -m tests.warm."""

from __future__ import annotations

import numpy as np

from anonpipe.methods.grouping import cluster, refine


def main() -> None:
    """Group and refine a small table; numba keeps what it has compiled beside the sources."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 3))
    refine(features, cluster(features, 5, "mdav", rng=rng, block_rows=100), 5)


if __name__ == "__main__":
    main()
