"""The report of a run: `report.json` first, and the page that is drawn from it."""

from anonpipe.report.build import Facts, as_trial, external, internal
from anonpipe.report.content import FORMAT, Report
from anonpipe.report.page import cell, documents, read_report, render, report_of_release

__all__ = [
    "FORMAT", "Facts", "Report", "as_trial", "cell", "documents", "external", "internal", "read_report", "render",
    "report_of_release",
]  # fmt: skip
