"""A profile that new inserts update equals a profile that is read from all events."""

from random import Random

import pytest

from penstock.base.ids import ScopeId, WebsiteId
from penstock.funnels.queries.profiles import ProfileReader
from penstock.funnels.queries.versions import VersionReader, VersionScope
from penstock.funnels.statements.query import DataProfile, QueryParams
from penstock.warehouse.client import Warehouse
from tests.cases import full_except
from tests.one_server import one_server
from tests.recording_warehouse import RecordingWarehouse

pytestmark = one_server("a cluster keeps no profiles")

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
WEBSITES = (WebsiteId("profile_one"), WebsiteId("profile_other"))
SCOPES = (ScopeId("profile_scope"),)
INSERT = """
INSERT INTO events (website_id, kind, name, occurred_at, event_id, source, scope_id)
SELECT website, 'event', 'A', fromUnixTimestamp64Milli(at), toString(at), source, 'profile_scope'
FROM (SELECT {websites:Array(String)} AS ws, {times:Array(Int64)} AS ts,
    {sources:Array(String)} AS ss)
ARRAY JOIN ws AS website, ts AS at, ss AS source"""
DELETE = """
ALTER TABLE events DELETE
WHERE website_id LIKE 'profile_%' AND toUnixTimestamp64Milli(occurred_at) % 5 = {rest:Int64}
SETTINGS mutations_sync = 1"""
MERGE_VISITORS = """
INSERT INTO visitor_aliases (scope_id, visitor_id, canonical_id, version)
VALUES ('profile_scope', 'a', 'b', 1)"""
FULL_SCAN = """
WITH toUnixTimestamp64Milli(occurred_at) AS at, at <= {evaluated_at:Int64} AS is_read
SELECT countIf(is_read), minIfOrNull(at, is_read), maxIfOrNull(at, is_read),
    countIf(is_read AND source = 'provider') > 0,
    minIfOrNull(at, is_read AND at >= {history_from:Int64}), minIfOrNull(at, NOT is_read),
    maxIfOrNull(at, NOT is_read),
    minIfOrNull(at, is_read AND at >= {open_from:Int64} AND at < {open_until:Int64})
FROM events WHERE website_id IN {websites:Array(String)}"""


@pytest.mark.parametrize("seed", full_except([0], range(4), "more random changes"))
def test_an_updated_profile_equals_a_full_scan(warehouse: Warehouse, seed: int) -> None:
    random = Random(seed)
    versions, profiles = VersionReader(warehouse), ProfileReader(warehouse)
    warehouse.command("ALTER TABLE events DELETE WHERE website_id LIKE 'profile_%'")
    for _ in range(12):
        change(warehouse, random)
        params, window_s = random_query(random)
        version = versions.read(VersionScope(params.website_ids, params.scope_ids))
        profile = profiles.read(params, window_s, version)
        assert profile == scanned(warehouse, params, window_s, has_aliases=version.aliases > 0)


def test_an_insert_causes_only_its_days_to_be_read_again(warehouse: Warehouse) -> None:
    recording = RecordingWarehouse(warehouse)
    versions, profiles = VersionReader(recording), ProfileReader(recording)
    spans = list[tuple[int, int]]()
    query = recording.query

    def noting(sql, parameters=None, settings=None):
        if "AND occurred_at >= fromUnixTimestamp64Milli({first:Int64})" in sql:
            spans.append((parameters["first"], parameters["last"]))
        return query(sql, parameters, settings)

    recording.query = noting  # type: ignore[method-assign]
    params = QueryParams((WebsiteId("profile_days"),), (), None, None, NOW_MS)
    times = [NOW_MS - day * DAY_MS - hour * 3_600_000 for day in range(30) for hour in (0, 1)]
    for at_ms in (times, [NOW_MS - 5_000]):
        insert(warehouse, [(params.website_ids[0], ms, "server") for ms in at_ms])
        profile = profiles.read(
            params, 7 * 86_400, versions.read(VersionScope(params.website_ids, ()))
        )
    assert profile.events == 61
    whole, *others = spans
    assert whole[0] == 0
    assert all(last - first < DAY_MS for first, last in others)


def change(warehouse: Warehouse, random: Random) -> None:
    """Perform an insert, a deletion, a merge of parts or a merge of visitors."""
    kind = random.choices(("insert", "delete", "parts", "visitors"), (8, 2, 1, 1))[0]
    if kind == "delete":
        warehouse.command(DELETE, {"rest": random.randrange(5)})
    elif kind == "parts":
        warehouse.command("OPTIMIZE TABLE events FINAL")
    elif kind == "visitors":
        warehouse.command(MERGE_VISITORS)
    else:
        events = [
            (
                random.choice(WEBSITES),
                random_moment(random),
                random.choices(("server", "import", "provider"), (20, 5, 1))[0],
            )
            for _ in range(random.randrange(1, 30))
        ]
        insert(warehouse, events)


def insert(warehouse: Warehouse, events: list[tuple[WebsiteId, int, str]]) -> None:
    websites, times, sources = zip(*events, strict=True)
    warehouse.command(
        INSERT, {"websites": list(websites), "times": list(times), "sources": list(sources)}
    )


def random_moment(random: Random) -> int:
    """A time near now, at the edge of a day, years ago or, rarely, from an unset clock."""
    days = random.choices((2, 20, 2_000, 19_000), (10, 5, 2, 1))[0]
    at_ms = NOW_MS + random.randrange(-days * 1_000, 1_000) * (DAY_MS // 1_000)
    return at_ms - at_ms % DAY_MS + random.choice((-1, 0)) if random.random() < 0.2 else at_ms


def random_query(random: Random) -> tuple[QueryParams, int | None]:
    start_ms, end_ms = None, None
    if random.random() < 0.5:
        start_ms, end_ms = sorted(random_moment(random) for _ in range(2))
    websites = random.choice((WEBSITES, WEBSITES[:1]))
    window_s = random.choice((None, 1, 3_600, 7 * 86_400, 400 * 86_400))
    evaluated_at_ms = NOW_MS + random.choice((0, 1, -3_600_000, DAY_MS))
    return QueryParams(websites, SCOPES, start_ms, end_ms, evaluated_at_ms), window_s


def scanned(
    warehouse: Warehouse, params: QueryParams, window_s: int | None, *, has_aliases: bool
) -> DataProfile:
    """The same profile from one statement over all events."""
    open_from_ms = params.evaluated_at_ms - (window_s or 0) * 1000
    moments = {
        "evaluated_at": params.evaluated_at_ms,
        "history_from": (params.start_ms or 0) - 2 * 366 * DAY_MS,
        "open_from": max(open_from_ms, params.start_ms or 0),
        "open_until": 2**62 if params.end_ms is None else params.end_ms,
    }
    [row] = warehouse.query(FULL_SCAN, {"websites": list(params.website_ids), **moments})[1]
    events, first, last, has_provider, history, next_event, last_event, first_open = row
    changes = [] if next_event is None else [next_event - 1]
    if window_s is not None and first_open is not None:
        changes.append(first_open + window_s * 1000)
    return DataProfile(
        events=events,
        first_event_ms=first,
        last_event_ms=last,
        has_provider_events=bool(has_provider),
        has_aliases=has_aliases,
        holds_until_ms=min(changes, default=None),
        history_start_ms=history,
        future_until_ms=last_event,
    )
