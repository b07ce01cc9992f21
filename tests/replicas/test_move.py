"""An installation with embedded stores moves to a cluster, as docs/scaling.md says, under load.

`PENSTOCK_MOVED_EVENTS` says how many events it has.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from tests.cli.commands import keys_of, start
from tests.cli.test_import_export import OWN
from tests.clickhouse_server import CLUSTER
from tests.nodes.test_rolling_upgrade import node_settings
from tests.postgres import PostgresServer
from tests.records import create, event_steps
from tests.replicas.cluster import ReplicatedCluster
from tests.replicas.test_operations import imported, upload
from tests.serving import Served

pytestmark = [pytest.mark.full("replicas"), pytest.mark.slow("moves an installation")]

EVENTS = int(os.environ.get("PENSTOCK_MOVED_EVENTS", "20000"))
PART = 20_000
"""Number of visitors in a file of an import."""
FIRST_MS, DAYS, DAY_MS = 1_767_225_600_000, 60, 86_400_000
STEPS = ("opened", "viewed", "added", "paid")
PERIOD = {"startAt": "2026-01-01T00:00:00Z", "endAt": "2026-03-10T00:00:00Z"}
FUNNELS: list[dict[str, Any]] = [
    {"name": "All steps", "steps": event_steps(*STEPS)},
    {"name": "By plan", "steps": event_steps("opened", "paid"), "breakdownProperties": ["plan"]},
    {
        "name": "Carts",
        "countingUnit": "attempt",
        "attemptProperty": "cart",
        "sequenceProperty": "n",
        "steps": event_steps(*STEPS),
    },
    {"name": "In an hour", "steps": event_steps("added", "paid"), "conversionWindowSeconds": 3600},
    {
        "name": "Runs",
        "repeat": True,
        "conversionWindowSeconds": 86_400,
        "steps": event_steps("viewed", "added"),
    },
]
PRO = json.dumps([{"property": "plan", "operator": "equals", "value": "pro"}])
QUESTIONS = (("results", {}), ("results", {"filters": PRO}), ("trend", {}), ("timing", {}))
HOURS_S = 7200
_OF_NEW_EVENTS = ("lastKnownEventAt", "coverage")
"""Fields that change with the events that arrive during the move."""


class Sender:
    """Sends events one after another to the address of the moment, as a client of its own."""

    def __init__(self) -> None:
        self.client: httpx.Client
        self.website_id = ""
        self.accepted, self.longest_s = 0, 0.0
        self._stop = Event()
        self._thread = Thread(target=self._send)

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._stop.wait(0.02):
            event = {
                "websiteId": self.website_id,
                "visitorId": f"live-{self.accepted}",
                "event": "live",
                "eventId": f"live-{self.accepted}",
            }
            began_s = time.monotonic()
            answer = self.client.post("/api/v1/events", json=event)
            assert answer.status_code == 202, answer.text
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)
            self.accepted += 1


def lines() -> Iterator[bytes]:
    """Files of events: each visitor does the steps until it drops off."""
    chance, count = random.Random(7), 0
    while count < EVENTS:
        part = []
        for visitor in range(count, count + PART):
            at_ms = FIRST_MS + chance.randrange(DAYS * DAY_MS)
            own = {
                "type": "event",
                "visitorId": f"device-{visitor}",
                "properties": {"plan": chance.choice(["free", "pro"]), "cart": f"c{visitor}"},
                **({"userId": f"user-{visitor % 5000}"} if chance.random() < 0.1 else {}),
            }
            for number, name in enumerate(STEPS[: chance.choice([1, 2, 3, 4, 4])], 1):
                if count == EVENTS:
                    break
                count, at_ms = count + 1, at_ms + chance.randrange(1, 3_600_000)
                own["properties"]["n"] = number
                part.append(json.dumps({**own, "name": name, "timestamp": at_ms}))
            if count == EVENTS:
                break
        yield "\n".join(part).encode()


def reports(client: httpx.Client) -> dict[tuple[str, int], Any]:
    shown = {}
    for funnel in client.get("/api/funnels").json()["data"]:
        for number, (question, more) in enumerate(QUESTIONS):
            path = f"/api/funnels/{funnel['id']}/{question}"
            answer = client.get(path, params={**PERIOD, **more})
            assert answer.status_code == 200, answer.text
            fields = answer.json()
            shown[funnel["name"], number] = {
                name: value for name, value in fields.items() if name not in (*OWN, *_OF_NEW_EVENTS)
            }
    return shown


def live_units(client: httpx.Client) -> int:
    answer = client.post("/api/funnels/preview", json={"steps": event_steps("live", "paid")})
    return int(answer.json()["aggregate"]["entered"])


@pytest.mark.usefixtures("starts_service")
def test_an_installation_moves_to_a_cluster_while_clients_send(
    cluster: ReplicatedCluster, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    settings = node_settings(postgres_server.fresh(), cluster.url)
    settings["PENSTOCK_WAREHOUSE_CLUSTER"] = CLUSTER
    timed = _Times()
    with Served(tmp_path / "old") as old, Served(tmp_path / "new", **settings) as new:
        (old.key, website_id), (new.key, _) = old.first_account(), new.first_account()
        timed("import", lambda: [_import(old, website_id, part) for part in lines()])
        for funnel in FUNNELS:
            create(old.client, "/api/funnels", funnel)
        old.await_shipped()
        before = timed("20 reports before", lambda: reports(old.client))
        sender = Sender()
        sender.client, sender.website_id = old.client, website_id
        with sender:
            for number in (1, 2):
                timed(f"round {number}", lambda: _move(old, new, tmp_path / "export"))
            [site] = new.client.get("/api/settings/websites").json()["data"]
            sender.website_id, sender.client = site["id"], new.client
            time.sleep(1)
            timed("last round", lambda: _move(old, new, tmp_path / "export"))
        after = timed("20 reports after", lambda: reports(new.client))
        assert len(before) == len(FUNNELS) * len(QUESTIONS) == 20
        different = [
            (question, name)
            for question, report in before.items()
            for name, value in report.items()
            if after[question][name] != value
        ]
        assert different == []
        assert before["All steps", 0]["aggregate"]["entered"] > EVENTS / 10
        assert live_units(new.client) == sender.accepted
    print(f"{sender.accepted} events sent meanwhile; longest response {sender.longest_s:.2f} s")


class _Times:
    """Runs functions and prints their seconds."""

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        began_s = time.monotonic()
        result = work()
        print(f"{name}: {time.monotonic() - began_s:.1f} s")
        return result


def _import(service: Served, website_id: str, content: bytes) -> None:
    ended = imported(service, upload(service.client, website_id, content))
    assert (ended["state"], ended["rejected"]) == ("done", 0), ended


def _move(old: Served, new: Served, folder: Path) -> None:
    for service, arguments in ((old, ["export"]), (new, ["import", "--from", "penstock"])):
        log = service.data.with_suffix(".command")
        log.unlink(missing_ok=True)
        began_s = time.monotonic()
        command = start(*arguments, folder, log=log, **keys_of(service))
        assert command.wait(HOURS_S) == 0, log.read_text()
        print(f"{arguments[0]}: {time.monotonic() - began_s:.1f} s; {log.read_text().strip()}")
