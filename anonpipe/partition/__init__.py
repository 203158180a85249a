"""Dividing records: strata, and coarse pre-clusters for the workers."""
