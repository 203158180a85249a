"""Utility and risk of a release, one measure a file."""
