"""The outbox: rows of accepted events waiting for the warehouse."""
