"""Pages for goals."""
