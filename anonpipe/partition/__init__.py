"""Dividing records: strata, and coarse pre-clusters for the workers."""

from anonpipe.kernels.compiled import keep_privately

keep_privately()
