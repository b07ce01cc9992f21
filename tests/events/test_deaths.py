"""Work that ends the process is not repeated as it is at each start: inserts and deletions."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.serving import Served, query_warehouse
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("starts_service")

DELETION = ("tests.faults.faulty_service", "deletion_before_removal", "1")
"""A service that dies when it removes events from the event store."""
INSERT = ("tests.faults.faulty_service", "dies_of_row", "1")
"""A service that dies when its engine reads an event called `bad 1`."""


def send(served: Served, website_id: str, names: Sequence[str]) -> None:
    events = [{"websiteId": website_id, "event": name, "userId": "u"} for name in names]
    answer = served.client.post("/api/v1/events/batch", json={"events": events})
    assert answer.json()["accepted"] == len(names)


def start_until(
    data: Path, program: Sequence[str], key: str, is_settled: Callable[[httpx.Client], bool]
) -> tuple[Served, int]:
    """Start a service until one lives until it has settled. Returns it, and the number of those
    that died.
    """
    for deaths in range(12):
        try:
            served = Served(data, program=program, key=key)
        except AssertionError:
            continue  # It died before it said that it had started.

        def has_ended(served: Served = served) -> bool:
            try:
                return is_settled(served.client)
            except httpx.HTTPError:
                return served.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL

        eventually(has_ended)
        if served.process.poll() is None:
            return served, deaths
    raise AssertionError("each start died")


@pytest.mark.slow("starts a service again and again")
def test_an_event_that_ends_the_process_is_quarantined_and_the_others_are_stored(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    first = Served(data, program=INSERT)
    key, website_id = first.first_account()
    send(first, website_id, ["good", "bad 1"])
    assert first.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL

    def is_empty(client: httpx.Client) -> bool:
        bundles: int = client.get("/health/ready").json()["outbox"]["bundles"]
        return bundles == 0

    served, deaths = start_until(data, INSERT, key, is_empty)
    with served:
        [entry] = served.client.get("/api/events/refused").json()["data"]
        assert "stopped 3 times" in entry["errors"][0]["message"]
        assert served.stop() == 0
    assert deaths == 3
    assert query_warehouse(data, "SELECT name FROM events") == [[["good"]]]
    assert not list((data / "attempts").iterdir())


@pytest.mark.slow("starts a service again and again")
def test_a_deletion_that_ends_the_process_waits_and_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = Served(data, program=DELETION)
    key, website_id = first.first_account()
    send(first, website_id, ["a"])
    first.await_shipped()
    body = {"websiteId": website_id, "userId": "u"}
    with suppress(httpx.TransportError):  # It may die before it has answered.
        first.client.post("/api/deletions", json=body)
    assert first.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL

    def is_held(client: httpx.Client) -> bool:
        [record] = client.get("/api/deletions").json()["data"]
        return "stopped repeatedly during this deletion" in (record["error"] or "")

    served, deaths = start_until(data, DELETION, key, is_held)
    with served:
        assert deaths == 1
        assert served.stop() == 0
