"""Funnel queries: the steps from a request to rows and their provenance (`pipeline` lists them)."""
