"""Faults injected into whole runs, many of them, at random places: `python -m tests.campaign --minutes 5`.

A trial builds a small world of its own (input, job, secret, output, staging),
disturbs a run in it, lets the user's next step follow (`--resume`, then a
plain run), and says how it ended. Runs are forked from a process that has
everything compiled, so that one trial takes about a second.
"""
