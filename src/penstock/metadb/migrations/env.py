"""Alembic's entry: migrates the connection that `Database.migrate` hands over."""

from alembic import context

from penstock.metadb.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
