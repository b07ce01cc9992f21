"""Losses: stored events that the event store no longer has."""
