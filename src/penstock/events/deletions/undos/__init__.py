"""Undoes imports: a deletion of everything that an import stored."""
