"""Any two tables compared: the utility and the disclosure risk of a release that any tool has made."""

from anonpipe.two_tables._evaluate import Evaluated, evaluate_release

__all__ = ["Evaluated", "evaluate_release"]
