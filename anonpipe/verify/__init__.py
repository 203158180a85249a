"""Verification of a release: what is measured, the gates, and the verdict."""
