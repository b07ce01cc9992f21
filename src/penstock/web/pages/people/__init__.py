"""Pages: members, and the reader's own account."""
