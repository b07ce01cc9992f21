"""Data for the pages: the shop from `penstock demo`, and some extra records."""

import re
import time
from pathlib import Path
from typing import Any

from tests.records import create, ndjson, new_website, send_file, track
from tests.serving import Served

APP = {
    "kind": "mobile",
    "name": "Acme for tablets",
    "iosBundleId": "com.acme.tablet",
    "iosTeamId": "A1B2C3D4E5",
    "androidPackage": "com.acme.tablet",
}

GOAL = {
    "name": "Paid",
    "match": {
        "type": "Transaction",
        "value": "purchase",
        "filters": [{"property": "plan", "operator": "in", "value": '["plus", "business"]'}],
    },
}


SEGMENT = {
    "name": "From Germany or Austria",
    "filters": [
        {"property": "$country", "operator": "in", "value": '["DE", "AT"]'},
        {"property": "plan", "operator": "is_set"},
    ],
}


ALERT: dict[str, Any] = {
    "name": "Checkout below 90%",
    "condition": {
        "kind": "rate",
        "when": "below",
        "level": 0.9,
        "parameters": {"interval": "day", "window": "1h"},
    },
    "channels": [{"kind": "chat", "url": "https://chat.example.com/hooks/1"}],
}
"""An alert. Its chat does not exist."""

WEBHOOK: dict[str, Any] = {
    "name": "Checkout reminders",
    "url": "https://shop.invalid/hooks/penstock?token=5f0c8a1be2d94c37",
    "events": ["expiring", "completed"],
    "expiringBeforeSeconds": 600,
}
"""A webhook. Its receiver does not exist."""

TABLE = b"""ordered_at;customer_no;status;order_no;total;express
02.05.2024 10:00:00;1007;cart;A-1;12.50;false
02.05.2024 10:04:00;1007;paid;A-1;12.50;false
03.05.2024 18:30:00;1008;cart;A-2;99.00;true
03.05.2024 18:31:00;1008;paid;A-2;99.00;true
04.05.2024 08:15:00;1007;cart;A-3;7.20;false
"""
"""A table of orders whose event names need a choice."""


MAPPINGS: dict[str, list[dict[str, str]]] = {
    "Orders of the old shop": [
        {"column": "created_at", "use": "time", "unit": "seconds"},
        {"column": "customer_id", "use": "user"},
        {"column": "status", "use": "event"},
        {"column": "order_id", "use": "attempt"},
        {"column": "total", "use": "property", "type": "number"},
        {"column": "note", "use": "ignored"},
    ],
    "Subscriptions": [
        {"column": "day", "use": "time", "unit": "text"},
        {"column": "account", "use": "user"},
        {"column": "change", "use": "event"},
    ],
}
"""Columns of saved mappings, by name."""


def checkouts() -> bytes:
    """Return an export of Mixpanel with checkouts and two kinds of invalid lines."""
    steps = ("Checkout Started", "Address Entered", "Order Paid")
    lines: list[dict[str, Any]] = [
        {
            "event": step,
            "properties": {
                "time": 1_714_557_600 + 3_600 * number + 60 * at,
                "distinct_id": f"visitor-{number % 40}",
                "$insert_id": f"{number}-{at}",
                "checkout_id": f"c-{number}",
                "plan": ("basic", "plus")[number % 2],
            },
        }
        for number in range(60)
        for at, step in enumerate(steps[: 1 + number % 3])
    ]
    lines += [
        {"event": "Newsletter Opened", "properties": {"time": "yesterday", "distinct_id": "ada"}},
        {"event": "Order Paid", "properties": {"time": 1_714_557_600, "distinct_id": {"id": 1}}},
    ]
    return ndjson(lines)


