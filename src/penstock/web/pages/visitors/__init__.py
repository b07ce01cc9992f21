"""Pages: visitors."""
