"""The outbox: rows of accepted events that wait for the warehouse."""
