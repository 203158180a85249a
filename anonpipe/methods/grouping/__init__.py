"""Forming groups of at least k near records.

`cluster` runs a method of `METHODS`, `refine` improves any grouping, `information_loss` says how good it is.
"""

from anonpipe.methods.grouping._classes import ClassDisclosure, class_disclosure
from anonpipe.methods.grouping._diversity import constrain_classes, unreachable
from anonpipe.methods.grouping._loss import (
    CONFIDENCE,
    LossBound,
    bound_from_distances,
    information_loss,
    information_loss_bound,
    smallest_distances,
)
from anonpipe.methods.grouping._options import GroupingOptions
from anonpipe.methods.grouping._refine import refine
from anonpipe.methods.grouping._registry import METHODS, cluster
from anonpipe.methods.grouping._units import hold_units, largest_share, unit_points, units_in_groups

__all__ = [
    "CONFIDENCE", "METHODS", "ClassDisclosure", "GroupingOptions", "LossBound", "bound_from_distances",
    "class_disclosure", "cluster", "constrain_classes", "hold_units", "information_loss", "information_loss_bound",
    "largest_share", "refine", "smallest_distances", "unit_points", "units_in_groups", "unreachable",
]  # fmt: skip
