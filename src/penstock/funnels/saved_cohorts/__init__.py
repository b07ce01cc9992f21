"""Saved cohorts: lists of visitors and rules, saved from a list of units, for use in any report."""
