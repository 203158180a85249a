"""Forming groups of at least k near records.

`cluster` runs a method of `METHODS` by name and counts the groups, `refine`
improves any grouping, `information_loss` says how good one is.
"""

from anonpipe.cluster._bound import information_loss_bound
from anonpipe.cluster._classes import compound_classes
from anonpipe.cluster._crest_per_class import crest_per_class
from anonpipe.cluster._disclosure import ClassDisclosure, class_disclosure
from anonpipe.cluster._diversity import constrain_classes, unreachable
from anonpipe.cluster._loss import information_loss
from anonpipe.cluster._method import Method
from anonpipe.cluster._refine import refine
from anonpipe.cluster._registry import METHODS, cluster
from anonpipe.cluster._sampled_bound import CONFIDENCE, LossBound, bound_from_distances, smallest_distances

__all__ = [
    "CONFIDENCE",
    "METHODS",
    "ClassDisclosure",
    "LossBound",
    "Method",
    "bound_from_distances",
    "class_disclosure",
    "cluster",
    "compound_classes",
    "constrain_classes",
    "crest_per_class",
    "information_loss",
    "information_loss_bound",
    "refine",
    "smallest_distances",
    "unreachable",
]
