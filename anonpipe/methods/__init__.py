"""Published methods, one a file: grouping, synthesis, masking, mixtures."""
