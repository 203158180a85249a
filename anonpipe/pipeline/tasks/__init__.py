"""What workers run: one module a stage, and their table in `worker`."""
