"""The event store: its client, its migrations, and queries that can be stopped."""
