"""Finds visitor profiles by any ID, inside the caller's transaction, and the names of people."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from penstock.accounts.workspace.service import WorkspaceService
from penstock.base.cut_texts import cut_text
from penstock.base.ids import ScopeId, VisitorId, WorkspaceId
from penstock.identity.profiles import store
from penstock.identity.profiles.model import Profile
from penstock.metadb.database import Database
from penstock.metadb.person import PersonName, StoredVisitor
from penstock.metadb.tables import user_links, visitors

identities_page = store.identities_page

_MAX_NAME_BYTES = 400


class PersonNames:
    """Names people as their workspace shows them: by a trait of its choice, or by the user ID."""

    def __init__(self, database: Database, workspaces: WorkspaceService) -> None:
        self._database, self._workspaces = database, workspaces

    def read(
        self, workspace_id: WorkspaceId, visitors: Collection[StoredVisitor]
    ) -> dict[StoredVisitor, PersonName | None]:
        """Return the people behind the visitors that exist, with one statement for each scope.

        None for a visitor without a user. A user without the trait is named by the ID. Blocks.
        """
        trait = self._workspaces.person_trait(workspace_id)
        ids = defaultdict[ScopeId, set[str]](set)
        for scope_id, visitor_id in visitors:
            ids[scope_id].add(visitor_id)
        people: dict[StoredVisitor, PersonName | None] = {}
        with self._database.read() as db:
            for scope_id, own_ids in ids.items():
                for visitor_id, user in store.users_by_visitor(db, scope_id, own_ids).items():
                    people[scope_id, visitor_id] = user and _person_name(*user, trait)
        return people


def _person_name(user_id: str, traits: Mapping[str, Any], trait: str | None) -> PersonName:
    """Return the name of a user. trait: names people; None for the user ID."""
    value = traits.get(trait) if trait is not None else None
    is_name = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    text = str(value).strip() if is_name else ""
    return PersonName(user_id, cut_text(text, _MAX_NAME_BYTES) or user_id)


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
