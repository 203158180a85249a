"""Dividing records: strata, coarse pre-clusters for the workers, blocks inside a partition."""
