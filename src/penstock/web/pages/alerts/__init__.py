"""Alerts: their list, their history, and the form."""
