"""Scopes of API keys."""

from enum import StrEnum

from litestar.handlers import HTTPRouteHandler

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


def scopes_of(handler: HTTPRouteHandler, method: str) -> tuple[KeyScope, ...]:
    """Return the scopes that allow a request. A key needs only one of them. The default depends on
    the method.
    """
    scopes: tuple[KeyScope, ...] | None = handler.opt.get("described", {}).get("scopes")
    return scopes or ((KeyScope.READ,) if method in ("GET", "HEAD") else (KeyScope.MANAGE,))


def require_scope(granted: frozenset[KeyScope], needed: tuple[KeyScope, ...]) -> None:
    """Raise `Forbidden` unless the key has at least one of the needed scopes."""
    if granted.isdisjoint(needed):
        names = " or ".join(f'"{scope}"' for scope in needed)
        raise Forbidden(
            f"This API key lacks the scope {names}. Create a key that has it, under Settings, "
            "API keys.",
            code="scope_missing",
        )
