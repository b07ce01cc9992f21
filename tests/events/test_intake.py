"""The group commit: many callers, one transaction at a time, each its own answer."""

import asyncio
import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import func, select

from penstock.base.clock import system_clock
from penstock.base.errors import ConcurrentUpdate, StoreUnavailable, Unavailable
from penstock.base.ids import ScopeId, WebsiteId
from penstock.events import intake as intake_module
from penstock.events.intake import Intake
from penstock.events.model import Family, Kind, NewEvent, Receipt, Source, Status, dedupe_key
from penstock.events.quarantine.model import QuarantineLimits
from penstock.events.repeats.event_keys import EventKeys
from penstock.identity.model import Claim
from penstock.metadb.database import Database
from penstock.metadb.secret_box import SecretBox
from penstock.metadb.tables import event_keys, outbox, visitors
from tests import loops

SITE = WebsiteId("web_1")
SECRETS = SecretBox([Fernet.generate_key().decode()])


def event(client_id: str, **changes: Any) -> NewEvent:
    now_ms = system_clock()
    new_event = NewEvent(
        SITE,
        ScopeId(SITE),
        Kind.EVENT,
        "e",
        Source.SERVER,
        now_ms,
        now_ms,
        now_ms,
        "v",
        None,
        b"\0" * 16,
        dedupe_key(SITE, Family.EVENTS, client_id),
        is_public=False,
    )
    return new_event._replace(**changes)


def count(database: Database, table: Any) -> int:
    with database.read() as db:
        return int(db.execute(select(func.count()).select_from(table)).scalar_one())


def waiting(database: Database) -> int:
    """Events in the outbox."""
    with database.read() as db:
        return sum(lines.count("\n") + 1 for lines in db.execute(select(outbox.c.lines)).scalars())


def new_intake(database: Database) -> Intake:
    return Intake(
        database,
        system_clock,
        on_stored=lambda: None,
        event_keys=EventKeys(database, SECRETS, 400),
        daily_events=10**6,
        property_keys=2000,
        quarantine=QuarantineLimits(1000, 10_000_000),
    )


def run(database: Database, work: Callable[[Intake], Any]) -> Any:
    async def main() -> Any:
        async with (intake := new_intake(database)).running():
            return await work(intake)

    return loops.run(main)


def submit_together(database: Database, submissions: Iterable[list[NewEvent]]) -> Any:
    """Return the outcomes of submissions that wait for the intake at the same time."""
    return run(database, lambda intake: all_of(*map(intake.submit, submissions)))


async def all_of(*submissions: Any) -> list[Any]:
    return await asyncio.gather(*submissions, return_exceptions=True)


@pytest.mark.every_database
def test_receipts_come_in_the_order_of_the_events(database: Database) -> None:
    events = [event("a"), event("b"), event("a"), event("c", visitor_id="w")]
    [receipts] = submit_together(database, [events])
    assert [(receipt.status, receipt.visitor_id) for receipt in receipts] == [
        (Status.ACCEPTED, "v"), (Status.ACCEPTED, "v"),
        (Status.DUPLICATE, "v"), (Status.ACCEPTED, "w"),
    ]  # fmt: skip
    assert receipts[0].event_id == receipts[2].event_id
    assert (waiting(database), count(database, event_keys), count(database, visitors)) == (3, 3, 2)


