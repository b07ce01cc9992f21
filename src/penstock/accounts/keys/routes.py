"""HTTP routes for API keys."""

from penstock.accounts.keys.schema import KeyRecord, NewKey, NewKeyRecord
from penstock.accounts.keys.service import KeyService
from penstock.accounts.model import CurrentUser
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.schema import PageQuery

_ALL = "/api/settings/api-keys"
_ONE = "/api/settings/api-keys/{key_id:str}"


@route("POST", _ALL, "Create an API key", tag="accounts")
def create_key(current_user: CurrentUser, key_service: KeyService, form: NewKey) -> NewKeyRecord:
    """Creates an API key, which is shown only once. Requires a session: API keys cannot create API
    keys.

    Without `scopes` and `websiteId`, the key has full access to the workspace.
    """
    return key_service.create_key(current_user.caller, form)


@route("GET", _ALL, "API keys", tag="accounts")
def list_keys(
    current_user: CurrentUser, key_service: KeyService, query: PageQuery
) -> Listing[KeyRecord]:
    """Lists keys, newest first, including revoked keys."""
    return key_service.keys(current_user.workspace.id, query.pagination)


@route("DELETE", _ONE, "Revoke an API key", tag="accounts")
def revoke_key(current_user: CurrentUser, key_service: KeyService, key_id: str) -> None:
    key_service.revoke_key(current_user.caller, key_id)


ROUTES = (create_key, list_keys, revoke_key)
