"""Any two tables held against each other: what a release keeps of its original and tells of it, whoever made it."""

from anonpipe.two_tables._evaluate import Evaluated, evaluate_release

__all__ = ["Evaluated", "evaluate_release"]
