"""Over random histories, every HTTP response from stored outcomes equals the direct one.

A history is a list of random actions. Events arrive late, in the future and twice. Files are
imported, visitors are merged and deleted, and funnels and goals are edited. Time passes, the worker
runs, and the process is killed between two statements and restarted. After each action, a random
query runs both ways.

`PENSTOCK_EXAMPLES` divided by 100 is the number of histories, which are then new on each run.
"""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random, randrange
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.app import Services
from penstock.core import Core
from penstock.funnels.outcomes.service import OutcomeService
from penstock.funnels.outcomes.worker import OutcomeWorker
from penstock.funnels.plugin import FunnelsRoom
from penstock.funnels.queries.schema import DirectReason
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.warehouse.client import Warehouse
from tests.conftest import ShiftedClock
from tests.events.conftest import finished, ndjson
from tests.funnels.examples import example_count
from tests.funnels.scenario import HOUR_S, Scene, step
from tests.funnels.seed import merge_parts
from tests.tenant import Tenant
from tests.waiting import eventually

Json = dict[str, Any]


HISTORIES = example_count(100) // 100
ACTIONS = 6 if HISTORIES == 1 else 25
_DIFFERS = ("servedFrom", "directReason", "computedAt", "nextCursor")
_NAMES = ("A", "B", "C", "D")
_GOAL = {"name": "Paid", "match": {"type": "Event", "value": "C"}}
_WEBSITE = {"name": "Shop", "kind": "web"}
_ROWS: tuple[list[Json], ...] = (
    [step("A"), step("B"), {"type": "Goal", "value": "Paid"}],
    [step("A", "D"), step("C")],
    [step("A"), step("D", diagnostic=True), step("B"), step("C")],
)
_PATHS: dict[str, Json] = {
    "results": {"pageSize": 3},
    "trend": {"interval": "hour"},
    "timing": {},
    "next": {"step": 1},
    "units": {"pageSize": 50},
    "export": {"format": "json"},
}


class Killed(Exception):
    """Simulates a kill of the process between two statements."""


class Life:
    """statements_left: number of statements until the kill; None if there is no kill."""

    statements_left: int | None = None

    def count(self) -> None:
        if self.statements_left is not None:
            if self.statements_left == 0:
                raise Killed
            self.statements_left -= 1


class Killable:
    """Passes calls of stored outcomes to a store, until the simulated kill."""

    def __init__(self, store: Warehouse | Database, life: Life) -> None:
        self._store, self._life = store, life

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name in ("query", "command", "write"):
            self._life.count()
        return value


