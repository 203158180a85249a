"""Many settings of one job tried on its input, and set side by side: what each risks and what each costs."""

from anonpipe.compare._results import Axis, Study, cells, draw_map, legend, pareto, reasons, summarise, why, write_study
from anonpipe.compare._settings import DEFAULT_K, DEFAULT_METHODS, Setting, grid
from anonpipe.compare._study import compare

__all__ = [
    "DEFAULT_K", "DEFAULT_METHODS", "Axis", "Setting", "Study", "cells", "compare",
    "draw_map", "grid", "legend", "pareto", "reasons", "summarise", "why", "write_study",
]  # fmt: skip
