"""What is measured of a run's release on private samples: utility, risk and the recipients' analyses."""

from anonpipe.pipeline.evaluation.known import typed
from anonpipe.pipeline.evaluation.measures import checks, gated, limits_of, notes, warnings
from anonpipe.verify.verdict import AnalysisOutcome, Assessment, NotChecked

__all__ = ["AnalysisOutcome", "Assessment", "NotChecked", "checks", "gated", "limits_of", "notes", "typed", "warnings"]
