"""What a release is worth: one measure a function, each with its definition, its source and what it left out."""

from anonpipe.measure._analyses import (
    CoefficientChange,
    Estimate,
    Fit,
    FittedModel,
    ModelComparison,
    Shares,
    compare_models,
    fit_models,
    shares_changed,
)
from anonpipe.measure._average_bias import abico, abim, abisd
from anonpipe.measure._changes import Changes
from anonpipe.measure._coefficient_changes import CoefficientChanges, coefficient_changes
from anonpipe.measure._formula import Analysis
from anonpipe.measure._lasko_table import LaskoTable, lasko_table
from anonpipe.measure._measurement import Curve, Measurement
from anonpipe.measure._moment_changes import moment_changes
from anonpipe.measure._propensity import Propensity, propensity
from anonpipe.measure._terms import interaction_terms

__all__ = [
    "Analysis",
    "Changes",
    "CoefficientChange",
    "CoefficientChanges",
    "Curve",
    "Estimate",
    "Fit",
    "FittedModel",
    "LaskoTable",
    "Measurement",
    "ModelComparison",
    "Propensity",
    "Shares",
    "abico",
    "abim",
    "abisd",
    "coefficient_changes",
    "compare_models",
    "fit_models",
    "interaction_terms",
    "lasko_table",
    "moment_changes",
    "propensity",
    "shares_changed",
]
