"""Alembic migrations of the metadata DB. They run in `penstock migrate` and at every start."""
