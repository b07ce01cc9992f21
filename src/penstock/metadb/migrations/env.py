"""Alembic's entry point: migrates the connection that `Database.migrate` passes."""

from alembic import context

from penstock.metadb.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
