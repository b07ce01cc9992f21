"""Resets of forgotten passwords, by a mailed link or by the operator."""
