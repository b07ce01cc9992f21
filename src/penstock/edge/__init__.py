"""The public edge: budgets of every connection and request, before anything is parsed."""
