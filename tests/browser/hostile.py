"""Texts that try to run code or to reverse or break a page, and workspaces full of such texts."""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import create_engine, func, update

from penstock.metadb.snapshot import SQLITE_FILE
from penstock.metadb.tables import metadata
from tests import user_agents
from tests.links.conftest import APP, LINKS
from tests.records import ndjson, new_website, send_events, send_file, track
from tests.serving import Served, http_client
from tests.tenant import PASSWORD

HOSTILE = [
    "<script>document.title='run'</script>",
    '"><img src=x onerror="document.title=\'run\'">',
    "{{ 7 * 7 }} ${7*7} </title></textarea>",
    "\u202egnirts\u2066 \u200f\u0639\u0631\u0628\u064a",
    "W" * 200,
    "👩‍👩‍👧‍👦 é́́́ ﷽",
]

TEXTS = {
    "markup": " ".join([*HOSTILE[:3], HOSTILE[4][:78]]),
    "turning": f"{HOSTILE[5]} {HOSTILE[3]}",
}
"""The same texts, combined into two texts of at most 200 bytes, so that each page is opened only
twice.
"""

ADDRESSES = {
    "markup": "o'&{{7*7}}${7*7}`x`@example.com",
    "turning": f"{'w' * 64}@xn--mgbh0fb.{'w' * 63}.{'w' * 50}.com",
}
"""Email addresses, which allow far fewer characters than other texts."""

HOUR_MS = 3_600_000
TURNING = dict.fromkeys(map(ord, "\u202e\u2066\u200f"))
OLD_NAMES = (
    *("workspaces", "api_keys", "websites", "segments", "funnels", "funnel_revisions"),
    *("saved_cohorts", "links", "link_revisions", "import_mappings", "shares", "alerts"),
    *("receipts", "webhooks"),
)
"""Tables with names that earlier versions accepted and that are refused now. A shared report has
the name of its funnel by default.
"""


