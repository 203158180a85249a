"""Proposals for a new job, and the demonstration."""
