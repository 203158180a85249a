"""Replace the records of groups: one method a file, a registry, a validating dispatcher."""

from anonpipe.synthesize._centroid import centroid
from anonpipe.synthesize._gaussian import gaussian
from anonpipe.synthesize._histogram import histogram
from anonpipe.synthesize._micro_perturbation import micro_perturbation, noise_scatter
from anonpipe.synthesize._pca import pca
from anonpipe.synthesize._r_microhybrid import r_microhybrid
from anonpipe.synthesize._registry import METHODS, synthesize
from anonpipe.synthesize._survival_rank import restore_by_rank
from anonpipe.synthesize._synthesizer import Synthesizer

__all__ = [
    "METHODS",
    "Synthesizer",
    "centroid",
    "gaussian",
    "histogram",
    "micro_perturbation",
    "noise_scatter",
    "pca",
    "r_microhybrid",
    "restore_by_rank",
    "synthesize",
]
