"""Use cases of the quarantine: record refusals, list, replay, export.

An entry belongs to the workspace of the key, else of the website that the item names. One with
neither belongs to nobody and is not recorded.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import structlog
from anyio import to_thread
from msgspec import json
from sqlalchemy import Connection

from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.clock import Clock, iso, parse_time
from penstock.base.errors import Fault, Invalid, NotFound, PenstockError, Unavailable
from penstock.base.fair_queue import FairQueue
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.base.patterns import is_digits
from penstock.base.user_agent import parse_user_agent
from penstock.events import store as events_store
from penstock.events.batch import ItemResult
from penstock.events.fields import EventValidationContext, website_not_owned
from penstock.events.intake import Intake
from penstock.events.model import (
    EventCounts,
    NewEvent,
    Receipt,
    Refusal,
    Rejected,
    Replay,
    Target,
)
from penstock.events.quarantine import store
from penstock.events.quarantine.model import QuarantineEntry, Reason, ReplayResult
from penstock.events.redaction import redact
from penstock.events.server_events import server_event, transaction
from penstock.events.tracked_events import tracked_event
from penstock.http.bodies import parse_json
from penstock.metadb.database import Database
from penstock.settings import Settings

log = structlog.get_logger()

MAX_PER_BODY = 100
"""Refused items of one body that are stored; the others are only counted."""

_MAX_DIGITS = 18
EVENT_ROUTES = ("/api/v1/events", "/api/v1/events/batch", "/api/v1/transactions", "/api/track")


class QuarantineService:
    """Refused items and rows that the warehouse refuses, for the people who send them."""

    def __init__(
        self,
        database: Database,
        websites: WebsiteService,
        intake: Intake,
        settings: Settings,
        clock: Clock,
        validation: FairQueue,
        on_stored: Callable[[], None],
    ) -> None:
        """validation: the turns of work on large bodies. on_stored: wakes the shipper."""
        self._database, self._websites, self._intake = database, websites, intake
        self._validation = validation
        self._settings, self._clock, self._on_stored = settings, clock, on_stored

    # Recording

    async def record_body(
        self,
        route: str,
        body: bytes,
        error: PenstockError,
        workspace_id: WorkspaceId | None,
        sender: Mapping[str, Any],
    ) -> None:
        """Record a body that was refused as a whole. workspace_id: of the key."""
        if error.status < 500 and error.status != 429:
            await self._record(
                workspace_id,
                partial(self._refusals_of_body, route, body, error, workspace_id, sender),
            )

    async def record_items(
        self,
        route: str,
        body: bytes,
        results: Sequence[ItemResult],
        workspace_id: WorkspaceId | None,
        sender: Mapping[str, Any],
    ) -> None:
        """Record the refused items of an accepted batch."""
        await self._record(
            workspace_id,
            partial(self._refusals_of_items, route, body, results, workspace_id, sender),
        )

    async def record(self, refusals: Sequence[Refusal]) -> None:
        """Record refused items of a body whose other items are stored."""
        try:
            await self._intake.record(refusals)
        except Unavailable as error:
            log.warning("refusals_not_recorded", reason=error.code)

    async def _record(
        self, workspace_id: WorkspaceId | None, read: Callable[[], list[Refusal]]
    ) -> None:
        """read: reads the body again, so it waits for its turn."""
        try:
            refusals = await self._validation.run(workspace_id, read)
        except Unavailable as error:  # the sender knows from the response which items were refused
            log.warning("refusals_not_recorded", reason=error.code)
            return
        if refusals:
            await self.record(refusals)

    def _refusals_of_body(
        self,
        route: str,
        body: bytes,
        error: PenstockError,
        workspace_id: WorkspaceId | None,
        sender: Mapping[str, Any],
    ) -> list[Refusal]:
        item = _json_or_none(body)
        is_batch = isinstance(item, dict) and "events" in item
        faults = error.faults or (Fault("", error.code, error.detail),)
        refusal = self._refusal(route, item, error.code, faults, workspace_id, sender)
        if refusal is None:
            return []
        return [refusal._replace(content=None, is_event=False) if is_batch else refusal]

    def _refusals_of_items(
        self,
        route: str,
        body: bytes,
        results: Sequence[ItemResult],
        workspace_id: WorkspaceId | None,
        sender: Mapping[str, Any],
    ) -> list[Refusal]:
        batch = _json_or_none(body)
        defaults = {name: batch[name] for name in ("websiteId", "sentAt") if name in batch}
        refusals = list[Refusal]()
        for index, result in enumerate(results):
            if result.receipt is None:
                item = batch["events"][index]
                item = {**defaults, **item} if isinstance(item, dict) else item
                refusal = self._refusal(
                    route, item, Invalid.code, result.faults, workspace_id, sender
                )
                if refusal is not None:
                    is_kept = len(refusals) < MAX_PER_BODY
                    refusals.append(refusal if is_kept else refusal._replace(is_kept=False))
        return refusals

    def _refusal(
        self,
        route: str,
        item: Any,
        code: str,
        faults: tuple[Fault, ...],
        workspace_id: WorkspaceId | None,
        sender: Mapping[str, Any],
    ) -> Refusal | None:
        website_id = item.get("websiteId") if isinstance(item, Mapping) else None
        website = self._websites.find_website(website_id) if isinstance(website_id, str) else None
        if website is not None and workspace_id not in (None, website.workspace_id):
            website = None  # of another workspace
        owner = website.workspace_id if website else workspace_id
        if owner is None:
            return None
        return Refusal(
            workspace_id=owner,
            website_id=website.id if website else None,
            at_ms=self._clock(),
            origin=route,
            code=code,
            faults=faults,
            content=content_of(item, self._settings),
            sender=sender,
            is_event=route in EVENT_ROUTES and item is not None,
        )

    # Reading; these block

    def page(
        self,
        workspace_id: WorkspaceId,
        website_id: WebsiteId | None,
        page: Page,
        *,
        with_unknown: bool = True,
    ) -> Listing[QuarantineEntry]:
        """Newest first. website_id: only entries of this website.

        with_unknown: also entries that name no website of the workspace.
        """
        with self._database.read() as db:
            return store.page(db, workspace_id, website_id, page, with_unknown=with_unknown)

    def entries(
        self, workspace_id: WorkspaceId, website_id: WebsiteId
    ) -> Iterator[QuarantineEntry]:
        """Every entry of a website, oldest first, read in pages."""
        number = 0
        while True:
            with self._database.read() as db:
                entries = store.after(db, workspace_id, website_id, number)
            if not entries:
                return
            yield from entries
            number = entries[-1].number

    def counts(self, workspace_id: WorkspaceId) -> list[tuple[Website, EventCounts]]:
        """The counts of each website of the workspace."""
        websites = self._websites.websites(workspace_id)
        with self._database.read() as db:
            counts = events_store.counts_of(db, [website.id for website in websites])
        return [(website, counts.get(website.id, EventCounts())) for website in websites]

    def entries_by_reason(self) -> dict[str, float]:
        """How many entries there are, of all workspaces."""
        with self._database.read() as db:
            return store.entries_by_reason(db)

    # Replaying

    async def replay(self, workspace_id: WorkspaceId, number: str) -> None:
        """Store an entry of the quarantine after all.

        `NotFound`; `Invalid` with every fault when it is still wrong, `not_replayable` for one
        without content.
        """
        entry = await to_thread.run_sync(self._find, workspace_id, number)
        await self._replay(entry)

    async def replay_all(self, workspace_id: WorkspaceId, website_id: WebsiteId) -> ReplayResult:
        """Replay every entry of a website, oldest first, a page of them in one commit."""
        result, number = ReplayResult(0, 0), 0
        while batch := await to_thread.run_sync(
            self._next_to_replay, workspace_id, website_id, number
        ):
            number = batch.last
            outcomes = await self._intake.replay(batch.replays) if batch.replays else []
            stored = sum(isinstance(outcome, Receipt) for outcome in outcomes) + batch.shipped
            result = ReplayResult(result.replayed + stored, result.refused + batch.entries - stored)
        return result

    def _next_to_replay(
        self, workspace_id: WorkspaceId, website_id: WebsiteId, after: int
    ) -> "_ReplayBatch | None":
        """The next entries as events; rows of the warehouse are on their way to it again."""
        with self._database.read() as db:
            entries = store.after(db, workspace_id, website_id, after)
        if not entries:
            return None
        replays = list[Replay]()
        for entry in entries:
            if entry.reason is not Reason.UNSHIPPABLE:
                with suppress(Invalid):
                    replays.append(Replay(self._read(entry), entry.number))
        shipped = self._ship_again(
            [entry for entry in entries if entry.reason is Reason.UNSHIPPABLE]
        )
        return _ReplayBatch(replays, shipped, len(entries), entries[-1].number)

    def _find(self, workspace_id: WorkspaceId, number: str) -> QuarantineEntry:
        if not (is_digits(number) and len(number) <= _MAX_DIGITS):
            raise _gone()
        with self._database.read() as db:
            entry = store.find(db, workspace_id, int(number))
        if entry is None:
            raise _gone()
        return entry

    async def _replay(self, entry: QuarantineEntry) -> None:
        if entry.reason is Reason.UNSHIPPABLE:
            if not await to_thread.run_sync(self._ship_again, [entry]):
                raise _gone()
            return
        event = await to_thread.run_sync(self._read, entry)
        [outcome] = await self._intake.replay([Replay(event, entry.number)])
        if isinstance(outcome, Rejected):
            raise Invalid([outcome.fault])
        if outcome is None:
            raise _gone()

    def _read(self, entry: QuarantineEntry) -> NewEvent:
        """The entry as an event of the time of its receipt. `Invalid` when it is still wrong."""
        if not is_replayable(entry):
            raise Invalid(
                [
                    Fault(
                        "",
                        "not_replayable",
                        "Only a single event whose content is stored can be replayed.",
                    )
                ]
            )
        raw = json.decode(entry.content or "")
        context = EventValidationContext(
            self._settings,
            entry.at_ms,
            self._websites.find_website,
            Caller(entry.workspace_id),
        )
        try:
            if entry.origin == "/api/track":
                user_agent = parse_user_agent(entry.sender.get("userAgent", ""))
                return tracked_event(raw, context, user_agent)
            reader = transaction if entry.origin == "/api/v1/transactions" else server_event
            return reader(
                raw,
                partial(self._owned_website, entry.workspace_id),
                context,
                legacy=entry.sender.get("legacy", False),
            )
        except Invalid:
            raise
        except PenstockError as error:
            raise Invalid([Fault("websiteId", error.code, error.detail)]) from None

    def _owned_website(self, workspace_id: WorkspaceId, website_id: str) -> Website:
        website = self._websites.find_website(website_id)
        if website is None or website.workspace_id != workspace_id:
            raise website_not_owned()
        return website

    def _ship_again(self, entries: Sequence[QuarantineEntry]) -> int:
        """Put rows back into the outbox. Returns how many were still in the quarantine."""
        if not entries:
            return 0
        with self._database.write() as db:
            there = store.remove(db, [entry.number for entry in entries])
            changes = dict[WebsiteId, EventCounts]()
            for target in Target:
                again = [
                    entry
                    for entry in entries
                    if entry.number in there and Target(entry.origin) is target
                ]
                rows = [entry.content or "" for entry in again]
                events_store.put_rows_in_outbox(db, target, rows, self._clock())
                for entry in again:
                    if target is Target.EVENTS and entry.website_id is not None:
                        before = changes.get(entry.website_id, EventCounts())
                        changes[entry.website_id] = before.plus(_WAITS_AGAIN)
            events_store.add_counts(db, changes)
        self._on_stored()
        return len(there)


_WAITS_AGAIN = EventCounts(quarantined=-1, waiting=1)


class _ReplayBatch(NamedTuple):
    """A page of entries to replay.

    replays: those that are valid now. shipped: rows that wait for the warehouse again. entries:
    how many the page had. last: its last number.
    """

    replays: Sequence[Replay]
    shipped: int
    entries: int
    last: int


def content_of(item: Any, settings: Settings) -> str | None:
    """An item as it is kept: its JSON, or None when there is none or it is too large."""
    content = None if item is None else json.encode(item)
    if content is None or len(content) > settings.max_event_bytes:
        return None
    return content.decode()


def containing(sent_ids: Collection[str]) -> Callable[[QuarantineEntry], bool]:
    """Whether the content of an entry has one of the IDs."""
    needles = [json.encode(sent_id).decode() for sent_id in sent_ids]

    def contains(entry: QuarantineEntry) -> bool:
        content = entry.content
        return content is not None and any(needle in content for needle in needles)

    return contains


def within(from_ms: int, to_ms: int, kind: str | None = None) -> Callable[[QuarantineEntry], bool]:
    """Whether an entry is of a period and a kind of event, as far as its content says so.

    Without a time of its own it is of the time of its receipt, without a kind of any.
    """

    def is_within(entry: QuarantineEntry) -> bool:
        at_ms, own_kind = _time_and_kind(entry)
        return from_ms <= at_ms < to_ms and own_kind in (None, kind or own_kind)

    return is_within


def _time_and_kind(entry: QuarantineEntry) -> tuple[int, str | None]:
    item = None if entry.content is None else json.decode(entry.content)
    if not isinstance(item, dict):
        return entry.at_ms, None
    sent = item.get("occurred_at" if entry.reason is Reason.UNSHIPPABLE else "timestamp")
    try:
        at_ms = parse_time(sent, naive_is_utc=True)
    except ValueError:
        at_ms = entry.at_ms
    kinds = {"/api/v1/transactions": "transaction", "/api/track": item.get("type")}
    if entry.reason is Reason.UNSHIPPABLE:
        kind = item.get("kind")
    else:
        kind = kinds.get(entry.origin, "event" if entry.origin in EVENT_ROUTES else None)
    return at_ms, kind if isinstance(kind, str) else None


def forget_quarantined(
    db: Connection, website_ids: Collection[str], condition: Callable[[QuarantineEntry], bool]
) -> int:
    """Delete entries of these websites, in the caller's transaction. Returns how many."""
    removed = Counter[WebsiteId]()
    for entry in list(store.entries_where(db, website_ids, condition)):
        if store.remove(db, [entry.number]) and entry.website_id is not None:
            removed[entry.website_id] += 1
    events_store.add_counts(
        db, {website_id: EventCounts(dropped=number) for website_id, number in removed.items()}
    )
    return removed.total()


def quarantined_texts(
    db: Connection, website_ids: Collection[str], sent_ids: Collection[str]
) -> Iterator[dict[str, Any]]:
    """The entries that contain one of the IDs, for the export of a person's data."""
    for entry in store.entries_where(db, website_ids, containing(sent_ids)):
        yield {
            "websiteId": entry.website_id,
            "receivedAt": iso(entry.at_ms),
            "content": json.decode(entry.content or "null"),
        }


def is_replayable(entry: QuarantineEntry) -> bool:
    """Whether the entry has all that it takes; it may still be wrong."""
    return entry.content is not None and (
        entry.reason is Reason.UNSHIPPABLE or entry.origin in EVENT_ROUTES
    )


def excerpt(entry: QuarantineEntry) -> str | None:
    """The beginning of the content, without secrets and network addresses."""
    return None if entry.content is None else redact(json.decode(entry.content))


def _gone() -> NotFound:
    return NotFound(
        "There is no such entry in this workspace's quarantine; it may have been replayed already."
    )


def _json_or_none(body: bytes) -> Any:
    """The body's JSON; None when it has none."""
    try:
        return parse_json(body)
    except PenstockError:
        return None
