"""Visitors and their timelines."""
