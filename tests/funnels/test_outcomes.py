"""Stored outcomes, over HTTP, give the same numbers, stay current and are dropped in time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from litestar.testing import TestClient
from sqlalchemy import delete

from penstock.app import Services, build_app, build_services
from penstock.base.clock import iso
from penstock.funnels.outcomes import model, policy
from penstock.funnels.outcomes.locked import hold
from penstock.funnels.outcomes.model import Copy, Mark
from penstock.funnels.queries.schema import DirectReason
from penstock.funnels.statements.query import Statement, StoredBuild
from penstock.metadb.tables import forecast_records
from penstock.settings import Settings
from penstock.warehouse.client import Shipments, Warehouse
from penstock.warehouse.errors import QueryFailed
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.funnels import seed
from tests.funnels.forecast_sets import NOW_MS, SETS
from tests.funnels.reference import History
from tests.funnels.scenario import ATTEMPTS, DAY_S, Json, Scene, pick, rows_of, step, where
from tests.one_server import one_server
from tests.tenant import BASE_URL, Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

PATHS: dict[str, Json] = {
    "results": {"pageSize": 2},
    "trend": {"interval": "day"},
    "timing": {},
    "next": {"step": 1},
    "units": {},
    "compare": {"property": "plan"},
}
WEEK = {"value": 7, "unit": "day"}
_DIFFERS = ("servedFrom", "directReason", "computedAt", "evaluatedAt", "nextCursor")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_outcomes": 3}).with_limits(
        stored_outcomes_after_ms=0
    )


class Stored:
    """A funnel with stored outcomes, and the queries about it."""

    def __init__(
        self, scene: Scene, services: Services, patch: pytest.MonkeyPatch, *rows: Any, **more: Any
    ) -> None:
        self.scene, self.services, self.patch = scene, services, patch
        self.id = scene.attempts(*(rows or ("A", "B", "C")), **more)

    def ask(self, path: str = "results", **query: Any) -> Json:
        """Run a query whose result is not cached."""
        self.services.funnel_queries._cache._values.clear()
        return self.scene.report(self.id, path, **query)

    def from_outcomes(self, path: str = "results", **query: Any) -> Json:
        def ask() -> Json | None:
            body = self.ask(path, **query)
            if body["servedFrom"] == "outcomes":
                return body
            eventually(lambda: not self.services.outcome_worker.cache.pending_builds())
            return None

        body: Json = eventually(ask)
        return body

    @contextmanager
    def without_outcomes(self) -> Iterator[None]:
        with self.patch.context() as patch:
            patch.setattr(self.services.outcomes, "find_build", lambda context: DirectReason.OFF)
            yield

    def directly(self, path: str = "results", **query: Any) -> Json:
        with self.without_outcomes():
            body = self.ask(path, **query)
        assert body["servedFrom"] == "query"
        return body

    def entered(self, **query: Any) -> int:
        """Return the number of entered units of a report whose stored and direct figures agree."""
        count: int = self.assert_equal(**query)["aggregate"]["entered"]
        return count

    def completed(self) -> int:
        """Return the number of completed units, as `entered`."""
        count: int = self.assert_equal()["aggregate"]["completed"]
        return count

    def shown(self, **query: Any) -> tuple[str, str | None]:
        """Return what serves a report, and why it does not come from stored outcomes."""
        body = self.ask(**query)
        return body["servedFrom"], body["directReason"]

    def assert_equal(self, path: str = "results", **query: Any) -> Json:
        """Return the stored result, and check that it equals the direct one."""
        stored, direct = self.from_outcomes(path, **query), self.directly(path, **query)
        for body in (stored, direct):
            for name in _DIFFERS:
                body.pop(name, None)
        assert stored == direct, path
        return stored

    def rows(self, warehouse: Warehouse) -> int:
        [[rows]] = warehouse.query("SELECT count() FROM funnel_outcomes")[1]
        return int(rows)


def marks(funnel: Stored) -> list[Mark]:
    return funnel.services.outcome_worker.cache.marks()


def retire(funnel: Stored) -> None:
    [mark] = marks(funnel)
    with hold(funnel.services.outcome_worker.cache, mark.outcome, 0) as locked:
        assert locked is not None
        locked.retire("test")


@pytest.fixture
def funnel(scene: Scene, services: Services, monkeypatch: pytest.MonkeyPatch) -> Stored:
    scene.story("0/A 60/B 90/C", plan="pro")
    scene.story("0/A(1) 60/B(1) 90/B(2)", attempt="a2", plan="pro", lang="de")
    scene.story("5/A 5/B", attempt="a3", visitor="bob", plan="free", lang="de")
    scene.story("9/A", attempt="a4", visitor="eve")
    scene.story("9/B 80/X", attempt=None, visitor="eve")
    scene.story("70/A", attempt="a5", visitor="eve", plan="pro")
    scene.story("75/B", attempt="a5", visitor="bob", plan="free")
    return Stored(scene, services, monkeypatch, breakdownProperties=["lang", "plan"])


def outcomes_stay_stored_when_a_row_gets_a_name(funnel: Stored) -> None:
    funnel.from_outcomes()
    [before] = marks(funnel)
    body = funnel.scene.definition(funnel.id)
    body["steps"][1]["name"] = "Paid"
    path = f"/api/funnels/{funnel.id}"
    assert funnel.scene.client.put(path, json=body).json()["revision"] == 1
    report = funnel.ask()
    assert report["servedFrom"] == "outcomes"
    assert report["aggregate"]["steps"][1]["name"] == "Paid"
    assert [mark.build for mark in marks(funnel)] == [before.build]


def test_outcomes_whose_build_ended_the_process_wait_before_the_next_build(
    funnel: Stored, services: Services, clock: ShiftedClock
) -> None:
    funnel.from_outcomes()
    [mark] = marks(funnel)
    retire(funnel)
    folder = services.settings.data / "attempts"
    folder.mkdir(exist_ok=True)
    (folder / mark.outcome).write_text(f"{clock()}\n" * 2)  # Two processes died.
    cache = services.outcome_worker.cache
    funnel.ask()
    eventually(lambda: not cache.pending_builds() and not cache.may_build(mark.outcome))
    assert (marks(funnel), funnel.ask()["servedFrom"]) == ([], "query")
    clock.advance(seconds=3_600)
    funnel.from_outcomes()
    assert not list(folder.iterdir())


def outcomes_of_older_counting_rules_are_rebuilt(funnel: Stored) -> None:
    funnel.from_outcomes()
    [before] = marks(funnel)
    funnel.patch.setattr(model, "COUNTING_RULES", model.COUNTING_RULES + 1)
    assert funnel.ask()["servedFrom"] == "query"
    funnel.assert_equal()
    assert any(mark.outcome != before.outcome for mark in marks(funnel))


def rows_answer_questions_about_the_saved_window_and_properties_only(funnel: Stored) -> None:
    funnel.from_outcomes()
    funnel.assert_equal(settled="true")
    funnel.assert_equal(breakdown="plan")
    funnel.assert_equal(breakdown="")
    for question in (
        {"filters": [where("plan", "is_set")]},
        {"window": "1m"},
        {"breakdown": "plan,country"},
    ):
        assert funnel.shown(**question) == ("query", "ad_hoc")
    assert len(marks(funnel)) == 1  # no question is stored
    assert funnel.ask()["servedFrom"] == "outcomes"


def rows_answer_reports_that_include_internal_traffic(funnel: Stored) -> None:
    funnel.from_outcomes()
    client, path = funnel.scene.client, "/api/settings/internal-traffic"
    free = where("plan", value="free")
    assert client.put(path, json={"filters": [free]}).status_code == 200
    assert funnel.shown() == ("query", "internal_traffic")
    assert funnel.ask()["aggregate"]["entered"] == 4
    assert funnel.ask(window="1m")["directReason"] == "ad_hoc"
    assert funnel.entered(internal="true") == 5
    assert status(funnel)["state"] == "stored"
    assert client.put(path, json={"filters": []}).status_code == 200
    assert funnel.from_outcomes()["aggregate"]["entered"] == 5


OF_ALL_TIME = pytest.mark.full("the same reports without a period and a cohort")


@cases(
    ("path", "query", "is_limited"),
    [
        *((path, query, True) for path, query in PATHS.items()),
        ("next", {"step": 1, "of": "visitor"}, False),
        *(pytest.param(path, query, False, marks=OF_ALL_TIME) for path, query in PATHS.items()),
    ],
)
@pytest.mark.slow("builds outcomes and asks every kind of report")
def test_stored_and_direct_answers_are_equal(
    funnel: Stored, path: str, query: Json, is_limited: bool
) -> None:
    if is_limited:
        cohort = {} if path == "compare" else {"cohort": '{"plan": "pro"}'}
        query = {**query, **cohort, **funnel.scene.period(1, DAY_S)}
    body = funnel.assert_equal(path, **query)
    assert "of" not in query or body["data"] != []


@pytest.mark.slow("builds outcomes three times and asks forty questions")
def test_what_stored_rows_answer_and_for_how_long(
    funnel: Stored, subtests: pytest.Subtests
) -> None:
    funnel.from_outcomes()
    for rule in (
        rows_answer_questions_about_the_saved_window_and_properties_only,
        rows_answer_reports_that_include_internal_traffic,
        outcomes_stay_stored_when_a_row_gets_a_name,
        verifying_repairs_what_differs,
        an_export_reads_stored_outcomes,
        outcomes_of_older_counting_rules_are_rebuilt,
    ):
        with subtests.test(rule.__name__):
            rule(funnel)


class Later:
    """Events that come in while an earlier question is being answered."""

    def __init__(self, funnel: Stored, clock: ShiftedClock, entered: int) -> None:
        self.funnel, self.clock, self.entered = funnel, clock, entered

    def happens(self) -> None:
        """An attempt enters, and another query folds it."""
        self.clock.advance(seconds=60)
        attempt = f"later {self.entered}"
        Scene(self.funnel.scene.tenant, self.clock, ago_s=30).story("0/A", attempt=attempt)
        self.entered += 1
        assert self.funnel.ask()["aggregate"]["entered"] == self.entered

    @contextmanager
    def before_the_next_statement(self) -> Iterator[None]:
        outcomes = self.funnel.services.outcomes
        keep = outcomes.keep

        @contextmanager
        def after_another_query(build: Any) -> Iterator[None]:
            patch.setattr(outcomes, "keep", keep)
            self.happens()
            with keep(build):
                yield

        with self.funnel.patch.context() as patch:
            patch.setattr(outcomes, "keep", after_another_query)
            yield


def test_an_answer_includes_no_later_event_that_another_query_folded(
    funnel: Stored, clock: ShiftedClock, subtests: pytest.Subtests
) -> None:
    later = Later(funnel, clock, funnel.from_outcomes()["aggregate"]["entered"])
    with subtests.test("a report"):
        period = funnel.scene.period(-60, 101 * DAY_S)
        with later.before_the_next_statement():
            assert funnel.ask(**period)["aggregate"]["entered"] == 5
        assert funnel.ask()["aggregate"]["entered"] == 6
    with subtests.test("an export"):
        expected = exported_directly(funnel)
        with later.before_the_next_statement():
            assert exported(funnel) == expected
    with subtests.test("a later page"):
        first = funnel.ask("units", pageSize=2)
        assert first["servedFrom"] == "outcomes"
        later.happens()
        second = funnel.ask("units", pageSize=2, cursor=first["nextCursor"])
        assert pick(second, "total", "evaluatedAt") == pick(first, "total", "evaluatedAt")


def test_rows_that_a_statement_reads_are_not_dropped(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse
) -> None:
    funnel.from_outcomes()
    worker = funnel.services.outcome_worker
    [mark] = worker.cache.marks()
    with funnel.services.outcomes.keep(StoredBuild(mark.build, ())):
        retire(funnel)
        clock.advance(seconds=300)
        worker.drop_unmarked()
        assert funnel.rows(warehouse) > 0
    worker.drop_unmarked()
    assert funnel.rows(warehouse) == 0


def exported(funnel: Stored) -> bytes:
    answer = funnel.scene.request(funnel.id, "export")
    assert answer.status_code == 200, answer.text
    return answer.content


def exported_directly(funnel: Stored) -> bytes:
    with funnel.without_outcomes():
        return exported(funnel)


def an_export_reads_stored_outcomes(funnel: Stored) -> None:
    funnel.from_outcomes()
    assert exported(funnel) == exported_directly(funnel)
    damage(funnel.services.warehouse)
    assert exported(funnel) != exported_directly(funnel)


@pytest.mark.full("a failure between two steps")
def test_an_export_is_written_from_events_if_stored_outcomes_fail_halfway(
    funnel: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    funnel.from_outcomes()
    engine = funnel.services.funnel_queries._engine
    stream = engine.stream

    @contextmanager
    def break_after_the_first_block(statement: Any) -> Iterator[Any]:
        def blocks(read: Any) -> Iterator[Any]:
            yield next(read)
            if "funnel_outcomes" in statement.sql:
                raise DatabaseError("Code: 49. DB::Exception: broken")
            yield from read

        with stream(statement) as read:
            yield blocks(read)

    expected = exported_directly(funnel)
    monkeypatch.setattr(engine, "stream", break_after_the_first_block)
    assert exported(funnel) == expected
    assert marks(funnel) == []


def test_every_change_of_events_is_counted_at_once(
    funnel: Stored, workspace: Tenant, clock: ShiftedClock, subtests: pytest.Subtests
) -> None:
    """Each part of this story checks that stored and direct figures are equal."""
    scene = funnel.scene
    before = funnel.from_outcomes()
    assert before["aggregate"]["entered"] == 5
    assert before["dataQuality"]["attemptsWithSeveralVisitors"] == 1
    with subtests.test("new events, folded one after the other"):
        scene.story("100/C", attempt="a2", plan="pro")
        for number in range(2):
            scene.story("0/A 60/B", attempt=f"new{number}", plan=f"new {number}")
            body = funnel.ask()
            assert body["servedFrom"] == "outcomes"
            assert body["aggregate"]["entered"] == 6 + number
        assert funnel.completed() == 2
    with subtests.test("a late event moves the entry"):
        scene.track([scene.item(-60, "A", "eve", attempt="a4", plan="early")])
        assert funnel.entered(**scene.period(-61, -59)) == 1
    with subtests.test("events before a late entry are known"):
        scene.story("50/B 60/C", attempt="late")
        assert funnel.ask()["aggregate"]["entered"] == 7
        scene.story("500/X", attempt="late")
        assert funnel.ask()["servedFrom"] == "outcomes"
        scene.story("0/A", attempt="late")
        assert pick(funnel.assert_equal()["aggregate"], "entered", "completed") == (8, 3)
    with subtests.test("a merge changes what depends on visitors"):
        scene.identify("one person", "eve", "bob")
        assert funnel.assert_equal()["dataQuality"]["attemptsWithSeveralVisitors"] == 0
    with subtests.test("an event in the future counts once its time has come"):
        soon = Scene(workspace, clock, ago_s=0)
        soon.story("200/A", attempt="future", plan="pro")
        soon.story("220/A", attempt=None)
        assert funnel.entered() == 8
        clock.advance(seconds=240)
        after = funnel.assert_equal()
        assert after["aggregate"]["entered"] == 9
        assert after["dataQuality"]["eventsWithoutAttemptId"] == 2


def test_several_funnels_over_the_same_attempts_keep_their_own_rows(
    funnel: Stored, scene: Scene, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Stored(scene, services, monkeypatch, "A", "C")
    for each in (funnel, other):
        each.from_outcomes()
    scene.story("60/B 90/C", attempt="a4", visitor="eve")
    for each in (funnel, other):
        assert each.entered() == 5


@pytest.mark.slow("builds outcomes twice and waits for a deletion")
def test_rows_are_dropped_with_events_definitions_and_funnels(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse, subtests: pytest.Subtests
) -> None:
    client, path = funnel.scene.client, f"/api/funnels/{funnel.id}"
    assert funnel.from_outcomes()["aggregate"]["entered"] == 5
    with subtests.test("deleted events no longer count"):
        funnel.scene.delete(visitorId="ann")
        assert funnel.ask()["aggregate"]["entered"] == 3
        assert funnel.entered() == 3
        later(funnel, clock)
        eventually(lambda: funnel.rows(warehouse) == 3)
    with subtests.test("a changed definition is rebuilt and its old rows go"):
        changed = {"name": "Scenario", **ATTEMPTS, "sequenceProperty": None, "steps": rows_of("AB")}
        answer = client.put(path, json=changed)
        assert answer.status_code == 200, answer.text
        assert len(funnel.assert_equal()["aggregate"]["steps"]) == 2
        assert funnel.ask(revision=1)["servedFrom"] in ("query", "outcomes")
        later(funnel, clock)
        eventually(lambda: funnel.ask(revision=1)["servedFrom"] == "query")
    with subtests.test("a deleted funnel leaves no rows"):
        assert funnel.rows(warehouse) > 0
        assert client.delete(path).status_code == 204
        funnel.services.outcome_worker.worker.wake()
        eventually(lambda: not marks(funnel))
        later(funnel, clock)
        eventually(lambda: funnel.rows(warehouse) == 0)


def later(funnel: Stored, clock: ShiftedClock, days: float = 300 / DAY_S) -> None:
    """Rows that nothing reads any more are dropped after five minutes."""
    clock.advance(days=days)
    funnel.services.outcome_worker.worker.wake()


@pytest.mark.full("one more reason to drop rows")
def test_rows_that_only_a_dead_server_has_are_built_again(
    funnel: Stored, services: Services
) -> None:
    funnel.from_outcomes()
    [before], worker = marks(funnel), services.outcome_worker
    with funnel.patch.context() as patch:
        patch.setattr(worker.rows, "copy", lambda: Copy(is_complete=False, is_stuck=True))
        assert funnel.shown() == ("query", "behind")
        worker.maintain(before)
    funnel.assert_equal()
    assert [mark.build for mark in marks(funnel)] != [before.build]


@pytest.mark.full("another server of a cluster takes over")
def test_rows_of_a_server_that_was_replaced_during_a_statement_are_not_used(
    funnel: Stored, services: Services
) -> None:
    funnel.from_outcomes()
    rows, servers = services.outcome_worker.rows, iter(["first", "second"])
    with funnel.patch.context() as patch:
        patch.setattr(rows, "copy", lambda: Copy(next(servers)))
        assert funnel.shown() == ("query", "behind")
    assert funnel.shown() == ("outcomes", None)


@pytest.mark.full("one more reason to drop rows")
def test_a_funnel_without_queries_for_a_month_is_dropped(
    funnel: Stored, clock: ShiftedClock
) -> None:
    funnel.from_outcomes()
    later(funnel, clock, days=31)
    eventually(lambda: not marks(funnel))


def damage(warehouse: Warehouse) -> None:
    warehouse.command(
        "ALTER TABLE funnel_outcomes UPDATE reached = 3 WHERE reached > 0 "
        "SETTINGS mutations_sync = 1"
    )


@pytest.mark.full("damaged rows, which `verify` finds by the same comparison")
def test_a_comparison_in_the_background_finds_a_difference(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.funnels.outcomes.policy.COMPARED_SHARE", 1)
    funnel.from_outcomes()
    [before] = marks(funnel)
    damage(warehouse)
    assert funnel.ask()["aggregate"]["completed"] == 5
    clock.advance(seconds=601)

    def is_built_again() -> bool:
        funnel.services.outcome_worker.worker.wake()
        return any(mark.build != before.build for mark in marks(funnel))

    before_ms = clock()
    eventually(is_built_again)
    assert funnel.completed() == 1
    health = funnel.scene.client.get("/health/ready").json()
    assert health["status"] == "ready"
    assert health["storedOutcomes"]["differences"] == 1
    assert health["storedOutcomes"]["lastDifferenceAt"] >= iso(before_ms)
    page = funnel.scene.tenant.browser.get("/system").text
    assert "Stored outcomes of a funnel differed from its events" in page


@pytest.mark.full("damaged rows, which `verify` finds by the same comparison")
def test_a_comparison_leaves_out_events_that_are_not_folded_yet(
    funnel: Stored, warehouse: Warehouse
) -> None:
    funnel.from_outcomes()
    [mark] = marks(funnel)
    funnel.scene.story("100/C", attempt="a2", plan="pro")
    funnel.directly()  # waits for it
    assert funnel.services.outcome_worker.compare(mark, (1, 0)) is True
    damage(warehouse)
    assert funnel.services.outcome_worker.compare(mark, (1, 0)) is False


def verifying_repairs_what_differs(funnel: Stored) -> None:
    funnel.from_outcomes()
    assert list(funnel.services.outcome_worker.verify()) == [(funnel.id, True)]
    damage(funnel.services.warehouse)
    assert list(funnel.services.outcome_worker.verify()) == [(funnel.id, False)]
    assert funnel.completed() == 1


def test_a_restart_keeps_stored_outcomes_unless_they_are_switched_off(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse
) -> None:
    report = funnel.from_outcomes()
    funnel.scene.story("0/A", attempt="after")
    after = build_services(funnel.services.settings, clock, warehouse)
    with TestClient(build_app(after), base_url=BASE_URL) as running:
        running.headers.update(funnel.scene.client.headers)

        def answer() -> Json | None:
            after.funnel_queries._cache._values.clear()
            body: Json = running.get(f"/api/funnels/{funnel.id}/results").json()
            return body if body["servedFrom"] == "outcomes" else None

        body = eventually(answer)
        assert body["aggregate"]["entered"] == report["aggregate"]["entered"] + 1
    [mark] = after.outcome_worker.cache.marks()
    assert mark.build == marks(funnel)[0].build
    settings = funnel.services.settings.model_copy(update={"stored_outcomes": 0})
    off = build_services(settings, clock, warehouse)
    with TestClient(build_app(off), base_url=BASE_URL):
        eventually(lambda: funnel.rows(warehouse) == 0)
        assert not off.outcome_worker.rows.marks()


@one_server("no tables over shards take this statement")
def test_events_of_payment_providers_that_match_are_counted_directly(
    funnel: Stored, warehouse: Warehouse
) -> None:
    funnel.from_outcomes()
    worker, newest = funnel.services.outcome_worker, funnel.services.shipper.shipments().newest
    for number, name, source in ((newest + 1, "X", "outcomes"), (newest + 2, "C", "query")):
        warehouse.command(
            "INSERT INTO events SELECT * REPLACE ({number:UInt64} AS shipment, "
            "'provider' AS source, {name:String} AS name) "
            "FROM events WHERE website_id = {w:String} AND events.name = 'C' "
            "AND events.source != 'provider' LIMIT 1",
            {"w": funnel.scene.tenant.website_id, "name": name, "number": number},
        )
        shipments = Shipments(number, number)
        funnel.patch.setattr(worker, "read_shipments", partial(Shipments, *shipments))
        assert funnel.ask()["servedFrom"] == source
    assert not marks(funnel)
    assert funnel.ask()["directReason"] == "provider_events"


def test_stored_outcomes_wait_for_earlier_shipments_of_other_nodes(funnel: Stored) -> None:
    """Another node ships concurrently, so a lower number may be stored after a higher one."""
    funnel.from_outcomes()
    worker = funnel.services.outcome_worker
    read = worker.read_shipments
    with funnel.patch.context() as patch:
        patch.setattr(worker, "read_shipments", lambda: read()._replace(complete=0))
        assert funnel.shown() == ("query", "behind")
        calls = iter([0, 0])
        patch.setattr(
            worker,
            "read_shipments",
            lambda: (now := read())._replace(complete=next(calls, now.complete)),
        )
        assert funnel.shown() == ("outcomes", None)


def delete_event(scene: Scene, warehouse: Warehouse, seconds: float) -> None:
    warehouse.command(
        "ALTER TABLE events DELETE WHERE occurred_at = fromUnixTimestamp64Milli({at:Int64}) "
        "SETTINGS mutations_sync = 1",
        {"at": scene.start_ms + round(seconds * 1000)},
    )


@pytest.mark.full("an event that arrives and goes in the middle of a fold")
def test_an_event_that_arrives_during_a_fold_and_is_deleted_does_not_count(
    funnel: Stored, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    funnel.from_outcomes()
    rows = funnel.services.outcome_worker.rows
    refresh = rows.refresh

    def refresh_while_one_comes(*arguments: Any) -> Any:
        monkeypatch.setattr(rows, "refresh", refresh)
        funnel.scene.story("110/C", attempt="a2", plan="pro")
        funnel.directly()  # waits for it
        return refresh(*arguments)

    monkeypatch.setattr(rows, "refresh", refresh_while_one_comes)
    funnel.scene.story("100/B", attempt="a2", plan="pro")
    funnel.ask()
    delete_event(funnel.scene, warehouse, 110)
    assert funnel.completed() == 1


def failing(*_: Any, **__: Any) -> Any:
    raise QueryFailed("broken", 0)


@pytest.mark.full("a failure between two steps")
@pytest.mark.slow("builds outcomes and waits for a deletion")
def test_a_deleted_event_of_a_failed_fold_does_not_count(
    funnel: Stored, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    funnel.from_outcomes()
    funnel.scene.story("110/C", attempt="a2", plan="pro")
    with monkeypatch.context() as patch:
        patch.setattr(funnel.services.outcome_worker.rows, "save", failing)
        assert funnel.ask()["servedFrom"] == "query"
    delete_event(funnel.scene, warehouse, 110)
    assert funnel.completed() == 1


@pytest.mark.full("one kill of stored outcomes is in test_outcome_kills.py")
@pytest.mark.parametrize("rows", ["more", "none"])
def test_marks_that_do_not_match_their_rows_are_dropped_after_a_kill(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse, rows: str
) -> None:
    funnel.from_outcomes()
    [mark] = marks(funnel)
    if rows == "more":
        warehouse.command(
            "INSERT INTO funnel_outcomes SELECT * REPLACE (version + 1000 AS version) "
            "FROM funnel_outcomes WHERE build = {build:String} LIMIT 1",
            {"build": mark.build},
        )
    else:
        funnel.services.outcome_worker.rows.drop([mark.build])
    after = build_services(funnel.services.settings, clock, warehouse).outcome_worker
    after.read_marks()
    assert not after.cache.marks()
    assert funnel.rows(warehouse) == 0


@pytest.mark.full("a failure between two steps")
def test_rows_stay_while_their_mark_cannot_be_saved_as_dropped(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    funnel.from_outcomes()
    worker = funnel.services.outcome_worker
    with monkeypatch.context() as patch:
        patch.setattr(worker.rows, "save", failing)
        with pytest.raises(QueryFailed):
            retire(funnel)
        clock.advance(seconds=300)
        worker.drop_unmarked()
        assert funnel.rows(warehouse) > 0


def test_a_query_reads_events_if_its_stored_statement_fails(
    funnel: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    funnel.from_outcomes()
    [mark] = marks(funnel)
    with monkeypatch.context() as patch:
        patch.setattr(
            "penstock.funnels.statements.relations.stored_units", lambda plan: "SELECT nothing"
        )
        assert funnel.ask("trend", interval="day")["servedFrom"] == "query"
    assert mark.build not in [each.build for each in marks(funnel)]


@pytest.mark.full("a failure between two steps")
def test_a_failed_build_delays_no_other_and_is_retried(
    funnel: Stored,
    scene: Scene,
    services: Services,
    clock: ShiftedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = services.outcome_worker.rows
    fill, tries = rows.fill, []

    def fill_others(subject: Any, mark: Any, shipment: int) -> Any:
        if mark.funnel_id != funnel.id:
            return fill(subject, mark, shipment)
        tries.append(mark)
        raise QueryFailed("broken", 0)

    monkeypatch.setattr(rows, "fill", fill_others)
    funnel.ask()
    eventually(lambda: tries)
    Stored(scene, services, monkeypatch, "A", "C").from_outcomes()
    for _ in range(3):
        funnel.ask()
    assert not services.outcome_worker.cache.pending_builds()
    assert len(tries) == 1
    monkeypatch.setattr(rows, "fill", fill)
    clock.advance(seconds=601)
    funnel.from_outcomes()


def status(funnel: Stored, **query: Any) -> Json:
    return funnel.scene.report(funnel.id, "outcomes", **query)


def test_a_build_shows_its_progress_and_can_be_cancelled(
    funnel: Stored, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = funnel.services.outcome_worker.rows
    endless = "SELECT sum(sleepEachRow(0.01)) FROM numbers(1000000) SETTINGS max_block_size = 1"

    def fill(*_: Any) -> Any:
        rows._run(Statement(endless, {}))

    assert status(funnel)["reason"] == "not_stored"
    with monkeypatch.context() as patch:
        patch.setattr(rows, "fill", fill)
        assert funnel.ask()["directReason"] == "not_stored"
        building = eventually(lambda: (body := status(funnel))["rowsRead"] > 0 and body)
        assert pick(building, "state", "rowsToRead") == ("building", 1_000_000)
        assert funnel.ask()["directReason"] == "building"
        browser, page = funnel.scene.tenant.browser, f"/funnels/{funnel.id}?timezone=UTC"
        part = browser.get(page, headers={"HX-Request": "true", "HX-Target": "overview"})
        assert part.status_code == 200
        assert "while its outcomes are being stored" in part.text
        assert browser.get(page).text.count("aria-busy") == 2  # how far the build is takes a query
        path = f"/api/funnels/{funnel.id}/outcomes"
        assert funnel.scene.client.delete(path).status_code == 204
        eventually(lambda: status(funnel)["state"] == "none")
    funnel.ask()
    assert status(funnel)["state"] == "none"
    clock.advance(days=1.1)
    funnel.from_outcomes()
    assert status(funnel)["state"] == "stored"


def test_stored_outcomes_can_be_dropped(
    funnel: Stored, clock: ShiftedClock, warehouse: Warehouse
) -> None:
    website_id = funnel.scene.tenant.website_id
    funnel.from_outcomes(websiteId=website_id)
    assert status(funnel, websiteId=website_id)["evaluatedAt"] is not None
    path = f"/api/funnels/{funnel.id}/outcomes"
    answer = funnel.scene.client.delete(path, params={"websiteId": website_id})
    assert answer.status_code == 204
    assert funnel.shown(websiteId=website_id) == ("query", "not_stored")
    later(funnel, clock)
    eventually(lambda: funnel.rows(warehouse) == 0)


def test_changed_attempts_are_folded_if_that_is_cheaper_than_reading_all_events(
    funnel: Stored, scene: Scene
) -> None:
    """Four attempts change each time, among at most 21 events in total."""
    funnel.from_outcomes()
    funnel.patch.setattr(policy, "_MIN_UNITS", 1)
    for entered, events_per_unit, source in ((9, 2, "outcomes"), (13, 100, "query")):
        funnel.patch.setattr(policy, "_EVENTS_PER_UNIT", events_per_unit)
        for number in range(4):
            scene.story("120/A", attempt=f"new{entered}-{number}")
        body = funnel.ask()
        assert (body["servedFrom"], body["aggregate"]["entered"]) == (source, entered)


def test_a_response_from_events_says_why(funnel: Stored, scene: Scene) -> None:
    keys = {"attemptProperty": None, "attemptProperties": ["$visitor", "attempt"]}
    wide = [f"E{number}" for number in range(20)]
    visitors = scene.funnel("A", "B")
    cohort = {"name": "All", "kind": "list", "funnelId": visitors}
    cohort_id = scene.client.post("/api/cohorts", json=cohort).json()["id"]
    by_cohort = scene.attempts("A", "B", breakdownProperties=[f"$cohort.{cohort_id}"])
    reasons = {
        "visitor_funnel": visitors,
        "visitor_key": scene.attempts("A", "B", **keys),
        "too_many_matches": scene.attempts(*(step(name, *wide) for name in "ABCD")),
        "touches": scene.attempts("A", "B", breakdownProperties=["$first_utm_source"]),
        "visitors": scene.attempts("A", "B", breakdownProperties=["$trait.plan"]),
    }
    for reason, funnel_id in (*reasons.items(), ("visitors", by_cohort)):
        assert scene.results(funnel_id)["directReason"] == reason
        assert pick(scene.report(funnel_id, "outcomes"), "state", "reason") == ("none", reason)
    draft = {"steps": rows_of("AB"), "countingUnit": "attempt", "attemptProperty": "x"}
    preview = scene.client.post("/api/funnels/preview", json=draft).json()
    assert preview["directReason"] == "preview"
    assert funnel.from_outcomes()["directReason"] is None


@pytest.mark.slow("builds and refreshes outcomes four times")
@pytest.mark.parametrize("hours", [7, -7])
def test_a_clock_that_jumps_changes_no_figure_and_delays_no_refresh(
    funnel: Stored, workspace: Tenant, clock: ShiftedClock, hours: int
) -> None:
    funnel.assert_equal()
    clock.wrong_ms = hours * 3_600_000
    Scene(workspace, clock, ago_s=30).story("0/A 10/B", attempt="during")
    during = funnel.entered()
    clock.wrong_ms = 0
    funnel.scene.story("0/A 5/B", attempt="after")
    after = funnel.entered()
    # An event that the wrong clock put into the future counts when its time comes.
    assert (during, after) == (6, 6 if hours > 0 else 7)


def test_forecasts_from_stored_outcomes_are_those_from_events(
    funnel: Stored, warehouse: Warehouse, clock: ShiftedClock
) -> None:
    scene, website_id = funnel.scene, funnel.scene.tenant.website_id
    [few] = [each for each in SETS if each.name == "few units"]
    shift_ms = clock() - NOW_MS
    events = [
        replace(
            event,
            website_id=website_id,
            scope_id=website_id,
            event_id=f"{website_id}{number}",
            at_ms=event.at_ms + shift_ms,
        )
        for number, event in enumerate(few.events)
    ]
    seed.store(warehouse, History(tuple(events)))
    funnel.id = scene.attempts("A", "B", "C", sequenceProperty=None, conversionWindow=WEEK)
    now_ms = clock()
    query = {"startAt": now_ms - 7 * DAY_S * 1000, "endAt": now_ms, "asOf": now_ms}
    stored = funnel.from_outcomes(**query, forecast="true")["forecast"]
    with funnel.services.database.write() as db:
        db.execute(delete(forecast_records))
    assert stored == funnel.directly(**query, forecast="true")["forecast"]
    assert stored["rate"] < stored["high"]
