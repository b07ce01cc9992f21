"""Pages for attribution."""
