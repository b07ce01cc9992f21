"""Comparison of a period with an earlier one, both at the same age."""
