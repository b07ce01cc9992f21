"""Short stories: events sent to a running Penstock over HTTP, and funnels over them.

A story uses the notation of the worked examples in the counting rules: `0/A(1) 10/B` is an event A
after 0 seconds with sequence number 1, then an event B after 10 seconds without a sequence number.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from penstock.base.clock import iso
from tests.conftest import ShiftedClock
from tests.tenant import Tenant

Json = dict[str, Any]

HOUR_S = 3600
DAY_S = 86_400
_EVENT = re.compile(r"([\d.]+)/([^\s(]+)(?:\((.*?)\))?")


def step(name: str, /, *alternatives: str, **more: Any) -> Json:
    """Return a row that matches an event with this name or one of `alternatives`."""
    others: Json = (
        {"or": [{"type": "Event", "value": other} for other in alternatives]}
        if alternatives
        else {}
    )
    return {"type": "Event", "value": name, **others, **more}


class Scene:
    """A website with stories. By default, they start 100 days ago, so every window has ended."""

    def __init__(self, tenant: Tenant, clock: ShiftedClock, ago_s: float = 100 * DAY_S) -> None:
        self.tenant, self.client = tenant, tenant.client
        self.start_ms = clock() - round(ago_s * 1000)

    def at(self, seconds: float) -> str:
        return iso(self.start_ms + round(seconds * 1000))

    def story(
        self,
        text: str,
        *,
        visitor: str = "ann",
        attempt: Any = "a1",
        sent: str = "as told",
        **properties: Any,
    ) -> None:
        """Track a story's events, each with `properties` and the attempt ID, unless it is None.

        sent: order of sending, either `as told` or `backwards`.
        """
        items = []
        for seconds, name, number in _EVENT.findall(text):
            own = {"attempt": attempt} if attempt is not None else {}
            own |= {"n": json.loads(number)} if number else {}
            items.append(self.item(float(seconds), name, visitor, **own, **properties))
        self.track(items if sent == "as told" else reversed(items))

    def item(self, seconds: float, name: str, visitor: str = "ann", **properties: Any) -> Json:
        return {
            "type": "event",
            "name": name,
            "visitorId": visitor,
            "timestamp": self.at(seconds),
            "properties": properties,
        }

    def send_event(
        self, seconds: float, name: str, visitor: str = "ann", **properties: Any
    ) -> None:
        self.track([self.item(seconds, name, visitor, **properties)])

    def track(self, items: Iterable[Json]) -> Json:
        answer = self.client.post(
            "/api/track", json={"websiteId": self.tenant.website_id, "events": list(items)}
        )
        receipts: Json = answer.json()
        assert answer.status_code == 202, answer.text
        assert receipts["rejected"] == 0, receipts
        return receipts

    def server_event(self, seconds: float, name: str, **fields: Any) -> Json:
        body = {
            "websiteId": self.tenant.website_id,
            "event": name,
            "timestamp": self.at(seconds),
            **fields,
        }
        answer = self.client.post("/api/v1/events", json=body)
        assert answer.status_code == 202, answer.text
        receipt: Json = answer.json()
        return receipt

    def funnel(self, *rows: str | Json, **definition: Any) -> str:
        """Create a funnel and return its ID. rows: rows, or names of events."""
        steps = [step(row) if isinstance(row, str) else row for row in rows]
        answer = self.client.post(
            "/api/funnels", json={"name": "Scenario", "steps": steps, **definition}
        )
        assert answer.status_code == 201, answer.text
        funnel_id: str = answer.json()["id"]
        return funnel_id

    def attempts(self, *rows: str | Json, **definition: Any) -> str:
        """Like `funnel`, but counts attempts by `attempt`, ordered by `n`, within one hour."""
        usual: Json = {
            "countingUnit": "attempt",
            "attemptProperty": "attempt",
            "sequenceProperty": "n",
        }
        if "conversionWindow" not in definition:
            usual["conversionWindowSeconds"] = HOUR_S
        return self.funnel(*rows, **{**usual, **definition})

    def results(self, funnel_id: str, **query: Any) -> Json:
        cohort = query.pop("cohort", None)
        parameters = query if cohort is None else {**query, "cohort": json.dumps(cohort)}
        answer = self.client.get(f"/api/funnels/{funnel_id}/results", params=parameters)
        assert answer.status_code == 200, answer.text
        report: Json = answer.json()
        return report

    def counts(self, funnel_id: str, **query: Any) -> list[int]:
        """Return the number of units that reached each step."""
        return [row["count"] for row in self.results(funnel_id, **query)["aggregate"]["steps"]]

    def units(self, funnel_id: str, **query: Any) -> dict[str, Json]:
        """Return the counted units, of which there are at most 100, by their names."""
        answer = self.client.get(
            f"/api/funnels/{funnel_id}/units", params={"pageSize": 100, **query}
        )
        assert answer.status_code == 200, answer.text
        page: Json = answer.json()
        assert len(page["data"]) == page["total"]
        return {unit["unit"]: unit for unit in page["data"]}


def outcome(part: Json) -> tuple[int, int, int, int]:
    """Return the numbers of entered, completed, pending and dropped-off units."""
    return part["entered"], part["completed"], part["pending"], part["droppedOff"]


def by_cohort(report: Json, *properties: str) -> dict[Any, int]:
    """Return the number of entered units by cohort. The key is the cohort's value, or the tuple of
    its values.
    """
    entered = {}
    for row in report["cohorts"]["data"]:
        values = tuple(row["cohort"][name] for name in properties)
        entered[values if len(values) > 1 else values[0]] = row["entered"]
    return entered
