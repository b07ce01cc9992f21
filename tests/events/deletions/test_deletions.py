"""Deletions over HTTP: removed data, data that stays, and coverage. Source: interface, rule 16."""

import gzip
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient
from sqlalchemy import func, select

from penstock.app import Services, build_services
from penstock.base.clock import iso
from penstock.base.ids import new_id
from penstock.events.deletions import warehouse_deletion, worker
from penstock.events.imports import worker as import_worker
from penstock.events.imports.formats.ndjson import NDJSON
from penstock.events.imports.formats.reader import ReaderLimits, Row
from penstock.events.imports.worker import BATCH_LINES
from penstock.metadb.database import Database
from penstock.metadb.tables import merges, user_links, visitors
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed
from tests.answers import body_of, columns_of, faults, problem, values_of
from tests.applications import application
from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.events.conftest import finished as import_finished
from tests.events.conftest import imported, ndjson, read_rows_by, upload
from tests.events.deletions.conftest import Delete, Json, finished, request_deletion
from tests.events.event_keys import all_keys
from tests.funnels.scenario import Scene
from tests.records import new_website
from tests.tenant import BASE_URL, Tenant, new_browser, visitor
from tests.waiting import eventually

StoredAt = Callable[[str], list[Json]]
NOTE = "Events in the period of this answer were deleted; see the gaps for when."


@pytest.fixture
def names(stored_at: StoredAt, workspace: Tenant) -> Callable[..., list[str]]:
    """Names of the events that a website has, in the order of their times."""
    return lambda website_id=workspace.website_id: [
        event["name"] for event in stored_at(website_id)
    ]


def rows(services: Services, table: Any) -> int:
    with services.database.read() as db:
        count: int = db.execute(select(func.count()).select_from(table)).scalar_one()
    return count


def identities(services: Services) -> tuple[int, int, int]:
    """How many visitors, user links and merges the metadata DB has."""
    return rows(services, visitors), rows(services, user_links), rows(services, merges)


def aliases(services: Services, website_id: str) -> list[str]:
    """The visitors of a website that count as others, as the warehouse has it."""
    aliased = services.warehouse.query(
        "SELECT visitor_id FROM visitor_aliases WHERE scope_id = {scope:String}",
        {"scope": website_id},
    )[1]
    return [visitor_id for (visitor_id,) in aliased]


def identify(scene: Scene, visitor_id: str, user_id: str, **more: Any) -> Json:
    body = {"websiteId": scene.tenant.website_id, "visitorId": visitor_id, "userId": user_id}
    return body_of(scene.client.post("/api/identify", json=body | more))


def values(scene: Scene, name: str) -> list[tuple[Any, int]]:
    answer = scene.client.get("/api/schema/values", params={"property": name})
    return [(row["value"], row["count"]) for row in body_of(answer)["data"]]


# What goes, what stays --------------------------------------------------------


@pytest.mark.usefixtures("warehouse")
@cases("named", ["visitorId", "userId"])
def test_traits_are_deleted_from_the_event_store_and_later_ones_kept(
    scene: Scene, delete: Delete, services: Services, named: str
) -> None:
    identify(scene, "ann", "user-ann", traits={"plan": "pro"})
    identify(scene, "ben", "user-ben", traits={"plan": "basic"})
    identify(scene, "ann", "user-ann", traits={"plan": "team"})
    scope = {"scope": scene.tenant.website_id}
    stored = "SELECT visitor_id, texts FROM visitor_traits WHERE scope_id = {scope:String}"
    delete(**{named: "ann" if named == "visitorId" else "user-ann"})
    [row] = services.warehouse.query(stored, scope)[1]
    assert tuple(row) == ("ben", {"plan": "sbasic"})
    identify(scene, "ann", "user-ann", traits={"plan": "new"})
    scene.story("0/A", visitor="ann")
    funnel_id = scene.funnel("A", "B", breakdownProperties=["$trait.plan"])
    [cohort] = scene.results(funnel_id)["cohorts"]["data"]
    assert cohort["cohort"] == {"$trait.plan": "new"}
    delete(**{named: "ann" if named == "visitorId" else "user-ann"})
    assert scene.results(funnel_id)["cohorts"]["data"] == []


@pytest.mark.usefixtures("warehouse")
def test_the_engine_must_remove_replaced_traits_within_hours(services: Services) -> None:
    """A deletion does not find the visitor that was released from the user earlier."""
    create = "SELECT engine_full FROM system.tables WHERE name = 'visitor_traits'"
    [[engine]] = services.warehouse.query(create)[1]
    _, _, age = engine.partition("min_age_to_force_merge_seconds = ")
    assert age, "without the setting, the engine may never merge a large part"
    assert 0 < int(age.partition(",")[0]) <= 6 * 3600


