"""Acknowledged events survive SIGKILL at any moment, exactly once.

`PENSTOCK_KILLS` says how often the service is killed; `make kills` does it 200 times.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from tests.serving import Served, http_client, query_warehouse
from tests.waiting import PATIENCE_S

KILLS = int(os.environ.get("PENSTOCK_KILLS", "2"))
CLIENTS = 6
BATCH = 10


@dataclass
class Client:
    """Posts each event until it is answered, across restarts.

    Clients with even numbers post single events, the others batches.
    """

    number: int
    key: str
    website_id: str
    acknowledged: dict[str, str] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    repeats: int = 0

    def post_until(self, stop: Event, service: "Service") -> None:
        batches = 0
        while not stop.is_set():
            names = [f"{self.number}-{batches}-{n}" for n in range(BATCH if self.number % 2 else 1)]
            batches += 1
            self.sent.update(names)
            # A kill may hit between the commit and the answer: the retry is then a duplicate.
            while (answers := self.answers(service, names)) is None:
                service.running.wait(PATIENCE_S)
            for name, answer in zip(names, answers, strict=True):
                assert answer["status"] in ("accepted", "duplicate"), answer
                self.repeats += answer["status"] == "duplicate"
                self.acknowledged[name] = answer["eventId"]

    def answers(self, service: "Service", names: list[str]) -> list[dict[str, Any]] | None:
        """None when no answer came."""
        events = [
            {
                "websiteId": self.website_id,
                "userId": f"user-{self.number}",
                "event": name,
                "eventId": name,
            }
            for name in names
        ]
        headers = {"Authorization": f"Bearer {self.key}"}
        single = len(events) == 1
        try:
            answer = service.client.post(
                "/api/v1/events" if single else "/api/v1/events/batch",
                json=events[0] if single else {"events": events},
                headers=headers,
            )
        except httpx.TransportError:
            service.running.clear()
            return None
        if answer.status_code == 503:  # it is stopping
            return None
        assert answer.status_code == 202, answer.text
        return [answer.json()] if single else answer.json()["results"]


class Service:
    """The service as the clients see it: now here, now there, now away."""

    client: httpx.Client

    def __init__(self) -> None:
        self.running = Event()

    def is_at(self, url: str) -> None:
        self.client = http_client(url)
        self.running.set()


@contextmanager
def posting(clients: list[Client], service: Service) -> Iterator[None]:
    stop, failures = Event(), []

    def work(client: Client) -> None:
        try:
            client.post_until(stop, service)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        if failures:  # which may be why the block failed
            raise failures[0]


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("kills the service again and again")
def test_every_acknowledged_event_is_there_exactly_once_after_kills(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", KILLS)
    data, service = tmp_path / "data", Service()
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    served = Served(data)
    try:
        key, website_id = served.first_account()
        service.is_at(served.url)
        clients = [Client(number, key, website_id) for number in range(CLIENTS)]
        with posting(clients, service):
            for _ in range(KILLS):
                time.sleep(chance.uniform(0, 0.6))
                served.kill()
                served = Served(data)
                service.is_at(served.url)
            time.sleep(0.3)
        served.await_shipped()
        assert served.stop() == 0
    finally:
        served.kill()

    [rows] = query_warehouse(data, "SELECT name, event_id FROM events")
    stored = [tuple(row) for row in rows]
    acknowledged = {pair for client in clients for pair in client.acknowledged.items()}
    repeats = sum(client.repeats for client in clients)
    print(
        f"{KILLS} kills (seed {seed}): {len(acknowledged)} acknowledged,"
        f" {repeats} of them as repeats, {len(stored)} stored"
    )
    assert acknowledged <= set(stored), "lost"
    assert [pair for pair, times in Counter(stored).items() if times > 1] == [], "twice"
    assert len({name for name, _ in stored}) == len(stored), "one ID, two events"
    assert {name for name, _ in stored} <= set().union(*(client.sent for client in clients))
    assert len(acknowledged) > KILLS
