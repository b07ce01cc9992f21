"""Verdicts: the results of a report in sentences."""
