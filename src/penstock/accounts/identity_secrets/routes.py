"""HTTP routes for identity secrets."""

from penstock.accounts.identity_secrets.schema import (
    IdentitySecretRecord,
    NewIdentitySecretRecord,
)
from penstock.accounts.identity_secrets.service import IdentitySecretService
from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.schema import PageQuery

_PATH = "/api/settings/websites/{website_id:str}/identity-secrets"


@route("POST", _PATH, "Create an identity secret", tag="accounts")
def create_identity_secret(
    caller: Caller, identity_secrets: IdentitySecretService, website_id: str
) -> NewIdentitySecretRecord:
    """Creates a secret, which is shown only once. Earlier secrets stay valid for a day."""
    secret = identity_secrets.create(caller, website_id)
    return NewIdentitySecretRecord.from_object(secret)


@route("GET", _PATH, "Identity secrets", tag="accounts")
def list_identity_secrets(
    caller: Caller, identity_secrets: IdentitySecretService, website_id: str, query: PageQuery
) -> Listing[IdentitySecretRecord]:
    """Lists valid secrets, newest first, without the secrets themselves."""
    secrets = identity_secrets.secrets(caller.workspace_id, website_id, query.pagination)
    return secrets.map(IdentitySecretRecord.from_object)


@route("DELETE", _PATH, "Delete all identity secrets", tag="accounts")
def delete_identity_secrets(
    caller: Caller, identity_secrets: IdentitySecretService, website_id: str
) -> None:
    """Deletes all secrets of the website. Signatures made with them are no longer accepted."""
    identity_secrets.delete(caller, website_id)


ROUTES = (create_identity_secret, list_identity_secrets, delete_identity_secrets)
