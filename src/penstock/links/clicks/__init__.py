"""Clicks: what is recorded of one, and its way to the outbox."""
