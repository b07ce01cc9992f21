"""Comparison of the cohorts of a breakdown property, with tests of significance."""
