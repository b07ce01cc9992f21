"""Pages: managed links."""