class Demo:
    """A running demo and a session of its account. ids: IDs of records, for URLs."""

    def __init__(self, folder: Path) -> None:
        self.service = Served(folder / "data", command="demo")
        self.url = self.service.url
        login = re.search(r"Login +(\S+) with the password (\S+)", self.service.output())
        assert login is not None
        self.email, self.password = login[1], login[2]
        client = self.service.client
        form = {"email": self.email, "password": self.password}
        client.post("/api/auth/login", json=form).raise_for_status()
        websites = {
            website["name"]: website["id"]
            for website in client.get("/api/settings/websites").json()["data"]
        }
        invited = {"email": "bob@example.com"}
        invitation = create(client, "/api/settings/invitations", invited)
        links = client.get("/api/mobile/deferred-links", params={"search": "spring-sale"}).json()
        self.ids = {
            "segment": create(client, "/api/segments", SEGMENT)["id"],
            "goal": create(client, "/api/goals", GOAL)["id"],
            "link": links["data"][0]["id"],
            "website": websites["Acme shop"],
            "app": new_website(client, **APP),
            **self._report(),
            "blog": new_website(client, "Blog", domain="blog.example.com"),
            "silent": new_website(client, "Forum"),
            "invitation": invitation["url"].partition("=")[2],
            "visitor": "bob-on-his-phone",
            "property": "checkoutId",
            "value": "none",
        }
        self.ids["share"] = self._share()
        selection = {"period": "settled", "timezone": "Europe/Berlin"}
        number = {"funnelId": self.ids["funnel"], "parameters": selection}
        self.ids["receipt"] = create(client, "/api/receipts", number)["id"]
        release = {"text": "Release 4.2", "at": int(time.time() - 12 * 86_400) * 1000}
        create(client, "/api/annotations", release)
        alert = {**ALERT, "condition": {**ALERT["condition"], "funnelId": self.ids["funnel"]}}
        self.ids["alert"] = create(client, "/api/alerts", alert)["id"]
        self.ids["webhook"] = self._webhook()
        self._live()
        self.ids["import"] = self._import()
        self.ids["checked"] = self._check("mixpanel-2024-05.json")
        self.ids["mapping"] = self._check("orders.csv", TABLE, "csv")
        self.ids["started"] = self._check("mixpanel-2024-06.json")
        for name, columns in MAPPINGS.items():
            mapping = {"name": name, "mapping": {"columns": columns}}
            create(client, "/api/import-mappings", mapping)
        self.service.client.post(f"/api/imports/{self.ids['started']}/start").raise_for_status()

    def _live(self) -> None:
        """Create a merged visitor, page views, an event, and rejected events."""
        client = self.service.client
        blog = self.ids["blog"]
        visitor = {"websiteId": blog, "visitorId": "bob-on-his-phone"}
        bob = {"userId": "bob", "traits": {"plan": "pro", "city": "Köln"}}
        for visitor_id in ("bob-on-his-phone", "bob-at-work"):
            identity = {"websiteId": blog, "visitorId": visitor_id, **bob}
            client.post("/api/identify", json=identity).raise_for_status()
        own = {"website_id": blog, "visitorId": "bob-on-his-phone"}
        for path in ("/posts/calm", "/posts/funnels", "/newsletter"):
            url = f"https://blog.example.com{path}"
            track(client, **own, type="pageview", path=path, url=url)
        properties = {"plan": "pro", "tags": ["calm", "funnels"], "price": 12.5}
        track(client, **own, name="newsletter_subscribed", properties=properties)
        for invalid in (
            {**visitor, "type": "event"},
            {**visitor, "type": "event", "name": "paid", "timestamp": "yesterday", "colour": "red"},
        ):
            assert client.post("/api/track", json=invalid).status_code == 422

    def _share(self) -> str:
        """Share a comparison of two periods. Returns the token."""
        selection = {"period": "settled", "timezone": "Europe/Berlin", "compare": "previous"}
        body = {"funnelId": self.ids["funnel"], "name": "Checkout, week by week"}
        share = create(self.service.client, "/api/shares", {**body, "parameters": selection})
        return str(share["url"].partition("/s/")[2])

    def _webhook(self) -> str:
        """Create a webhook with a delivery. Returns its ID."""
        client = self.service.client
        client.patch("/api/settings/workspace", json={"sharedContents": "units"})
        webhook = create(client, "/api/webhooks", WEBHOOK | {"funnelId": self.ids["funnel"]})
        client.post(f"/api/webhooks/{webhook['id']}/test").raise_for_status()
        return str(webhook["id"])

    def _import(self) -> str:
        """Create a deletion, and an import with rejected lines. Returns the ID of the import."""
        client, website_id = self.service.client, self.ids["blog"]
        line = '{{"type": "event", "name": "{0}", "timestamp": "{1}", "userId": "eve"}}\n'
        lines = [line.format("subscribed", f"2024-05-{day:02}T10:00:00Z") for day in range(1, 29)]
        body = "".join(
            [*lines, line.format("paid", "yesterday"), '{"type": "event", "colour": "red"}\n']
        ).encode()
        query = {"websiteId": website_id, "fileName": "newsletter-2024.ndjson"}
        import_id = send_file(client, body, "application/x-ndjson", query)
        span = {"from": "2023-01-01T00:00:00Z", "to": "2023-07-01T00:00:00Z"}
        create(client, "/api/deletions", {"websiteId": website_id, **span})
        self._export("s3://backups/acme", is_complete=True)
        self._export("warehouse-1:/srv/penstock/acme", is_complete=False)
        return import_id

    def _export(self, destination: str, *, is_complete: bool) -> None:
        """Record an export, as `penstock export` does."""
        client = self.service.client
        export = create(client, "/api/exports", {"destination": destination})
        query = {"websiteId": self.ids["blog"], "exportId": export["id"]}
        client.get("/api/exports/days", params=query).raise_for_status()
        if is_complete:
            client.post(f"/api/exports/{export['id']}/finish").raise_for_status()

    def _check(
        self, file_name: str, content: bytes | None = None, file_format: str = "mixpanel"
    ) -> str:
        """Send a file for its dry run, by default an export of checkouts. Returns the ID of the
        import once the dry run has ended.
        """
        query = {"websiteId": self.ids["blog"], "fileName": file_name, "format": file_format}
        query["dryRun"] = "true"
        media_type = "text/csv" if file_format == "csv" else "application/x-ndjson"
        file = content or checkouts()
        return send_file(self.service.client, file, media_type, query, "checked")

    def _report(self) -> dict[str, str]:
        """Create the checkout funnel and an attempt with a skipped event. Returns their IDs."""
        funnels = {
            funnel["name"]: funnel["id"]
            for funnel in self.service.client.get("/api/funnels").json()["data"]
        }
        funnel = funnels["Checkout"]
        skipped = self.service.client.get(
            f"/api/funnels/{funnel}/units", params={"quality": "sequenceSkip"}
        ).json()["data"]
        cohort = {"name": "Lost at step 2", "kind": "list", "funnelId": funnel}
        lost = {"step": "2", "outcome": "droppedOff"}
        saved = create(self.service.client, "/api/cohorts", {**cohort, "parameters": lost})
        return {"funnel": funnel, "unit": skipped[0]["unit"], "cohort": saved["id"]}

    @property
    def session(self) -> str:
        """The session cookie."""
        return self.service.client.cookies["service_session"]

    def close(self) -> None:
        self.service.__exit__()
