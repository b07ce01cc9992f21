"""The most recent events, as they arrive."""
