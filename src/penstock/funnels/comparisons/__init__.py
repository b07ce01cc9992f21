"""Comparisons of the cohorts of a breakdown property, with significance tests."""
