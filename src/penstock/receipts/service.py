"""Use cases for receipts: making, listing, opening and revoking them, and their files.

Methods block on the stores: call them from a worker thread. Those that count are bounded like every
query, and stop when their request is stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from pydantic import ValidationError

from penstock import __version__
from penstock.accounts.audit import service as audit
from penstock.accounts.audit.model import Action
from penstock.accounts.model import Caller
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock, iso, parse_time
from penstock.base.errors import (
    Conflict,
    Fault,
    Invalid,
    Malformed,
    NotFound,
    Unauthorized,
    Unavailable,
)
from penstock.base.ids import WorkspaceId, first_id, new_id
from penstock.base.paging import Listing, Page
from penstock.base.restores import restores
from penstock.funnels.internal_traffic.service import InternalTrafficService
from penstock.funnels.pipeline import FunnelQueryRunner
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.results.schema import SELECTION, ReportQuery, ResultsQuery
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.saved_cohorts.service import SavedCohortService
from penstock.funnels.statements.content_sums import arrivals, changed_visitors
from penstock.funnels.statements.query import LARGEST_NUMBER, Known
from penstock.http.schema import faults_of
from penstock.metadb.database import Database
from penstock.metadb.named import check_number
from penstock.metadb.tables import receipts
from penstock.receipts import store
from penstock.receipts.changes import (
    Wording,
    arrival_changes,
    change,
    content_changes,
    definition_changes,
    restore_changes,
    sentences_of,
    version_changes,
    visitor_changes,
    website_changes,
)
from penstock.receipts.figures import read_figures
from penstock.receipts.keys import ReceiptKey, ReceiptKeys
from penstock.receipts.model import FORMAT, MAX_RECEIPTS
from penstock.receipts.schema import (
    ChangeKind,
    GoneRecord,
    NewReceipt,
    OpenedReceiptRecord,
    ReceiptChangeRecord,
    ReceiptDocument,
    ReceiptFiguresRecord,
    ReceiptFile,
    ReceiptFileIn,
    ReceiptFunnelRecord,
    ReceiptRecord,
    ReceiptWebsiteRecord,
    SumsRecord,
    UseRecord,
)
from penstock.receipts.signatures import (
    ALGORITHM,
    OF_OTHER_VERSION,
    NotVerified,
    canonical_json,
    is_signed,
    verified_receipt,
)
from penstock.receipts.sums import known_at, plan_of, read_sums, uses_of
from penstock.warehouse.work import current_work

_REFUSED = {
    "compare": "A receipt keeps one period. Leave the comparison out.",
    "compareStart": "A receipt keeps one period. Leave the comparison out.",
}
_UNKNOWN = "A report has no such parameter. Leave it out."
_CHECK_S = 0.1


class ReceiptService:
    """Receipts of all workspaces."""

    def __init__(
        self,
        database: Database,
        runner: FunnelQueryRunner,
        funnels: FunnelService,
        internal_traffic: InternalTrafficService,
        cohorts: SavedCohortService,
        websites: WebsiteService,
        keys: ReceiptKeys,
        clock: Clock,
        *,
        base_url: str,
        folder: Path,
        wait_s: float,
    ) -> None:
        """folder: the data folder. wait_s: see `Limits.receipt_wait_s`."""
        self._folder = folder
        self._database, self._clock, self._keys = database, clock, keys
        self._runner, self._funnels, self._websites = runner, funnels, websites
        self._internal_traffic, self._cohorts = internal_traffic, cohorts
        self._base_url, self._wait_s = base_url, wait_s

    def make(self, actor: Caller, form: NewReceipt) -> ReceiptRecord:
        """Count, and keep the number as a receipt.

        Raises NotFound for an unknown funnel, Invalid for parameters that a report does not have,
        Conflict if the workspace has too many receipts, Unavailable if events wait for the event
        store for too long, and the same errors as `FunnelQueryRunner.fetch`.
        """
        workspace_id = actor.workspace_id
        funnel = self._funnels.get(workspace_id, form.funnel_id)
        at_ms = self._clock()
        page_query = _read_parameters(form.parameters)
        if page_query.period_error is not None:
            raise Invalid([Fault("parameters.end", "ends_before_start", page_query.period_error)])
        changed = replace(page_query.ad_hoc, filters=None).change_record(funnel.definition)
        question = page_query.parameters(at_ms, window_s=changed.window_s or 0)
        self._wait()
        context = self._prepare(workspace_id, funnel.id, {**question, "asOf": iso(at_ms)})
        if not context.is_fresh:
            raise Unavailable(
                "Some events wait for the event store. A receipt needs all events that were "
                "received before it: try again in a minute.",
                code="events_wait",
                retry_after_s=60,
            )
        known = known_at(self._runner, context, at_ms)
        context = context.with_params(known=known)
        key, receipt_id = self._keys.current(), new_id("rct", at_ms)
        hash_key = self._keys.hash_key(key, receipt_id)
        _, definition = self._funnels.definition_at(workspace_id, funnel.id, context.revision)
        figures, report = read_figures(self._runner, context, definition, hash_key)
        names = {each.id: each.name for each in self._websites.websites(workspace_id)}
        document = ReceiptDocument(
            format=FORMAT,
            id=receipt_id,
            url=_address(self._base_url, receipt_id),
            name=form.name or funnel.name,
            at=iso(at_ms),
            penstock=__version__,
            funnel=ReceiptFunnelRecord(
                id=funnel.id, name=funnel.name, revision=context.revision or funnel.revision
            ),
            definition=definition,
            question=question,
            timezone=page_query.timezone,
            period=report.period,
            websites=[
                ReceiptWebsiteRecord(id=each, name=names[each])
                for each in context.params.website_ids
            ],
            uses=self._uses(context),
            unit=definition.unit_word,
            figures=figures,
            notes=report.coverage.notes,
            sums=read_sums(self._runner, context, hash_key),
        )
        text = canonical_json(document.model_dump(mode="json"))
        columns = {
            "id": receipt_id,
            "funnel_id": funnel.id,
            "question": context.question,
            "name": document.name,
            "created_at": at_ms,
            "created_by": actor.name,
            "document": text,
            "key_id": key.id,
            "signature": self._keys.sign(key, text),
        }
        with self._database.write() as db:
            check_number(
                db, receipts, workspace_id, MAX_RECEIPTS, "receipts", code="too_many_receipts"
            )
            store.add(db, {**columns, "workspace_id": workspace_id})
            target = f"{receipt_id} {document.name}"
            audit.record(db, actor, Action.RECEIPT_CREATED, target, self._clock())
        return _record_of(document, columns)

    def _wait(self) -> None:
        """Wait until requests that were running at the receipt's time have stored their events."""
        until_s, work = monotonic() + self._wait_s, current_work()
        while (left_s := until_s - monotonic()) > 0:
            if work is not None:
                work.check()
            sleep(min(left_s, _CHECK_S))

    def _uses(self, context: QueryContext) -> list[UseRecord]:
        workspace_id = context.workspace_id
        revision = self._internal_traffic.get(workspace_id).revision
        return uses_of(context, revision, lambda id_: self._cohorts.get(workspace_id, id_).name)

    def _prepare(
        self, workspace_id: WorkspaceId, funnel_id: str, question: Mapping[str, str]
    ) -> QueryContext:
        query = ResultsQuery.model_validate(question)
        return self._runner.prepare_saved(workspace_id, funnel_id, query)

    def page(
        self, workspace_id: WorkspaceId, page: Page, funnel_id: str | None = None
    ) -> Listing[ReceiptRecord]:
        """List receipts, newest first. funnel_id: only those on this funnel."""
        with self._database.read() as db:
            rows, total = store.page_of_receipts(db, workspace_id, page, funnel_id)
        records = [
            _record_of(ReceiptDocument.model_validate_json(row.document), row._asdict())
            for row in rows
        ]
        return Listing(records, page, total)

    def get(self, workspace_id: WorkspaceId, receipt_id: str) -> ReceiptRecord:
        """Return a receipt, without comparing it. Raises NotFound."""
        row = self._row(workspace_id, receipt_id)
        document = ReceiptDocument.model_validate_json(row.document)
        return _record_of(document, row._asdict())

    def open(self, workspace_id: WorkspaceId, receipt_id: str) -> OpenedReceiptRecord:
        """Compare a receipt with what is stored now. Raises NotFound, and the same errors as
        `FunnelQueryRunner.fetch`.
        """
        row = self._row(workspace_id, receipt_id)
        key = self._key(row.key_id)
        if not is_signed(key.public, row.document, row.signature):
            raise _forged("The signature does not fit: the receipt was changed in the database.")
        document = ReceiptDocument.model_validate_json(row.document)
        return self._compare(workspace_id, document, _record_of(document, row._asdict()), key)

    def open_file(self, workspace_id: WorkspaceId, file: ReceiptFileIn) -> OpenedReceiptRecord:
        """Compare a receipt in a file with what is stored now, also if it was revoked, or if the
        service was restored from a backup that does not have it.

        Raises Invalid for a file that no key of this service has signed, and the same errors as
        `open`.
        """
        keys = {key.id: key.public for key in self._keys.all()}
        try:
            receipt = verified_receipt(file.model_dump(by_alias=True), keys)
            document = ReceiptDocument.model_validate(receipt)
        except NotVerified as error:
            raise _forged(str(error)) from None
        except ValidationError:
            raise _forged(OF_OTHER_VERSION) from None
        with self._database.read() as db:
            row = store.read(db, workspace_id, document.id)
        columns = {
            "name": document.name,
            "key_id": file.key_id,
            "created_at": document.at,
            "created_by": None,
        }
        record = _record_of(document, columns if row is None else row._asdict())
        unknown = [
            change(
                ChangeKind.RESTORED,
                "this service no longer has the receipt: it was revoked, or the service was "
                "restored from a backup that was made before it",
            )
        ]
        return self._compare(
            workspace_id, document, record, self._key(file.key_id), unknown if row is None else []
        )

    def _compare(
        self,
        workspace_id: WorkspaceId,
        document: ReceiptDocument,
        record: ReceiptRecord,
        key: ReceiptKey,
        noticed: Sequence[ReceiptChangeRecord] = (),
    ) -> OpenedReceiptRecord:
        """noticed: changes that were noticed before."""
        funnel_id, question, sums = document.funnel.id, document.question, document.sums
        original, hash_key = document.figures, self._keys.hash_key(key, document.id)
        try:
            now = self._prepare(workspace_id, funnel_id, question)
            _, definition = self._funnels.definition_at(workspace_id, funnel_id, now.revision)
            figures, report = read_figures(self._runner, now, definition, hash_key, original)
            current = now.params.website_ids
            then = self._prepare(workspace_id, funnel_id, {**question, "asOf": document.at})
        except (Conflict, Invalid, Malformed, NotFound, Unauthorized) as error:
            text = f"its question can no longer be answered: {error.detail.removesuffix('.')}"
            return _opened(document, record, [*noticed, change(ChangeKind.REFUSED, text)])
        at_ms, wording = parse_time(document.at), Wording(document, self._clock())
        known = Known(at_ms, first_id("imp", at_ms + 1), sums.newest_merge, sums.newest_traits)
        own_ids = {each.id for each in document.websites}
        website_ids = tuple(each for each in current if each in own_ids)
        now, then = (each.with_params(website_ids=website_ids) for each in (now, then))
        stored, counted = self._read_sums(then, sums, known, hash_key)
        uses = self._uses(now)
        arrived = self._runner.fetch_events(now, arrivals(plan_of(now), known)).rows
        [visitors] = self._runner.fetch_events(then, changed_visitors(plan_of(then), known)).rows
        defined = list(definition_changes(document, now.revision, definition, uses))
        changed = list(content_changes(sums, stored, report.coverage.gaps, wording))
        changes = [
            *arrival_changes(arrived, wording),
            *visitor_changes(visitors),
            *changed,
            *website_changes(document, current),
            *defined,
            *noticed,
            *restore_changes(restores(self._folder), wording),
            *version_changes(document),
        ]
        again = None
        if not defined:
            again, _ = read_figures(self._runner, counted, definition, hash_key, original)
        return _opened(
            document,
            record,
            changes,
            now=figures,
            recount=None if changed else again,
            gone=_gone(document, changed, again),
        )

    def file(self, workspace_id: WorkspaceId, receipt_id: str) -> ReceiptFile:
        """Return the signed file of a receipt. Raises NotFound."""
        row = self._row(workspace_id, receipt_id)
        return ReceiptFile.model_validate_json(
            f'{{"algorithm":"{ALGORITHM}","keyId":"{row.key_id}","receipt":{row.document},'
            f'"signature":"{row.signature}"}}'
        )

    def revoke(self, actor: Caller, receipt_id: str) -> None:
        """Delete a receipt, whose address then no longer works. Raises NotFound."""
        with self._database.write() as db:
            name = store.remove(db, actor.workspace_id, receipt_id)
            if name is None:
                raise _no_receipt()
            audit.record(db, actor, Action.RECEIPT_REVOKED, f"{receipt_id} {name}", self._clock())

    def _read_sums(
        self, then: QueryContext, sums: SumsRecord, known: Known, key: tuple[int, int]
    ) -> tuple[SumsRecord, QueryContext]:
        """Return the sums of what a receipt knew, and the query that reads it.

        The event store forgets the earlier versions of merges and traits. If they are missing, the
        newest ones may still be the same.
        """
        counted = then.with_params(known=known)
        stored = read_sums(self._runner, counted, key)
        if stored.merges == sums.merges and stored.traits == sums.traits:
            return stored, counted
        newest = replace(
            known,
            merge=known.merge if stored.merges == sums.merges else LARGEST_NUMBER,
            traits=known.traits if stored.traits == sums.traits else LARGEST_NUMBER,
        )
        other = then.with_params(known=newest)
        again = read_sums(self._runner, other, key)
        is_same = again.merges == sums.merges and again.traits == sums.traits
        return (again, other) if is_same else (stored, counted)

    def _key(self, key_id: str) -> ReceiptKey:
        key = self._keys.find(key_id)
        if key is None:
            raise Conflict(
                "This service does not have the key of this receipt, so it cannot compute its "
                "sums.",
                code="receipt_key_unknown",
            )
        return key

    def _row(self, workspace_id: WorkspaceId, receipt_id: str) -> Any:
        with self._database.read() as db:
            row = store.read(db, workspace_id, receipt_id)
        if row is None:
            raise _no_receipt()
        return row


