"""Short stories: events sent to a running Penstock over HTTP, and funnels over them.

A story uses the notation of the worked examples in the counting rules: `0/A(1) 10/B` is an event A
after 0 seconds with sequence number 1, then an event B after 10 seconds without a sequence number.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from penstock.base.clock import iso
from tests.conftest import ShiftedClock
from tests.tenant import Tenant
from tests.waiting import eventually

Json = dict[str, Any]

HOUR_S = 3600
DAY_S = 86_400
EVENT = re.compile(r"([\d.]+)/([^\s(]+)(?:\((.*?)\))?")
"""The seconds, the name and the number of an event in a story."""

ATTEMPTS: Json = {
    "countingUnit": "attempt",
    "attemptProperty": "attempt",
    "sequenceProperty": "n",
    "conversionWindowSeconds": HOUR_S,
}
"""The usual fields of a definition that counts attempts."""

READ_ONLY = ("id", "revision", "createdAt", "updatedAt")
"""The fields of a saved funnel that its changes cannot set."""


def step(name: str, /, *alternatives: str, **more: Any) -> Json:
    """Return a row that matches an event with this name or one of `alternatives`."""
    others: Json = (
        {"or": [{"type": "Event", "value": other} for other in alternatives]}
        if alternatives
        else {}
    )
    return {"type": "Event", "value": name, **others, **more}


def rows_of(rows: Iterable[str | Json]) -> list[Json]:
    """Return rows of a definition. rows: rows, or names of events."""
    return [step(row) if isinstance(row, str) else row for row in rows]


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
        for seconds, name, number in EVENT.findall(text):
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

    def pageview(self, seconds: float, path: str, visitor: str = "ann", **properties: Any) -> Json:
        item = self.item(seconds, "", visitor, **properties) | {"type": "pageview", "path": path}
        del item["name"]
        return item

    def screenview(self, seconds: float, screen: str, **properties: Any) -> Json:
        item = self.item(seconds, "", **properties) | {"type": "screenview", "screen": screen}
        del item["name"]
        return item

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
        body = {"name": "Scenario", "steps": rows_of(rows), **definition}
        answer = self.client.post("/api/funnels", json=body)
        assert answer.status_code == 201, answer.text
        funnel_id: str = answer.json()["id"]
        return funnel_id

    def attempts(self, *rows: str | Json, **definition: Any) -> str:
        """Like `funnel`, but counts attempts by `attempt`, ordered by `n`, within one hour."""
        body = {**ATTEMPTS, **definition}
        if "conversionWindow" in definition:
            del body["conversionWindowSeconds"]
        return self.funnel(*rows, **body)

    def request(self, funnel_id: str, what: str, **query: Any) -> httpx.Response:
        """Request a report of a funnel. Objects and lists of the query are sent as JSON."""
        parameters = {
            name: json.dumps(value) if isinstance(value, (dict, list)) else value
            for name, value in query.items()
        }
        return self.client.get(f"/api/funnels/{funnel_id}/{what}", params=parameters)

    def report(self, funnel_id: str, what: str, **query: Any) -> Json:
        """Return a report, such as `trend`. The query is as for `request`."""
        answer = self.request(funnel_id, what, **query)
        assert answer.status_code == 200, answer.text
        record: Json = answer.json()
        return record

    def results(self, funnel_id: str, **query: Any) -> Json:
        return self.report(funnel_id, "results", **query)

    def table(self, funnel_id: str, what: str, **query: Any) -> list[dict[str, str]]:
        """Return the rows of an export as CSV."""
        answer = self.request(funnel_id, what, format="csv", **query)
        assert answer.status_code == 200, answer.text
        return list(csv.DictReader(io.StringIO(answer.text.lstrip("\ufeff"), newline="")))

    def trace(self, funnel_id: str, unit: str, **query: Any) -> Json:
        return self.report(funnel_id, f"units/{unit}", **query)

    def counts(self, funnel_id: str, **query: Any) -> list[int]:
        """Return the number of units that reached each step."""
        return counts(self.results(funnel_id, **query))

    def units(self, funnel_id: str, **query: Any) -> dict[str, Json]:
        """Return the counted units, of which there are at most 100, by their names."""
        page = self.report(funnel_id, "units", **{"pageSize": 100, **query})
        assert len(page["data"]) == page["total"]
        return {unit["unit"]: unit for unit in page["data"]}

    def names(self, funnel_id: str, **query: Any) -> list[str]:
        """Return the names of the units on a page of the list."""
        return [unit["unit"] for unit in self.report(funnel_id, "units", **query)["data"]]

    def pages(self, funnel_id: str, **query: Any) -> Iterator[Json]:
        """Yield every page of the list of units."""
        while True:
            page = self.report(funnel_id, "units", **query)
            yield page
            query["cursor"] = page["nextCursor"]
            if query["cursor"] is None:
                return

    def definition(self, funnel_id: str) -> Json:
        """Return the saved funnel without its read-only fields."""
        record = self.client.get(f"/api/funnels/{funnel_id}").json()
        return {name: value for name, value in record.items() if name not in READ_ONLY}

    def changes(self, funnel_id: str) -> list[str]:
        """Return the changes of the newest revision."""
        revisions = self.client.get(f"/api/funnels/{funnel_id}/revisions").json()["data"]
        changes: list[str] = revisions[0]["changes"]
        return changes

    def website(self, name: str, kind: str = "web") -> str:
        """Create another website of the workspace and return its ID."""
        body = {"name": name, "kind": kind}
        website_id: str = self.client.post("/api/settings/websites", json=body).json()["id"]
        return website_id

    def goal(self, name: str, match: Json) -> Json:
        answer = self.client.post("/api/goals", json={"name": name, "match": match})
        assert answer.status_code == 201, answer.text
        goal: Json = answer.json()
        return goal

    def identify(self, user: str, *visitors: str, **more: Any) -> Json:
        """Say that visitors are a user, which merges them. Return the last response."""
        body = {"websiteId": self.tenant.website_id, "userId": user, **more}
        for visitor in visitors:
            answer = self.client.post("/api/identify", json={**body, "visitorId": visitor})
            assert answer.status_code == 200, answer.text
        record: Json = answer.json()
        return record

    def delete(self, **target: Any) -> Json:
        """Delete events, wait for the end of the deletion and return its first record."""
        body = {"websiteId": self.tenant.website_id, **target}
        answer = self.tenant.browser.post("/api/deletions", json=body)
        assert answer.status_code in (201, 202), answer.text
        deletion: Json = answer.json()
        path = f"/api/deletions/{deletion['id']}"
        eventually(lambda: self.client.get(path).json()["state"] == "done")
        return deletion

    def period(self, start_s: float, end_s: float) -> Json:
        """Return the parameters of a period from `start_s` until before `end_s`."""
        return {"startAt": self.at(start_s), "endAt": self.at(end_s)}


def pick(record: Json, *names: str) -> tuple[Any, ...]:
    """Return the values of these fields."""
    return tuple(record[name] for name in names)


def column(rows: Iterable[Json], name: str) -> list[Any]:
    """Return the value of one field in each row."""
    return [row[name] for row in rows]


def where(key: str, operator: str = "equals", value: str | None = None) -> Json:
    """Return a filter. value: None if it has none."""
    return {"property": key, "operator": operator, **({} if value is None else {"value": value})}


def counts(report: Json) -> list[int]:
    """Return the number of units that reached each step."""
    return column(report["aggregate"]["steps"], "count")


def outcome(part: Json) -> tuple[Any, ...]:
    """Return the numbers of entered, completed, pending and dropped-off units."""
    return pick(part, "entered", "completed", "pending", "droppedOff")


def by_cohort(report: Json, *properties: str, figure: str = "entered") -> dict[Any, Any]:
    """Return a figure of each cohort. The key is the cohort's value, or the tuple of its values."""
    figures = {}
    for row in report["cohorts"]["data"]:
        values = pick(row["cohort"], *properties)
        figures[values if len(values) > 1 else values[0]] = row[figure]
    return figures
