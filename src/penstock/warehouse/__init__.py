"""The event store: its client, units of work that can be stopped, and its migrations."""