@pytest.mark.usefixtures("warehouse")
def test_the_lists_for_builders_forget_what_was_deleted(scene: Scene, delete: Delete) -> None:
    scene.story("0/A", visitor="ann", mail="ann@example.com")
    scene.story("0/A 5/B", visitor="ben", mail="ben@example.com")
    assert values(scene, "mail") == [("ben@example.com", 2), ("ann@example.com", 1)]
    for _ in range(2):
        delete(visitorId="ann")
        assert values(scene, "mail") == [("ben@example.com", 2)]
        scene.story("10/A", visitor="ann", mail="ann@example.com")
        assert values(scene, "mail") == [("ben@example.com", 2), ("ann@example.com", 1)]
    delete(**{"from": scene.at(-1), "to": scene.at(100)})
    assert values(scene, "mail") == []


def test_a_visitor_is_deleted_with_all_its_events_from_the_disk_and_no_others(
    scene: Scene, delete: Delete, names, services: Services
) -> None:
    scene.story("0/A 10/B", visitor="ann")
    scene.story("5/C", visitor="ben")
    deletion = delete(visitorId="ann")
    assert names() == ["C"]
    assert identities(services) == (1, 0, 0)
    progress = {
        "state": "done", "step": None, "visitorsRemoved": 1, "userLinksRemoved": 0,
        "eventsFound": 2, "eventsRemoved": 2,
    }  # fmt: skip
    assert {name: deletion[name] for name in progress} == progress
    assert (deletion["error"], deletion["openImports"]) == (None, [])
    site = {"site": scene.tenant.website_id}
    _, counts = services.warehouse.query(
        "SELECT count() FROM events WHERE website_id = {site:String}"
        " SETTINGS apply_deleted_mask = 0",
        site,
    )  # fmt: skip
    assert counts == [(1,)], "rows are not merely marked as deleted"


