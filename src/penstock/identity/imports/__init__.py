"""Statements about visitors and users that only imports make, so that they can be undone."""
