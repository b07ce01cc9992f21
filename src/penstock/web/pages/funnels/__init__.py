"""Pages: the list of funnels and the builder."""
