"""Scopes of API keys."""

from enum import StrEnum

from penstock.base.errors import Forbidden


class KeyScope(StrEnum):
    """A scope of an API key: what the key may do."""

    INGEST = "ingest"
    """Send events, identify users, import."""
    READ = "read"
    """Read definitions, reports and lists."""
    MANAGE = "manage"
    """Create, change and delete."""


ALL_SCOPES = frozenset(KeyScope)


def require_scope(granted: frozenset[KeyScope], needed: tuple[KeyScope, ...]) -> None:
    """Raise `Forbidden` unless the key has at least one of the needed scopes."""
    if granted.isdisjoint(needed):
        names = " or ".join(f'"{scope}"' for scope in needed)
        raise Forbidden(
            f"This API key lacks the scope {names}. Create a key that has it, under Settings, "
            "API keys.",
            code="scope_missing",
        )
