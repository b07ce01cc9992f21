"""Resets of forgotten passwords, by an emailed link or by the operator."""
