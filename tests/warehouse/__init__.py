"""Tests of the event store's client and its errors."""
