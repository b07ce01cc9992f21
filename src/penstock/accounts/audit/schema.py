"""Wire types for the audit log."""

from typing import Annotated

from pydantic import Field

from penstock.http.schema import Iso, Record


class AuditRecord(Record):
    """One action in the workspace."""

    id: Annotated[str, Field(coerce_numbers_to_str=True)]
    at: Iso
    action: str
    """The action, such as key_created."""
    actor: str
    """Email address of the user, or name of the API key, at that time."""
    actor_id: str
    """ID of the user or the key."""
    target: str
    """The ID of the object that the action affected, and its name if it has one."""
