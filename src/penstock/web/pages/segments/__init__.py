"""Pages for segments."""
