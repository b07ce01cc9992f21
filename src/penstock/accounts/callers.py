"""Identifies the caller of a route by its API key or session cookie.

A browser sends its cookies with requests from any site. To prevent cross-site request forgery, a
session is accepted only for JSON bodies, which another site's form cannot send, and only from our
own origin if the browser sends an `Origin`.
"""

from anyio import to_thread

from penstock.accounts.keys.service import KeyService, wrong_website_of_key
from penstock.accounts.model import Caller, CurrentUser, Role
from penstock.accounts.origins import require_same_origin
from penstock.accounts.service import AccountService
from penstock.accounts.session_cookies import session_token
from penstock.base.errors import Forbidden, Unauthorized, UnsupportedMedia
from penstock.base.wording import listed
from penstock.http.bodies import require_json
from penstock.http.openapi import description_of, is_open_to_viewers, scopes_of
from penstock.http.requests import AnyRequest, media_type_of, path_of
from penstock.http.scopes import require_scope
from penstock.settings import Settings

CHECKS_WEBSITE = "checks_website"
"""Route option for routes that check for themselves whether a key for one website may access the
record.
"""
UPLOAD_MEDIA_TYPES = "upload_media_types"
"""Route option that lists the non-JSON media types that a request with a session may upload. An
HTML form must not be able to send these types.
"""


async def provide_caller(
    request: AnyRequest,
    accounts: AccountService,
    key_service: KeyService,
    settings: Settings,
) -> Caller:
    """Identify the caller of a route that accepts an API key or a session. The key takes
    precedence.
    """
    authorization = request.headers.get("authorization")
    if _is_bearer(authorization) or session_token(request) is None:
        caller = await key_service.authenticate(authorization)
        _require_rights(request, caller)
        return caller
    return (await _session(request, accounts, settings)).caller


async def provide_current_user(
    request: AnyRequest,
    accounts: AccountService,
    key_service: KeyService,
    settings: Settings,
) -> CurrentUser:
    """Identify the user of a route that accepts only a session. Raises `Forbidden` for a valid API
    key.
    """
    if session_token(request) is not None:
        return await _session(request, accounts, settings)
    authorization = request.headers.get("authorization")
    if not _is_bearer(authorization):
        raise Unauthorized(
            "Log in first: this route requires the session cookie.", code="not_signed_in"
        )
    await key_service.authenticate(authorization)
    raise Forbidden(
        "An API key cannot do this. Log in and use the session cookie.", code="session_required"
    )


def _require_rights(request: AnyRequest, caller: Caller) -> None:
    """Raise `Forbidden` if the key does not have the route's scope, or is for another website.

    A key for one website may use routes that identify a website in the path or the query, and
    routes that check the website of their records themselves.
    """
    require_scope(caller.scopes, scopes_of(description_of(request.route_handler), request.method))
    if caller.website_id is None or request.route_handler.opt.get(CHECKS_WEBSITE):
        return
    named = [*request.query_params.getall("websiteId", [])]
    if "website_id" in request.path_params:
        named.append(request.path_params["website_id"])
    if set(named) != {caller.website_id}:
        raise wrong_website_of_key(caller.website_id)


def _require_role(request: AnyRequest, role: Role) -> None:
    """Raise `Forbidden` if the user is a viewer and the route changes something."""
    description = description_of(request.route_handler)
    if role is Role.VIEWER and not is_open_to_viewers(
        path_of(request), description, request.method
    ):
        raise Forbidden(
            "Your role in this workspace is viewer: you can read its reports and lists, and change "
            "nothing. Ask an owner to make you a member, under Settings, Members.",
            code="viewer_role",
        )


async def _session(
    request: AnyRequest, accounts: AccountService, settings: Settings
) -> CurrentUser:
    require_same_origin(request, settings)
    current_user = await to_thread.run_sync(accounts.session, session_token(request) or "")
    _require_role(request, current_user.role)
    upload_media_types = request.route_handler.opt.get(UPLOAD_MEDIA_TYPES, ())
    if _has_body(request) and media_type_of(request) not in upload_media_types:
        if upload_media_types:
            raise UnsupportedMedia(
                "With the session cookie, send the file with the header "
                f"Content-Type: {listed(upload_media_types, 'or')}."
            )
        require_json(request)
    return current_user


def _is_bearer(authorization: str | None) -> bool:
    return (authorization or "")[:7].lower() == "bearer "


def _has_body(request: AnyRequest) -> bool:
    return (
        request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    )
