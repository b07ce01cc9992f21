"""The checks of `penstock doctor` that query the stores, the service, the mail server and the
proxy.
"""

import smtplib
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from penstock.base.clock import system_clock
from penstock.base.errors import StoreUnavailable
from penstock.cli.data_folder import data_folder_lock, is_data_folder, user_of
from penstock.cli.machine_checks import Check, failure, ok, warning
from penstock.settings import Settings

if TYPE_CHECKING:
    from penstock.metadb.database import Database

_TIMEOUT_S = 5.0
_LOCAL = ("127.0.0.1", "::1", "localhost")
_STORES_ADVICE = "Check that the server runs and that the URL is right."


def service_checks(settings: Settings) -> Iterator[Check]:
    """Check stores, migrations, outbox, public URL, mail server and association files."""
    from penstock.stores import open_database

    process = user_of(settings.data)
    has_stores = settings.database_url or is_data_folder(settings.data)
    if not has_stores:
        yield _no_data(settings)
    else:
        with closing(open_database(settings)) as database:
            yield from _database(database)
            if process:
                yield from _running_service(settings, process)
            else:
                yield from _stopped_stores(settings, database)
            yield from _association_files(settings, database)
    yield from _public_url(settings)
    yield _mail(settings)


def _database(database: "Database") -> Iterator[Check]:
    try:
        version = database.version()
    except StoreUnavailable as error:
        yield failure(
            "metadata database",
            f"Does not respond: {error.reason}.",
            _STORES_ADVICE.replace("the URL", "PENSTOCK_DATABASE_URL"),
        )
        return
    yield ok("metadata database", "Responds.")
    known = database.known_versions()
    if version is None:
        yield warning("migrations", "The metadata database is empty.", _MIGRATE)
    else:
        is_newer = version not in known
        yield _migrations("metadata database", version, known[-1], is_newer=is_newer)


_MIGRATE = "`penstock serve` upgrades it at its start, `penstock migrate` without serving."


def _migrations(store: str, version: object, newest: object, *, is_newer: bool) -> Check:
    """Check the version of a store. is_newer: whether this Penstock does not know it."""
    if is_newer:
        return failure(
            "migrations",
            f"A newer Penstock has written the {store} (version {version}).",
            "Install that release of Penstock, or restore a backup.",
        )
    if version != newest:
        return warning("migrations", f"The {store} has version {version} of {newest}.", _MIGRATE)
    return ok("migrations", f"The {store} has version {version}, the newest.")


