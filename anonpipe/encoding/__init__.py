"""Table to features and back: scan, cells, features, and how categories and nulls are decoded."""
