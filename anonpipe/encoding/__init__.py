"""Table to points and back: scan, cells, points, and how categories and nulls are decoded."""
