"""A web page for data stewards, on their own machine: from a file to its release. Wiring only."""
