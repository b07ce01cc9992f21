"""Scopes of API keys."""

from enum import StrEnum

from litestar.handlers import HTTPRouteHandler

from penstock.base.errors import Forbidden


class KeyScope(StrEnum):
    """A right of an API key."""

    INGEST = "ingest"
    """Send events, identify users, import."""
    READ = "read"
    """Read definitions, reports and lists."""
    MANAGE = "manage"
    """Create, change and delete."""


ALL_SCOPES = frozenset(KeyScope)


def scopes_of(handler: HTTPRouteHandler, method: str) -> tuple[KeyScope, ...]:
    """Return the scopes that allow a request; one of them is enough. The default depends on the
    method.
    """
    scopes: tuple[KeyScope, ...] | None = handler.opt.get("described", {}).get("scopes")
    return scopes or ((KeyScope.READ,) if method in ("GET", "HEAD") else (KeyScope.MANAGE,))


def require_scope(granted: frozenset[KeyScope], needed: tuple[KeyScope, ...]) -> None:
    """Raise `Forbidden` unless one of the needed scopes is granted."""
    if granted.isdisjoint(needed):
        names = " or ".join(f'"{scope}"' for scope in needed)
        raise Forbidden(
            f"This API key lacks the scope {names}. Create a key that has it, under Settings, "
            "API keys.",
            code="scope_missing",
        )
