"""Compile what most tests need, once, before two processes would do it side by side: python -m tests.warm."""

from __future__ import annotations

import signal
import sys

import numpy as np

from anonpipe.warm import warm
from tests.benchmarks.plain_mdav import plain_pairs

NEEDED = ("mdav", "measures")
"""The usual job with all measures."""


def main() -> None:
    """Compile, and say when what is needed is there; go on with all the rest until stopped. The user's cache has it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # an exception: temporary folders are removed
    warm(only=NEEDED)
    print("compiled: the kernels of the usual job", flush=True)
    plain_pairs(np.random.default_rng(0).normal(size=(40, 2)), 3, 6)  # a twin of tests
    warm()


if __name__ == "__main__":
    main()
