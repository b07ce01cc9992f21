"""Each node: hears of changes by nodes that share its PostgreSQL, and returns unused memory."""
