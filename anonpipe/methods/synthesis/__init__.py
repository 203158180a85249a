"""Replace the records of groups: one method a file, a registry, a validating dispatcher."""

from anonpipe.methods.synthesis._centroid import centroid
from anonpipe.methods.synthesis._gaussian import gaussian, pca
from anonpipe.methods.synthesis._histogram import histogram
from anonpipe.methods.synthesis._micro_perturbation import micro_perturbation, noise_scatter
from anonpipe.methods.synthesis._r_microhybrid import r_microhybrid
from anonpipe.methods.synthesis._registry import METHODS, restore_by_rank, synthesize

__all__ = [
    "METHODS", "centroid", "gaussian", "histogram", "micro_perturbation", "noise_scatter", "pca", "r_microhybrid",
    "restore_by_rank", "synthesize",
]  # fmt: skip
