"""Pages: accepted and rejected events as they arrive."""
