"""What a release is worth: one measure a function, each with its definition, its source and what it left out."""

from anonpipe.evaluate.utility._distances import (
    hellinger_distance,
    ks_distance,
    tail_changes,
    total_variation,
    wasserstein_distance,
)
from anonpipe.evaluate.utility._formula import Analysis, check_analysis, columns_used
from anonpipe.evaluate.utility._models import (
    CoefficientChange,
    CoefficientShares,
    Estimate,
    FittedModel,
    ModelComparison,
    ModelFit,
    fit_models,
    shares_changed,
)
from anonpipe.evaluate.utility._moments import ChangeSummary, abim, abisd, moment_changes
from anonpipe.evaluate.utility._pair_trends import (
    contingency_distance,
    correlation_ratio,
    eigenvalue_change,
    il1s,
    pairwise_correlations,
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
from anonpipe.evaluate.utility._survival import kaplan_meier
from anonpipe.evaluate.utility._tables import Endpoint, typed_tables
from anonpipe.evaluate.utility._two_sample import (
    Auc,
    Propensity,
    TreePropensity,
    auc,
    discriminator,
    interaction_terms,
    propensity,
    tree_propensity,
)
from anonpipe.evaluate.utility._utility import MEASURES, utility

__all__ = [
    "MEASURES",
    "Analysis",
    "Auc",
    "Binning",
    "ChangeSummary",
    "CoefficientChange",
    "CoefficientShares",
    "CorrelationMatrices",
    "Distribution",
    "Endpoint",
    "Estimate",
    "FittedModel",
    "ModelComparison",
    "ModelFit",
    "Propensity",
    "SurvivalPanel",
    "SurvivalPicture",
    "TreePropensity",
    "abim",
    "abisd",
    "auc",
    "category_distribution",
    "check_analysis",
    "columns_used",
    "contingency_distance",
    "correlation_changes",
    "correlation_ratio",
    "discriminator",
    "distributions",
    "eigenvalue_change",
    "fit_models",
    "hellinger_distance",
    "il1s",
    "interaction_terms",
    "kaplan_meier",
    "ks_distance",
    "moment_changes",
    "pairwise_correlations",
    "propensity",
    "shares_changed",
    "survival_pictures",
    "tail_changes",
    "total_variation",
    "tree_propensity",
    "typed_tables",
    "utility",
    "wasserstein_distance",
]
