"""Tests of the event store: its client and its errors."""
