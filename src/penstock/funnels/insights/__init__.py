"""Trends by time of entry, times between steps, and next events."""
