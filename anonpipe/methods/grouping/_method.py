"""The record that describes a clustering method."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from anonpipe.types import IntArray

GIVEN = ("rng", "classes", "class_shares")
"""Keyword-only parameters of a method that are no options of its own."""


@dataclass(frozen=True)
class Method:
    """One clustering method.

    Attributes
    ----------
    function
        `function(points, k, *, rng, **options) -> labels`; its keyword-only
        parameters besides those in `GIVEN` are the method's options. A method
        that needs classes takes `classes`, codes of shape (n_rows,), and
        `class_shares`, the share of each class in the whole table.
    name
        What the job calls it.
    published
        Name in the literature.
    reference
        DOI and place.
    cost
        Time and memory, in n records, w columns.
    needs
        What it needs besides points: "classes" or nothing.
    sizes
        What group sizes it gives, in words.
    largest
        The largest group as a function of k, None where there is no limit.
    draws
        Whether the groups depend on `rng`.
    """

    function: Callable[..., IntArray]
    name: str
    published: str
    reference: str
    cost: str
    needs: tuple[str, ...]
    sizes: str
    largest: Callable[[int], int] | None
    draws: bool

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that `cluster` passes on."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in GIVEN)


def under_2k(k: int) -> int:
    """2k - 1: the largest group of most published methods; larger ones can be split and lose less."""
    return 2 * k - 1
