"""The event store: its client, its migrations, and stoppable queries."""
