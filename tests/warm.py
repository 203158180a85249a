"""Compile what most tests need, once, before two processes would do it side by side: python -m tests.warm."""

from __future__ import annotations

import signal
import sys

from anonpipe.warm import warm

NEEDED = ("mdav", "measures")
"""The usual job with all measures."""


def main() -> None:
    """Compile, and say when what is needed is there; go on with all the rest until stopped. The user's cache has it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # an exception: temporary folders are removed
    warm(only=NEEDED)
    print("compiled: the kernels of the usual job", flush=True)
    warm()


if __name__ == "__main__":
    main()
