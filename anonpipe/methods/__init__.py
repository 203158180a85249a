"""Published methods, one a file: grouping, synthesis, masking, mixtures."""

from anonpipe.kernels.compiled import keep_privately

keep_privately()
