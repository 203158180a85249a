"""What an intruder could learn from a release: one attack or disclosure measure a file."""

from anonpipe.evaluate.coding import Coding
from anonpipe.evaluate.risk import (
    _assignment,
    _attribute_inference,
    _class_disclosure,
    _closest_record,
    _collusion,
    _conditional_privacy,
    _kept_moments,
    _known_attribute,
    _lasko,
    _linkability,
    _linkage,
    _membership,
    _probabilistic,
    _scenario,
    _singling_out,
    _stratum,
    _tails,
)
from anonpipe.evaluate.risk._assignment import ASSIGNED, assigned_cells, assignment, drawn_cells, rows_of
from anonpipe.evaluate.risk._attribute_inference import AttributeInference, AttributeRisk, attribute_inference
from anonpipe.evaluate.risk._class_disclosure import ClassRisk, RandomGroups, class_risk
from anonpipe.evaluate.risk._closest_record import ClosestRecord, closest_record
from anonpipe.evaluate.risk._collusion import Collusion, collusion
from anonpipe.evaluate.risk._conditional_privacy import ConditionalPrivacy, conditional_privacy
from anonpipe.evaluate.risk._expected_links import expected_links
from anonpipe.evaluate.risk._guesses import Guesses, guess_nearest
from anonpipe.evaluate.risk._kept_moments import rows_that_tell_no_more, told_by_moments
from anonpipe.evaluate.risk._known import (
    Alike,
    ClassShares,
    Found,
    Guessed,
    Known,
    Link,
    Matches,
    Met,
    Pairs,
    Scenario,
    StratumGuesses,
    WholeGroups,
)
from anonpipe.evaluate.risk._known_attribute import KnownAttribute, known_attribute
from anonpipe.evaluate.risk._lasko import LaskoMeasures, Predictions, lasko_measures, predictions
from anonpipe.evaluate.risk._linkability import joined, linkability
from anonpipe.evaluate.risk._linkage import Linkage, score_linkage
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.risk._membership import Membership, membership
from anonpipe.evaluate.risk._nearest import Nearest, Scale, merge_nearest, nearest
from anonpipe.evaluate.risk._probabilistic import (
    ProbabilisticBound,
    fewest_alike,
    link_by,
    link_of,
    probabilistic_bound,
)
from anonpipe.evaluate.risk._ranks import Ranks
from anonpipe.evaluate.risk._scenario import (
    KeyMatches,
    ScenarioRisk,
    Tolerances,
    around,
    individual_risk,
    key_matches,
    reaches,
    scenario_risk,
)
from anonpipe.evaluate.risk._singling_out import Ordered, Predicates, candidates, outermost, singling_out
from anonpipe.evaluate.risk._stratum import StratumInference, least_shown, stratum_inference
from anonpipe.evaluate.risk._tails import TailLinkage, tail_linkage
from anonpipe.evaluate.risk._trained_membership import trained_membership
from anonpipe.evaluate.risk._whitened import Whitened
from anonpipe.evaluate.risk._width import Width, width_of

# All measures of risk, in the order of a report; a new one is a line here
MEASURES: tuple[Measure, ...] = (
    _linkage.MEASURE,
    _linkage.RANKS,
    _linkage.WHITENED,
    _assignment.MEASURE,
    _tails.MEASURE,
    _scenario.MEASURE,
    _lasko.MEASURE,
    _conditional_privacy.MEASURE,
    _known_attribute.MEASURE,
    _collusion.MEASURE,
    _probabilistic.MEASURE,
    _class_disclosure.MEASURE,
    _membership.MEASURE,
    _kept_moments.MEASURE,
    _singling_out.MEASURE,
    _linkability.MEASURE,
    _attribute_inference.MEASURE,
    _closest_record.MEASURE,
    _stratum.MEASURE,
)

__all__ = [
    "ASSIGNED",
    "MEASURES",
    "Alike",
    "AttributeInference",
    "AttributeRisk",
    "ClassRisk",
    "ClassShares",
    "ClosestRecord",
    "Coding",
    "Collusion",
    "ConditionalPrivacy",
    "Found",
    "Guessed",
    "Guesses",
    "KeyMatches",
    "Known",
    "KnownAttribute",
    "LaskoMeasures",
    "Link",
    "Linkage",
    "Matches",
    "Measure",
    "Measured",
    "Membership",
    "Met",
    "Nearest",
    "Ordered",
    "Pairs",
    "Predicates",
    "Predictions",
    "ProbabilisticBound",
    "RandomGroups",
    "Ranks",
    "Scale",
    "Scenario",
    "ScenarioRisk",
    "StratumGuesses",
    "StratumInference",
    "TailLinkage",
    "Tolerances",
    "Whitened",
    "WholeGroups",
    "Width",
    "around",
    "assigned_cells",
    "assignment",
    "attribute_inference",
    "candidates",
    "class_risk",
    "closest_record",
    "collusion",
    "conditional_privacy",
    "drawn_cells",
    "expected_links",
    "fewest_alike",
    "guess_nearest",
    "individual_risk",
    "joined",
    "key_matches",
    "known_attribute",
    "lasko_measures",
    "least_shown",
    "link_by",
    "link_of",
    "linkability",
    "membership",
    "merge_nearest",
    "nearest",
    "outermost",
    "predictions",
    "probabilistic_bound",
    "reaches",
    "rows_of",
    "rows_that_tell_no_more",
    "scenario_risk",
    "score_linkage",
    "singling_out",
    "stratum_inference",
    "tail_linkage",
    "told_by_moments",
    "trained_membership",
    "width_of",
]
