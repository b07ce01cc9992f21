"""Pages: the first run."""
