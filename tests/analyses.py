"""Models of an original and its release, side by side."""

from __future__ import annotations

from anonpipe.evaluate.utility import fit_models


def compare_models(original, released, analyses):
    """Fit the models to both tables."""
    return tuple(model.compare(released) for model in fit_models(original, analyses))
