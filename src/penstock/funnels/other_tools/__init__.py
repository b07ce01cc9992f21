"""Counts a funnel by the rules of other tools, and explains each difference."""
