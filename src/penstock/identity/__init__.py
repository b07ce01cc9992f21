"""Visitors, their users, and merges. Other rooms import `service`, `profiles` and `model`."""
