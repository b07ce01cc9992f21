"""Pages for the list of funnels and the builder."""
