"""What an intruder could learn from a release: one attack or disclosure measure a file."""

from anonpipe.evaluate.coding import Coding
from anonpipe.evaluate.risk._attribute_inference import AttributeInference, AttributeRisk, attribute_inference
from anonpipe.evaluate.risk._class_disclosure import ClassRisk, RandomGroups, class_risk
from anonpipe.evaluate.risk._closest_record import ClosestRecord, closest_record
from anonpipe.evaluate.risk._collusion import Collusion, collusion
from anonpipe.evaluate.risk._conditional_privacy import ConditionalPrivacy, conditional_privacy
from anonpipe.evaluate.risk._guesses import Guesses, guess_nearest
from anonpipe.evaluate.risk._known_attribute import KnownAttribute, known_attribute
from anonpipe.evaluate.risk._lasko import LaskoMeasures, Predictions, lasko_measures, predictions
from anonpipe.evaluate.risk._linkage import Linkage, score_linkage
from anonpipe.evaluate.risk._membership import Membership, membership
from anonpipe.evaluate.risk._nearest import Nearest, Scale, merge_nearest, nearest
from anonpipe.evaluate.risk._probabilistic import ProbabilisticBound, fewest_alike, link_of, probabilistic_bound
from anonpipe.evaluate.risk._ranks import Ranks

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
