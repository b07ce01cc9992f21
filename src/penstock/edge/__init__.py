"""The public edge: limits of every connection and request, checked before parsing."""