def _running_service(settings: Settings, process: str) -> Iterator[Check]:
    """Check the event store and the outbox through the running service, which has them open."""
    url = f"{settings.local_url}/health/ready"
    try:
        ready: dict[str, Any] = httpx.get(url, timeout=_TIMEOUT_S).json()
        outbox = ready["outbox"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        yield failure(
            "service",
            f"Process {process} uses {settings.data}, but {url} does not respond ({error}).",
            "Check PENSTOCK_HOST and PENSTOCK_PORT, and the log of the service.",
        )
        return
    advice = ready["reason"] or "See the log of the service."
    if ready["status"] == "ready":
        is_fine = ready["reason"] is None
        message = f"Ready (process {process})."
        yield ok("service", message) if is_fine else warning("service", message, advice)
    else:
        yield failure("service", f"Process {process} is not ready.", advice)
    if ready["warehouse"]:
        yield ok("event store", "Responds.")
    else:
        yield failure("event store", "Does not respond.", advice)
    if outbox:
        yield _outbox(outbox["bundles"], outbox["oldestAgeSeconds"])


def _stopped_stores(settings: Settings, database: "Database") -> Iterator[Check]:
    """Check the event store and the outbox directly, because no service has them open."""
    from penstock.events.shipper import Shipper
    from penstock.stores import open_warehouse
    from penstock.warehouse import migrations
    from penstock.warehouse.errors import QueryFailed

    yield ok("service", "Not running on this data folder.")
    is_embedded = settings.warehouse_url is None
    if is_embedded and not is_data_folder(settings.data):
        yield _no_data(settings)
        return
    advice = "Run `penstock verify`."
    if settings.warehouse_url:
        advice = _STORES_ADVICE.replace("the URL", "PENSTOCK_WAREHOUSE_URL")
    lock = data_folder_lock(settings.data) if is_embedded else nullcontext()
    try:
        with lock, closing(open_warehouse(settings)) as warehouse:
            if not warehouse.answers():
                yield failure("event store", warehouse.silence or "Does not respond.", advice)
                return
            newest = migrations.migrations()[-1].version
            version = migrations.current_version(warehouse)
            yield _event_store(warehouse.silence)
            yield _migrations("event store", version, newest, is_newer=version > newest)
            if database.is_up_to_date():
                state = Shipper(database, warehouse, system_clock).outbox_state()
                yield _outbox(state.bundles, state.oldest_age_s)
    except (StoreUnavailable, QueryFailed, OSError) as error:
        yield failure("event store", f"Cannot be opened: {error}", advice)


def _event_store(silence: str | None) -> Check:
    if silence is None:
        return ok("event store", "Responds.")
    return warning("event store", silence, "The other replicas take over; start it again.")


def _no_data(settings: Settings) -> Check:
    message = f"{settings.data} contains no data yet."
    return warning("stores", message, "`penstock serve` creates it.")


def _outbox(bundles: int, oldest_age_s: float | None) -> Check:
    from penstock.health.service import OUTBOX_AGE_S

    if oldest_age_s is None:
        return ok("outbox", "Empty: all events are in the event store.")
    message = f"{bundles:,} bundles of events wait, the oldest for {oldest_age_s:,.0f} seconds."
    if oldest_age_s <= OUTBOX_AGE_S:
        return ok("outbox", message)
    return warning(
        "outbox", message, "Start the service; if it runs, see why the event store refuses them."
    )


def _public_url(settings: Settings) -> Iterator[Check]:
    """Send a request to the service as a browser would, which includes DNS, the certificate and the
    proxy.
    """
    name = "public URL"
    if settings.public_url is None:
        if settings.host in _LOCAL:
            yield ok(
                name, f"Not set: only this machine reaches the service, at {settings.base_url}."
            )
        else:
            yield warning(
                name,
                f"Not set: links and emails begin with {settings.base_url}.",
                "Set PENSTOCK_PUBLIC_URL to the URL under which browsers reach the service.",
            )
        return
    answer = _ask(name, settings.base_url, "/health/live")
    if isinstance(answer, Check):
        yield answer
    elif _json_of(answer) == {"status": "live"}:
        yield ok(name, f"{settings.base_url} leads to the service.")
    else:
        yield failure(
            name,
            f"{settings.base_url}/health/live answered {answer.status_code}, not as Penstock does.",
            "Let the proxy pass all paths on to the service.",
        )
    has_default_proxies = (
        settings.trusted_proxies == Settings.model_fields["trusted_proxies"].default
    )
    if settings.host not in _LOCAL and has_default_proxies:
        yield warning(
            "proxy",
            "Only proxies on this machine are trusted.",
            "If the proxy runs elsewhere, such as in another container, add its address to "
            "PENSTOCK_TRUSTED_PROXIES; otherwise all visitors share the limits of one address.",
        )
    else:
        yield ok("proxy", f"Trusted proxies: {settings.trusted_proxies}.")


def _association_files(settings: Settings, database: "Database") -> Iterator[Check]:
    """Fetch the files that let phones open links in apps, if an app needs them."""
    from penstock.accounts.websites.service import WebsiteService
    from penstock.links.association.service import (
        ANDROID_FILE,
        APPLE_FILE,
        android_file,
        apple_file,
    )

    name = "association files"
    try:
        apps = (
            WebsiteService(database, system_clock).load_mobile_apps()
            if database.is_up_to_date()
            else ()
        )
    except StoreUnavailable:
        return  # the check of the metadata database has already reported it
    needed = [
        *([APPLE_FILE] if apple_file(apps).applinks.details else []),
        *([ANDROID_FILE] if android_file(apps).root else []),
    ]
    if not needed:
        yield ok(name, "No app needs them.")
    for path in needed:
        answer = _ask(name, settings.link_url, path)
        if isinstance(answer, Check):
            yield answer
        elif answer.status_code == 200 and _json_of(answer):
            yield ok(name, f"{settings.link_url}{path} is served.")
        else:
            yield failure(
                name,
                f"{settings.link_url}{path} answered {answer.status_code}.",
                "Let the proxy pass /.well-known/ on to the service, without a redirect.",
            )


def _ask(name: str, base_url: str, path: str) -> httpx.Response | Check:
    """Send a request to the public address. Returns the response, or the check that failed."""
    try:
        return httpx.get(base_url + path, timeout=_TIMEOUT_S)
    except httpx.HTTPError as error:
        host = urlsplit(base_url).hostname
        return failure(
            name,
            f"{base_url} does not respond: {error or type(error).__name__}.",
            f"Check that the service runs, that {host} points to this machine or its proxy, "
            "and the certificate of the proxy.",
        )


def _json_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _mail(settings: Settings) -> Check:
    from penstock.accounts.mail.smtp import SmtpServer

    if settings.smtp_url is None:
        return ok("mail", "No mail server is set: people pass links on themselves.")
    server = SmtpServer(settings.smtp_url.get_secret_value(), settings.mail_from or "")
    try:
        server.check()
    except (OSError, smtplib.SMTPException) as error:
        return failure(
            "mail",
            f"The mail server refuses: {_reason(error)}.",
            "Check host, port, user and password in PENSTOCK_SMTP_URL.",
        )
    return ok("mail", "The mail server accepts the connection and the log-in.")


def _reason(error: Exception) -> str:
    """Return the reason, without the server's text, which may repeat credentials."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    return str(error) or type(error).__name__
