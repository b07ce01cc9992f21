"""Gives a faulty service work to do, and checks the result.

The work is a fixed set of checkouts: posted, imported, and some of them deleted. Like real senders,
the tasks repeat each request with the same IDs until it is acknowledged. So the final report is
known in advance, whatever the fault.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.serving import Served, penstock

POSTED, IMPORTED = 60, 40
STEPS = ("checkout_started", "address_entered", "order_placed")
DELETED_USER = "leaver"
_PATIENCE_S = 90.0


class NoAnswer(Exception):
    """The service disconnected or is currently unavailable."""


def checkout(website_id: str, number: int, kind: str) -> list[dict[str, Any]]:
    """Return the events of one checkout, which reaches step 1 + number % 3."""
    user = DELETED_USER if number % 10 == 9 else f"{kind}-{number}"
    return [
        {
            "websiteId": website_id,
            "event": STEPS[step],
            "userId": user,
            "eventId": f"{kind}-{number}-{step}",
            "timestamp": f"2025-03-{1 + number % 28:02}T10:{number % 60:02}:{step:02}Z",
            "properties": {"checkoutId": f"{kind}-{number}"},
        }
        for step in range(1 + number % len(STEPS))
    ]


def expected_counts(*, deleted: bool) -> list[int]:
    """Return the number of checkouts that reached each step. deleted: whether to leave out the
    deleted user's checkouts.
    """
    reached_steps = [
        number % len(STEPS)
        for numbers in (range(POSTED), range(IMPORTED))
        for number in numbers
        if not (deleted and number % 10 == 9)
    ]
    return [sum(reached >= step for reached in reached_steps) for step in range(len(STEPS))]


class Workload:
    """One installation with its account, funnel and link. Each task runs once."""

    def __init__(self, service: Served, *, deletes: bool = True) -> None:
        """deletes: whether a user is deleted. Set it to False if the service's clock is wrong,
        because deletions depend on it.
        """
        self._deletes = deletes
        self.key, self.website_id = service.first_account()
        self.acknowledged: dict[str, str] = {}
        funnel = {
            "name": "Checkout",
            "countingUnit": "attempt",
            "attemptProperty": "checkoutId",
            "steps": [{"type": "Event", "value": name} for name in STEPS],
        }
        self.funnel_id = _call(service, "POST", "/api/funnels", json=funnel)["id"]
        app = _call(
            service, "POST", "/api/settings/websites", json={"name": "App", "kind": "mobile"}
        )
        link = {"name": "L", "slug": "faults", "destinationPath": "/", "websiteId": app["id"]}
        link |= {"fallbackUrl": "https://example.com/"}
        _call(service, "POST", "/api/mobile/deferred-links", json=link)
        self._tasks: list[Callable[[Served], None]] = [
            *(self._post(number) for number in range(0, POSTED, 6)),
            self._click,
            self._import,
            *([self._delete] if deletes else []),
        ]
        self._counts = [0] * len(STEPS)

    def run_to_end(self, service: Served, give_up_s: float = 120) -> None:
        """Finish the remaining tasks on a service that recovers by itself."""
        deadline = time.monotonic() + give_up_s
        while not self.work(service):
            assert service.process.poll() is None, service.output()
            assert time.monotonic() < deadline, "it did not recover"
            time.sleep(0.05)

    def work(self, service: Served) -> bool:
        """Run the remaining tasks. Returns False if the service disconnects or is unavailable."""
        service.client.headers["Authorization"] = f"Bearer {self.key}"
        while self._tasks:
            try:
                self._tasks[0](service)
            except NoAnswer:
                return False
            del self._tasks[0]
        return True

    def _post(self, first: int) -> Callable[[Served], None]:
        def post(service: Served) -> None:
            numbers = range(first, first + 6)
            events = [e for n in numbers for e in checkout(self.website_id, n, "posted")]
            answer = _call(service, "POST", "/api/v1/events/batch", json={"events": events})
            for event, receipt in zip(events, answer["results"], strict=True):
                assert receipt["status"] in ("accepted", "duplicate"), receipt
                known = self.acknowledged.setdefault(event["eventId"], receipt["eventId"])
                assert known == receipt["eventId"], "one ID, two events"
            self._check_counts(service)

        return post

    def _check_counts(self, service: Served) -> None:
        """Assert that counts of acknowledged events never decrease."""
        counts = self.counts(service)
        if counts is not None:
            assert all(now >= before for now, before in zip(counts, self._counts, strict=True))
            self._counts = counts

    def _click(self, service: Served) -> None:
        with suppress(httpx.TransportError):
            service.client.get("/l/faults", follow_redirects=False)

    def _import(self, service: Served) -> None:
        lines = []
        for number in range(IMPORTED):
            for event in checkout(self.website_id, number, "imported"):
                line = {"type": "event", "name": event.pop("event")}
                del event["websiteId"]
                lines.append(json.dumps(line | {"dedupeKey": event.pop("eventId")} | event))
        query = {"websiteId": self.website_id}
        headers = {"Content-Type": "application/x-ndjson"}
        body = "\n".join(lines).encode()
        job = _call(service, "POST", "/api/imports", params=query, content=body, headers=headers)
        _await_end(service, f"/api/imports/{job['id']}")

    def _delete(self, service: Served) -> None:
        body = {"websiteId": self.website_id, "userId": DELETED_USER}
        job = _call(service, "POST", "/api/deletions", json=body)
        _await_end(service, f"/api/deletions/{job['id']}")

    def counts(self, service: Served) -> list[int] | None:
        """Return the number of checkouts that reached each step, from the report; None if it is
        incomplete.
        """
        try:
            report = _call(service, "GET", f"/api/funnels/{self.funnel_id}/results")
        except NoAnswer:
            return None
        if any("may not be counted yet" in note for note in report["coverage"]["notes"]):
            return None
        return [step["count"] for step in report["aggregate"]["steps"]]

    def finish(self, data: Path, **settings: str) -> None:
        """Start a service without faults, run the remaining tasks, and check everything."""
        with Served(data, **settings) as service:
            assert self.work(service), service.output()
            # An earlier request whose response was lost may have started an import or deletion.
            for path in ("/api/imports", "/api/deletions"):
                for job in _call(service, "GET", path)["data"]:
                    _await_end(service, f"{path}/{job['id']}")
            if self._deletes:
                # As documented, an interrupted import may have restored events of the deleted user.
                self._delete(service)
            assert self.counts(service) == expected_counts(deleted=self._deletes)
            for job in _call(service, "GET", "/api/imports")["data"]:
                assert (job["state"], job["rejected"]) == ("done", 0)
            assert service.stop() == 0
        verified = penstock("verify", "--data", str(data), **settings)
        assert verified.returncode == 0, verified.stdout + verified.stderr


def _call(service: Served, method: str, path: str, **request: Any) -> Any:
    """Return the JSON of a successful response.

    Raises `NoAnswer` if there is no response or it is a 503. Any other error is a bug.
    """
    try:
        answer = service.client.request(method, path, **request)
    except httpx.TransportError as error:
        raise NoAnswer from error
    if answer.status_code == 503:
        raise NoAnswer(answer.text)
    assert answer.status_code < 300, answer.text
    return answer.json()


def _await_end(service: Served, path: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        job = _call(service, "GET", path)
        if job["state"] in ("done", "failed"):
            assert job["state"] == "done", job
            return
        time.sleep(0.02)
    raise AssertionError(f"never ended: {job}")
