"""Creates and changes links from a CSV file. Either all rows are applied or none."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from pydantic import ValidationError

from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, Fault, Invalid, NotFound, StoreConflict
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.core import Core
from penstock.http.schema import faults_of
from penstock.links.management import store
from penstock.links.management.addresses import WebUrlRules
from penstock.links.management.csv_file import CsvRow, read_csv
from penstock.links.management.schema import LinkRow, LinkUploadRecord, RowFaultRecord
from penstock.links.management.service import LinkService, new_link
from penstock.links.model import Link

_MAX_LISTED_FAULTS = 1_000
_REQUIRED = ("websiteId", "name", "destinationPath")

RowFault = tuple[int, Fault]


class ValidRow(NamedTuple):
    """A row whose fields are all valid. number: the row number in a spreadsheet."""

    number: int
    row: LinkRow


@dataclass(slots=True)
class Plan:
    """The changes that a file makes. changed: pairs of the old and the new link."""

    added: list[Link] = field(default_factory=list)
    changed: list[tuple[Link, Link]] = field(default_factory=list)
    unchanged: int = 0
    faults: list[RowFault] = field(default_factory=list)

    def sorted_faults(self) -> list[RowFault]:
        """Return the faults in row order."""
        return sorted(self.faults, key=itemgetter(0))

    def record(self, *, dry_run: bool) -> LinkUploadRecord:
        faults = self.sorted_faults()[:_MAX_LISTED_FAULTS]
        return LinkUploadRecord(
            dry_run=dry_run,
            created=len(self.added),
            updated=len(self.changed),
            unchanged=self.unchanged,
            faulty=len({number for number, _ in self.faults}),
            faults=[RowFaultRecord.from_fault(number, fault) for number, fault in faults],
        )


class LinkUploader:
    """Creates and changes links from a CSV file.

    links: the service whose cache drops changed links.
    """

    def __init__(self, core: Core, websites: WebsiteService, links: LinkService) -> None:
        self._database, self._clock, self._validation = core.database, core.clock, core.validation
        self._websites, self._links = websites, links

    async def upload(self, actor: Caller, body: bytes, *, dry_run: bool) -> LinkUploadRecord:
        """Create links for new slugs and update the others.

        Raises `Invalid` if the body is not a CSV file of links, and `Conflict` if someone else has
        just taken a slug. If any row is invalid, nothing changes: a dry run returns the faults, and
        otherwise `Invalid` is raised with them.
        """
        return await self._validation.run(actor.workspace_id, self._upload, actor, body, dry_run)

    def _upload(self, actor: Caller, body: bytes, dry_run: bool) -> LinkUploadRecord:
        valid, faults = _validate_rows(read_csv(body), self._links.url_rules)
        apps = self._apps(actor.workspace_id, valid)
        slugs = [row.slug for _, row in valid]
        now_ms = self._clock()
        try:
            with self._database.write() as db:
                stored = {link.slug: link for link in store.links_of_slugs(db, slugs)}
                plan = _plan(actor.workspace_id, valid, stored, apps, now_ms)
                plan.faults.extend(faults)
                upload = plan.record(dry_run=dry_run)
                if dry_run:
                    return upload
                if plan.faults:
                    raise Invalid([_row_fault(*fault) for fault in plan.sorted_faults()])
                store.add_links(db, plan.added)
                store.update_links(db, plan.changed)
                self._links.by_slug.announce(db)
                if plan.added or plan.changed:
                    target = f"CSV: {upload.created} created, {upload.updated} updated"
                    audit.record(db, actor, Action.LINK_CHANGED, target, now_ms)
        except StoreConflict:
            raise Conflict(
                "Another request has just taken one of the slugs; upload the file again.",
                code="slug_taken",
            ) from None
        for _, link in plan.changed:
            self._links.by_slug.forget(link.slug)
        return upload

    def _apps(self, workspace_id: WorkspaceId, rows: Sequence[ValidRow]) -> Mapping[str, WebsiteId]:
        """Return IDs of the workspace's apps by the `websiteId` in the rows. Omits unknown apps."""
        apps: dict[str, WebsiteId] = {}
        for website_id in {row.website_id for _, row in rows if row.website_id}:
            with suppress(NotFound):
                apps[website_id] = self._websites.app(workspace_id, website_id).id
        return apps


def _row_fault(number: int, fault: Fault) -> Fault:
    return Fault(f"rows[{number}].{fault.field}", fault.code, fault.message)


def _validate_rows(
    rows: Sequence[CsvRow], url_rules: WebUrlRules
) -> tuple[list[ValidRow], list[RowFault]]:
    valid: list[ValidRow] = []
    faults: list[RowFault] = []
    seen = set[str]()
    for number, values in rows:
        try:
            row = LinkRow.model_validate(values, context=url_rules)
        except ValidationError as error:
            faults += ((number, _column_fault(fault)) for fault in faults_of(error))
            continue
        if row.slug in seen:
            message = "An earlier row has the same slug."
            faults.append((number, Fault("slug", "repeated", message)))
        seen.add(row.slug)
        valid.append(ValidRow(number, row))
    return valid, faults


def _column_fault(fault: Fault) -> Fault:
    """Return the fault with the column's name as its field, such as `tags` for `tags[2]`."""
    return Fault(fault.field.partition("[")[0], fault.code, fault.message)


def _plan(
    workspace_id: WorkspaceId,
    rows: Sequence[ValidRow],
    stored: Mapping[str, Link],
    apps: Mapping[str, WebsiteId],
    now_ms: int,
) -> Plan:
    """Compare the rows with the stored links.

    apps: the workspace's apps that occur in the rows. stored: links of any workspace, by slug.
    """
    plan = Plan()
    for number, row in rows:
        link = stored.get(row.slug)
        faults = _new_faults(row, apps) if link is None else _change_faults(row, link, workspace_id)
        plan.faults.extend((number, fault) for fault in faults)
        if faults:
            continue
        if link is not None:
            after = link.with_changes(row.values(), now_ms)
            if after is link:
                plan.unchanged += 1
            else:
                plan.changed.append((link, after))
        else:
            app_id = apps[row.website_id or ""]
            values = {**row.values(), "slug": row.slug}
            plan.added.append(new_link(app_id, workspace_id, values, now_ms))
    return plan


def _new_faults(row: LinkRow, apps: Mapping[str, WebsiteId]) -> list[Fault]:
    if row.id is not None:
        message = "No link has this ID and this slug. Leave the ID out to create a link."
        return [Fault("id", "unknown_link", message)]
    values = row.model_dump(by_alias=True)
    message = "A new link needs this field."
    faults = [Fault(name, "required", message) for name in _REQUIRED if values[name] is None]
    if row.website_id is not None and row.website_id not in apps:
        message = "The workspace has no app with this ID."
        faults.append(Fault("websiteId", "app_not_found", message))
    return faults


def _change_faults(row: LinkRow, link: Link, workspace_id: WorkspaceId) -> list[Fault]:
    if link.workspace_id != workspace_id:
        return [Fault("slug", "slug_taken", "This slug is taken; choose another.")]
    fixed = {"id": (row.id, link.id), "websiteId": (row.website_id, link.website_id)}
    return [
        Fault(name, "read_only", f"Cannot be changed; the link has {stored}.")
        for name, (value, stored) in fixed.items()
        if value not in (None, stored)
    ]
