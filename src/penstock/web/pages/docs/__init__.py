"""Pages with the API documentation."""
