"""The rows of stored outcomes in the event store, and their marks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import ceil
from time import monotonic, sleep
from typing import Any

import structlog

from penstock.base.chunks import chunks
from penstock.base.clock import LATEST_MS
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import WebsiteId
from penstock.funnels.outcomes.model import (
    Backlog,
    ChangedUnits,
    Copy,
    DuePosition,
    Mark,
    NotStorable,
    RowPosition,
    Subject,
    Unsettled,
)
from penstock.funnels.outcomes.policy import MANY_UNITS, SHORT_LOCK_S
from penstock.funnels.queries.engine import settings_of
from penstock.funnels.queries.profiles import read_profile
from penstock.funnels.statements import storing
from penstock.funnels.statements.query import DataProfile, Plan, QueryParams, Statement, Subset
from penstock.warehouse.client import Warehouse
from penstock.warehouse.connections import Progress
from penstock.warehouse.errors import ABORTED, QueryFailed
from penstock.warehouse.queries import load
from penstock.warehouse.work import Work

log = structlog.get_logger()

_SQL = "penstock.funnels.outcomes"
_UNITS_PER_STATEMENT = 20_000
_EVENTS_PER_FOLD = 32_000_000
"""Number of events whose evaluation takes about 3 GB of memory. More events are evaluated in
shares.
"""
_STOP_S = 10.0
"""Time that a build may take to stop, in seconds. A server that hangs takes 20 seconds longer."""
_PAUSE_S = 0.02
_FEW = DataProfile(0, None, None, has_provider_events=False, has_aliases=False)
"""Profile for statements that read only a few events."""


class OutcomeRows:
    """Fills, updates, compares and drops rows. Methods block, and raise `QueryFailed` and
    `StoreUnavailable`.

    is_embedded: whether the event store runs in this process. has_copies: whether servers of a
    cluster copy the rows from each other.
    """

    def __init__(self, warehouse: Warehouse, events_per_fold: int = _EVENTS_PER_FOLD) -> None:
        """Create the object.

        events_per_fold: maximum number of events to evaluate at once. Larger builds evaluate one
        share of the units at a time.
        """
        self._warehouse, self._events_per_fold = warehouse, events_per_fold
        self.is_embedded = warehouse.folder is not None
        self.has_copies = warehouse.cluster is not None
        self.has_stopped_merges = False

    def fill(self, subject: Subject, mark: Mark, shipment: int) -> Mark:
        """Store the outcomes of all units under `mark.build`, and return their mark.

        shipment: see `backlog`. Raises `NotStorable` if an event from a payment provider belongs to
        an attempt, and `Unsettled` like `refresh`.
        """
        server = self.copy().server
        # Read the profile later, so that it covers every event that is evaluated.
        backlog = self.backlog(subject.website_ids, None, shipment)
        profile = self._profile(subject, mark.read_until_ms)
        known = Subset(until_shipment=backlog.shipment)
        if profile.has_provider_events:
            plan = self._plan(subject, LATEST_MS, profile, known)
            [[events]] = self._run(storing.provider_events(plan))
            if events:
                raise NotStorable
            profile = replace(profile, has_provider_events=False)
        # Store entry values before the units that refer to them.
        self._store_events(subject, mark.build, known, profile)
        shares = max(1, ceil(profile.events / self._events_per_fold))
        for which in range(shares):
            share = replace(known, share=(shares, which) if shares > 1 else None)
            plan = self._plan(subject, mark.read_until_ms, profile, share)
            self._run(storing.store_units(plan, mark.build, backlog.shipment))
            plan = self._plan(subject, mark.read_until_ms, profile, share)
            self._run(storing.store_rest(plan, mark.build, backlog.shipment))
        try:
            self._run(storing.merge_parts(mark.build))
        except QueryFailed as error:
            if error.code != ABORTED:  # Another node has stopped merges, but the rows are complete.
                raise
        next_event_ms = self.next_event(subject, mark.read_until_ms)
        self._confirm(subject, backlog, server)
        return replace(
            mark,
            shipment=backlog.shipment,
            events=backlog.events_in_all,
            next_event_ms=next_event_ms,
        )

    def stop(self, work: Work) -> None:
        """Stop a build. Returns when none of its statements is running, or a server takes too long.

        The engine cannot kill a statement that merges parts, so merges are stopped until then. If
        they cannot be resumed, `has_stopped_merges` stays true.
        """
        until_s = monotonic() + _STOP_S
        work.stop()  # Stop the work first, so that its aborted merge raises `Stopped`.
        self.has_stopped_merges = True
        try:
            self._warehouse.command("SYSTEM STOP MERGES funnel_outcomes", at_once=True)
        except (QueryFailed, StoreUnavailable) as error:  # the running merge continues
            log.warning("merges_not_stopped", error=str(error))
            # The state of merges is unknown.
            self.has_stopped_merges = isinstance(error, StoreUnavailable)
        self._warehouse.stop(work, until_s)
        if self.has_stopped_merges:
            try:
                self.resume_merges()
            except (QueryFailed, StoreUnavailable) as error:
                log.warning("merges_not_resumed", error=str(error))

    def progress(self, work: Work) -> Progress:
        """Return the progress of a build."""
        return self._warehouse.progress(work)

    def resume_merges(self) -> None:
        """Let the engine merge parts again."""
        self._warehouse.command("SYSTEM START MERGES funnel_outcomes", at_once=True)
        self.has_stopped_merges = False

    def refresh(
        self,
        subject: Subject,
        mark: Mark,
        backlog: Backlog,
        changed: ChangedUnits,
        until_ms: int,
    ) -> Mark:
        """Evaluate changed units again. Returns the new mark.

        until_ms: later events are not read. Raises `Unsettled` if a server of a cluster failed.
        """
        if changed.is_empty:
            return replace(mark, shipment=backlog.shipment, events=backlog.events_in_all)
        server = self.await_copy()
        if backlog.events:
            new = Subset(after_shipment=mark.shipment, until_shipment=backlog.shipment)
            self._store_events(subject, mark.build, new, _FEW, changed)
        first_times = self._first_times(mark.build, changed.units, until_ms)
        for chunk in chunks(list(first_times), _UNITS_PER_STATEMENT):
            times = {unit: first_times[unit] for unit in chunk}
            # Start at the first event of these units, so that the cost does not grow with history.
            # Leave out newer shipments, because nobody would notice if they were deleted before
            # the next mark.
            subset = Subset(
                until_shipment=backlog.shipment, after_ms=min(times.values()) - 1, units=chunk
            )
            profile = replace(_FEW, first_event_ms=min(times.values()), last_event_ms=until_ms)
            plan = self._plan(subject, until_ms, profile, subset)
            self._run(storing.store_changed_units(plan, mark.build, backlog.shipment, times))
        self._confirm(subject, backlog, server)
        return replace(
            mark,
            shipment=backlog.shipment,
            events=backlog.events_in_all,
            read_until_ms=until_ms,
            next_event_ms=changed.next_event_ms,
        )

    def copy(self) -> Copy:
        """Return the state of the copy that statements read now."""
        if not self.has_copies:
            return Copy()
        return Copy(*self._warehouse.query(load(_SQL, "copy"))[1][0])

    def await_copy(self) -> str:
        """Wait until the server that responds has all rows, and return its ID.

        Raises `Unsettled` if it still lacks some after a second.
        """
        until_s = monotonic() + SHORT_LOCK_S
        while not (copy := self.copy()).is_complete:
            if monotonic() > until_s:
                raise Unsettled
            sleep(_PAUSE_S)
        return copy.server

    def _confirm(self, subject: Subject, backlog: Backlog, server: str) -> None:
        """Raise `Unsettled` unless all statements were run by one server and read all events.

        In a cluster, another replica may have taken over that lacks rows or events.
        """
        if not self.has_copies:
            return
        again = self.backlog(subject.website_ids, None, backlog.shipment)
        if self.copy().server != server or again.events_in_all != backlog.events_in_all:
            raise Unsettled

    def _first_times(
        self, build: str, units: Mapping[int, int], until_ms: int
    ) -> Mapping[int, int]:
        """Return the time of the first event of each unit, earliest first.

        Leaves out units whose first event is in the future. units: the time of the first new event,
        by unit.
        """
        first_times = dict(units)
        for chunk in chunks(list(units), _UNITS_PER_STATEMENT):
            for unit, first_ms in self._run(storing.first_times(build, chunk)):
                first_times[unit] = min(first_ms, first_times[unit])
        earliest_first = sorted(first_times.items(), key=lambda item: item[1])
        return {unit: first_ms for unit, first_ms in earliest_first if first_ms <= until_ms}

    def backlog(
        self, website_ids: Sequence[WebsiteId], mark: Mark | None, shipment: int
    ) -> Backlog:
        """Return the events since a mark, or all events if the mark is None.

        shipment: all shipments up to this number are complete, so later counts differ only if
        events were deleted.
        """
        known = 0 if mark is None else mark.shipment
        shipment = max(shipment, known)
        values = {"websites": list(website_ids), "known": known, "shipment": shipment}
        [[in_all, new]] = self._read("events_since", values)
        has_lost = mark is not None and in_all - new != mark.events
        return Backlog(new, shipment, in_all, has_lost)

    def newer_events(self, website_ids: Sequence[WebsiteId], shipment: int) -> int:
        """Return the number of events that later shipments have stored so far."""
        [[events]] = self._read(
            "newer_events", {"websites": list(website_ids), "shipment": shipment}
        )
        return int(events)

    def changed_units(
        self, subject: Subject, mark: Mark, backlog: Backlog, until_ms: int, max_units: int
    ) -> ChangedUnits | None:
        """Return the units that changed since a mark, or None if there are more than `max_units`.

        Raises `NotStorable` if an event from a payment provider belongs to one of these units.
        """
        # Include new events that are in the future: their values are stored now, although they
        # count only later.
        new = Subset(after_shipment=mark.shipment, until_shipment=backlog.shipment)
        subsets = [(new, LATEST_MS)]
        if 0 < mark.next_event_ms <= until_ms:
            subset = Subset(until_shipment=backlog.shipment, after_ms=mark.read_until_ms)
            subsets.append((subset, until_ms))
        units: dict[int, int] = {}
        future = [mark.next_event_ms] if mark.next_event_ms > until_ms else []
        for subset, end_ms in subsets:
            plan = self._plan(subject, end_ms, _FEW, subset)
            rows = self._run(storing.units_of(plan, max_units + 2, until_ms))
            for unit, first_ms, has_provider_event, next_ms in rows:
                if has_provider_event and unit:
                    raise NotStorable
                units[unit] = min(first_ms, units.get(unit, first_ms))
                if next_ms:
                    future.append(next_ms)
            if len(units) > max_units + 1:
                return None
        has_unitless = units.pop(0, None) is not None
        next_event_ms = min(future, default=0)
        if 0 < mark.next_event_ms <= until_ms:  # The next event is not known.
            next_event_ms = self.next_event(subject, until_ms)
        return ChangedUnits(units, has_unitless, next_event_ms)

    def changed_rows(
        self, since: RowPosition, entered_from_ms: int, max_rows: int
    ) -> list[tuple[int, int]]:
        """Return the version and unit of the rows that follow a position, in this order.

        entered_from_ms: time of entry from which the units of rows before `base` count.
        """
        values = {**since._asdict(), "entered_from_ms": entered_from_ms, "max_rows": max_rows}
        return [(version, unit) for version, unit in self._read("changed_rows", values)]

    def units_between(
        self, subject: Subject, after_ms: int, until_ms: int, until_shipment: int
    ) -> list[int]:
        """Return the units with an event in a period, of the shipments up to one."""
        plan = self._plan(
            subject, until_ms, _FEW, Subset(until_shipment=until_shipment, after_ms=after_ms)
        )
        rows = self._run(storing.units_of(plan, MANY_UNITS, until_ms))
        return [unit for unit, *_ in rows if unit]

    def due_units(
        self, build: str, steps: int, after: DuePosition, until_ms: int, max_rows: int
    ) -> list[DuePosition]:
        """Return the units that entered up to a time and are neither complete nor excluded.

        They follow a position. Some may have newer rows, which say otherwise.
        """
        values = {
            **after._asdict(),
            "build": build,
            "steps": steps,
            "until_ms": until_ms,
            "max_rows": max_rows,
        }
        return [DuePosition(entry_ms, unit) for entry_ms, unit in self._read("due_units", values)]

    def _read(self, name: str, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return self._warehouse.query(load(_SQL, name), values)[1]

    def agrees(self, subject: Subject, mark: Mark, share: tuple[int, int]) -> bool | None:
        """Whether the rows of a share of the units agree with their events up to the mark.

        Returns None if events were deleted in the meantime, or if the server that responds lacks
        rows. share: see `Subset`.
        """
        copy = self.copy()
        profile = self._profile(subject, mark.read_until_ms)
        profile = replace(profile, has_provider_events=False)  # No provider events match.
        plan = self._plan(
            subject, mark.read_until_ms, profile, Subset(until_shipment=mark.shipment, share=share)
        )
        [events] = self._run(storing.digest_of_events(plan))
        [rows] = self._run(storing.digest_of_rows(mark.build, share))
        has_lost = self.backlog(subject.website_ids, mark, mark.shipment).has_lost
        if has_lost or not copy.is_complete or copy.server != self.copy().server:
            return None
        return list(events) == list(rows)

    def next_event(self, subject: Subject, after_ms: int) -> int:
        """Return the time of the first event after `after_ms`, or 0 if there is none."""
        plan = self._plan(subject, LATEST_MS, _FEW, Subset(after_ms=after_ms))
        [[first_ms]] = self._run(storing.first_event(plan))
        return int(first_ms)

    def has_event_between(self, subject: Subject, after_ms: int, until_ms: int) -> bool:
        """Whether an event of the subject occurred after the first time, and up to the second."""
        return after_ms < until_ms and 0 < self.next_event(subject, after_ms) <= until_ms

    def _store_events(
        self,
        subject: Subject,
        build: str,
        subset: Subset,
        profile: DataProfile,
        changed: ChangedUnits | None = None,
    ) -> None:
        """Store entry values and events without a unit, including events of the future.

        changed: the units that the events change; None if they are not known.
        """
        if subject.definition.breakdown_properties and (changed is None or changed.units):
            plan = self._plan(subject, LATEST_MS, profile, subset)
            self._run(storing.store_values(plan, build))
        if changed is None or changed.has_unitless:
            plan = self._plan(subject, LATEST_MS, profile, subset)
            self._run(storing.store_unitless(plan, build))

    def _profile(self, subject: Subject, until_ms: int) -> DataProfile:
        params = QueryParams(subject.website_ids, (), None, None, until_ms)
        return read_profile(self._warehouse, params)

    def _plan(self, subject: Subject, until_ms: int, profile: DataProfile, subset: Subset) -> Plan:
        return storing.plan_of(
            subject.definition, subject.website_ids, profile, read_until_ms=until_ms, subset=subset
        )

    def _run(self, statement: Statement) -> Sequence[Sequence[Any]]:
        return self._warehouse.query(statement.sql, statement.parameters, settings_of(statement))[1]

    def marks(self) -> list[Mark]:
        return [Mark(*row) for row in self._warehouse.query(load(_SQL, "marks"))[1]]

    def newest_mark(self, outcome: str) -> Mark:
        """Return the newest mark of an outcome, which is empty if there are no rows in use."""
        rows = self._warehouse.query(load(_SQL, "mark"), {"outcome": outcome})[1]
        return Mark(*rows[0]) if rows else Mark.empty(outcome)

    def save(self, mark: Mark) -> None:
        self._warehouse.query(load(_SQL, "save_mark"), asdict(mark))

    def builds(self) -> set[str]:
        """Return all builds that have rows."""
        return {build for (build,) in self._warehouse.query(load(_SQL, "builds"))[1]}

    def newest_shipment(self, build: str) -> int | None:
        """Return the newest shipment that the build's rows include; None if there are no rows."""
        [[rows, newest]] = self._warehouse.query(load(_SQL, "newest"), {"build": build})[1]
        return int(newest) if rows else None

    def drop(self, builds: Iterable[str]) -> None:
        for build in builds:
            for table in ("funnel_outcomes", "funnel_outcome_values", "funnel_outcome_unitless"):
                self._warehouse.command(
                    f"ALTER TABLE {table} DROP PARTITION {{build:String}}", {"build": build}
                )
