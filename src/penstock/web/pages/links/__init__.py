"""Pages for managed links."""
