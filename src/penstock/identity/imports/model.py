"""Plain types for the identities that imports state. No I/O."""

from typing import NamedTuple

from penstock.base.ids import ScopeId, VisitorId
from penstock.identity.model import IdentityChanges


class Statement(NamedTuple):
    """A visitor exists (no user), a user exists (no visitor), or the visitor belongs to the user.

    visitor_id, user_id: '' for none.
    """

    scope_id: ScopeId
    visitor_id: str
    user_id: str


class StatedCounts(NamedTuple):
    """Counts of the identities that the undo of an import removes.

    visitors: visitor IDs that nothing else states. merges: visitors that would count as themselves
    again. user_links: users without a visitor afterwards. users_with_traits: users about whom it
    states traits.
    """

    visitors: int = 0
    merges: int = 0
    user_links: int = 0
    users_with_traits: int = 0


class Undone(NamedTuple):
    """Identities that one transaction of an undo has removed.

    visitors: IDs of removed visitors. changes: for the caller to ship to the warehouse.
    """

    changes: IdentityChanges
    visitors: tuple[VisitorId, ...] = ()
    merges: int = 0
    user_links: int = 0
    users_with_traits: int = 0
