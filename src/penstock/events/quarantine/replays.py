"""Replays quarantine entries: validates and stores items again, or ships rows again."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from anyio import to_thread
from msgspec import json

from penstock.accounts.model import Caller, Website
from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Fault, Invalid, NotFound, PenstockError
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.base.patterns import is_digits
from penstock.base.user_agent import parse_user_agent
from penstock.core import Core
from penstock.events import store as events_store
from penstock.events.fields import EventValidationContext
from penstock.events.intake import Intake
from penstock.events.model import EventCounts, NewEvent, Receipt, Rejected, Replay, Target
from penstock.events.quarantine import store
from penstock.events.quarantine.model import (
    QuarantineEntry,
    Reason,
    is_call,
    is_replayable,
)
from penstock.events.quarantine.schema import ReplayRecord
from penstock.events.server_events import server_event, transaction
from penstock.events.tracked_events import tracked_event

_MAX_DIGITS = 18
_NOT_REPLAYABLE = Fault(
    "", "not_replayable", "Only a single event whose content is stored can be replayed."
)

ReadCall = Callable[[Any, Website, Mapping[str, Any], EventValidationContext], NewEvent]
"""Reads a tracking protocol call from its JSON, its website and the stored sender values."""


class Replayer:
    """Replays one quarantine entry, or all entries of a website."""

    def __init__(
        self,
        core: Core,
        websites: WebsiteService,
        intake: Intake,
        on_stored: Callable[[], None],
        read_call: ReadCall,
    ) -> None:
        """on_stored: called once rows are back in the outbox; wakes the shipper.
        read_call: reads a stored tracking protocol call.
        """
        self._database, self._clock = core.database, core.clock
        self._websites, self._intake = websites, intake
        self._on_stored, self._read_call = on_stored, read_call

    async def replay(self, workspace_id: WorkspaceId, number: str) -> None:
        """Store the event of a quarantine entry.

        Raises `NotFound` if there is no such entry, and `Invalid` with every fault if the event is
        still invalid. If the entry cannot be replayed, the code is `not_replayable`.
        """
        entry = await to_thread.run_sync(self._find, workspace_id, number)
        await self._replay(entry)

    async def replay_all(self, workspace_id: WorkspaceId, website_id: WebsiteId) -> ReplayRecord:
        """Replay every entry of a website, oldest first, one commit per page."""
        replayed, refused, number = 0, 0, 0
        while batch := await to_thread.run_sync(
            self._next_to_replay, workspace_id, website_id, number
        ):
            number = batch.last
            outcomes = await self._intake.replay(batch.replays) if batch.replays else []
            stored = sum(isinstance(outcome, Receipt) for outcome in outcomes) + batch.shipped
            replayed += stored
            refused += batch.entries - stored
        return ReplayRecord(replayed=replayed, refused=refused)

    def _next_to_replay(
        self, workspace_id: WorkspaceId, website_id: WebsiteId, after: int
    ) -> "_ReplayBatch | None":
        """Read the next entries as events, and put warehouse rows back into the outbox."""
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
        """Read the event in an entry, with its original time of receipt.

        Raises `Invalid` if the event is still invalid or the entry cannot be replayed.
        """
        if not is_replayable(entry):
            raise Invalid([_NOT_REPLAYABLE])
        raw = json.decode(entry.content or "")
        context = EventValidationContext(
            entry.at_ms,
            self._websites.find_website,
            Caller(entry.workspace_id),
        )
        try:
            if is_call(entry):
                website = self._websites.owned_website(entry.workspace_id, entry.website_id or "")
                return self._read_call(raw, website, entry.sender, context)
            if entry.origin == "/api/track":
                user_agent = parse_user_agent(entry.sender.get("userAgent", ""))
                return tracked_event(raw, context, user_agent, is_public=entry.is_public)
            reader = transaction if entry.origin == "/api/v1/transactions" else server_event
            return reader(
                raw,
                partial(self._websites.owned_website, entry.workspace_id),
                context,
                legacy=entry.sender.get("legacy", False),
            )
        except Invalid:
            raise
        except PenstockError as error:
            raise Invalid([Fault("websiteId", error.code, error.detail)]) from None

    def _ship_again(self, entries: Sequence[QuarantineEntry]) -> int:
        """Put rows back into the outbox. Returns how many of them were still in the quarantine."""
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

    replays: entries that are valid now. shipped: number of rows put back into the outbox. entries:
    number of entries in the page. last: number of the last entry.
    """

    replays: Sequence[Replay]
    shipped: int
    entries: int
    last: int


def _gone() -> NotFound:
    return NotFound(
        "There is no such entry in this workspace's quarantine; it may already have been replayed."
    )
