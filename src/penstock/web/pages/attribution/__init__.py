"""Pages: attribution."""
