"""Checks a backup's files, and compares both stores with each other. The checks change nothing."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

from msgspec import json

from penstock.backup import store
from penstock.backup.model import Finding
from penstock.backup.service import DATA, read_manifest
from penstock.backup.tree import damaged_files
from penstock.base.chunks import chunks
from penstock.base.clock import system_clock
from penstock.base.errors import StoreUnavailable
from penstock.base.ids import WebsiteId
from penstock.base.scalar import scalar_texts
from penstock.base.wording import count_of
from penstock.events.losses.newest_shipments import (
    accept_lost_entries,
    lost_entries,
    newest_shipments,
)
from penstock.events.losses.service import LossService
from penstock.events.model import Target
from penstock.metadb.database import STORE_DAMAGED, Database
from penstock.stores import Stores
from penstock.warehouse import migrations
from penstock.warehouse.catalogue import rebuild_catalogue
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import WAREHOUSE_DAMAGED, QueryFailed
from penstock.warehouse.queries import load

_SQL = "penstock.backup"
_EXAMPLES = 5
_POLL_S = 0.05


def verify_backup(folder: Path) -> Iterator[Finding]:
    """Check that all files of a backup exist and are unchanged. Raises `BackupFailed`."""
    manifest = read_manifest(folder)
    damaged = list(damaged_files(manifest, folder / DATA))
    size = sum(file.size for file in manifest.files)
    yield _finding(
        "files", damaged, f"{count_of(len(manifest.files), 'file')}, {count_of(size, 'byte')}"
    )
    for table, rows in manifest.stored_rows.items():
        yield Finding("event store", f"{count_of(rows, 'row')} of {table}")
    yield Finding("metadata database", count_of(sum(manifest.rows.values()), "row"))


def verify_stores(stores: Stores, *, accept_loss: bool = False) -> Iterator[Finding]:
    """Run all checks on open stores that no service uses.

    accept_loss: first record missing event rows as permanently lost.
    """
    database, warehouse = stores
    schemas = list(_schemas(database, warehouse))
    yield from schemas
    if any(finding.problem for finding in schemas):
        return
    if accept_loss:
        yield from _accept_loss(database, warehouse)
    for check in _CHECKS:
        try:
            yield from check(database, warehouse)
        except (QueryFailed, StoreUnavailable) as error:
            damages = (WAREHOUSE_DAMAGED, STORE_DAMAGED)
            if isinstance(error, StoreUnavailable) and error.code not in damages:
                raise
            # A part or page is damaged. Other checks may still succeed.
            name = check.__name__.strip("_").replace("_", " ")
            reason = error.reason if isinstance(error, StoreUnavailable) else str(error)
            yield Finding(name, f"cannot be read: {reason.splitlines()[0]}", problem=True)


def _schemas(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    with database.read() as connection:
        version = store.schema_version(connection)
    newest = Database.known_versions()[-1]
    advice = (
        "run penstock migrate"
        if version in Database.known_versions()
        else "it is from a newer Penstock"
    )
    yield Finding(
        "schema of the metadata database",
        version if version == newest else f"{version}, not {newest}: {advice}",
        version != newest,
    )
    current, known = migrations.current_version(warehouse), migrations.migrations()[-1].version
    yield Finding(
        "schema of the event store",
        str(current) if current == known else f"{current}, not {known}",
        current != known,
    )


def _database_file(database: Database, _: Warehouse) -> Iterator[Finding]:
    if database.is_sqlite:
        with database.read() as connection:
            yield _finding("metadata database", store.file_errors(connection), "no damage")


def _accept_loss(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    """Record lost events as accepted, and rebuild the catalogue, which still counts them."""
    newest = newest_shipments(database, warehouse)
    if newest.is_database_behind:
        accept_lost_entries(database, newest, system_clock)
        yield Finding("loss", "the newest entries of the metadata database accepted as lost")
    losses = LossService(database, warehouse, system_clock)
    comparison = losses.compare()
    if comparison is None or not comparison.missing:
        yield Finding("loss", "no rows of events are missing; nothing to accept")
        return
    with database.read() as connection:
        websites = [WebsiteId(website_id) for website_id in store.scopes_of_websites(connection)]
    for chunk in chunks(websites):
        rebuild_catalogue(warehouse, chunk, partial(sleep, _POLL_S))
    yield Finding("loss", f"{count_of(losses.accept(), 'missing row')} of events accepted as lost")


def _newest_shipments(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    newest = newest_shipments(database, warehouse)
    if newest.is_database_behind:
        yield Finding("newest shipments", lost_entries(database, newest), problem=True)
    elif newest.is_event_store_behind:
        text = (
            f"the event store has {newest.event_store}, the metadata database {newest.database}: "
            "the event store is an older copy"
        )
        yield Finding("newest shipments", text, problem=True)
    else:
        yield Finding("newest shipments", "both stores agree")


def _rows_of_events(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    comparison = LossService(database, warehouse, system_clock).measure()
    if comparison is None:
        yield Finding("rows of events", "not compared: deletions are running")
        return
    rows, missing = comparison.rows, comparison.missing
    lost = (
        f"{missing:,} of {count_of(rows + missing, 'row')} {'is' if missing == 1 else 'are'} "
        "missing: restore a backup, or record the loss with penstock verify --accept-loss"
    )
    text = lost if missing else f"{count_of(rows, 'row')}, none missing"
    yield Finding("rows of events", text, bool(missing))


def _parts(_: Database, warehouse: Warehouse) -> Iterator[Finding]:
    """Make the engine compare every part with its checksums."""
    for table, _uuid in warehouse.query(load("penstock.warehouse", "stored_tables"))[1]:
        [(passed,)] = warehouse.query(
            f"CHECK TABLE {table} SETTINGS check_query_single_value_result = 1"
        )[1]
        intact = int(passed) == 1
        text = "no damage" if intact else "at least one part is damaged; the log has the reason"
        yield Finding(f"parts of {table}", text, not intact)


def _rows(_: Database, warehouse: Warehouse) -> Iterator[Finding]:
    for table in ("events", "clicks"):
        [(rows,)] = warehouse.query(f"SELECT count() FROM {table}")[1]  # noqa: S608 - two names
        [(repeats,)] = warehouse.query(load(_SQL, f"repeated_{table}"))[1]
        repeated = f"{repeats:,} {'is' if repeats == 1 else 'are'} stored twice"
        yield Finding(table, repeated if repeats else f"{rows:,} stored, none twice", bool(repeats))


def _owners(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    """Find events of unknown websites and scopes, and clicks on unknown links."""
    with database.read() as connection:
        scopes = store.scopes_of_websites(connection)
        links = store.link_ids(connection)
    events = warehouse.query(load(_SQL, "events_of_websites"))[1]
    unknown = [
        f"{count_of(count, 'event')} of website {website_id} in scope {scope_id}"
        for website_id, scope_id, count in events
        if scope_id not in scopes.get(website_id, ())
    ]
    yield _finding("websites of events", unknown, "all known")
    clicks = warehouse.query(load(_SQL, "clicks_of_links"))[1]
    unknown = [
        f"{count_of(count, 'click')} on link {link}" for link, count in clicks if link not in links
    ]
    yield _finding("links of clicks", unknown, "all known")


def _accepted_events(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    """Check that every accepted event is stored or waits in the outbox.

    Events in deleted periods and losses that an operator accepted are not reported.
    """
    with database.read() as connection:
        waiting, deleted = _waiting_ids(connection), store.events_deleted_by_period(connection)
        lost_rows = store.accepted_losses(connection)
        missing: list[str] = []
        keys = 0
        for event_ids in store.event_ids_of_keys(connection):
            keys += len(event_ids)
            span = {"first": min(event_ids), "last": max(event_ids)}
            rows = warehouse.query(load(_SQL, "stored_event_ids"), span)[1]
            missing += sorted(event_ids - {row[0] for row in rows} - waiting)
    if len(missing) <= deleted + lost_rows:
        kind = "deleted periods or accepted losses" if lost_rows else "deleted periods"
        text = f"{count_of(keys, 'ID')}, {len(missing):,} of them of {kind}"
        yield Finding("accepted events", text)
    else:
        lost = (
            f"{count_of(len(missing), 'accepted event')} {'is' if len(missing) == 1 else 'are'} "
            f"missing; periods with {deleted:,} were deleted"
        )
        yield _finding("accepted events", [lost, *missing], "")


def _merges(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    with database.read() as connection:
        if store.is_pending(connection, Target.ALIASES):
            yield Finding("merges", "not compared: some wait in the outbox, or a deletion runs")
            return
        expected = set(store.absorbed_visitors(connection))
    stored = {tuple(row) for row in warehouse.query(load(_SQL, "stored_aliases"))[1]}
    differences = [
        *(f"{absorbed} is not merged in the event store" for _, absorbed, _ in expected - stored),
        *(f"{absorbed} is merged only in the event store" for _, absorbed, _ in stored - expected),
    ]
    yield _finding("merges", differences, count_of(len(expected), "merged visitor"))


def _traits(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    with database.read() as connection:
        if store.is_pending(connection, Target.TRAITS):
            yield Finding("traits", "not compared: some wait in the outbox, or a deletion runs")
            return
        expected = {
            (scope, visitor): texts
            for scope, visitor, traits in store.traits(connection)
            if (texts := scalar_texts(traits))
        }
    rows = warehouse.query(load(_SQL, "stored_traits"))[1]
    stored = {(scope, visitor): dict(texts) for scope, visitor, texts in rows}
    differences = [
        f"the traits of {visitor} differ in the event store"
        for scope, visitor in sorted(expected.keys() | stored.keys())
        if expected.get((scope, visitor)) != stored.get((scope, visitor))
    ]
    yield _finding("traits", differences, count_of(len(expected), "visitor"))


def _catalogue(database: Database, warehouse: Warehouse) -> Iterator[Finding]:
    """Compare the catalogue with the events, except during deletions.

    A running deletion removes events first, and then counts the remaining events again.
    """
    with database.read() as connection:
        changing = sorted(store.websites_of_running_deletions(connection))
    parameters = {"except": changing}
    [(difference,)] = warehouse.query(load(_SQL, "catalogue_differences"), parameters)[1]
    text = "counts as many events as are stored"
    if changing:
        text += f"; {count_of(len(changing), 'website')} not compared: a deletion runs"
    yield Finding(
        "catalogue",
        f"differs by {count_of(difference, 'event')}" if difference else text,
        bool(difference),
    )


def _metadata_references(database: Database, _: Warehouse) -> Iterator[Finding]:
    with database.read() as connection:
        yield _finding("shipments", store.broken_shipments(connection), "complete")
        yield _finding("user links", store.broken_user_links(connection), "lead to visitors")
        yield _finding("counts of events", store.unbalanced_counts(connection), "add up")


_CHECKS: tuple[Callable[[Database, Warehouse], Iterator[Finding]], ...] = (
    _database_file,
    _parts,
    _newest_shipments,
    _rows_of_events,
    _rows,
    _owners,
    _accepted_events,
    _merges,
    _traits,
    _catalogue,
    _metadata_references,
)


def _waiting_ids(connection: Any) -> set[str]:
    """Return the IDs of the events in the outbox."""
    return {
        json.decode(line)["event_id"]
        for bundle in store.waiting_events(connection)
        for line in bundle.splitlines()
        if line
    }


def _finding(check: str, problems: Collection[str], otherwise: str) -> Finding:
    if not problems:
        return Finding(check, otherwise)
    shown = "; ".join(list(problems)[:_EXAMPLES])
    more = len(problems) - _EXAMPLES
    return Finding(check, shown + (f"; and {more:,} more" if more > 0 else ""), True)
