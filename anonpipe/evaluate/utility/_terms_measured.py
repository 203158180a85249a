"""From a figure for each column or pair of columns to one measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.utility._measurement import Measurement

MOST_PARTS = 20  # Parts that a measurement lists, the largest first

LOST = math.inf  # Figure of a term that the original has, and the release has not

NO_NUMBERS = "there is no column of numbers or dates"

NO_MIX = "there are not a categorical column and one of numbers or dates"

Term = tuple[str, float]


def mean_of_terms(
    name: str,
    title: str,
    terms: Sequence[Term],
    *,
    unit: str,
    source: str,
    records: int,
    audience: Audience,
    nothing: str,
    note: str = "",
    middle: bool = False,
) -> Measurement:
    """The mean of some sizes of changes, of which less is better.

    Examples
    --------
    >>> terms = [("a", 1.0), ("b", 3.0), ("c", LOST)]
    >>> found = mean_of_terms("x", "X", terms, unit="", source="-", records=9, audience=Audience.ENOUGH, nothing="")
    >>> found.value, found.parts
    (2.0, (('b', 3.0), ('a', 1.0)))
    >>> found.note.split(". ")[0]
    'The mean of 2 parts; their median is 2'
    """
    kept = [(term, value) for term, value in terms if math.isfinite(value)]
    lost = sum(value == LOST for _, value in terms)
    left_out = len(terms) - len(kept) - lost
    values = np.array([value for _, value in kept])
    said = []
    if not terms:
        said.append(f"Not defined: {nothing}.")
    elif len(kept) > 1:
        mean, median = f"{values.mean():.3g}", f"{np.median(values):.3g}"
        told = f"median of {len(kept)} parts; their mean is {mean}"
        if not middle:
            told = f"mean of {len(kept)} parts; their median is {median}"
        said.append(f"The {told}.")
    if left_out:
        said.append(
            f"{left_out} of {len(terms)} terms left out: the original is constant, near zero, or has too few values."
        )
    if lost:
        said.append(
            f"{lost} of {len(terms)} terms {'is' if lost == 1 else 'are'} not defined in the release; "
            f"{'it is' if lost == 1 else 'they are'} not in the figure, which flatters the release."
        )
    if note:
        said.append(note)
    value = float("nan") if not kept else float(np.median(values) if middle else values.mean())
    return Measurement(
        name=name,
        title=title,
        value=value,
        unit=unit,
        better="lower",
        source=source,
        records=records,
        of=records,
        note=" ".join(said),
        parts=tuple(sorted(kept, key=lambda part: -part[1])[:MOST_PARTS]),
        audience=audience,
    )
