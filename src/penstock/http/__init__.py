"""What every route shares: reading bodies and query parameters, problem documents, the OpenAPI document. Imports base and settings only."""
