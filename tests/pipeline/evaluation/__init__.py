"""What is measured of a release in a run."""
