"""Pages of the API documentation."""
