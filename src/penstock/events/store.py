"""SQL for the rows that the intake writes, such as counts and the outbox."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import json
from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from penstock.base.chunks import chunks
from penstock.base.ids import ImportId, WebsiteId
from penstock.events.device_clock import DeviceClock
from penstock.events.model import EventCounts, Target
from penstock.events.repeats import store as repeats_store
from penstock.events.repeats.model import number_ms
from penstock.events.rows import traits_row
from penstock.identity.model import Alias, IdentityChanges, TraitsChange
from penstock.metadb.rows import insert_rows, select_rows
from penstock.metadb.tables import (
    daily_events,
    device_clocks,
    event_counts,
    imports,
    installation,
    lost_events,
    outbox,
    property_keys,
    websites,
)

_CLOCKS_PER_DELETE = 1000
_BUNDLE_CHARS = 256 * 1024
_TRAITS_PER_BUNDLE = 100

_SET_DEVICE_CLOCK = text(
    "INSERT INTO device_clocks (device, ahead_ms, confirmed_at) "
    "VALUES (:device, :ahead_ms, :confirmed_at_ms) ON CONFLICT (device) DO UPDATE SET "
    "ahead_ms = excluded.ahead_ms, confirmed_at = excluded.confirmed_at"
)
_OLDEST_DEVICE_CLOCKS = (
    select(device_clocks.c.device)
    .where(device_clocks.c.confirmed_at < bindparam("before"))
    .order_by(device_clocks.c.confirmed_at)
    .limit(_CLOCKS_PER_DELETE)
)

_NAMES = EventCounts._fields
_ADD_COUNTS = text(
    f"INSERT INTO event_counts (website_id, newest_number, {', '.join(_NAMES)}) "  # noqa: S608 - names of columns
    f"VALUES (:website_id, :newest_number, {', '.join(f':{name}' for name in _NAMES)}) "
    "ON CONFLICT (website_id) DO UPDATE SET newest_number = CASE "
    "WHEN excluded.newest_number > event_counts.newest_number THEN excluded.newest_number "
    "ELSE event_counts.newest_number END, "
    + ", ".join(f"{name} = event_counts.{name} + excluded.{name}" for name in _NAMES)
)

_ADD_LOST_EVENTS = text(
    "INSERT INTO lost_events (website_id, day, events) VALUES (:website_id, :day, :events) "
    "ON CONFLICT (website_id, day) DO UPDATE SET events = lost_events.events + excluded.events"
)

_LOST_EVENTS = select(func.sum(lost_events.c.events)).where(
    lost_events.c.website_id.in_(bindparam("websites", expanding=True)),
    lost_events.c.day.between(bindparam("first"), bindparam("last")),
)

_COUNT_EVENTS = """
    INSERT INTO daily_events (website_id, day, events) VALUES ({values})
    ON CONFLICT (website_id, day) DO UPDATE SET events = daily_events.events + excluded.events
    RETURNING events
