"""Alerts and digests: messages about funnels for people and programs outside the dashboard."""
