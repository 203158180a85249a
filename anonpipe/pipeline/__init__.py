"""The run: stages in order, their tasks, and what they leave."""
