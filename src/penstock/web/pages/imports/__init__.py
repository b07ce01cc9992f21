"""Pages: imports and deletions."""
