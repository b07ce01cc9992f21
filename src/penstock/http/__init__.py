"""Code that every route shares: bodies, query parameters, problem documents, OpenAPI."""