def test_callers_that_wait_together_are_committed_together(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    store_items = intake_module.store_items
    monkeypatch.setattr(
        intake_module,
        "store_items",
        lambda db, items, *rest: sizes.append(len(items)) or store_items(db, items, *rest),
    )
    outcomes = submit_together(database, ([event(str(n))] for n in range(200)))
    assert all(isinstance(outcome, list) for outcome in outcomes)
    assert sum(sizes) == 200
    assert len(sizes) < 20


def test_a_commit_leaves_no_cycle_for_the_garbage_collector(database: Database) -> None:
    """A collection stops the process; at 2,400 events per second one took 70 ms."""

    async def garbage_of_commits(intake: Intake, round_number: int) -> int:
        gc.collect()
        gc.disable()
        try:
            for number in range(50):
                await intake.submit([event(f"{round_number}-{number}")])
            return gc.collect()
        finally:
            gc.enable()

    async def is_any_round_clean(intake: Intake) -> bool:
        for round_number in range(6):
            if await garbage_of_commits(intake, round_number) < 50:
                return True
        return False

    # Other threads of the process leave garbage too, now and then: not in every round.
    assert run(database, is_any_round_clean)


@pytest.mark.every_database
def test_a_submission_that_the_store_cannot_take_fails_alone(database: Database) -> None:
    poisonous = event("poison", visitor_id=object())
    submissions = ([event(f"{n}") if n != 5 else poisonous] for n in range(10))
    outcomes = submit_together(database, submissions)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [n == 5 for n in range(10)]
    assert waiting(database) == 9


def test_a_store_that_goes_away_is_tried_once_for_all_that_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further try could take as long as a timeout."""
    tries = []

    def fail(_db: Any, items: Sequence[Any], *_rest: Any) -> None:
        tries.append(len(items))
        raise RuntimeError("one of these") if len(items) > 1 else StoreUnavailable()

    monkeypatch.setattr(intake_module, "store_items", fail)
    outcomes = submit_together(database, ([event(str(n))] for n in range(10)))
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert tries == [10, 1]


def test_a_conflict_that_stays_refuses_only_its_own_submission(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others of the same hand-over are in later commits."""
    store_items = intake_module.store_items

    def store(db: Any, items: Sequence[Any], *rest: Any) -> Any:
        if items[0].visitor_id == "contested":
            raise ConcurrentUpdate(reason="always")
        return store_items(db, items, *rest)

    monkeypatch.setattr(intake_module, "store_items", store)
    monkeypatch.setattr(intake_module, "_BATCH_EVENTS", 1)
    events = (event("1", visitor_id="contested"), event("2"), event("3"))
    outcomes = submit_together(database, ([each] for each in events))
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [True, False, False]


def test_what_comes_without_a_key_leaves_room_for_backends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_WAITING", 10)

    def events(name: str, number: int, *, is_public: bool) -> list[NewEvent]:
        """Of a browser; a backend may pass on what its browsers sent."""
        return [
            event(f"{name}-{n}", source=Source.BROWSER, is_public=is_public) for n in range(number)
        ]

    submissions = [
        events("a", 5, is_public=True),
        events("b", 1, is_public=True),
        events("c", 5, is_public=False),
        events("d", 1, is_public=False),
    ]
    outcomes = submit_together(database, submissions)
    assert [isinstance(outcome, Unavailable) for outcome in outcomes] == [False, True, False, True]


@pytest.mark.every_database
def test_a_failed_submission_leaves_nothing_of_itself(database: Database) -> None:
    poisonous = event("poison", visitor_id=object())
    [outcome] = submit_together(database, [[event("a"), poisonous]])
    assert isinstance(outcome, Exception)
    assert (waiting(database), count(database, event_keys), count(database, visitors)) == (0, 0, 0)
    [receipt] = run(database, lambda intake: intake.submit([event("a")]))
    assert receipt.status is Status.ACCEPTED, "the ID is not used up"


def test_identify_calls_and_events_keep_their_order(database: Database) -> None:
    async def work(intake: Intake) -> list[Any]:
        return await all_of(
            intake.submit([event("1", visitor_id="w", user_id="u")]),
            intake.submit([event("2", visitor_id="v")]),
            intake.identify(Claim(ScopeId(SITE), "v", "u")),
            intake.submit([event("3", visitor_id="v")]),
        )

    [[first], [second], merged, [last]] = run(database, work)
    assert (first.visitor_id, second.visitor_id, last.visitor_id) == ("w", "v", "w")
    assert (merged.visitor_id, merged.merged) == ("w", True)


def test_too_many_waiting_requests_are_refused_with_retry_after(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_WAITING", 10)
    outcomes = submit_together(database, ([event(str(n))] for n in range(15)))
    refused = [outcome for outcome in outcomes if isinstance(outcome, Unavailable)]
    assert [(error.code, error.retry_after_s) for error in refused] == [("overloaded", 1)] * 5
    assert waiting(database) == 10


def test_a_stop_commits_accepted_events_and_accepts_no_more(database: Database) -> None:
    async def main() -> tuple[list[Any], Any]:
        async with (intake := new_intake(database)).running():
            accepted = [asyncio.create_task(intake.submit([event(str(n))])) for n in range(50)]
            await asyncio.sleep(0)
        [late] = await all_of(intake.submit([event("late")]))
        return await all_of(*accepted), late

    accepted, late = loops.run(main)
    assert all(
        isinstance(outcome, list) and isinstance(outcome[0], Receipt) for outcome in accepted
    )
    assert (isinstance(late, Unavailable), waiting(database)) == (True, 50)


def test_an_unavailable_store_is_503_with_retry_after(postgres_url: str) -> None:
    gone = Database(postgres_url.replace("penstock-pg-", "no-such-folder-"))
    [outcome] = submit_together(gone, [[event("a")]])
    assert isinstance(outcome, Unavailable)
    assert (outcome.code, outcome.retry_after_s) == ("store_unavailable", 1)
    gone.close()
