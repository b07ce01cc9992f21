"""The public edge: limits for every connection and request, checked before parsing."""
