"""Pages: goals."""
