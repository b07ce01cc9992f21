"""Flows: the paths of events before the entry, between two steps, and after a loss."""