@pytest.mark.slow("goes through visitors and keys one by one")
@cases(
    "target",
    [
        pytest.param(
            {"visitorId": "laptop"}, id="canonical", marks=pytest.mark.full("each ID of a visitor")
        ),
        pytest.param({"visitorId": "phone"}, id="absorbed"),
        pytest.param({"userId": "u-1"}, id="user"),
    ],
)
def test_a_visitor_is_deleted_with_everything_merged_into_it(
    scene: Scene,
    delete: Delete,
    names,
    services: Services,
    target: Json,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, limit in (
        (warehouse_deletion, "_VISITORS_PER_STATEMENT"),
        (worker, "_KEYS_PER_READ"),
    ):
        monkeypatch.setattr(module, limit, 1)  # goes through many visitors and keys in parts
    scene.story("0/A", visitor="laptop")
    scene.story("10/B", visitor="phone")
    scene.story("20/C", visitor="ben")
    identify(scene, "laptop", "u-1", traits={"plan": "pro"})
    assert identify(scene, "phone", "u-1")["merged"]
    scene.server_event(30, "D", userId="u-1", eventId=f"d of {target}")
    scene.server_event(40, "E", visitorId="phone", eventId=f"e of {target}")
    deletion = delete(**target)
    assert set(names()) == {"C"}
    assert identities(services) == (1, 0, 0)
    assert aliases(services, scene.tenant.website_id) == []
    assert values_of(deletion, "visitorsRemoved", "userLinksRemoved", "eventsRemoved") == (2, 1, 4)
    assert deletion["dedupeKeysCleared"] == 2


@pytest.mark.slow("waits for several deletions")
@pytest.mark.parametrize(
    "claim", [("own", "u-1"), ("mallory", "u-2")], ids=["the user has a visitor", "or none"]
)
def test_the_deletion_of_a_user_covers_events_of_other_visitors_that_name_the_user(
    scene: Scene, delete: Delete, names, claim: tuple[str, str]
) -> None:
    """A stranger's claim linked `mallory` to the user until the backend's claim released it."""
    stranger = new_browser(scene.tenant)
    body = {"websiteId": scene.tenant.website_id, "visitorId": "mallory", "userId": "u-1"}
    assert stranger.post("/api/identify", json=body).status_code == 200
    scene.story("0/A", visitor="mallory")
    bought = scene.server_event(1, "bought", userId="u-1")
    assert bought["visitorId"] == "mallory"
    identify(scene, *claim)
    scene.server_event(2, "paid", userId="u-3")
    assert names() == ["A", "bought", "paid"]
    assert delete(userId="u-1")["eventsRemoved"] == 1
    assert names() == ["A", "paid"]
    assert delete(userId="u-1")["eventsFound"] == 0


@pytest.mark.usefixtures("warehouse")
def test_an_id_may_come_back_as_a_new_visitor(scene: Scene, delete: Delete) -> None:
    """An absorbed ID too: neither the metadata DB nor a funnel leads it to the deleted visitor."""
    scene.story("0/A 10/B", visitor="laptop")
    scene.story("0/A", visitor="phone")
    identify(scene, "laptop", "u-1")
    identify(scene, "phone", "u-1")
    funnel = scene.funnel("A", "B")
    assert scene.counts(funnel) == [1, 1]
    delete(userId="u-1")
    assert scene.counts(funnel) == [0, 0]
    assert scene.server_event(0, "A", visitorId="phone")["visitorId"] == "phone"
    assert scene.server_event(0, "A", visitorId="laptop")["visitorId"] == "laptop"
    scene.story("10/B", visitor="phone")
    assert scene.counts(funnel) == [2, 1]
    new_visitor = scene.server_event(20, "A", userId="u-1")["visitorId"]
    assert new_visitor not in ("phone", "laptop")
    assert scene.counts(funnel) == [3, 1]
    assert identify(scene, "phone", "u-1") == {"visitorId": new_visitor, "merged": True}
    assert scene.counts(funnel) == [2, 1]


@pytest.mark.slow("waits for several deletions")
@pytest.mark.parametrize("deletions", full_except([2], (2, 5), "more deletions"))
def test_a_deletion_removes_events_answered_before_it_and_none_sent_after_it(
    scene: Scene, names, deletions: int
) -> None:
    """Both while the deletion may still run, and with events that are not shipped yet."""
    client, site = scene.client, scene.tenant.website_id
    jobs = []
    for number in range(deletions):
        scene.server_event(number, f"before {number}", visitorId="ann")
        jobs.append(request_deletion(client, site, visitorId="ann")["id"])
        after = scene.server_event(10 + number, f"after {number}", visitorId="ann")
        assert after["visitorId"] == "ann"
    for job in jobs:
        finished(client, job)
    assert names() == [f"after {deletions - 1}"]


def test_a_span_loses_its_events_and_only_those(
    scene: Scene, delete: Delete, names, services: Services
) -> None:
    other = new_website(scene.client, "Other")
    for second in (9.999, 10, 15, 19.999, 20):
        scene.send_event(second, f"at {second}")
    event = {"websiteId": other, "visitorId": "ann", "event": "elsewhere"}
    scene.client.post("/api/v1/events", json=event | {"timestamp": scene.at(15)})
    before = identities(services)
    deletion = delete(**{"from": scene.at(10), "to": scene.at(20)})
    assert names() == ["at 9.999", "at 20"]
    assert names(other) == ["elsewhere"]
    assert identities(services) == before
    assert values_of(deletion, "from", "to", "eventsFound") == (scene.at(10), scene.at(20), 3)


def test_a_visitor_is_deleted_from_all_websites_that_share_visitors(
    scene: Scene, delete: Delete, names
) -> None:
    shop = new_website(scene.client, "Shop", identityScope="all")
    blog = new_website(scene.client, "Blog", identityScope="all")
    apart = new_website(scene.client, "Apart")
    for website_id in (shop, blog, apart):
        for visitor_id, name in (("ann", "A"), ("ben", "B")):
            event = {"websiteId": website_id, "visitorId": visitor_id, "event": name}
            scene.client.post("/api/v1/events", json=event)
    deletion = delete(shop, visitorId="ann")
    assert (names(shop), names(blog)) == (["B"], ["B"])
    assert sorted(names(apart)) == ["A", "B"]
    assert deletion["eventsRemoved"] == 2
    funnel = scene.funnel("A", "B")
    gaps = [
        [
            gap["websiteId"]
            for gap in scene.results(funnel, websiteId=website_id)["coverage"]["gaps"]
        ]
        for website_id in (shop, blog, apart)
    ]
    assert gaps == [[shop], [blog], []]


def test_a_span_of_one_website_leaves_those_that_share_its_visitors(
    scene: Scene, delete: Delete, names
) -> None:
    sites = [new_website(scene.client, name, identityScope="all") for name in ("Shop", "Blog")]
    for website_id in sites:
        event = {"websiteId": website_id, "visitorId": "ann", "event": "A"}
        scene.client.post("/api/v1/events", json=event | {"timestamp": scene.at(5)})
    delete(sites[0], **{"from": scene.at(0), "to": scene.at(10)})
    assert (names(sites[0]), names(sites[1])) == ([], ["A"])


def test_another_workspace_with_the_same_ids_keeps_everything(
    scene: Scene, delete: Delete, other_workspace: Tenant, clock: ShiftedClock, stored_at: StoredAt
) -> None:
    other_scene = Scene(other_workspace, clock)
    for each in (scene, other_scene):
        each.server_event(0, "A", visitorId="ann", userId="u-1", eventId="a")
    delete(userId="u-1")
    assert stored_at(scene.tenant.website_id) == []
    assert [event["visitor_id"] for event in stored_at(other_workspace.website_id)] == ["ann"]
    repeat = other_scene.server_event(0, "A", visitorId="ann", userId="u-1", eventId="a")
    assert (repeat["status"], repeat["visitorId"], "warnings" in repeat) == (
        "duplicate",
        "ann",
        False,
    )


# Repeats ----------------------------------------------------------------------


@pytest.mark.every_database
def test_requests_are_safe_to_repeat(scene: Scene, delete: Delete, names) -> None:
    scene.story("0/A", visitor="ann")
    scene.story("5/C", visitor="ben")
    first, second = delete(visitorId="ann"), delete(visitorId="ann")
    assert first["id"] != second["id"]
    assert (second["eventsFound"], second["eventsRemoved"], second["visitorsRemoved"]) == (0, 0, 0)
    assert names() == ["C"]
    coverage = scene.results(scene.funnel("A", "C"))["coverage"]
    assert len(coverage["gaps"]) == 1  # the second found nothing, so it qualifies nothing


def test_a_deletion_without_matching_events_is_done(scene: Scene, delete: Delete, names) -> None:
    scene.story("0/A", visitor="ann")
    for target in ({"visitorId": "nobody"}, {"userId": "nobody"}, {"from": 0, "to": 10**11}):
        deletion = delete(**target)
        assert (deletion["eventsFound"], deletion["visitorsRemoved"]) == (0, 0), target
    assert names() == ["A"]
    assert scene.results(scene.attempts("A", "B"))["coverage"]["complete"]


@pytest.mark.parametrize("span", [False, True], ids=["visitor", "span"])
def test_a_late_repeat_does_not_bring_an_event_back(
    scene: Scene, delete: Delete, names, services: Services, span: bool
) -> None:
    first = scene.server_event(0, "A", visitorId="ann", eventId="order-1")
    scene.server_event(50, "B", visitorId="ben", eventId="order-2")
    delete(**({"from": scene.at(0), "to": scene.at(10)} if span else {"visitorId": "ann"}))
    repeat = scene.server_event(0, "A", visitorId="ann", eventId="order-1")
    event = {"websiteId": scene.tenant.website_id, "visitorId": "ann", "event": "A"}
    body = {"events": [event | {"eventId": "order-1"}]}
    batch = scene.client.post("/api/v1/events/batch", json=body).json()
    assert (repeat["status"], repeat["eventId"], batch["duplicates"]) == (
        "duplicate",
        first["eventId"],
        1,
    )
    assert repeat["visitorId"] == ("ann" if span else None)
    assert [warning["code"] for warning in repeat.get("warnings", [])] == (
        [] if span else ["event_deleted"]
    )
    assert names() == ["B"]
    assert "warnings" not in scene.server_event(50, "B", visitorId="ben", eventId="order-2")


@pytest.mark.usefixtures("warehouse")
def test_a_visitor_leaves_no_trace_in_dedupe_keys_and_the_record(
    scene: Scene, delete: Delete, services: Services
) -> None:
    """Also in keys of events that a span took before."""
    # A name of its own: the engine's record is one for all tests.
    visitor_id = "who-leaves-no-trace"
    scene.server_event(0, "A", visitorId=visitor_id, eventId="a")
    scene.server_event(50, "A", visitorId=visitor_id, eventId="b")
    delete(**{"from": scene.at(0), "to": scene.at(10)})
    deletion = delete(visitorId=visitor_id)
    assert values_of(deletion, "dedupeKeysCleared", "visitorId", "target") == (2, None, "visitor")
    assert [(key.visitor, key.body) for key in all_keys(services)] == [(None, None)] * 2
    _, commands = services.warehouse.query(
        "SELECT command FROM system.mutations WHERE position(command, {visitor:String}) > 0",
        {"visitor": visitor_id},
    )
    assert list(commands) == []


# Coverage ---------------------------------------------------------------------


@pytest.mark.usefixtures("warehouse")
def test_rule16_coverage_lists_deletions_that_affected_the_span(
    scene: Scene, delete: Delete
) -> None:
    funnel = scene.attempts("A", "B")  # within an hour
    scene.story("0/A 10/B", visitor="ben")
    scene.story("20000/A 20010/B", visitor="ann")
    scene.story("60000/A 60010/B", visitor="ben", attempt="a3")
    assert scene.results(funnel)["coverage"]["complete"]
    deletion = delete(visitorId="ann")
    coverage = scene.results(funnel)["coverage"]
    assert coverage["gaps"] == [
        {
            "kind": "deletion", "websiteId": scene.tenant.website_id, "from": scene.at(20000),
            "to": scene.at(20010),
            "at": deletion["createdAt"], "state": "done",
        }
    ]  # fmt: skip
    assert (coverage["complete"], coverage["notes"]) == (False, [NOTE])
    period = {
        "before": (0, 20000 - 3601), "up to it": (0, 20000 - 3600), "in it": (20005, 20006),
        "from it on": (20010, 70000),
        "after": (20011, 70000),
    }  # fmt: skip
    coverages = {
        name: scene.results(funnel, startAt=scene.at(start), endAt=scene.at(end))["coverage"]
        for name, (start, end) in period.items()
    }
    assert {name: len(coverage["gaps"]) for name, coverage in coverages.items()} == {
        "before": 0, "up to it": 1, "in it": 1, "from it on": 1, "after": 0,
    }  # fmt: skip
    assert {name for name, coverage in coverages.items() if coverage["complete"]} == {
        "before",
        "after",
    }


@pytest.mark.usefixtures("warehouse")
def test_rule16_several_deletions_are_each_a_gap_and_one_note(scene: Scene, delete: Delete) -> None:
    for number, name in enumerate(("ann", "ben", "cay")):
        scene.story("0/A", visitor=name, attempt=f"a{number}")
    delete(visitorId="ann")
    delete(visitorId="ben")
    coverage = scene.results(scene.attempts("A", "B"))["coverage"]
    assert len(coverage["gaps"]) == 2
    assert coverage["notes"] == [NOTE]


@contextmanager
def deletions_paused(services: Services) -> Iterator[None]:
    """No deletion runs inside the context. On SQLite none runs until the service restarts."""
    if services.database.is_sqlite:
        services.deletions.worker.stop()
        yield
    else:
        other_node = Database(services.settings.metadb_url)
        with other_node.exclusive_lock(worker._WORK) as locked:
            assert locked
            yield
        other_node.close()


@pytest.mark.slow("waits for a store that is away")
def test_rule16_a_waiting_deletion_qualifies_all_affected_reports_and_continues_after_a_restart(
    scene: Scene, services: Services, settings: Settings, clock: ShiftedClock, warehouse: Warehouse
) -> None:
    funnel = scene.attempts("A", "B")
    scene.story("0/A", visitor="ann")
    scene.story("50000/A", visitor="ben", attempt="a2")
    with deletions_paused(services):
        deletion = request_deletion(scene.client, scene.tenant.website_id, visitorId="ann")
        span = request_deletion(
            scene.client,
            scene.tenant.website_id,
            **{"from": scene.at(40000), "to": scene.at(60000)},
        )
        parts = values_of(deletion, "state", "step", "visitorId", "eventsFound")
        assert parts == ("queued", "ship", "ann", None)
        gaps = scene.results(funnel)["coverage"]["gaps"]
        assert [(gap["from"], gap["to"], gap["state"]) for gap in gaps] == [
            (iso(0), deletion["createdAt"], "queued"),
            (scene.at(40000), scene.at(59999.999), "queued"),
        ]
        early = scene.results(funnel, startAt=scene.at(0), endAt=scene.at(10))["coverage"]
        assert early["complete"] is False
        assert early["notes"] == [
            f"The deletion of {deletion['createdAt']} is still running; "
            "some of the events it removes may still be counted."
        ]
    with TestClient(
        application(build_services(settings, clock, warehouse)), base_url=BASE_URL
    ) as restarted:
        client = visitor(restarted, {"Authorization": scene.client.headers["Authorization"]})
        assert [finished(client, job["id"])["eventsRemoved"] for job in (deletion, span)] == [1, 1]
        coverage = client.get(f"/api/funnels/{funnel}/results").json()["coverage"]
        assert [(gap["from"], gap["to"], gap["state"]) for gap in coverage["gaps"]] == [
            (scene.at(0), scene.at(0), "done"),
            (scene.at(50000), scene.at(50000), "done"),
        ]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("body", "state", "notes"),
    [("whole", "done", 0), ("rejected", "done", 1), ("cut off", "failed", 1)],
)
def test_rule16_partial_imports_qualify_a_report_and_complete_ones_do_not(
    scene: Scene, body: str, state: str, notes: int
) -> None:
    common = {"type": "event", "name": "A", "properties": {"plan": "pro"}}
    lines = [
        common | {"timestamp": scene.at(second), "visitorId": f"v{second * 7919}"}
        for second in range(12_000 if body == "cut off" else 1000)
    ]
    if body == "rejected":
        lines[1] |= {"timestamp": "yesterday"}
    content = gzip.compress(ndjson(lines))
    content = content[:-100] if body == "cut off" else content
    job = imported(scene.tenant, content)
    assert job["state"] == state
    coverage = scene.results(scene.funnel("A", "B", conversionWindowSeconds=3600))["coverage"]
    partial = ("import", job["firstEventAt"], job["lastEventAt"], state)
    assert columns_of(coverage["gaps"], "kind", "from", "to", "state") == ([partial] * notes)
    assert (len(coverage["notes"]), coverage["complete"]) == (notes, notes == 0)


