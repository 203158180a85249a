"""Files in three parts.

- the staging of a run: `staging`, `sealed`, `records`;
- releases: `versions` (order, pointers, lock), `release` (publish, check, signatures);
- repeats of earlier releases: `release_log`, `sketch`.
"""