"""
_DELETE_OLD_COUNTS = delete(daily_events).where(
    daily_events.c.website_id.in_(bindparam("websites", expanding=True)),
    daily_events.c.day < bindparam("before"),
)


UNDONE = "undone"
"""State of an import that was undone."""


def undone_imports(
    connection: Connection, import_ids: Collection[ImportId], *, lock: bool = False
) -> set[ImportId]:
    """Return those of the imports that were undone.

    lock: whether none of the others can be undone before the transaction ends.
    """
    if not import_ids:
        return set()
    c = imports.c
    query = select(c.id, c.state).where(c.id.in_(import_ids)).order_by(c.id)
    rows = connection.execute(query.with_for_update(read=True) if lock else query)
    return {ImportId(import_id) for import_id, state in rows if state == UNDONE}


def put_in_outbox(
    connection: Connection, event_rows: Sequence[str], changes: IdentityChanges, now_ms: int
) -> None:
    """Put the rows of a commit into the outbox, in a few large bundles.

    Separate outbox rows for each event took a third of the intake's time.
    """
    put_aliases_in_outbox(connection, changes.aliases, now_ms)
    put_traits_in_outbox(connection, changes.traits, now_ms)
    put_rows_in_outbox(connection, Target.EVENTS, event_rows, now_ms)


def put_aliases_in_outbox(connection: Connection, aliases: Collection[Alias], now_ms: int) -> None:
    merges = [json.encode(alias._asdict()).decode() for alias in aliases]
    put_rows_in_outbox(connection, Target.ALIASES, merges, now_ms)


def put_traits_in_outbox(
    connection: Connection, changes: Sequence[TraitsChange], now_ms: int
) -> None:
    """Put the traits of visitors into the outbox. The number of a bundle is their version.

    The caller must have locked the visitors' users, so that later changes get higher numbers.
    """
    for chunk in chunks(changes, _TRAITS_PER_BUNDLE):
        number = connection.execute(
            insert(outbox)
            .values(target=Target.TRAITS, lines="", put_at=now_ms)
            .returning(outbox.c.id)
        ).scalar_one()
        lines = "\n".join(traits_row(change, number) for change in chunk)
        connection.execute(update(outbox).where(outbox.c.id == number).values(lines=lines))


def put_rows_in_outbox(
    connection: Connection, target: Target, rows: Sequence[str], now_ms: int
) -> None:
    """Put rows of one table into the outbox. rows: JSON objects as strings."""
    bundles = [(target, lines, now_ms) for lines in _bundles(rows)]
    insert_rows(connection, outbox, ("target", "lines", "put_at"), bundles)


def _bundles(rows: Sequence[str]) -> Iterator[str]:
    start = chars = 0
    for index, row in enumerate(rows):
        if chars + len(row) > _BUNDLE_CHARS and index > start:
            yield "\n".join(rows[start:index])
            start, chars = index, 0
        chars += len(row)
    if rows:
        yield "\n".join(rows[start:])


def count_events(
    connection: Connection, day: int, events: Mapping[WebsiteId, int]
) -> dict[WebsiteId, int]:
    """Add to the counts of a day, and return the new counts. day: days since 1970-01-01 UTC.

    The first count of a day deletes the website's earlier days, using the primary key. Yesterday's
    count remains, because a node whose clock is behind may still add to it.

    Rows are changed in the order of website IDs, so that nodes wait for each other instead of
    deadlocking.
    """
    placeholder = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    statement = _COUNT_EVENTS.format(values=", ".join([placeholder] * 3))
    counts = {
        website_id: connection.exec_driver_sql(statement, (website_id, day, number)).scalar_one()
        for website_id, number in sorted(events.items())
    }
    first_today = [site for site, count in counts.items() if count == events[site]]
    for chunk in chunks(first_today):
        connection.execute(_DELETE_OLD_COUNTS, {"websites": chunk, "before": day - 1})
    return counts


def events_of_day(connection: Connection, website_id: WebsiteId, day: int) -> int:
    c = daily_events.c
    count = select(c.events).where(c.website_id == website_id, c.day == day)
    return connection.execute(count).scalar() or 0


def add_counts(
    connection: Connection, changes: Mapping[WebsiteId, EventCounts], newest_number: int = 0
) -> None:
    """Add to the event counts of websites. Call this late in a transaction, because it locks rows.

    changes: numbers to add, by website; negative numbers subtract. newest_number: the highest
    number of new events.
    """
    # Sort by ID, so that nodes wait for each other instead of deadlocking.
    rows = [
        {"website_id": website_id, "newest_number": newest_number, **counts._asdict()}
        for website_id, counts in sorted(changes.items())
    ]
    if rows:
        connection.execute(_ADD_COUNTS, rows)


def counts_of(connection: Connection, website_ids: Collection[str]) -> dict[str, EventCounts]:
    """Return event counts by website ID. Websites without events are omitted."""
    columns = [event_counts.c[name] for name in EventCounts._fields]
    rows = connection.execute(
        select(event_counts.c.website_id, *columns).where(
            event_counts.c.website_id.in_(website_ids)
        )
    )
    return {website_id: EventCounts(*numbers) for website_id, *numbers in rows}


def add_lost_events(
    connection: Connection, day: int, changes: Mapping[WebsiteId, EventCounts]
) -> None:
    """Add `lost_on_devices` to a day. Call this after `add_counts`, which locks these websites."""
    rows = [
        {"website_id": website_id, "day": day, "events": counts.lost_on_devices}
        for website_id, counts in changes.items()
        if counts.lost_on_devices
    ]
    if rows:
        connection.execute(_ADD_LOST_EVENTS, rows)


def lost_events_of(
    connection: Connection, website_ids: Collection[str], first_day: int, last_day: int
) -> int:
    """Return the number of dropped events that clients reported from `first_day` to `last_day`."""
    parameters = {"websites": list(website_ids), "first": first_day, "last": last_day}
    return int(connection.execute(_LOST_EVENTS, parameters).scalar() or 0)


def known_property_keys(
    connection: Connection, website_id: WebsiteId, hashes: Sequence[int]
) -> set[int]:
    """Return those of the given property key hashes that the website already has."""
    where = {"website_id": website_id}
    rows = select_rows(connection, property_keys, ("key_hash",), where, "key_hash", hashes)
    return {key_hash for (key_hash,) in rows}


def lock_property_keys(connection: Connection, website_id: WebsiteId) -> int:
    """Count the website's property keys. No other node can add keys until the commit."""
    connection.execute(select(websites.c.id).where(websites.c.id == website_id).with_for_update())
    number = select(func.count()).where(property_keys.c.website_id == website_id)
    return connection.execute(number).scalar_one()


