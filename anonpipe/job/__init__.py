"""The job: what a steward writes, its model, and how it is read."""
