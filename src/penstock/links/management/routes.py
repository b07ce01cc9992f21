"""HTTP routes for managed links, used by the people who manage them."""

from litestar import Response

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.callers import UPLOAD_MEDIA_TYPES
from penstock.accounts.model import Caller
from penstock.base.errors import UnsupportedMedia
from penstock.base.paging import Listing
from penstock.http.bodies import read_bytes
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.requests import AnyRequest, media_type_of
from penstock.http.schema import PageQuery
from penstock.jobs.cancellable import slow_route
from penstock.links.management.csv_file import MAX_BYTES, write_csv
from penstock.links.management.qr import qr_file, scan_url
from penstock.links.management.schema import (
    CsvQuery,
    LinkChange,
    LinkFilter,
    LinkQuery,
    LinkRecord,
    LinkRevisionRecord,
    LinkUploadRecord,
    NewLink,
    QrQuery,
)
from penstock.links.management.service import LinkService
from penstock.links.management.uploads import LinkUploader
from penstock.links.model import Link
from penstock.links.statistics.schema import TotalsRecord
from penstock.links.statistics.service import StatisticsService
from penstock.settings import DAY_S, Settings

_ALL = "/api/mobile/deferred-links"
_ONE = "/api/mobile/deferred-links/{link_id:str}"
_CSV = "text/csv"
_QR_MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


@route("POST", _ALL, "Create a managed link", body=NewLink, tag="managed links")
def create_link(
    caller: Caller, links: LinkService, settings: Settings, new_link: bytes
) -> LinkRecord:
    """Creates a link. The URL to share is `hostedUrl`.

    The slug must be unique among all links of the installation, including disabled links.
    """
    link = links.create(caller.workspace_id, new_link)
    return LinkRecord.from_link(link, settings.link_url, TotalsRecord())


@slow_route("GET", _ALL, "Managed links", tag="managed links")
def list_links(
    caller: Caller,
    links: LinkService,
    link_statistics: StatisticsService,
    settings: Settings,
    query: LinkQuery,
) -> Listing[LinkRecord]:
    """Lists links, newest first."""
    page = links.page(caller.workspace_id, query)
    totals = link_statistics.totals(page.data)
    return page.map(lambda link: LinkRecord.from_link(link, settings.link_url, totals[link.id]))


@route("GET", f"{_ALL}/csv", "Managed links as CSV", returns=(_CSV,), tag="managed links")
def export_links(
    caller: Caller, links: LinkService, audit_log: AuditLog, settings: Settings, query: LinkFilter
) -> Response[bytes]:
    """Downloads the links as a CSV file.

    The file contains one row per link, newest first, and at most 5,000 links. You can edit the file
    and upload it again.
    """
    chosen = links.list_all(caller.workspace_id, query)
    file = write_csv(LinkRecord.from_link(link, settings.link_url, None) for link in chosen)
    audit_log.record(caller, Action.EXPORTED, "links csv")
    headers = {"Content-Disposition": 'attachment; filename="links.csv"'}
    return Response(file, media_type=_CSV, headers=headers)


@route(
    "POST",
    f"{_ALL}/csv",
    "Create and change links by CSV",
    status=200,
    media=(_CSV,),
    opt={UPLOAD_MEDIA_TYPES: (_CSV,)},
    tag="managed links",
)
async def upload_links(
    request: AnyRequest, caller: Caller, link_uploads: LinkUploader, query: CsvQuery
) -> LinkUploadRecord:
    """Creates a link for each new slug and updates existing links, changing only the file's
    columns.

    The file may have at most 5,000 rows and 2 MB. If any row is invalid, nothing changes, and the
    response lists the row and column of each error.
    """
    if media_type_of(request) != _CSV:
        raise UnsupportedMedia(f"Send the file with the header Content-Type: {_CSV}.")
    body = await read_bytes(request, max_bytes=MAX_BYTES)
    return await link_uploads.upload(caller, body, dry_run=query.dry_run)


@route("PATCH", _ALL, "Change a managed link", context="url_rules", tag="managed links")
def change_link(
    caller: Caller,
    links: LinkService,
    link_statistics: StatisticsService,
    settings: Settings,
    change: LinkChange,
    read_only: ReadOnlyFields,
) -> LinkRecord:
    """Changes the fields that are sent.

    A disabled link responds like an unknown link, but its slug can never be used again. Earlier
    clicks and their app opens keep their name, destination and UTM parameters. Read-only fields
    (`slug`, `hostedUrl`, ...) may be sent back with their stored values. An outdated `revision`
    returns 409; `stats` and `unstoredClicks` are ignored.
    """

    def check(stored: Link) -> None:
        record = LinkRecord.from_link(stored, settings.link_url, None)
        read_only.check(record, computed=("stats", "unstoredClicks"))

    return _record(links.change(caller, change, check), link_statistics, settings)


@route("GET", _ONE, "A managed link", tag="managed links")
def read_link(
    caller: Caller,
    links: LinkService,
    link_statistics: StatisticsService,
    settings: Settings,
    link_id: str,
) -> LinkRecord:
    return _record(links.find(caller.workspace_id, link_id), link_statistics, settings)


def _record(link: Link, link_statistics: StatisticsService, settings: Settings) -> LinkRecord:
    totals = link_statistics.totals([link])
    return LinkRecord.from_link(link, settings.link_url, totals[link.id])


@route("GET", f"{_ONE}/history", "Revisions of a managed link", tag="managed links")
def list_link_revisions(
    caller: Caller, links: LinkService, link_id: str, query: PageQuery
) -> Listing[LinkRevisionRecord]:
    """Lists revisions, newest first. Each click belongs to the revision that was current at that
    time.
    """
    return links.revisions(caller.workspace_id, link_id, query.pagination)


@route(
    "GET",
    f"{_ONE}/qr",
    "QR code of a managed link",
    returns=tuple(_QR_MEDIA_TYPES.values()),
    tag="managed links",
)
def read_qr_code(
    caller: Caller, links: LinkService, settings: Settings, link_id: str, query: QrQuery
) -> Response[bytes]:
    """Returns a black-on-white image with the quiet zone that scanners need.

    Opens of the scanned URL count as scans.
    """
    link = links.find(caller.workspace_id, link_id)
    file = qr_file(scan_url(link, settings.link_url), query.format, query.scale)
    headers = {
        "Content-Disposition": f'inline; filename="{link.slug}.{query.format}"',
        "Cache-Control": f"private, max-age={DAY_S}",
    }
    return Response(file, media_type=_QR_MEDIA_TYPES[query.format], headers=headers)


ROUTES = (
    create_link,
    list_links,
    export_links,
    upload_links,
    change_link,
    read_link,
    list_link_revisions,
    read_qr_code,
)
