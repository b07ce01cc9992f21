"""What every route shares: bodies, query parameters, problem documents, the OpenAPI document."""
