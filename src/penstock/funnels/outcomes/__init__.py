"""Stored outcomes: what the folds decided about each unit of a saved funnel, kept up to date."""
