"""Stored outcomes of two nodes: one at a time changes them, and both answer from them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

import psycopg
import pytest

from penstock.base.errors import StoreUnavailable
from penstock.funnels.outcomes import service
from penstock.funnels.outcomes.locked import LockedOutcome, forget_old_changes, hold
from penstock.funnels.outcomes.model import Mark, Overtaken
from penstock.funnels.queries.schema import DirectReason
from penstock.settings import Settings
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.nodes.conftest import Node
from tests.tenant import Tenant
from tests.waiting import eventually

Json = dict[str, Any]

of_full_tier = pytest.mark.full("nodes that wait for each other, die or lose their database")
_DIFFERS = ("servedFrom", "directReason", "computedAt", "evaluatedAt")
_DISCONNECT = """
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (
        SELECT oid FROM pg_database WHERE datname = current_database())
"""


def break_locks(metadb_url: str) -> None:
    """The connections of all locks end, and whoever has one does not notice."""
    with psycopg.connect(metadb_url, autocommit=True) as connection:
        connection.execute(_DISCONNECT)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_outcomes": 3}).with_limits(
        stored_outcomes_after_ms=0
    )


class Funnel:
    """A funnel of attempts, and the ways to ask both nodes about it."""

    def __init__(self, scene: Scene, nodes: tuple[Node, Node], patch: pytest.MonkeyPatch) -> None:
        self.scene, self.nodes, self.patch = scene, nodes, patch
        self.id = scene.attempts("A", "B", breakdownProperties=["plan"])

    def ask(self, node: Node) -> Json:
        """An answer that no earlier request has computed."""
        node.services.funnel_queries._cache._values.clear()
        response = node.client.get(f"/api/funnels/{self.id}/results")
        assert response.status_code == 200, response.text
        body: Json = response.json()
        return body

    def from_outcomes(self, node: Node) -> Json:
        def ask() -> Json | None:
            body = self.ask(node)
            return body if body["servedFrom"] == "outcomes" else None

        body: Json = eventually(ask)
        return body

    def assert_equal(self, node: Node) -> Json:
        """The stored answer, which is the direct one."""
        stored = self.from_outcomes(node)
        with self.patch.context() as patch:
            patch.setattr(node.services.outcomes, "find_build", lambda context: DirectReason.OFF)
            direct = self.ask(node)
        for body in (stored, direct):
            for name in _DIFFERS:
                body.pop(name, None)
        assert stored == direct
        return stored

    def mark(self, node: Node) -> Mark:
        [mark] = node.services.outcome_worker.cache.marks()
        return mark

    def status(self, node: Node) -> Json:
        body: Json = node.client.get(f"/api/funnels/{self.id}/outcomes").json()
        return body

    @contextmanager
    def locked(self, node: Node) -> Iterator[LockedOutcome]:
        """The lock of the outcome, at a node."""
        cache = node.services.outcome_worker.cache
        with hold(cache, self.mark(self.nodes[0]).outcome, 60) as locked:
            assert locked is not None
            yield locked


@pytest.fixture
def funnel(
    workspace: Tenant,
    clock: ShiftedClock,
    nodes: tuple[Node, Node],
    monkeypatch: pytest.MonkeyPatch,
) -> Funnel:
    scene = Scene(workspace, clock)
    scene.story("0/A 60/B", plan="pro")
    scene.story("5/A", attempt="a2", visitor="bob", plan="free")
    return Funnel(scene, nodes, monkeypatch)


@pytest.mark.slow("builds outcomes on two nodes")
def test_both_nodes_count_what_either_has_folded(funnel: Funnel) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    funnel.from_outcomes(second)
    assert funnel.mark(first).build == funnel.mark(second).build
    for number, node in enumerate((first, second, second, first)):
        funnel.scene.story("9/A 70/B", attempt=f"new{number}")
        assert funnel.assert_equal(node)["aggregate"]["completed"] == 2 + number
    assert funnel.mark(first).build == funnel.mark(second).build


@of_full_tier
def test_a_node_that_waits_too_long_for_another_evaluates_directly(funnel: Funnel) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    funnel.from_outcomes(second)
    with funnel.locked(first):
        began_s = monotonic()
        body = funnel.ask(second)
        assert (body["servedFrom"], body["directReason"]) == ("query", "behind")
        assert monotonic() - began_s < 20
    assert funnel.ask(second)["servedFrom"] == "outcomes"


@of_full_tier
def test_an_answer_knows_no_event_after_its_time_that_the_other_node_folded(
    funnel: Funnel, workspace: Tenant, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    funnel.from_outcomes(second)
    outcomes = first.services.outcomes
    keep = outcomes.keep

    @contextmanager
    def after_the_other_node(build: Any) -> Iterator[None]:
        monkeypatch.setattr(outcomes, "keep", keep)
        clock.advance(seconds=60)
        Scene(workspace, clock, ago_s=30).story("0/A", attempt="later")
        assert funnel.from_outcomes(second)["aggregate"]["entered"] == 3
        with keep(build):
            yield

    monkeypatch.setattr(outcomes, "keep", after_the_other_node)
    body = funnel.ask(first)
    assert (body["servedFrom"], body["aggregate"]["entered"]) == ("query", 2)
    assert funnel.ask(first)["aggregate"]["entered"] == 3


@of_full_tier
def test_rows_that_the_other_node_drops_during_a_statement_are_not_counted(
    funnel: Funnel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    outcomes, other = first.services.outcomes, second.services.outcome_worker
    keep, mark = outcomes.keep, funnel.mark(first)

    @contextmanager
    def after_they_are_gone(build: Any) -> Iterator[None]:
        monkeypatch.setattr(outcomes, "keep", keep)
        with funnel.locked(second) as locked:
            assert locked.mark is not None
            assert locked.mark.build == mark.build
            locked.retire("test")
        other.drop_unmarked(at_once=True)
        with keep(build):
            yield

    monkeypatch.setattr(outcomes, "keep", after_they_are_gone)
    body = funnel.ask(first)
    assert (body["servedFrom"], body["aggregate"]["entered"]) == ("query", 2)


@of_full_tier
def test_a_fold_of_a_node_that_died_is_not_trusted(funnel: Funnel) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    funnel.from_outcomes(second)
    before = funnel.mark(first).build
    with funnel.locked(first) as locked:
        locked.open_change(read_until_ms=0)
        funnel.scene.story("9/A 70/B", attempt="a3")
    body = funnel.ask(second)
    assert (body["servedFrom"], body["directReason"]) == ("query", "behind")
    second.services.outcome_worker.worker.wake()
    assert funnel.assert_equal(second)["aggregate"]["completed"] == 2
    assert funnel.assert_equal(first)["aggregate"]["completed"] == 2
    if second.services.warehouse.folder is None:  # its statement may still run in a server
        assert funnel.mark(second).build != before


@of_full_tier
def test_a_node_that_was_overtaken_saves_no_mark_that_holds(
    funnel: Funnel, metadb_url: str
) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    mark = funnel.mark(first)
    context = funnel.locked(first)
    lost = context.__enter__()
    lost.open_change(read_until_ms=0)
    break_locks(metadb_url)
    with funnel.locked(second) as locked:
        assert locked.is_interrupted
        locked.retire("test")
    with pytest.raises(Overtaken):
        lost.save(mark)
    with pytest.raises(Overtaken):
        lost.open_change(read_until_ms=0)
    with pytest.raises(StoreUnavailable):
        context.__exit__(None, None, None)
    with funnel.locked(second) as locked:
        assert locked.mark is None
    assert funnel.assert_equal(first)["aggregate"]["entered"] == 2
    assert funnel.mark(first).build != mark.build


@of_full_tier
@pytest.mark.slow("builds outcomes on two nodes")
def test_the_last_change_of_rows_is_forgotten_long_after_them_but_not_its_number(
    funnel: Funnel, clock: ShiftedClock, metadb_url: str
) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    mark, cache = funnel.mark(first), second.services.outcome_worker.cache
    clock.advance(days=31)
    forget_old_changes(cache)
    assert cache.last_change(mark.outcome).number == mark.number  # it has rows
    context = funnel.locked(first)
    lost = context.__enter__()
    break_locks(metadb_url)
    with funnel.locked(second) as locked:
        locked.retire("test")
    last = cache.last_change(mark.outcome)
    forget_old_changes(cache)
    assert cache.last_change(mark.outcome) == last  # not yet
    clock.advance(days=31)
    forget_old_changes(cache)
    assert cache.last_change(mark.outcome).number == 0
    with pytest.raises(Overtaken):
        lost.open_change()
    with pytest.raises(StoreUnavailable):
        context.__exit__(None, None, None)
    assert funnel.assert_equal(first)["aggregate"]["entered"] == 2
    assert funnel.mark(first).number > last.number


class Building:
    """A build at a node that lasts until it is released."""

    def __init__(self, funnel: Funnel, node: Node) -> None:
        rows = node.services.outcome_worker.rows
        self.began, self.released = Event(), Event()
        fill = rows.fill

        def slowly(*arguments: Any) -> Any:
            mark = fill(*arguments)
            self.began.set()
            assert self.released.wait(60)
            return mark

        funnel.patch.setattr(rows, "fill", slowly)
        funnel.ask(node)
        assert self.began.wait(60)


@of_full_tier
def test_one_node_builds_and_the_other_shows_it(
    funnel: Funnel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = funnel.nodes
    building = Building(funnel, first)
    assert funnel.ask(second)["servedFrom"] == "query"
    worker = second.services.outcome_worker
    worker.read_marks()
    worker.drop_unmarked(at_once=True)
    assert worker.rows.builds()
    with monkeypatch.context() as patch:  # to ask is no try to lock
        patch.setattr(service, "hold", None)
        assert funnel.status(second)["state"] == "building"
    assert funnel.ask(second)["directReason"] == "building"
    building.released.set()
    eventually(lambda: funnel.status(second)["state"] == "stored")
    worker.worker.wake()
    assert funnel.assert_equal(second)["aggregate"]["entered"] == 2
    assert funnel.mark(first).build == funnel.mark(second).build


@of_full_tier
@pytest.mark.slow("builds outcomes on two nodes")
def test_a_build_can_be_cancelled_at_the_other_node(funnel: Funnel, clock: ShiftedClock) -> None:
    first, second = funnel.nodes
    building = Building(funnel, first)
    path = f"/api/funnels/{funnel.id}/outcomes"
    assert second.client.delete(path).status_code == 204
    assert funnel.status(second)["state"] == "none"
    building.released.set()
    eventually(lambda: not first.services.outcome_worker.cache.pending_builds())
    for node in funnel.nodes:
        assert funnel.ask(node)["servedFrom"] == "query"
        cache = node.services.outcome_worker.cache
        eventually(lambda cache=cache: not cache.pending_builds())
        assert funnel.status(node)["state"] == "none"
    clock.advance(days=1.1)
    funnel.from_outcomes(second)


@of_full_tier
@pytest.mark.slow("builds outcomes on two nodes")
def test_what_only_one_node_is_asked_for_is_not_dropped_by_the_other(
    funnel: Funnel, clock: ShiftedClock
) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    funnel.from_outcomes(second)
    mark = funnel.mark(first)
    worker = second.services.outcome_worker
    for _ in range(4):
        clock.advance(days=10)
        assert funnel.ask(first)["servedFrom"] == "outcomes"
        worker.read_marks()
        worker.maintain(mark)
    assert funnel.ask(second)["servedFrom"] == "outcomes"
    assert funnel.mark(second).build == mark.build
    clock.advance(days=31)
    worker.maintain(mark)
    assert funnel.status(first)["state"] == "none"


@of_full_tier
def test_outcomes_can_be_dropped_at_the_other_node(funnel: Funnel) -> None:
    first, second = funnel.nodes
    funnel.from_outcomes(first)
    assert second.client.delete(f"/api/funnels/{funnel.id}/outcomes").status_code == 204
    for node in funnel.nodes:
        assert funnel.status(node)["state"] == "none"
        assert funnel.ask(node)["servedFrom"] == "query"


@of_full_tier
def test_a_build_of_a_node_that_died_is_made_by_another(funnel: Funnel, metadb_url: str) -> None:
    first, second = funnel.nodes
    building = Building(funnel, first)
    assert funnel.ask(second)["servedFrom"] == "query"
    break_locks(metadb_url)
    second.services.outcome_worker.worker.wake()
    funnel.assert_equal(second)
    built = funnel.mark(second)
    building.released.set()
    eventually(lambda: not first.services.outcome_worker.cache.pending_builds())
    assert funnel.assert_equal(first)["aggregate"]["entered"] == 2
    assert funnel.mark(first).build == funnel.mark(second).build == built.build


@of_full_tier
def test_a_build_whose_lock_was_lost_does_not_hold_when_its_rows_were_dropped(
    funnel: Funnel, metadb_url: str
) -> None:
    first, second = funnel.nodes
    building = Building(funnel, first)
    break_locks(metadb_url)
    second.services.outcome_worker.drop_unmarked(at_once=True)
    building.released.set()
    eventually(lambda: not first.services.outcome_worker.cache.pending_builds())
    assert funnel.ask(first)["aggregate"]["entered"] == 2
    assert funnel.assert_equal(second)["aggregate"]["entered"] == 2


def unavailable(*_: Any) -> Any:
    raise StoreUnavailable(reason="away")


@of_full_tier
@pytest.mark.parametrize("name", ["hold", "last_change"])
def test_without_the_metadata_database_answers_come_from_events(
    funnel: Funnel, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It may go away between any two steps of an answer."""
    [node, _] = funnel.nodes
    funnel.from_outcomes(node)
    with monkeypatch.context() as patch:
        cache = node.services.outcome_worker.cache
        patch.setattr(service if name == "hold" else cache, name, unavailable)
        assert funnel.ask(node)["servedFrom"] == "query"
    assert funnel.ask(node)["servedFrom"] == "outcomes"


@of_full_tier
@pytest.mark.slow("two services fold again and again")
def test_folds_of_many_threads_at_both_nodes_agree_with_the_events(funnel: Funnel) -> None:
    for node in funnel.nodes:
        funnel.from_outcomes(node)
    failures: list[BaseException] = []

    def use(node: Node, number: int) -> Callable[[], None]:
        def ask() -> None:
            try:
                for turn in range(3):
                    funnel.scene.story("9/A 70/B", attempt=f"many-{number}-{turn}")
                    entered = funnel.ask(node)["aggregate"]["entered"]
                    assert 3 + turn <= entered <= 2 + 4 * 3
            except BaseException as error:
                failures.append(error)

        return ask

    threads = [Thread(target=use(funnel.nodes[at % 2], at)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for node in funnel.nodes:
        assert funnel.assert_equal(node)["aggregate"]["entered"] == 2 + 4 * 3
