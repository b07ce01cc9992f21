"""Alerts: rules that are checked every hour, and the messages that they send."""
