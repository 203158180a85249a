"""The end of a run: evidence for the gates, facts for reports and manifest, publication."""
