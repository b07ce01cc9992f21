"""Wire types for the audit log."""

from typing import Annotated, Self

from pydantic import Field

from penstock.accounts.audit.model import AuditEntry
from penstock.base.clock import iso
from penstock.http.schema import Record


class AuditRecord(Record):
    """One action in the workspace."""

    id: str
    at: str
    action: Annotated[str, Field(description="The action, such as key_created.")]
    actor: Annotated[
        str, Field(description="Email address of the user, or name of the API key, at that time.")
    ]
    actor_id: Annotated[str, Field(description="ID of the user or the key.")]
    target: Annotated[
        str,
        Field(
            description="The ID of the object that the action affected, and its name if it has one."
        ),
    ]

    @classmethod
    def from_entry(cls, entry: AuditEntry) -> Self:
        return cls(
            id=str(entry.id),
            at=iso(entry.at_ms),
            action=entry.action,
            actor=entry.actor,
            actor_id=entry.actor_id,
            target=entry.target,
        )