@pytest.mark.usefixtures("warehouse")
def test_rule16_an_import_with_a_rejected_line_qualifies_reports_about_its_time(
    scene: Scene,
) -> None:
    """Whatever time its stored events are of."""
    funnel = scene.funnel("A", "B", conversionWindowSeconds=3600)
    valid = {"type": "event", "name": "A", "timestamp": scene.at(100_000), "visitorId": "ann"}
    lost = {"type": "event", "name": "B", "timestamp": scene.at(5)}
    job = imported(scene.tenant, [valid, lost])

    def gaps_and_completeness(first_s: int, last_s: int) -> tuple[list[tuple[str, str]], bool]:
        report = scene.results(funnel, startAt=scene.at(first_s), endAt=scene.at(last_s))
        notes = any("rejected 1 line" in note for note in report["coverage"]["notes"])
        return columns_of(report["coverage"]["gaps"], "from", "to"), notes

    assert gaps_and_completeness(0, 60) == ([(job["firstEventAt"], job["lastEventAt"])], True)
    assert gaps_and_completeness(200_000, 200_060) == ([], False)


# Imports during a deletion -----------------------------------------------------


def lines_of_ann(scene: Scene, count: int) -> list[Json]:
    """Return lines of events, one for each second."""
    common = {"type": "event", "visitorId": "ann"}
    return [
        common | {"name": f"e{number}", "timestamp": scene.at(number), "dedupeKey": str(number)}
        for number in range(count)
    ]


