"""Measures the cost of claims by strangers on one user: `python -m tests.faults.many_claims
[NUMBER]`.

NUMBER browsers publicly claim one user ID, and the website's quarantine is full. Then the website's
backend sends the first event with that user and another visitor. Finally, the user is deleted.
Meanwhile, another workspace posts an event every 50 ms. A line for each step shows its duration,
the slowest of these posts, the growth of resident memory and the CPU time. The claims are sent to
this release first, and then to a service that merges them all, like the first release.
"""

import gzip
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests import scratch
from tests.faults.neighbour import client_of, cpu_s, memory_mb, post_event, repeated, sign_up
from tests.processes import new_python
from tests.serving import PENSTOCK, Served
from tests.waiting import eventually

_EARLIER = ("tests.faults.earlier_service",)
_PAUSE_S = 0.05
_SETTLE_S = 3.0
_LONGEST_S = 1_800
_BATCH = 1_000
_USER = "ada"


class Attack:
    """A running service, the website under attack, and the other workspace's posts."""

    def __init__(self, service: Served, key: str, website_id: str, posts: list[float]) -> None:
        self._service, self._website_id, self._posts = service, website_id, posts
        self._backend = client_of(service, "203.0.113.1", key)
        self._stranger = client_of(service, "203.0.113.2", None)

    @contextmanager
    def measured(self, step: str) -> Iterator[None]:
        before_mb, before_s = memory_mb(self._service, "VmRSS"), cpu_s(self._service)
        self._posts.clear()
        began_s = time.perf_counter()
        yield
        took_s = time.perf_counter() - began_s
        used_s, posts = cpu_s(self._service) - before_s, sorted(self._posts) or [0.0]
        grown_mb = memory_mb(self._service, "VmRSS") - before_mb
        print(
            f"{step:32} {took_s:7.2f} s  {used_s:7.2f} CPU s  +{grown_mb:4.0f} MB"
            f"  slowest post {posts[-1] * 1000:5.0f} ms"
            f"  median {posts[len(posts) // 2] * 1000:3.0f} ms  of {len(posts)}",
            flush=True,
        )

    def claim(self, number: int) -> None:
        """Send public identify calls for one user from different browsers."""
        for start in range(0, number, _BATCH):
            ids = [f"stranger-{at:06}" for at in range(start, min(start + _BATCH, number))]
            calls = [{"type": "identify", "anonymousId": own, "userId": _USER} for own in ids]
            self._send("/v1/batch", {"writeKey": self._website_id, "batch": calls})

    def fill_quarantine(self) -> None:
        """Send more rejected events than a quarantine may hold, in number and in size."""
        event = {"websiteId": self._website_id, "type": "nothing", "text": "stranger-" * 1_200}
        for _ in range(12):
            self._send("/api/track", {"events": [event] * 100})

    def _send(self, path: str, body: object) -> None:
        answer = self._stranger.post(
            path,
            content=gzip.compress(json.dumps(body).encode()),
            headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
        )
        assert answer.status_code < 429, (answer.status_code, answer.text[:300])

    def post_event(self) -> None:
        """Send an event from the backend, with the claimed user and a new visitor."""
        who = {"visitorId": "laptop", "userId": _USER}
        event = {"websiteId": self._website_id, "event": "e", **who}
        answer = self._backend.post("/api/v1/events", json=event)
        assert (answer.status_code, answer.json()["visitorId"]) == (202, "laptop"), answer.text

    def await_releases(self) -> None:
        """Wait until the rows of every released visitor have been changed."""

        def is_done() -> bool:
            with closing(sqlite3.connect(self._service.data / "penstock.sqlite3")) as db:
                return not db.execute("SELECT count(*) FROM open_releases").fetchone()[0]

        eventually(is_done, within_s=_LONGEST_S)

    def request_deletion(self, **who: str) -> str:
        body = {"websiteId": self._website_id, **who}
        answer = self._backend.post("/api/deletions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def await_deletion(self, deletion_id: str) -> None:
        def is_done() -> bool:
            return self._backend.get(f"/api/deletions/{deletion_id}").json()["state"] == "done"

        eventually(is_done, within_s=_LONGEST_S)


@contextmanager
def _neighbour(service: Served, key: str, website_id: str) -> Iterator[list[float]]:
    with (
        client_of(service, "198.51.100.1", key) as client,
        repeated(lambda: post_event(client, website_id), _PAUSE_S) as posts,
    ):
        yield posts


def run(number: int, planted_with: Sequence[str]) -> None:
    """Run one service with claims, the first event, and the deletion of a user with that many
    claims.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-claims-"))
    open_signup = {"PENSTOCK_SIGNUP_OPEN": "true"}
    with Served(
        folder / "data", program=planted_with, start=new_python, migrates=True, **open_signup
    ) as service:
        own = service.first_account()
        attacked = sign_up(service, "attacked"), sign_up(service, "deleted")
        with _neighbour(service, *own) as posts:
            event, deletion = (Attack(service, *account, posts) for account in attacked)
            with event.measured(f"{number:,} claims sent"):
                event.claim(number)
            deletion.claim(number)
            deletion.fill_quarantine()
        service.await_shipped()
        service.stop()
    with Served(folder / "data", start=new_python) as service, _neighbour(service, *own) as posts:
        event, deletion = (Attack(service, *account, posts) for account in attacked)
        time.sleep(_SETTLE_S)
        with event.measured("no attack"):
            time.sleep(_SETTLE_S)
        with event.measured("the backend's first event"):
            event.post_event()
            time.sleep(_SETTLE_S)
        with event.measured("until all claims are released"):
            event.await_releases()
        time.sleep(_SETTLE_S)
        with event.measured("a deletion is requested"):
            deletion_id = deletion.request_deletion(userId=_USER)
        with event.measured("until it is done"):
            deletion.await_deletion(deletion_id)


if __name__ == "__main__":
    scratch.use_memory()
    claims = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for title, program in (("this release", PENSTOCK), ("planted with an earlier one", _EARLIER)):
        print(f"Claims sent to {title}")
        run(claims, program)
