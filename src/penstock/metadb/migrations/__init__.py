"""Alembic migrations of the metadata DB; run by `penstock migrate` and at every start."""
