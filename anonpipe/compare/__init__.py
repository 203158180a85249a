"""Many settings of one job tried on its input, and set side by side: what each risks and what each costs."""

from anonpipe.compare._figures import Axis, Figure, Row, Study, pareto, summarise
from anonpipe.compare._map import draw_map
from anonpipe.compare._settings import DEFAULT_K, DEFAULT_METHODS, Setting, grid
from anonpipe.compare._study import compare
from anonpipe.compare._written import cells, legend, reasons, why, write_study

__all__ = [
    "DEFAULT_K",
    "DEFAULT_METHODS",
    "Axis",
    "Figure",
    "Row",
    "Setting",
    "Study",
    "cells",
    "compare",
    "draw_map",
    "grid",
    "legend",
    "pareto",
    "reasons",
    "summarise",
    "why",
    "write_study",
]
