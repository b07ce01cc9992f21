"""The event store: its client and its errors."""
