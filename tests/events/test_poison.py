"""No sender can stop the pipeline: many property keys, few descriptors, a kill in an insert."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.descriptors import NEEDED
from tests.serving import PENSTOCK, Served, penstock, query_warehouse, run_module

pytestmark = pytest.mark.usefixtures("starts_service")

PATIENCE_S = 120


def many_keys(website_id: str, post: int) -> bytes:
    """A batch whose every event has 70 long keys that no other event has."""
    events = [
        {
            "type": "event",
            "name": "poison",
            "visitorId": "v",
            "properties": {f"{'k' * 90}{post}-{number}-{key}": 1 for key in range(70)},
        }
        for number in range(250)
    ]
    return gzip.compress(json.dumps({"websiteId": website_id, "events": events}).encode())


def attempts(website_id: str) -> list[dict[str, object]]:
    """Events of a checkout, with the keys that its funnel reads."""
    return [
        {
            "websiteId": website_id,
            "userId": "ann",
            "event": "checkout_step",
            "properties": {"checkoutId": f"c-{number // 3}", "n": number % 3},
        }
        for number in range(100)
    ]


def wait_for(condition: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow("a service of its own takes many keys")
@pytest.mark.parametrize("posts", [1, pytest.param(4, marks=pytest.mark.full("more keys"))])
def test_many_property_keys_of_one_sender_stop_no_shipment(tmp_path: Path, posts: int) -> None:
    """Each post has 17,500 keys; the service may open few more than 256 files."""
    with Served(
        tmp_path / "data", descriptors=(256, NEEDED), PENSTOCK_MAX_WEBSITE_PROPERTY_KEYS="1000000"
    ) as service:
        _, website_id = service.first_account()
        for post in range(posts):
            answer = service.client.post(
                "/api/track",
                content=many_keys(website_id, post),
                headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
            )
            assert (answer.status_code, answer.json()["accepted"]) == (202, 250)
        event = {"websiteId": website_id, "visitorId": "somebody", "event": "signed_up"}
        assert service.client.post("/api/v1/events", json=event).status_code == 202

        def is_reported() -> bool:
            answer = service.client.get("/api/visitors", params={"websiteId": website_id})
            return "somebody" in answer.text

        assert wait_for(is_reported), service.output()[-2000:]


def test_frequent_keys_have_files_of_their_own_after_a_merge_whatever_strangers_send(
    tmp_path: Path,
) -> None:
    """The keys of attempts and of sequence numbers, which a funnel reads of each event."""
    with Served(tmp_path / "data") as service:
        _, website_id = service.first_account()
        for post in range(2):
            rare = json.loads(gzip.decompress(many_keys(website_id, post)))
            rare["events"] = rare["events"][:7]  # with 490 keys
            assert service.client.post("/api/track", json=rare).status_code == 202
            batch = {"events": attempts(website_id)}
            assert service.client.post("/api/v1/events/batch", json=batch).status_code == 202
        assert service.stop() == 0
    _, [[with_own_files]] = query_warehouse(
        tmp_path / "data",
        "OPTIMIZE TABLE events FINAL",
        "SELECT groupUniqArrayArray(JSONDynamicPaths(hashes)) FROM events",
    )
    assert {"checkoutId", "n"} <= set(with_own_files)


def test_too_few_descriptors_are_refused_at_the_start(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    run = run_module(*PENSTOCK, "serve", "--port", "0", "--data", folder, descriptors=(1024, 1024))
    assert run.returncode == 1
    assert f"may open 1,024 files, but the embedded event store needs {NEEDED:,}" in run.stderr
    assert "ulimit -Hn" in run.stderr


def test_rows_that_a_killed_insert_left_are_removed_at_the_start(tmp_path: Path) -> None:
    left = tmp_path / "inserts" / "left.jsonl"
    left.parent.mkdir()
    (tmp_path / "penstock.lock").touch()
    left.write_text('{"visitor_id": "somebody"}')
    assert penstock("migrate", "--data", str(tmp_path)).returncode == 0
    assert list(left.parent.iterdir()) == []
