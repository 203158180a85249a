"""Compiled loops over arrays; each is documented with the function that uses it."""
