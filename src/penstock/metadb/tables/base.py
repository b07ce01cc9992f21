"""The metadata of all tables, and columns that several tables have."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.sql.schema import SchemaItem

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

AutoId = BigInteger().with_variant(Integer, "sqlite")
"""Type of generated row numbers. SQLite generates them only in a column of type INTEGER."""


def required(name: str, *rules: Any, **options: Any) -> Column[Any]:
    """Return a column that cannot be null. Its arguments are those of `Column`."""
    return Column(name, *rules, nullable=False, **options)


def workspace_id() -> Column[str]:
    return required("workspace_id", Text, ForeignKey("workspaces.id"))


def named_records(name: str, *content: SchemaItem) -> Table:
    """Return the table of records whose name is unique in their workspace.

    content: its other columns, indexes and constraints.
    """
    return Table(
        name,
        metadata,
        Column("id", Text, primary_key=True),
        workspace_id(),
        required("name", Text),
        *content,
        required("created_at", BigInteger),
        required("updated_at", BigInteger),
        UniqueConstraint("workspace_id", "name"),
        Index(None, "workspace_id", "created_at"),
    )
