"""HTTP routes for managed links, used by the people who manage them."""

from functools import partial

from anyio import to_thread
from litestar import Response, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from penstock.accounts.audit.model import Action
from penstock.accounts.audit.service import AuditLog
from penstock.accounts.callers import UPLOAD_MEDIA_TYPES
from penstock.accounts.model import Caller
from penstock.base.errors import UnsupportedMedia
from penstock.http.answers import answer, answer_list, listing
from penstock.http.bodies import read_bytes, read_query, require_json
from penstock.http.openapi import described
from penstock.http.read_only import read_changes
from penstock.http.requests import AnyRequest, media_type_of
from penstock.http.schema import PageQuery
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord
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

_CSV = "text/csv"
_QR_MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


@post(
    "/api/mobile/deferred-links",
    opt=described("Create a managed link", body=NewLink, answers=LinkRecord, tag="managed links"),
)
async def create_link(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Creates a link. The URL to share is `hostedUrl`.

    The slug must be unique among all links of the installation, including disabled links.
    """
    require_json(request)
    link = await to_thread.run_sync(links.create, caller.workspace_id, await read_bytes(request))
    return answer(LinkRecord.from_link(link, settings.link_url, TotalsRecord()), status=201)


@get(
    "/api/mobile/deferred-links",
    opt=described(
        "Managed links",
        answers=LinkRecord,
        query=LinkQuery,
        listed=True,
        job=JobRecord,
        tag="managed links",
    ),
)
async def list_links(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    link_statistics: NamedDependency[StatisticsService],
    settings: NamedDependency[Settings],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """Lists links, newest first."""
    query = read_query(request, LinkQuery)

    def links_page() -> Response[bytes]:
        page = links.page(caller.workspace_id, query)
        totals = link_statistics.totals(page.data)
        return listing(
            page, lambda link: LinkRecord.from_link(link, settings.link_url, totals[link.id])
        )

    return await respond(links_page)


@get(
    "/api/mobile/deferred-links/csv",
    opt=described(
        "Managed links as CSV", query=LinkFilter, returns=("text/csv",), tag="managed links"
    ),
)
async def export_links(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    audit_log: NamedDependency[AuditLog],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Downloads the links as a CSV file.

    The file contains one row per link, newest first, and at most 5,000 links. You can edit the file
    and upload it again.
    """
    query = read_query(request, LinkFilter)

    def file() -> bytes:
        chosen = links.list_all(caller.workspace_id, query)
        content = write_csv(LinkRecord.from_link(link, settings.link_url, None) for link in chosen)
        audit_log.record(caller, Action.EXPORTED, "links csv")
        return content

    headers = {"Content-Disposition": 'attachment; filename="links.csv"'}
    return Response(await to_thread.run_sync(file), media_type=_CSV, headers=headers)


@post(
    "/api/mobile/deferred-links/csv",
    status_code=200,
    opt=described(
        "Create and change links by CSV",
        media=(_CSV,),
        query=CsvQuery,
        answers=LinkUploadRecord,
        tag="managed links",
    )
    | {UPLOAD_MEDIA_TYPES: (_CSV,)},
)
async def upload_links(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    link_uploads: NamedDependency[LinkUploader],
) -> Response[bytes]:
    """Creates a link for each new slug and updates existing links, changing only the file's
    columns.

    The file may have at most 5,000 rows and 2 MB. If any row is invalid, nothing changes, and the
    response lists the row and column of each error.
    """
    query = read_query(request, CsvQuery)
    if media_type_of(request) != _CSV:
        raise UnsupportedMedia(f"Send the file with the header Content-Type: {_CSV}.")
    body = await read_bytes(request, max_bytes=MAX_BYTES)
    upload = await link_uploads.upload(caller, body, dry_run=query.dry_run)
    return answer(LinkUploadRecord.from_upload(upload, dry_run=query.dry_run))


@patch(
    "/api/mobile/deferred-links",
    opt=described(
        "Change a managed link",
        body=LinkChange,
        answers=LinkRecord,
        takes_read_only=True,
        tag="managed links",
    ),
)
async def change_link(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    link_statistics: NamedDependency[StatisticsService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Changes the fields that are sent.

    A disabled link responds like an unknown link, but its slug can never be used again. Earlier
    clicks and their app opens keep their name, destination and UTM parameters. Read-only fields
    (`slug`, `hostedUrl`, ...) may be sent back with their stored values. An outdated `revision`
    returns 409; `stats` and `unstoredClicks` are ignored.
    """
    change, read_only = await read_changes(request, LinkChange, LinkRecord, links.url_rules)

    def check(stored: Link) -> None:
        record = LinkRecord.from_link(stored, settings.link_url, None)
        read_only.check(record, computed=("stats", "unstoredClicks"))

    link = await to_thread.run_sync(links.change, caller, change, check)
    totals = await to_thread.run_sync(link_statistics.totals, [link])
    return answer(LinkRecord.from_link(link, settings.link_url, totals[link.id]))


@get(
    "/api/mobile/deferred-links/{link_id:str}",
    opt=described("A managed link", answers=LinkRecord, tag="managed links"),
)
async def read_link(
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    link_statistics: NamedDependency[StatisticsService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    link = await to_thread.run_sync(links.find, caller.workspace_id, link_id)
    totals = await to_thread.run_sync(link_statistics.totals, [link])
    return answer(LinkRecord.from_link(link, settings.link_url, totals[link.id]))


@get(
    "/api/mobile/deferred-links/{link_id:str}/history",
    opt=described(
        "Revisions of a managed link",
        answers=LinkRevisionRecord,
        query=PageQuery,
        listed=True,
        tag="managed links",
    ),
)
async def list_link_revisions(
    request: AnyRequest,
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
) -> Response[bytes]:
    """Lists revisions, newest first. Each click belongs to the revision that was current at that
    time.
    """
    page = read_query(request, PageQuery).pagination
    revisions = await to_thread.run_sync(links.revisions, caller.workspace_id, link_id, page)
    return await answer_list(revisions, LinkRevisionRecord.from_revision)


@get(
    "/api/mobile/deferred-links/{link_id:str}/qr",
    opt=described(
        "QR code of a managed link",
        query=QrQuery,
        returns=tuple(_QR_MEDIA_TYPES.values()),
        tag="managed links",
    ),
)
async def read_qr_code(
    request: AnyRequest,
    link_id: FromPath[str],
    caller: NamedDependency[Caller],
    links: NamedDependency[LinkService],
    settings: NamedDependency[Settings],
) -> Response[bytes]:
    """Returns a black-on-white image with the quiet zone that scanners need.

    Opens of the scanned URL count as scans.
    """
    query = read_query(request, QrQuery)
    link = await to_thread.run_sync(links.find, caller.workspace_id, link_id)
    file = await to_thread.run_sync(
        partial(qr_file, scan_url(link, settings.link_url), query.format, query.scale)
    )
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
