"""What is measured of a run's release on private samples: utility, risk and the recipients' analyses."""

from anonpipe.pipeline.evaluation._checks import checks, gated, notes
from anonpipe.verify.assessment import AnalysisOutcome, Assessment, NotChecked

__all__ = ["AnalysisOutcome", "Assessment", "NotChecked", "checks", "gated", "notes"]
