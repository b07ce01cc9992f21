"""Pages for the first run."""
