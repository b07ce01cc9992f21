"""Stored outcomes: the result of each unit of a saved funnel, kept up to date as events arrive."""
