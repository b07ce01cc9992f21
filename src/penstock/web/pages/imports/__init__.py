"""Pages for imports and deletions."""
