"""Finds visitor profiles by any ID, inside the caller's transaction."""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.profiles import store
from penstock.identity.profiles.model import Profile
from penstock.metadb.tables import user_links, visitors

identities_page = store.identities_page
users_by_visitor = store.users_by_visitor


def stored_visitor_id(db: Connection, scope: ScopeId, sent_id: str) -> str:
    """Return a visitor's ID as it is stored: in NFC, unless history has it as it was sent."""
    return store.stored_spelling(db, scope, visitors.c.visitor_id, sent_id)


def stored_user_id(db: Connection, scope: ScopeId, sent_id: str) -> str:
    """Return a user's ID as it is stored: in NFC, unless history has it as it was sent."""
    return store.stored_spelling(db, scope, user_links.c.user_id, sent_id)


def find_by_visitor_id(
    db: Connection, scope_ids: Collection[ScopeId], visitor_id: str
) -> list[Profile]:
    """Return the profiles of an ID's canonical visitor: one for each scope that contains the ID."""
    return _profiles(db, store.canonical_by_visitor_id(db, scope_ids, visitor_id))


def find_by_user_id(db: Connection, scope_ids: Collection[ScopeId], user_id: str) -> list[Profile]:
    """Return the profiles of a user's canonical visitor: one for each scope with this user."""
    return _profiles(db, store.canonical_by_user_id(db, scope_ids, user_id))


def _profiles(db: Connection, keys: Iterable[tuple[ScopeId, VisitorId]]) -> list[Profile]:
    profiles = (store.profile(db, scope_id, visitor_id) for scope_id, visitor_id in keys)
    return [profile for profile in profiles if profile is not None]
