"""Replace the records of groups: one method a file, a registry, a validating dispatcher."""

from anonpipe.synthesize._centroid import centroid
from anonpipe.synthesize._gaussian import gaussian
from anonpipe.synthesize._micro_perturbation import micro_perturbation
from anonpipe.synthesize._pca import pca
from anonpipe.synthesize._registry import METHODS, Synthesizer, synthesize
from anonpipe.synthesize._survival_rank import restore_by_rank

__all__ = [
    "METHODS",
    "Synthesizer",
    "centroid",
    "gaussian",
    "micro_perturbation",
    "pca",
    "restore_by_rank",
    "synthesize",
]
