"""Pages for members and the reader's own account."""
