"""The record that describes a synthesizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt


@dataclass(frozen=True)
class Synthesizer:
    """One method that replaces the records of groups.

    Attributes
    ----------
    function
        `function(points, order, starts, *, rng, **options) -> new points`;
        without `rng` where `random` is false; codes for points where `takes`
        says so.
    name
        What the job calls it.
    published
        Name in the literature.
    reference
        DOI and place.
    cost
        Time and memory, in n records of width columns.
    options
        Its options and what each is for.
    required
        Options that have no default.
    promise
        Which moments are kept, exactly or on average, of group, stratum or table.
    random
        Whether it draws.
    identical_groups
        Whether all synthesized values of a group become equal.
    exact_group_moments
        Whether every group's mean and scatter are kept with the default options.
    exact_table_moments
        Whether the table's mean and covariance are kept with the default options.
    takes
        `points`, float64, or `codes` of categories, int64.
    """

    function: Callable[..., npt.NDArray[Any]]
    name: str
    published: str
    reference: str
    cost: str
    options: Mapping[str, str]
    required: tuple[str, ...]
    promise: str
    random: bool
    identical_groups: bool
    exact_group_moments: bool
    exact_table_moments: bool
    takes: Literal["points", "codes"] = "points"
