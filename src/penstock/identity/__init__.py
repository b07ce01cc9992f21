"""Visitors, user links, merges. Neighbours use `service` and `model`."""
