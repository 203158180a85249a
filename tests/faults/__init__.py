"""Faults that tests and campaigns inject into a run, each a function of its own."""