class Workspace:
    """A workspace with one of `TEXTS` in every field. ids: IDs for `tests.browser.pages`.

    Names that turn the direction of text are refused today, so they are stored as an earlier
    version stored them. Names of goals, which funnels repeat, do not turn it.
    """

    def __init__(self, service: Served, kind: str) -> None:
        self.url, self.text, self.email = service.url, TEXTS[kind], ADDRESSES[kind]
        self.name = self.text.translate(TURNING)
        self.http = http_client(service.url)
        form = {"email": self.email, "password": PASSWORD, "workspaceName": self.name}
        self._id = self._send("/api/auth/signup", form)["workspace"]["id"]
        self._key = self._send("/api/settings/api-keys", {"name": self.name})["key"]
        website = new_website(self.http, self.name, identityScope=self.name)
        blog = new_website(self.http, self.name, domain=f"{'w' * 63}.example.com")
        silent = new_website(self.http, self.name)
        invitation = self._send("/api/settings/invitations", {"email": f"y{self.email[1:]}"})["url"]
        encoded = quote(self.text, safe="")
        self.ids: dict[str, str] = {
            "website": website,
            "blog": blog,
            "silent": silent,
            "invitation": invitation.partition("=")[2],
            "visitor": encoded,
            "unit": encoded,
            "property": encoded,
            "value": encoded,
        }
        self._track(website)
        self._events(website)
        self._identify(blog)
        self._definitions()
        self._link()
        self._jobs(blog)
        self._store_old_names(service.data)

    def _store_old_names(self, data: Path) -> None:
        """Store the text as names, as an earlier version would have."""
        engine = create_engine(f"sqlite:///{data / SQLITE_FILE}", connect_args={"timeout": 60})
        with engine.begin() as db:
            for table in map(metadata.tables.__getitem__, OLD_NAMES):
                new = {column: self.text for column in ("name", "folder") if column in table.c}
                db.execute(update(table).where(table.c.name == self.name).values(new))
            db.execute(update(metadata.tables["annotations"]).values(text=self.text))
            entries = metadata.tables["audit_entries"]
            mine = (entries.c.actor, entries.c.target)
            texts = {column: func.replace(column, self.name, self.text) for column in mine}
            db.execute(update(entries).values(texts))
        engine.dispose()

    @property
    def session(self) -> str:
        """The session cookie."""
        return self.http.cookies["service_session"]

    def join(self, host: "Workspace") -> None:
        """Make the owner a member of another workspace, without switching to it."""
        invited = host._send("/api/settings/invitations", {"email": self.email})["url"]
        self._send("/api/auth/invitations/accept", {"token": invited.partition("=")[2]})
        self._send("/api/auth/workspace", {"workspaceId": self._id})

    def _send(self, path: str, body: Any, expected: int | None = None, **more: Any) -> Any:
        answer = self.http.post(path, json=body, **more)
        assert answer.is_success if expected is None else answer.status_code == expected, (
            f"{path} {answer.text[:500]}"
        )
        return answer.json()

    def _track(self, website: str) -> None:
        """Send events from a browser: some that are accepted and one that is rejected."""
        text = self.text
        seen = {"websiteId": website, "visitorId": text, "sessionId": text}
        where = {"url": f"https://example.com/{text}?a={text}", "referrer": text, "title": text}
        utm = dict.fromkeys(
            ("utmSource", "utmMedium", "utmCampaign", "utmContent", "utmTerm"), text
        )
        custom = {"properties": {text: text, "list": [text], "inner": {text: text}}}
        browser = {"User-Agent": HOSTILE[1]}
        for what in (
            {"type": "pageview", "path": f"/{text}"},
            {"type": "screenview", "screen": text},
            {"type": "event", "name": text},
        ):
            self._send("/api/track", {**seen, **where, **utm, **custom, **what}, headers=browser)
        self._send(
            "/api/track", {**seen, "type": text, text: text, "properties": {f"${text}": text}}, 422
        )

    def _events(self, website: str) -> None:
        """Send events from a backend: three attempts, one of which completes."""
        text, now_ms = self.text, int(time.time() * 1000)

        def event(attempt: str, name: str, ago_ms: int, **more: Any) -> dict[str, Any]:
            properties = {text: attempt, f"plan {text[:150]}": text, **more}
            known = {"userId": text, "externalSessionId": text, "country": text, "region": text}
            sent = {"event": name, "timestamp": now_ms - ago_ms, "properties": properties}
            return {"websiteId": website, **sent, **known}

        events = [
            event(text, text, 3 * HOUR_MS),
            event(text, "between", 2 * HOUR_MS, plan="other"),
            event(text, "paid", HOUR_MS),
            event(text[:100], text, 2 * HOUR_MS),
            event(text[:100], "between", HOUR_MS),
            event(text[:99], text, 24 * 9 * HOUR_MS),
        ]
        send_events(self.http, events, self._key)
        bearer = {"Authorization": f"Bearer {self._key}"}
        paid = event(text, text, HOUR_MS) | {"transactionId": text, "amount": 5, "currency": "EUR"}
        self._send("/api/v1/transactions", paid, headers=bearer)

    def _identify(self, website: str) -> None:
        """Create a user with two visitors, one merged into the other."""
        for visitor_id in (self.text, f"other {self.text[:150]}"):
            track(self.http, website, visitorId=visitor_id, name=self.text)
            user = {"userId": self.text, "traits": {self.text: self.text}}
            self._send("/api/identify", {"websiteId": website, "visitorId": visitor_id, **user})

    def _definitions(self) -> None:
        """Create a goal, and a funnel with two revisions and every kind of row."""
        text = self.text
        plan = f"plan {text[:150]}"
        match = {
            "type": "Event",
            "value": text,
            "filters": [{"property": plan, "operator": "in", "value": json.dumps([text])}],
        }
        unused = {"property": "host", "operator": "equals", "value": text}
        internal = {"filters": [unused]}
        answer = self.http.put("/api/settings/internal-traffic", json=internal)
        answer.raise_for_status()
        segment = {"name": self.name, "filters": match["filters"]}
        self.ids["segment"] = self._send("/api/segments", segment)["id"]
        self._send("/api/annotations", {"text": self.name})
        self.ids["goal"] = self._send("/api/goals", {"name": self.name, "match": match})["id"]
        steps = [
            {
                **match,
                "or": [
                    {"type": "Goal", "value": self.name, "filters": []},
                    {"type": "Screen view", "value": text, "filters": []},
                ],
            },
            {"type": "Event", "value": text, "filters": [], "diagnostic": True, "name": self.name},
            {"type": "Event", "value": "between", "filters": [], "name": self.name},
            {"type": "Event", "value": "paid", "filters": []},
        ]
        funnel = {
            "name": self.name,
            "countingUnit": "attempt",
            "attemptProperty": text,
            "sequenceProperty": f"n {text[:150]}",
            "breakdownProperties": [plan, text],
            "steps": steps,
            "folder": self.name,
        }
        funnel_id = self._send("/api/funnels", funnel)["id"]
        other = {"type": "Goal", "value": self.name, "filters": []}
        for rows in ([*steps[:3], other, steps[3]], steps):
            changed = self.http.put(f"/api/funnels/{funnel_id}", json={**funnel, "steps": rows})
            assert changed.is_success, changed.text
        self.ids["funnel"] = funnel_id
        cohort = {"name": self.name, "kind": "list", "funnelId": funnel_id}
        self.ids["cohort"] = self._send("/api/cohorts", cohort)["id"]
        self.http.patch("/api/settings/workspace", json={"sharedProperties": [text]})
        selection = {"period": "all", "filters": json.dumps(match["filters"])}
        share = self._send("/api/shares", {"funnelId": funnel_id, "parameters": selection})
        self.ids["share"] = share["url"].rpartition("/")[2]
        number = {"funnelId": funnel_id, "parameters": selection}
        self.ids["receipt"] = self._send("/api/receipts", number)["id"]
        condition = {"kind": "silence", "event": text, "minutes": 60}
        chat = {"kind": "chat", "url": "https://chat.example.com/hooks/1"}
        alert = {"name": self.name, "condition": condition, "channels": [chat]}
        self.ids["alert"] = self._send("/api/alerts", alert)["id"]
        self.http.patch("/api/settings/workspace", json={"sharedContents": "units"})
        webhook = {"name": self.name, "funnelId": funnel_id, "events": ["entered"]}
        sent = {**webhook, "url": f"https://shop.invalid/{quote(text)}"}
        self.ids["webhook"] = self._send("/api/webhooks", sent)["id"]

    def _link(self) -> None:
        """Create an app, a link to it, and opens with and without a match."""
        text = self.text
        text_for_url = "plain" if "\u202e" in text else text
        store = f"https://apps.apple.com/app/id1?{''.join(text.split())}"
        app = {**APP, "name": self.name, "kind": "mobile", "appStoreUrl": store}
        self.ids["app"] = new_website(self.http, **app)
        kind = next(name for name, value in TEXTS.items() if value == text)
        link = {
            "websiteId": self.ids["app"],
            "name": self.name,
            "slug": {"markup": "w" * 64}.get(kind, kind),
            "destinationPath": f"/{text_for_url}",
            "fallbackUrl": f"https://example.com/{quote(text)}",
            "utmSource": text_for_url,
            "utmMedium": text_for_url,
            "utmCampaign": text,
        }
        created = self._send(LINKS, link)
        self.ids["link"], self.hosted_url = created["id"], created["hostedUrl"]
        self.http.get(
            f"/l/{created['slug']}",
            headers={"User-Agent": user_agents.IOS["safari"], "Referer": "https://example.com/"},
        )
        own = dict.fromkeys(("osVersion", "appVersion", "installId", "visitorId"), text)
        app_open = {"websiteId": self.ids["app"], "platform": "ios", "firstOpen": False, **own}
        for address in (created["hostedUrl"], f"https://example.com/{text}"):
            self._send(f"{LINKS}/resolve", {**app_open, "url": address})

    def _check(self, query: dict[str, str], lines: list[dict[str, Any]]) -> str:
        """Send lines for a dry run. Returns the ID of the import once it has ended."""
        return self._check_file(query, ndjson(lines), "application/x-ndjson")

    def _check_table(self, query: dict[str, str]) -> str:
        """Send a table for a dry run. Returns the ID of the import once it has ended."""
        name, cell = (
            '"{}"'.format(text.replace('"', '""')) for text in (self.text[:90], self.text)
        )
        table = f"at,{name if self.text.isprintable() else 'x'}\n1714557600,{cell}\n"
        return self._check_file(query, table.encode(), "text/csv")

    def _check_file(self, query: dict[str, str], content: bytes, media_type: str) -> str:
        return send_file(self.http, content, media_type, {**query, "dryRun": "true"}, "checked")

    def _jobs(self, website: str) -> None:
        """Create an import with rejected lines, and deletions."""
        text = self.text
        fields = ("name", "userId", "country", "device", "os", "browser", "dedupeKey")
        line = {"type": "event", "timestamp": "2024-05-01T10:00:00Z", **dict.fromkeys(fields, text)}
        lines = [line, {**line, text: text, "type": text}, {**line, "properties": {f"${text}": 1}}]
        query = {"websiteId": website, "fileName": text}
        self.ids["import"] = send_file(self.http, ndjson(lines), "application/x-ndjson", query)
        attempts = [
            {
                **{name: line[name] for name in ("type", "timestamp", "userId")},
                "name": name,
                "properties": {text[:100]: f"{number} {text[:50]}"},
            }
            for number in range(3)
            for name in (text, f"2 {text[:100]}")
        ]
        for key in ("checked", "started"):
            self.ids[key] = self._check(query, [*lines, *attempts])
        self.ids["mapping"] = self._check_table(query)
        self._send(f"/api/imports/{self.ids['started']}/start", {})
        uses = ("time", "user", "event")
        columns = [{"column": f"{use} {text[:90]}", "use": use} for use in uses]
        columns[0]["unit"] = "text"
        self._send("/api/import-mappings", {"name": self.name, "mapping": {"columns": columns}})
        self._send("/api/exports", {"destination": f"/srv/{text}"})
        self._send("/api/deletions", {"websiteId": website, "userId": f"gone {text[:100]}"})
        span = {"from": "2023-01-01T00:00:00Z", "to": "2023-07-01T00:00:00Z"}
        self._send("/api/deletions", {"websiteId": website, **span})
