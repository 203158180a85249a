"""Forming groups of at least k near records.

`cluster` runs a method of `METHODS` by name and counts the groups, `refine`
improves any grouping, `information_loss` says how good one is.
"""

from anonpipe.cluster._classes import compound_classes
from anonpipe.cluster._loss import information_loss
from anonpipe.cluster._method import Method
from anonpipe.cluster._refine import refine
from anonpipe.cluster._registry import METHODS, cluster

__all__ = ["METHODS", "Method", "cluster", "compound_classes", "information_loss", "refine"]