def find_receipt(
    database: Database, base_url: str, workspace_id: WorkspaceId, question: str
) -> str | None:
    """Return the address of the newest receipt of a question; None without one."""
    with database.read() as db:
        receipt_id = store.newest_on(db, workspace_id, question)
    return None if receipt_id is None else _address(base_url, receipt_id)


def _address(base_url: str, receipt_id: str) -> str:
    return f"{base_url}/receipts/{receipt_id}"


def _opened(
    document: ReceiptDocument,
    record: ReceiptRecord,
    changes: list[ReceiptChangeRecord],
    *,
    now: ReceiptFiguresRecord | None = None,
    recount: ReceiptFiguresRecord | None = None,
    gone: GoneRecord | None = None,
) -> OpenedReceiptRecord:
    units = None if gone is None else gone.units
    return OpenedReceiptRecord(
        receipt=record,
        is_unchanged=now is not None and document.figures.holds_in(now),
        sentences=list(sentences_of(document, changes, now, recount, units)),
        changes=changes,
        now=now,
        recount=recount,
        recount_is_equal=None if recount is None else document.figures.holds_in(recount),
        gone=gone,
    )


def _gone(
    document: ReceiptDocument,
    changed: Sequence[ReceiptChangeRecord],
    again: ReceiptFiguresRecord | None,
) -> GoneRecord | None:
    """Return what is not stored any more. again: the figures of what is left of the receipt."""
    events = sum(
        each.number
        for each in changed
        if each.kind is ChangeKind.GONE and isinstance(each.number, int)
    )
    if not events:
        return None
    units = None if again is None else max(0, document.figures.entered - again.entered)
    return GoneRecord(events=events, units=units)


def _record_of(document: ReceiptDocument, columns: Mapping[str, Any]) -> ReceiptRecord:
    names = ("name", "key_id", "created_at", "created_by")
    return ReceiptRecord.from_object(
        document,
        funnel_id=document.funnel.id,
        revision=document.funnel.revision,
        **{name: columns[name] for name in names},
    )


def _read_parameters(parameters: Mapping[str, str]) -> ReportQuery:
    faults = [
        Fault(f"parameters.{name}", "unknown_field", _REFUSED.get(name, _UNKNOWN))
        for name in parameters
        if name not in SELECTION or name in _REFUSED
    ]
    if faults:
        raise Invalid(faults)
    try:
        return ReportQuery.model_validate(parameters)
    except ValidationError as error:
        raise Invalid(faults_of(error, "parameters", ReportQuery)) from None


def _forged(reason: str) -> Invalid:
    return Invalid([Fault("receipt", "not_verified", reason)])


def _no_receipt() -> NotFound:
    return NotFound("There is no such receipt in this workspace. It may have been revoked.")
