"""Attacks on releases of made tables, each a script that prints its figure before and after the defence.

`python -m tests.attacks.panel`: several rows of a firm, of which a group of k rows may hold one firm only.
`python -m tests.attacks.extremes`: incomes of which one is known to everybody.
"""
