"""Visitors, user links and merges. Other rooms use `service`, `profiles` and `model`."""