def add_property_keys(connection: Connection, website_id: WebsiteId, hashes: Sequence[int]) -> None:
    rows = [(website_id, key_hash) for key_hash in hashes]
    insert_rows(connection, property_keys, ("website_id", "key_hash"), rows)


def device_clocks_of(connection: Connection, devices: Sequence[bytes]) -> dict[bytes, DeviceClock]:
    """Return the known clocks of the given devices. Clocks that seem right are omitted."""
    columns = ("device", "ahead_ms", "confirmed_at")
    rows = select_rows(connection, device_clocks, columns, {}, "device", devices)
    return {device: DeviceClock(*clock) for device, *clock in rows}


def set_device_clocks(connection: Connection, clocks: Mapping[bytes, DeviceClock | None]) -> None:
    """Save device clocks, sorted by device, so that nodes wait instead of deadlocking.

    clocks: known clock by device; None if the clock is right.
    """
    wrong = [
        {"device": device, **clock._asdict()} for device, clock in sorted(clocks.items()) if clock
    ]
    if wrong:
        connection.execute(_SET_DEVICE_CLOCK, wrong)
    for devices in chunks(sorted(device for device, clock in clocks.items() if clock is None)):
        connection.execute(delete(device_clocks).where(device_clocks.c.device.in_(devices)))


def forget_device_clocks(connection: Connection, before_ms: int) -> bool:
    """Delete some clocks last confirmed before the given time. Returns whether more may remain."""
    expired = connection.execute(_OLDEST_DEVICE_CLOCKS, {"before": before_ms}).scalars().all()
    for devices in chunks(expired):
        connection.execute(delete(device_clocks).where(device_clocks.c.device.in_(devices)))
    return len(expired) == _CLOCKS_PER_DELETE


def last_id_ms(connection: Connection) -> int:
    """Return the approximate time in the ID of the last event; 0 if there are no events."""
    newest_bundle = select(outbox.c.put_at).order_by(outbox.c.id.desc()).limit(1)
    return max(
        number_ms(repeats_store.newest_number(connection)),
        connection.execute(newest_bundle).scalar() or 0,
    )


def track_split_ms(connection: Connection) -> int:
    """Return when keyed and public posts to /api/track last shared dedupe keys; 0 if they never
    did.
    """
    return connection.execute(select(installation.c.track_split_at)).scalar() or 0


def highest_bundle(connection: Connection) -> int:
    """Return the highest current ID of an outbox bundle; 0 if there are none."""
    return connection.execute(select(func.max(outbox.c.id))).scalar() or 0
