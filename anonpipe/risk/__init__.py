"""What an intruder could learn from a release: one attack or disclosure measure a file."""
