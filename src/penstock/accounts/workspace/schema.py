"""Wire types for workspace settings."""

from typing import Annotated

from pydantic import Field

from penstock.accounts.workspace.model import Contents
from penstock.http.schema import Input, Label, Name, Omittable, Record
from penstock.settings.product import MIN_QUERY_BYTES


class WorkspaceChanges(Input):
    """Changes to the settings. Omitted fields keep their value; null restores the default."""

    name: Omittable[Name] = None
    query_timeout_seconds: Annotated[float | None, Field(ge=0.1)] = None
    """Maximum time of one query, in seconds."""
    query_memory_bytes: Annotated[int | None, Field(ge=MIN_QUERY_BYTES)] = None
    """Maximum memory of one query, in bytes."""
    person_trait: Name | None = None
    """Trait of users that names people in lists, such as email; null for their user ID."""
    shared_contents: Omittable[Contents] = None
    """Content of shared reports, messages, webhooks and assistants: only figures, or also units and
    user IDs.
    """
    shared_properties: Omittable[Annotated[list[Label], Field(max_length=100)]] = None
    """Properties whose values they may contain. Other values are replaced by numbers."""


class LimitsRecord(Record):
    query_timeout_seconds: float
    query_memory_bytes: int


class WorkspaceSettingsRecord(Record):
    name: str
    query_timeout_seconds: float | None
    """null means that the operator's limit applies."""
    query_memory_bytes: int | None
    """null means that the operator's limit applies."""
    person_trait: str | None
    """Trait that names people in lists; null means that their user ID does."""
    shared_contents: Contents
    shared_properties: list[str]
    in_force: LimitsRecord
    """Limits that currently apply to queries."""
