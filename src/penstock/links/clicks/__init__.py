"""Clicks: their columns, and how they reach the outbox."""
