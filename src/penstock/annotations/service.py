"""Use cases for annotations."""

from dataclasses import replace
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from penstock.accounts.keys.service import wrong_website_of_key
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.annotations import store
from penstock.annotations.model import Annotation
from penstock.annotations.schema import AnnotationChange, AnnotationRecord, NewAnnotation
from penstock.base.calendar import start_of_day_ms
from penstock.base.clock import Clock
from penstock.base.errors import Conflict, Fault, Invalid, NotFound
from penstock.base.ids import WorkspaceId, new_id
from penstock.base.paging import Listing
from penstock.funnels.saved.service import FunnelService
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import RecordsQuery
from penstock.metadb.database import Database
from penstock.metadb.named import check_number
from penstock.metadb.tables import annotations
from penstock.settings import DAY_S

_MAXIMUM = 5_000
_MAX_SHOWN = 100
_UTC = ZoneInfo("UTC")


class AnnotationService:
    """Annotations of a workspace. Methods block: call them from a worker thread.

    Methods that change something raise `Forbidden` if the caller's key is for another website.
    """

    def __init__(
        self, database: Database, websites: WebsiteService, funnels: FunnelService, clock: Clock
    ) -> None:
        self._database, self._clock = database, clock
        self._websites, self._funnels = websites, funnels

    def create(self, caller: Caller, body: NewAnnotation) -> Annotation:
        """Add an annotation. If one has the same ID and the values that were sent, return it.

        Raises `Conflict` if one has the same ID and other values, or there are too many.
        """
        now_ms, sent = self._clock(), self._values(caller, body)
        new = Annotation(
            workspace_id=caller.workspace_id,
            id=sent.pop("id", None) or new_id("ann", now_ms),
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
            **({"at_ms": now_ms} | sent),
        )
        _check_key(caller, new)
        with self._database.write() as db:
            stored = store.find(db, caller.workspace_id, new.id)
            if stored is None:
                check_number(
                    db,
                    annotations,
                    caller.workspace_id,
                    _MAXIMUM,
                    "annotations",
                    code="too_many_annotations",
                )
                stored = store.find(db, caller.workspace_id, new.id)  # the workspace is locked
            if stored is None:
                store.add(db, new)
                return new
        if replace(stored, **sent) != stored:
            raise Conflict(
                f"The annotation {new.id} exists and has other values. Change it with PATCH "
                f"/api/annotations/{new.id}, or choose another ID.",
                code="annotation_differs",
            )
        return stored

    def page(self, workspace_id: WorkspaceId, query: RecordsQuery) -> Listing[Annotation]:
        """List annotations, the latest first."""
        if query.website_id is not None:
            self._websites.owned_website(workspace_id, query.website_id)
        with self._database.read() as db:
            return store.page(db, workspace_id, query.website_id, query.pagination)

    def shown(
        self,
        workspace_id: WorkspaceId,
        period: tuple[int, int],
        zone: ZoneInfo,
        *,
        funnel_id: str,
        website_id: str | None,
    ) -> list[tuple[int, Annotation]]:
        """Return the latest annotations that a report shows, each with its time, the latest first.

        period: start and end in milliseconds. website_id: the only website of the report.
        """
        start_ms, end_ms = period
        only = {"funnel_id": funnel_id} | ({"website_id": website_id} if website_id else {})
        margin_ms = DAY_S * 1000  # A zone shifts the start of a day by less.
        with self._database.read() as db:
            rows = store.shown(
                db, workspace_id, only, start_ms - margin_ms, end_ms + margin_ms, _MAX_SHOWN
            )
        timed = [(each.starts_at_ms(zone), each) for each in rows]
        return [(at_ms, each) for at_ms, each in timed if start_ms <= at_ms < end_ms]

    def change(
        self, caller: Caller, annotation_id: str, body: AnnotationChange, read_only: ReadOnlyFields
    ) -> Annotation:
        """Change the fields that are sent. Raises `Invalid` if a read-only field differs."""
        sent = self._values(caller, body)
        with self._database.write() as db:
            stored = _find(db, caller, annotation_id)
            read_only.check(AnnotationRecord.of(stored))
            changed = replace(stored, **sent)
            _check_key(caller, changed)
            if changed != stored:
                changed = replace(changed, updated_at_ms=self._clock())
                store.change(db, changed)
        return changed

    def delete(self, caller: Caller, annotation_id: str) -> None:
        with self._database.write() as db:
            _find(db, caller, annotation_id)
            store.remove(db, caller.workspace_id, annotation_id)

    def _values(self, caller: Caller, body: AnnotationChange) -> dict[str, Any]:
        """Return the sent values by the fields of an annotation. A time replaces a day, and the
        other way round. Raises `Unauthorized` for an unknown website, and `Invalid` for an unknown
        funnel.
        """
        values = body.sent
        if body.website_id is not None:
            self._websites.owned_website(caller.workspace_id, body.website_id)
        if body.funnel_id is not None:
            try:
                self._funnels.get(caller.workspace_id, body.funnel_id)
            except NotFound:
                message = "There is no such funnel in this workspace. Leave it out for all funnels."
                raise Invalid([Fault("funnelId", "funnel_not_found", message)]) from None
        if "at" in values:
            values |= {"at_ms": values.pop("at"), "day": None}
        elif "day" in values:
            values["at_ms"] = start_of_day_ms(date.fromisoformat(values["day"]), _UTC)
        return values


def _find(db: Connection, caller: Caller, annotation_id: str) -> Annotation:
    """Return the annotation, locked until the transaction ends."""
    stored = store.find(db, caller.workspace_id, annotation_id)
    if stored is None:
        raise NotFound("There is no such annotation in this workspace.")
    _check_key(caller, stored)
    return stored


def _check_key(caller: Caller, annotation: Annotation) -> None:
    """Raise `Forbidden` if the caller's key is for one website, and the annotation is not."""
    if caller.website_id not in (None, annotation.website_id):
        raise wrong_website_of_key(caller.website_id)
