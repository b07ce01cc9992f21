"""Clicks on links: what they record, and how they reach the outbox."""
