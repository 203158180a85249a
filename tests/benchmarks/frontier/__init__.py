"""Risk and utility of all methods and of other tools, on many tables, judged by tools of others; see `__main__`."""
