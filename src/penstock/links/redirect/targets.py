"""URLs for the buttons on a landing page: the app and its stores."""

from collections.abc import Iterator
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from penstock.accounts.model import MobileApp
from penstock.base.user_agent import Platform
from penstock.links.management.addresses import URL_CHARACTERS
from penstock.links.management.qr import SCAN_MARK
from penstock.links.model import CLICK_TOKEN_PARAM, LINK_ID_PARAM, Link

_PLAY_HOST = "play.google.com"
_OWN_PARAMS = {LINK_ID_PARAM, CLICK_TOKEN_PARAM, SCAN_MARK.partition("=")[0]}
_MAX_TARGET_CHARS = 4096
_PLAY_PAGE = f"https://{_PLAY_HOST}/store/apps/details?id="


def store_url(app: MobileApp, platform: Platform, link: Link, token: str) -> str | None:
    """Return the app's page in the platform's store, or None if unknown. token: may be empty.

    Google Play passes the `referrer` on to the app after the install.
    """
    if platform is Platform.IOS:
        return app.app_store_url
    page = app.play_store_url or (_PLAY_PAGE + app.android_package if app.android_package else None)
    if page is None or not token or urlsplit(page).hostname != _PLAY_HOST:
        return page
    parts = urlsplit(page)
    query = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name != "referrer"
    ]
    referrer = urlencode({CLICK_TOKEN_PARAM: token, **link.utm}, quote_via=quote)
    return urlunsplit(
        parts._replace(query=urlencode([*query, ("referrer", referrer)], quote_via=quote))
    )


def web_target(link: Link, query: str) -> str | None:
    """Return the link's fallback URL, with the visit's query if the link passes it on.

    Returns None if there is no fallback URL. The URL's existing parameters are kept and take
    precedence. The link's UTM parameters override the query's, because nobody can forge them. A
    parameter that the query repeats keeps all its values.
    """
    if link.fallback_url is None or not link.pass_query:
        return link.fallback_url
    parts = urlsplit(link.fallback_url)
    own = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    sent = [(name, value) for name, value in _visit_params(query) if name not in link.utm]
    added = [(name, value) for name, value in (*sent, *link.utm.items()) if name not in own]
    passed = urlencode(added, quote_via=quote)
    target = urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, passed)))))
    return target if len(target) <= _MAX_TARGET_CHARS else link.fallback_url


def _visit_params(query: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters in a visit's query, without Penstock's own parameters."""
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OWN_PARAMS and (name + value).isprintable():
            yield name, value


def app_url(
    app: MobileApp, platform: Platform, link: Link, token: str, hosted_url: str, web: str | None
) -> str | None:
    """Return the URL that opens the app at the link's destination; None if the app cannot be
    opened.

    On iOS, only the app's custom scheme works, because links to the page's host stay in Safari. On
    Android, the URL is an intent with the app's custom scheme, or else with the link's URL. If the
    app is not installed, the intent falls back to the store, or else to `web`.
    """
    scheme, route = app.custom_scheme, _route(link, token)
    if platform is Platform.IOS:
        return f"{scheme}://{route}" if scheme else None
    package = app.android_package or _package_of(app.play_store_url)
    if scheme is None and package is None:
        return None
    web_scheme, _, rest = _add_token(hosted_url, token).partition("://")
    extras = [f"scheme={scheme or web_scheme}"]
    if package is not None:
        extras.append(f"package={quote(package, safe='')}")
    if store_or_web := store_url(app, platform, link, token) or web:
        extras.append(f"S.browser_fallback_url={quote(store_or_web, safe='')}")
    return f"intent://{route if scheme else rest}#Intent;{';'.join(extras)};end"


def _route(link: Link, token: str) -> str:
    """Return the destination path with the link's ID and the click token in its query."""
    path, mark, fragment = quote(link.destination_path, safe=URL_CHARACTERS).partition("#")
    separator = "&" if "?" in path else "?"
    return _add_token(f"{path}{separator}{LINK_ID_PARAM}={link.id}", token) + mark + fragment


def _add_token(address: str, token: str) -> str:
    return f"{address}&{CLICK_TOKEN_PARAM}={token}"


def _package_of(play_store_url: str | None) -> str | None:
    return next(iter(parse_qs(urlsplit(play_store_url or "").query).get("id", [])), None)