class History:
    """A workspace with two funnels, and random actions on it."""

    def __init__(self, workspace: Tenant, services: Services, random: Random) -> None:
        self.services, self.clock, self.random = services, services.clock, random
        website = workspace.browser.post("/api/settings/websites", json=_WEBSITE).json()
        self.tenant = replace(workspace, website_id=website["id"])
        self.client = workspace.client
        for funnel in self.client.get("/api/funnels").json()[
            "data"
        ]:  # These belong to an earlier history.
            self.client.delete(f"/api/funnels/{funnel['id']}")
        self.scene = Scene(self.tenant, services.clock, ago_s=2 * HOUR_S)
        self.actions: list[str] = []
        self.sources = Counter[str]()
        self.client.post("/api/goals", json=_GOAL)
        self.funnels = [
            self.scene.attempts(*_ROWS[number], breakdownProperties=["plan", "lang"])
            for number in (0, 1)
        ]
        self.start()

    def start(self) -> None:
        """Start a new process, which knows only what is stored."""
        self.life = Life()
        services = self.services
        core = SimpleNamespace(
            settings=services.settings,
            clock=self.clock,
            database=Killable(services.database, self.life),
            warehouse=Killable(services.warehouse, self.life),
            attempts=services.attempts,
        )
        self.worker = OutcomeWorker(
            cast("Core", core),
            services.website_service,
            services.funnels,
            services.shipper.shipments,
        )
        self.outcomes = OutcomeService(self.worker, self.services.settings, self.clock)
        self.services.funnel_queries._outcomes = self.outcomes

    def act(self) -> None:
        actions: dict[Callable[[], None], int] = {
            self.send: 10,
            self.work: 16,
            self.import_file: 2,
            self.merge: 2,
            self.delete: 1,
            self.edit_funnel: 2,
            self.edit_goal: 1,
            self.wait: 3,
            self.kill: 4,
            self.merge_parts: 1,
        }
        [action] = self.random.choices(list(actions), list(actions.values()))
        self.actions.append(action.__name__)
        action()

    def send(self) -> None:
        items = self.items(self.random.randint(1, 8))
        self.scene.track(items)
        if self.random.random() < 0.2:
            self.scene.track(items)

    def items(self, count: int) -> list[Json]:
        random = self.random
        items = []
        for number in range(count):
            seconds = random.choice([0, 0, 1, 60, 600, HOUR_S, HOUR_S + 1, 2 * HOUR_S, 7300, 7500])
            properties: Json = {
                "plan": random.choice(["pro", "free", 1, None]),
                "lang": random.choice(["de", "en"]),
            }
            if random.random() < 0.9:
                properties["attempt"] = random.choice(["a1", "a2", "a3", "a4", 5])
            if random.random() < 0.5:
                properties["n"] = random.choice([0, 1, 2, 3, "x"])
            visitor = random.choice(["ann", "bob", "eve"])
            item = self.scene.item(seconds, random.choice(_NAMES), visitor, **properties)
            items.append(item | {"dedupeKey": f"{len(self.actions)}-{number}"})
        return items

    def import_file(self) -> None:
        answer = self.client.post(
            "/api/imports",
            params={"websiteId": self.tenant.website_id},
            content=ndjson(self.items(12)),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert answer.status_code == 201, answer.text
        assert finished(self.client, answer.json()["id"])["state"] == "done"

    def merge(self) -> None:
        user = self.random.choice(["u1", "u2"])
        body = {
            "websiteId": self.tenant.website_id,
            "visitorId": self.random.choice(["ann", "bob", "eve"]),
            "userId": user,
        }
        assert self.client.post("/api/identify", json=body).status_code in (200, 409)

    def delete(self) -> None:
        target: Json = {"visitorId": self.random.choice(["ann", "bob", "eve"])}
        if self.random.random() < 0.5:
            target = {"from": self.scene.at(0), "to": self.scene.at(1)}
        answer = self.client.post(
            "/api/deletions", json={"websiteId": self.tenant.website_id, **target}
        )
        assert answer.status_code == 201, answer.text
        path = f"/api/deletions/{answer.json()['id']}"
        eventually(lambda: self.client.get(path).json()["state"] == "done")

    def edit_funnel(self) -> None:
        """Change to one of a few definitions, so that earlier definitions return."""
        funnel_id = self.random.choice(self.funnels)
        record = self.client.get(f"/api/funnels/{funnel_id}").json()
        definition = {
            **{name: record[name] for name in ("name", "countingUnit", "attemptProperty")},
            "sequenceProperty": self.random.choice(["n", None]),
            "steps": self.random.choice(_ROWS),
            "breakdownProperties": ["plan", "lang"],
            "conversionWindowSeconds": HOUR_S,
        }
        answer = self.client.put(f"/api/funnels/{funnel_id}", json=definition)
        assert answer.status_code == 200, answer.text

    def edit_goal(self) -> None:
        [goal] = self.client.get("/api/goals").json()["data"]
        match = {"type": "Event", "value": self.random.choice(_NAMES)}
        answer = self.client.patch(f"/api/goals/{goal['id']}", json={"match": match})
        assert answer.status_code == 200, answer.text

    def wait(self) -> None:
        self.clock.advance(seconds=self.random.choice([1, 200, 700]))

    def work(self) -> None:
        self.worker.step()

    def kill(self) -> None:
        """Kill the process during a step of the worker or during a query."""
        self.life.statements_left = self.random.randint(0, 16)
        if self.random.random() < 0.5:
            with suppress(Killed):
                self.worker.step()
        else:
            self.client.get(f"/api/funnels/{self.random.choice(self.funnels)}/results")
        self.start()

    def merge_parts(self) -> None:
        merge_parts(self.services.warehouse)

    def check(self) -> None:
        """Compare a response from stored outcomes, if there are any, with the direct one."""
        path = self.random.choice(list(_PATHS))
        query = dict(_PATHS[path])
        if self.random.random() < 0.5:
            query |= {
                "startAt": self.scene.at(0),
                "endAt": self.scene.at(self.random.choice([1, 7500])),
            }
        if self.random.random() < 0.3:
            query["cohort"] = json.dumps({"plan": self.random.choice(["pro", 1, None])})
        if self.random.random() < 0.3:
            query["websiteId"] = self.tenant.website_id
        funnel_id = self.random.choice(self.funnels)
        stored = self.ask(funnel_id, path, query)
        self.services.funnel_queries._outcomes = _Nothing()
        direct = self.ask(funnel_id, path, query)
        self.services.funnel_queries._outcomes = self.outcomes
        if isinstance(stored, dict) and isinstance(direct, dict):
            self.sources[stored["servedFrom"]] += 1
            for name in _DIFFERS:
                stored.pop(name, None), direct.pop(name, None)
        assert stored == direct

    def ask(self, funnel_id: str, path: str, query: Json) -> Any:
        self.services.funnel_queries._cache._values.clear()
        answer = self.client.get(f"/api/funnels/{funnel_id}/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


class _Nothing:
    """Stands in for stored outcomes that are switched off."""

    def find_build(self, context: Any) -> DirectReason:
        return DirectReason.OFF

    def note_direct(self, context: Any, took_s: float) -> None:
        pass


class StoppedClock(ShiftedClock):
    """A clock that stands still until a test moves it, so both responses have the same time."""

    def __init__(self) -> None:
        self._now_ms = super().__call__()

    def __call__(self) -> int:
        return self._now_ms + self.ahead_ms

    def elapsed_ms(self) -> int:
        return self._now_ms + self.ahead_ms


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_outcomes": 3}).with_limits(
        stored_outcomes_after_ms=0
    )


@pytest.fixture(autouse=True)
def no_own_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history runs the steps of the worker as actions."""

    monkeypatch.setattr(FunnelsRoom, "lifespans", lambda _: [])


@pytest.mark.slow("runs random histories")
def test_stored_and_direct_answers_agree_over_random_histories(
    workspace: Tenant,
    services: Services,
    record_property: Callable[[str, object], None],
) -> None:
    sources = Counter[str]()
    for number in range(HISTORIES):
        chance = number if HISTORIES == 1 else randrange(2**32)
        history = History(workspace, services, Random(chance))
        try:
            for _ in range(ACTIONS):
                history.act()
                history.check()
        except AssertionError as error:
            raise AssertionError(f"history {chance}: {history.actions}") from error
        sources += history.sources
    record_property("answers", sources.total())
    print(f"{HISTORIES} histories, answers from {dict(sources)}")
    assert sources["outcomes"] > 0
