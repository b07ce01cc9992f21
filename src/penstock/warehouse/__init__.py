"""The event store: its client, work that can be stopped, and its migrations."""
