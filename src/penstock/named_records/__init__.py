"""Records whose name is unique in their workspace."""