def test_a_deletion_names_open_imports_and_a_repeat_removes_their_events(
    scene: Scene, delete: Delete, names, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_continue = Event()

    def slowly(path: Path, limits: ReaderLimits) -> Iterator[Row]:
        """A file whose second half waits until the test lets it continue."""
        for row in NDJSON.rows(path, limits):
            if row.line > 2 * BATCH_LINES:
                assert may_continue.wait(60)
            yield row

    read_rows_by(monkeypatch, slowly)
    monkeypatch.setattr(import_worker, "LARGE_BATCH_LINES", BATCH_LINES)
    lines = lines_of_ann(scene, 4 * BATCH_LINES)
    started = body_of(upload(scene.tenant, lines), 201)
    path = f"/api/imports/{started['id']}"
    eventually(lambda: scene.client.get(path).json()["linesRead"] == 2 * BATCH_LINES)
    first = delete(visitorId="ann")
    assert (first["openImports"], first["eventsRemoved"], names()) == (
        [started["id"]],
        2 * BATCH_LINES,
        [],
    )
    may_continue.set()
    assert import_finished(scene.client, started["id"])["state"] == "done"
    second = delete(visitorId="ann")
    assert (second["openImports"], second["eventsRemoved"], names()) == ([], 2 * BATCH_LINES, [])


@pytest.mark.slow("waits for several deletions")
def test_events_that_arrive_during_a_deletion_are_removed_and_counted_or_stay(
    scene: Scene, delete: Delete, names
) -> None:
    lines = lines_of_ann(scene, 4000)
    started = body_of(upload(scene.tenant, lines), 201)
    removed = delete(visitorId="ann")["eventsRemoved"]
    assert import_finished(scene.client, started["id"])["state"] == "done"
    left = len(names())
    assert removed + left == len(lines)
    assert (delete(visitorId="ann")["eventsRemoved"], names()) == (left, [])


# Going on ---------------------------------------------------------------------


def test_a_deletion_waits_for_a_store_that_is_away_and_says_so(
    scene: Scene, delete: Delete, names, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.story("0/A", visitor="ann")
    away, command = True, Warehouse.command

    def breaking(self: Warehouse, sql: str, *more: Any, **options: Any) -> None:
        if away and "DELETE" in sql:
            raise QueryFailed("connection refused, while ann was to be deleted", 0)
        command(self, sql, *more, **options)

    monkeypatch.setattr(Warehouse, "command", breaking)
    deletion = request_deletion(scene.client, scene.tenant.website_id, visitorId="ann")
    path = f"/api/deletions/{deletion['id']}"
    while (deletion := scene.client.get(path).json())["error"] is None:
        assert deletion["state"] != "done"
    assert (deletion["state"], deletion["step"]) == ("running", "merges")
    assert "ann" not in deletion["error"]
    away = False
    done = finished(scene.client, deletion["id"])
    assert (done["error"], done["eventsRemoved"], names()) == (None, 1, [])


def test_one_node_at_a_time(postgres_url: str) -> None:
    first, second = Database(postgres_url), Database(postgres_url)
    with (
        first.exclusive_lock(7) as first_lock,
        second.exclusive_lock(7) as second_lock,
        second.exclusive_lock(8) as other_key_lock,
    ):
        assert (first_lock, second_lock, other_key_lock) == (True, False, True)
    with second.exclusive_lock(7) as second_lock:
        assert second_lock
    first.close()
    second.close()


@pytest.mark.slow("keeps the intake busy during deletions")
@pytest.mark.parametrize("deletions", full_except([2], (2, 9), "more deletions"))
def test_deletions_beside_a_busy_intake_leave_identities_whole(
    scene: Scene, services: Services, deletions: int
) -> None:
    """No user link and no merge leads to a visitor that is gone."""
    site = scene.tenant.website_id

    def post(number: int) -> int:
        who = {"visitorId": f"device-{number % 5}", "userId": f"user-{number % 3}"}
        who = [who, {"userId": who["userId"]}, {"visitorId": who["visitorId"]}][number // 15 % 3]
        return scene.client.post(
            "/api/v1/events", json={"websiteId": site, "event": "A", **who}
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        posts = [pool.submit(post, number) for number in range(150)]
        jobs = [
            request_deletion(scene.client, site, userId=f"user-{number % 3}")
            for number in range(deletions)
        ]
        assert {answer.result() for answer in posts} == {202}
    for job in jobs:
        finished(scene.client, job["id"])
    with services.database.read() as db:
        present = set(db.execute(select(visitors.c.visitor_id)).scalars())
        canonical_ids = set(db.execute(select(visitors.c.canonical_id)).scalars())
        linked = {
            row.user_id: row.visitor_id
            for row in db.execute(select(user_links.c.user_id, user_links.c.visitor_id))
        }
        users = {
            user: home
            for user, home in db.execute(select(visitors.c.user_id, visitors.c.canonical_id))
            if user is not None
        }
        absorbed = set(db.execute(select(merges.c.absorbed_id)).scalars())
    assert canonical_ids <= present
    assert linked == users
    assert absorbed <= present


# Reading and asking -----------------------------------------------------------


@pytest.mark.usefixtures("warehouse")
def test_deletions_are_listed_newest_first_and_by_website(
    client: httpx.Client,
    workspace: Tenant,
    other_workspace: Tenant,
    delete: Delete,
    clock: ShiftedClock,
) -> None:
    other = new_website(client, "Other")
    ids = []
    for website_id in (workspace.website_id, other, workspace.website_id):
        ids.append(delete(website_id, visitorId="ann")["id"])
        clock.advance(seconds=1)
    listed = client.get("/api/deletions", params={"pageSize": 2}).json()
    assert [deletion["id"] for deletion in listed["data"]] == [ids[2], ids[1]]
    assert listed["total"] == 3
    listed = client.get("/api/deletions", params={"websiteId": other}).json()
    assert [deletion["id"] for deletion in listed["data"]] == [ids[1]]
    assert other_workspace.client.get("/api/deletions").json()["data"] == []
    assert other_workspace.client.get(f"/api/deletions/{ids[0]}").status_code == 404
    answer = client.get("/api/deletions", params={"websiteId": other_workspace.website_id})
    assert answer.status_code == 401
    answer = client.get("/api/deletions", params={"state": "done"})
    assert answer.json()["errors"][0]["field"] == "state"
    assert client.get(f"/api/deletions/{new_id('del', clock())}").status_code == 404


SPAN = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}


@cases(
    ("target", "expected"),
    [
        ({}, {"visitorId": "target_required"}),
        ({"visitorId": None, "from": None}, {"visitorId": "target_required"}),
        ({"visitorId": "ann", "userId": "u-1"}, {"userId": "not_allowed"}),
        ({"visitorId": "ann"} | SPAN, {"from": "not_allowed", "to": "not_allowed"}),
        ({"userId": "u-1", "to": SPAN["to"]}, {"to": "not_allowed"}),
        ({"from": SPAN["from"]}, {"to": "required"}),
        ({"to": SPAN["to"]}, {"from": "required"}),
        ({"from": SPAN["to"], "to": SPAN["from"]}, {"to": "ends_before_start"}),
        ({"from": SPAN["to"], "to": SPAN["to"]}, {"to": "ends_before_start"}),
        ({"from": "yesterday", "to": SPAN["to"]}, {"from": "not_a_time"}),
        ({"from": "2026-01-01T00:00:00", "to": True}, {"from": "not_a_time", "to": "not_a_time"}),
        ({"from": -1, "to": SPAN["to"]}, {"from": "before_1970"}),
        ({"from": 0, "to": 2**63}, {"to": "out_of_range"}),
        ({"from": 0, "to": "9999-01-01T00:00:00Z"}, {"to": "out_of_range"}),
        (
            {"from": 1_700_000_000, "to": "1700086400"},
            {"from": "looks_like_seconds", "to": "looks_like_seconds"},
        ),
        ({"visitorId": ""}, {"visitorId": "too_short"}),
        ({"visitorId": "x" * 201}, {"visitorId": "too_long"}),
        ({"userId": 7.5}, {"userId": "wrong_type"}),
        ({"userId": "a\x00b"}, {"userId": "nul_character"}),
        ({"visitorId": "null"}, {"visitorId": "stands_for_nobody"}),
        ({"userId": "Anonymous "}, {"userId": "stands_for_nobody"}),
        ({"visitorId": "ann", "visitor": "ann"}, {"visitor": "unknown_field"}),
        ({"websiteId": None, "visitorId": "ann"}, {"websiteId": "wrong_type"}),
    ],
)
def test_bad_input_is_refused_by_name(
    client: httpx.Client, workspace: Tenant, services: Services, target: Json, expected: Json
) -> None:
    answer = client.post("/api/deletions", json={"websiteId": workspace.website_id, **target})
    assert faults(answer) == expected
    assert client.get("/api/deletions").json()["total"] == 0


@cases(
    ("content", "status"), [(b"{", 400), (b"\xff", 400), (b"[]", 422), (b"", 400), (b"null", 422)]
)
def test_a_body_that_is_no_object_is_refused(
    client: httpx.Client, content: bytes, status: int
) -> None:
    answer = client.post(
        "/api/deletions", content=content, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == status, answer.text


def test_a_body_that_is_not_json_is_415(client: httpx.Client) -> None:
    answer = client.post("/api/deletions", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_people_on_a_deleted_website_can_be_exported_and_deleted(
    scene: Scene, workspace: Tenant, other_workspace: Tenant, delete: Delete, stored_at: StoredAt
) -> None:
    scene.story("0/A 60/B")
    client, website_id = workspace.client, workspace.website_id
    assert client.delete(f"/api/settings/websites/{website_id}").status_code == 204
    who = {"websiteId": website_id, "visitorId": "ann"}
    exported = client.get("/api/personal-data", params=who)
    assert exported.text.count('"type":"event"') == 2, exported.text
    assert delete(visitorId="ann")["eventsRemoved"] == 2
    assert client.get("/api/deletions", params={"websiteId": website_id}).json()["total"] == 1
    assert not stored_at(website_id)
    for answer in (
        other_workspace.client.post("/api/deletions", json=who),
        other_workspace.client.get("/api/personal-data", params=who),
    ):
        assert problem(answer) == (401, "website_not_owned")


def test_the_website_must_be_the_callers_own(client: httpx.Client, other_workspace: Tenant) -> None:
    for website_id in ("web_unknown", other_workspace.website_id, "a\x00b"):
        answer = client.post("/api/deletions", json={"websiteId": website_id, "visitorId": "ann"})
        assert answer.status_code == (422 if "\x00" in website_id else 401), answer.text
