"""What a release is worth: one measure a function, each with its definition, its source and what it left out."""

from anonpipe.evaluate.utility._design import count_coefficients
from anonpipe.evaluate.utility._distances import ks_distance
from anonpipe.evaluate.utility._formula import (
    Analysis,
    RefusedError,
    check_analysis,
    columns_used,
    read_condition,
    refuse_dates,
)
from anonpipe.evaluate.utility._models import (
    CoefficientChange,
    CoefficientShares,
    Estimate,
    ModelComparison,
    ModelFit,
    fit_models,
    shares_changed,
)
from anonpipe.evaluate.utility._pictures import (
    Binning,
    CorrelationMatrices,
    Distribution,
    SurvivalPanel,
    SurvivalPicture,
    category_distribution,
    correlation_changes,
    distributions,
    survival_pictures,
)
from anonpipe.evaluate.utility._relative import LifeTable, Population
from anonpipe.evaluate.utility._tables import Endpoint, typed_tables
from anonpipe.evaluate.utility._two_sample import auc
from anonpipe.evaluate.utility._utility import MEASURES, utility
from anonpipe.evaluate.utility._weighted import FEWEST_DEGREES

__all__ = [
    "FEWEST_DEGREES", "MEASURES",
    "Analysis", "Binning", "CoefficientChange", "CoefficientShares", "CorrelationMatrices", "Distribution",
    "Endpoint", "Estimate", "LifeTable", "ModelComparison", "ModelFit", "Population", "RefusedError",
    "SurvivalPanel", "SurvivalPicture",
    "auc", "category_distribution", "check_analysis", "columns_used", "correlation_changes", "count_coefficients",
    "distributions", "fit_models", "ks_distance", "read_condition", "refuse_dates", "shares_changed",
    "survival_pictures", "typed_tables", "utility",
]  # fmt: skip
