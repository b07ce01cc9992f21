"""Retention: deletes events that are older than their website's limit."""
