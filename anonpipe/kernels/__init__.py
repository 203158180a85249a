"""Compiled loops over arrays; each is documented beside the function that uses it."""
