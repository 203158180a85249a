"""What an intruder could learn from a release: one attack or disclosure measure a file."""

from anonpipe.evaluate.coding import Coding
from anonpipe.evaluate.risk import (
    _class_disclosure,
    _closest_record,
    _conditional_privacy,
    _inference,
    _known_attribute,
    _lasko,
    _linkage,
    _membership,
    _probabilistic,
    _scenario,
    _singling_out,
    _tails,
)
from anonpipe.evaluate.risk._guesses import Guesses, guess_nearest
from anonpipe.evaluate.risk._inference import least_shown
from anonpipe.evaluate.risk._linkage import ASSIGNED, assigned_cells, drawn_cells, joined, rows_of
from anonpipe.evaluate.risk._measure import (
    AttackData,
    AttackScenario,
    ClassShares,
    EffectiveDimension,
    EquivalenceClasses,
    InferenceTask,
    Matches,
    Measured,
    NearestMatches,
    Pairs,
    PredicateMatches,
    RiskMeasure,
    StratumGuesses,
    WholeGroups,
    effective_dimension,
)
from anonpipe.evaluate.risk._membership import (
    columns_for_membership,
    membership_from_moments,
    normal_scores,
    rows_for_membership,
)
from anonpipe.evaluate.risk._nearest import Nearest, RankLinkage, Whitened, merge_nearest, near_order, nearest
from anonpipe.evaluate.risk._probabilistic import fewest_alike, link_by
from anonpipe.evaluate.risk._scenario import KeyMatches, ScenarioRisk, Tolerances, around, key_matches, reaches
from anonpipe.evaluate.risk._singling_out import CONTROLS, Ordered, Predicates, candidates, joined_units, outermost

# All measures of risk, in the order of a report; a new one is a line here
MEASURES: tuple[RiskMeasure, ...] = (
    _linkage.MEASURE,
    _linkage.RANKS,
    _linkage.WHITENED,
    _linkage.ASSIGNMENT,
    _tails.MEASURE,
    _scenario.MEASURE,
    _lasko.MEASURE,
    _conditional_privacy.MEASURE,
    _known_attribute.MEASURE,
    _known_attribute.COLLUSION,
    _probabilistic.MEASURE,
    _class_disclosure.MEASURE,
    _membership.MEASURE,
    _membership.MOMENTS,
    _singling_out.MEASURE,
    _linkage.LINKABILITY,
    _inference.MEASURE,
    _closest_record.MEASURE,
    _inference.STRATA,
)

__all__ = [
    "ASSIGNED", "CONTROLS", "MEASURES", "AttackData", "AttackScenario", "ClassShares", "Coding", "EffectiveDimension",
    "EquivalenceClasses", "Guesses", "InferenceTask", "KeyMatches", "Matches", "Measured", "Nearest",
    "NearestMatches", "Ordered", "Pairs", "PredicateMatches", "Predicates", "RankLinkage", "RiskMeasure",
    "ScenarioRisk", "StratumGuesses", "Tolerances", "Whitened", "WholeGroups", "around", "assigned_cells",
    "candidates", "columns_for_membership",
    "drawn_cells", "effective_dimension", "fewest_alike", "guess_nearest", "joined", "joined_units", "key_matches",
    "least_shown", "link_by", "membership_from_moments", "merge_nearest", "near_order", "nearest", "normal_scores",
    "outermost", "reaches", "rows_for_membership", "rows_of",
]  # fmt: skip
