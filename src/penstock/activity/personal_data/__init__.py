"""Everything that is stored about a person, for the right of access."""
