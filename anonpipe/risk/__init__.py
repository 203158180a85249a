"""What an intruder could learn from a release: one attack or disclosure measure a file."""

from anonpipe.risk._attribute_inference import AttributeInference, AttributeRisk, attribute_inference
from anonpipe.risk._class_disclosure import ClassRisk, RandomGroups, class_risk
from anonpipe.risk._closest_record import ClosestRecord, closest_record
from anonpipe.risk._collusion import Collusion, collusion
from anonpipe.risk._conditional_privacy import ConditionalPrivacy, conditional_privacy
from anonpipe.risk._guesses import Coding, Guesses, guess_nearest
from anonpipe.risk._known_attribute import KnownAttribute, known_attribute
from anonpipe.risk._lasko import LaskoMeasures, Predictions, lasko_measures, predictions
from anonpipe.risk._linkage import Linkage, score_linkage
from anonpipe.risk._membership import Membership, membership
from anonpipe.risk._nearest import Nearest, Scale, merge_nearest, nearest
from anonpipe.risk._probabilistic import ProbabilisticBound, fewest_alike, link_of, probabilistic_bound
from anonpipe.risk._ranks import Ranks

__all__ = [
    "AttributeInference",
    "AttributeRisk",
    "ClassRisk",
    "ClosestRecord",
    "Coding",
    "Collusion",
    "ConditionalPrivacy",
    "Guesses",
    "KnownAttribute",
    "LaskoMeasures",
    "Linkage",
    "Membership",
    "Nearest",
    "Predictions",
    "ProbabilisticBound",
    "RandomGroups",
    "Ranks",
    "Scale",
    "attribute_inference",
    "class_risk",
    "closest_record",
    "collusion",
    "conditional_privacy",
    "fewest_alike",
    "guess_nearest",
    "known_attribute",
    "lasko_measures",
    "link_of",
    "membership",
    "merge_nearest",
    "nearest",
    "predictions",
    "probabilistic_bound",
    "score_linkage",
]
