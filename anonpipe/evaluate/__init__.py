"""Utility and risk of a release, one measure a file."""

from anonpipe.kernels.compiled import keep_privately

keep_privately()
