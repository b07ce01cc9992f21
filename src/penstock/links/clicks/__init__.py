"""Clicks on links: their records, and how these reach the outbox."""
