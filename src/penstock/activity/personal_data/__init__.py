"""Export of everything stored about a person, for the right of access."""
