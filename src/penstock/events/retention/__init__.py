"""Retention: events that are older than their website keeps them are deleted."""
