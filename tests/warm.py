"""Compile what most tests need, once, before two processes would do it side by side: python -m tests.warm."""

from __future__ import annotations

from anonpipe.warm import warm

NEEDED = ("mdav", "measures")
"""The usual job with all measures: so long as the checks take."""


def main() -> None:
    """Compile; numba keeps it in the user's cache."""
    warm(only=NEEDED)


if __name__ == "__main__":
    main()
