"""Every route requires credentials, and records of other workspaces look unknown.

The routes come from the API document, so a new route is tested automatically. A path parameter or
`websiteId` of a new kind fails here until a sample request exists.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx
import pytest

from penstock.app import build_routes
from penstock.base.clock import iso, system_clock
from penstock.settings import Settings
from tests.tenant import PASSWORD, Tenant, create_invitation, join, new_browser, visitor
from tests.waiting import eventually

PUBLIC_PAGES = (
    "/t.js",
    "/t-",
    "/static/",
    "/api/docs",
    "/api/openapi.json",
    "/health/",
    "/l/",
    "/L/",
)

STEP = {"type": "Event", "value": "signed_up"}
FUNNEL = {
    "name": "Sign-up",
    "steps": [STEP, {"type": "Event", "value": "paid"}],
    "breakdownProperties": ["plan"],
    "conversionWindowSeconds": 86_400,
}
EVENT = {"userId": "ada", "event": "signed_up"}
LINE = (
    b'{"type": "event", "name": "signed_up", "timestamp": "2026-01-01T00:00:00Z", '
    b'"userId": "ada"}\n'
)
SECRET = {"signingSecret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
NDJSON = {"content": LINE, "headers": {"Content-Type": "application/x-ndjson"}}

ALERT = {
    "condition": {"kind": "lag", "minutes": 5},
    "channels": [{"kind": "webhook", "url": "https://example.com/"}],
    "paused": True,
}

_numbers = count(1)


def creator(
    path: str, body: dict[str, Any], *, by: str = "client", named: bool = True
) -> Callable[[Tenant], str]:
    """How a workspace creates a record, each with its own name if it has one. Returns its ID."""

    def make(tenant: Tenant) -> str:
        name = {"name": f"Sample {next(_numbers)}"} if named else {}
        answer = getattr(tenant, by).post(path, json=body | name)
        assert answer.status_code == 201, answer.text
        record_id: str = answer.json()["id"]
        return record_id

    return make


MAPPING = {
    "columns": [
        {"column": "at", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
    ],
    "eventName": "opened",
}


def imported(tenant: Tenant) -> str:
    """A finished import with a dry run and a gap: a line of it is rejected."""
    body = NDJSON | {"content": LINE + b"{}"}
    query = {"websiteId": tenant.website_id, "dryRun": "true"}
    record_id: str = tenant.client.post("/api/imports", params=query, **body).json()["id"]
    path = f"/api/imports/{record_id}"
    eventually(lambda: tenant.client.get(path).json()["state"] == "checked")
    tenant.client.post(f"{path}/start").raise_for_status()
    eventually(lambda: tenant.client.get(path).json()["state"] == "done")
    return record_id


def deleted(tenant: Tenant) -> str:
    record_id: str = tenant.client.post(
        "/api/deletions", json={"websiteId": tenant.website_id, "userId": "ada"}
    ).json()["id"]
    return record_id


def sent(field: str) -> Callable[[Tenant], str]:
    """How a workspace stores an event: answers a field of its receipt."""

    def send(tenant: Tenant) -> str:
        answer = tenant.client.post("/api/v1/events", json=EVENT | {"websiteId": tenant.website_id})
        assert answer.status_code == 202, answer.text
        value: str = answer.json()[field]
        return value

    return send


def app_with_provider(tenant: Tenant) -> str:
    website_id = creator("/api/settings/websites", {"kind": "mobile"})(tenant)
    assert (
        tenant.client.put(
            f"/api/settings/websites/{website_id}/providers/stripe", json=SECRET
        ).status_code
        == 200
    )
    return website_id


def link_into_app(tenant: Tenant) -> str:
    website_id = creator("/api/settings/websites", {"kind": "mobile"})(tenant)
    link = {"websiteId": website_id, "slug": f"sample-{next(_numbers)}", "destinationPath": "/"}
    return creator("/api/mobile/deferred-links", link)(tenant)


def job(tenant: Tenant) -> str:
    """A job that is done, so that it has a result."""
    funnel_id = RECORDS["funnel_id"](tenant)
    response = tenant.client.get(
        f"/api/funnels/{funnel_id}/results", headers={"Prefer": "respond-async"}
    )
    record_id: str = response.json()["id"]
    eventually(lambda: tenant.client.get(f"/api/jobs/{record_id}").json()["state"] == "done")
    return record_id


def another_session(tenant: Tenant) -> str:
    """Another session of the same user."""
    assert (
        new_browser(tenant)
        .post("/api/auth/login", json={"email": tenant.email, "password": PASSWORD})
        .status_code
        == 200
    )
    sessions = tenant.browser.get("/api/auth/sessions").json()["data"]
    return next(record["id"] for record in sessions if not record["current"])


def refused(tenant: Tenant) -> str:
    """An entry of the quarantine."""
    tenant.client.post("/api/v1/events", json={"websiteId": tenant.website_id})
    entries = tenant.client.get("/api/events/refused").json()["data"]
    return str(entries[0]["number"])


def link(tenant: Tenant) -> str:
    body = {
        "websiteId": app_with_provider(tenant),
        "slug": f"sample-{next(_numbers)}",
        "destinationPath": "/",
    }
    return creator("/api/mobile/deferred-links", body)(tenant)


def cohort(tenant: Tenant) -> str:
    body = {"kind": "list", "funnelId": RECORDS["funnel_id"](tenant)}
    return creator("/api/cohorts", body)(tenant)


def share(tenant: Tenant) -> dict[str, str]:
    """A shared report."""
    body = {"funnelId": RECORDS["funnel_id"](tenant)}
    answer = tenant.client.post("/api/shares", json=body)
    assert answer.status_code == 201, answer.text
    record: dict[str, str] = answer.json()
    return record


def receipt(tenant: Tenant) -> str:
    body = {"funnelId": RECORDS["funnel_id"](tenant)}
    return creator("/api/receipts", body, named=False)(tenant)


WEBHOOK = {"url": "https://shop.invalid/", "events": ["entered"]}


def webhook(tenant: Tenant) -> str:
    """A webhook about units, which the workspace allows to share."""
    units = {"sharedContents": "units"}
    assert tenant.browser.patch("/api/settings/workspace", json=units).status_code == 200
    counting = {"countingUnit": "attempt", "attemptProperty": "orderId", "breakdownProperties": []}
    body = WEBHOOK | {"funnelId": creator("/api/funnels", FUNNEL | counting)(tenant)}
    return creator("/api/webhooks", body)(tenant)


RECORDS: dict[str, Callable[[Tenant], str]] = {
    "key_id": creator("/api/settings/api-keys", {"name": "k"}, by="browser"),
    "user_id": lambda tenant: join(tenant).get("/api/auth/session").json()["user"]["id"],
    "invitation_id": lambda tenant: create_invitation(tenant)["id"],
    "session_id": another_session,
    "visitor_id": sent("visitorId"),
    "website_id": app_with_provider,
    "provider": lambda _: "stripe",
    "annotation_id": creator("/api/annotations", {"text": "Release"}, named=False),
    "goal_id": creator("/api/goals", {"name": "Signed up", "match": STEP}),
    "alert_id": creator("/api/alerts", ALERT),
    "segment_id": creator(
        "/api/segments", {"filters": [{"property": "plan", "operator": "is_set"}]}
    ),
    "funnel_id": creator("/api/funnels", FUNNEL),
    "cohort_id": cohort,
    "share_id": lambda tenant: share(tenant)["id"],
    "receipt_id": receipt,
    "import_id": imported,
    "mapping_id": creator("/api/import-mappings", {"mapping": MAPPING}),
    "export_id": creator("/api/exports", {"destination": "backups:/srv/acme"}, named=False),
    "number": refused,
    "deletion_id": deleted,
    "unit": sent("visitorId"),
    "eventId": sent("eventId"),
    "step": lambda tenant: "1",
    "property": lambda tenant: "plan",
    "day": lambda tenant: "2026-01-02",
    "startAt": lambda tenant: "2026-01-02T00:00:00Z",
    "endAt": lambda tenant: "2026-01-03T00:00:00Z",
    "compareStartAt": lambda tenant: "2026-01-01T00:00:00Z",
    "compareEndAt": lambda tenant: "2026-01-02T00:00:00Z",
    "job_id": job,
    "webhook_id": webhook,
    "link_id": link_into_app,
    "visitorId": sent("visitorId"),
}
"""How to make the record that a path parameter, or a required query parameter, names."""

ALSO_REQUIRED = {("get", "/api/personal-data"): ("visitorId",)}
"""Query parameters of which one is required."""

BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/api/annotations"): {"json": {"text": "Release"}},
    ("patch", "/api/annotations/{annotation_id}"): {"json": {"text": "Release"}},
    ("patch", "/api/settings/members/{user_id}"): {"json": {"role": "owner"}},
    ("post", "/api/alerts"): {"json": ALERT | {"name": "Waiting"}},
    ("post", "/api/alerts/{alert_id}/snooze"): {"json": {"until": None}},
    ("put", "/api/funnels/{funnel_id}"): {"json": FUNNEL},
    ("patch", "/api/funnels/{funnel_id}"): {"json": {"folder": "Shop"}},
    ("post", "/api/v1/events"): {"json": EVENT},
    ("post", "/api/v1/transactions"): {
        "json": EVENT | {"transactionId": "t1", "amount": 5, "currency": "EUR"}
    },
    ("post", "/api/imports"): NDJSON,
    ("put", "/api/imports/{import_id}/mapping"): {"json": MAPPING},
    ("post", "/api/events/refused/replay"): {"json": {}},
    ("post", "/api/settings/api-keys"): {"json": {"name": "k"}},
    ("post", "/api/settings/invitations"): {"json": {"email": "new@example.com", "role": "member"}},
    ("put", "/api/settings/websites/{website_id}/providers/{provider}"): {"json": SECRET},
    ("post", "/api/deletions"): {"json": {"visitorId": "ada"}},
    ("post", "/api/funnels/preview"): {"json": FUNNEL},
    ("post", "/api/funnels/attempt-keys"): {"json": FUNNEL},
    ("post", "/api/funnels/validate"): {"json": FUNNEL},
    ("post", "/api/webhooks"): {"json": {"name": "W", "funnelId": "fun_x", **WEBHOOK}},
    ("post", "/api/webhooks/{webhook_id}/replay"): {"json": {"from": iso(system_clock())}},
    ("post", "/api/webhooks/{webhook_id}/secret"): {"json": {}},
    ("post", "/api/mobile/deferred-links"): {
        "json": {"name": "Spring", "slug": "spring", "destinationPath": "/"}
    },
    ("patch", "/api/mobile/deferred-links"): {"json": {"id": "x", "isActive": False}},
}
"""A valid body of a route, without its `websiteId`; for a PATCH the default is a new name."""

SESSION_ONLY = {("post", "/api/settings/api-keys")}
"""Routes with a `websiteId` that accept no API key."""

APP_NOT_FOUND = {("post", "/api/mobile/deferred-links")}
"""Routes that answer 404 for another workspace's website. Source: interface, section 7.

tests/links tests them.
"""

NEEDS_MORE = {("post", "/api/webhooks")}
"""Routes whose body with a `websiteId` also names a record. The folder of their room tests them."""


@dataclass(frozen=True)
class Operation:
    """One method of one described route."""

    method: str
    path: str
    open: bool
    parameters: tuple[str, ...]
    required: tuple[str, ...]  # query parameters
    website_in: str | None  # "query", "body" or nowhere

    def send(
        self, client: httpx.Client, ids: dict[str, str], website_id: str | None = None
    ) -> httpx.Response:
        default = {"json": {"name": "New"}} if self.method == "patch" else {}
        request = dict(BODIES.get((self.method, self.path), default))
        request["params"] = {name: ids[name] for name in self.required}
        if website_id is not None and self.website_in == "query":
            request["params"] |= {"websiteId": website_id}
        if website_id is not None and self.website_in == "body":
            assert "json" in request, f"{self.method} {self.path}: add a valid body to BODIES"
            request["json"] = request["json"] | {"websiteId": website_id}
        return client.request(self.method, self.path.format(**ids), **request)

    def records(self, tenant: Tenant) -> dict[str, str]:
        """A record of a workspace for every parameter that names one."""
        for parameter in (*self.parameters, *self.required):
            assert parameter in RECORDS, (
                f"{self}: add how to make the record of {{{parameter}}} to RECORDS"
            )
        return {
            parameter: RECORDS[parameter](tenant)
            for parameter in (*self.parameters, *self.required)
        }

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"stored_outcomes": 1})  # for webhooks


@pytest.fixture
def operations(server) -> list[Operation]:
    document = server.get("/api/openapi.json").json()
    return list(described(document))


def described(document: dict[str, Any]) -> Iterator[Operation]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = {(parameter["in"], parameter["name"]) for parameter in operation["parameters"]}
            website_in = "query" if ("query", "websiteId") in where else None
            for media in operation.get("requestBody", {}).get("content", {}).values():
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                if website_in is None and "websiteId" in schemas.get(name, {}).get(
                    "properties", {}
                ):
                    website_in = "body"
            parameters = tuple(name for kind, name in where if kind == "path")
            required = tuple(
                record["name"]
                for record in operation["parameters"]
                if record["in"] == "query" and record["required"]
            )
            required = tuple(name for name in required if name != "websiteId")
            required += ALSO_REQUIRED.get((method, path), ())
            yield Operation(
                method,
                path,
                operation.get("security") in ([], [{}, {"key": []}]),
                parameters,
                required,
                website_in,
            )


def problems_of(answers: dict[str, httpx.Response], expected: int) -> dict[str, str]:
    return {
        route: f"{answer.status_code} {answer.text[:200]}"
        for route, answer in answers.items()
        if answer.status_code != expected
    }


def test_every_route_is_described_or_a_public_page(services, operations):
    known = {(operation.method.upper(), operation.path) for operation in operations}
    unknown = {
        (method, route.path_format)
        for route in build_routes(services).routes
        for method in getattr(route, "methods", ())
        if method not in ("OPTIONS", "HEAD") and not route.path_format.startswith(PUBLIC_PAGES)
        if not any(
            handler.opt.get("page") for handler in route.route_handlers
        )  # tests/web holds pages to it
    }
    assert unknown - known == set()


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer psk_made_up"}, {"Cookie": "service_session=made_up"}]
)
def test_every_route_that_is_not_open_is_401_without_credentials(server, operations, headers):
    answers = {
        str(operation): operation.send(
            visitor(server, headers),
            dict.fromkeys((*operation.parameters, *operation.required), "x"),
            "x",
        )
        for operation in operations
        if not operation.open
    }
    assert len(answers) >= 10
    assert problems_of(answers, 401) == {}
    for route, answer in answers.items():
        assert answer.headers["www-authenticate"] == "Bearer", route
        assert answer.headers["content-type"] == "application/problem+json", route


@pytest.mark.slow("calls every operation")
def test_every_record_of_another_workspace_is_404(workspace, other_workspace, operations):
    foreign, own = {}, {}
    for operation in operations:
        if operation.open or not operation.parameters:
            continue
        ids = operation.records(workspace)
        foreign[str(operation)] = operation.send(other_workspace.browser, ids)
        own[str(operation)] = operation.send(workspace.browser, ids)
    assert problems_of(foreign, 404) == {}
    still_refused = own.pop("POST /api/events/refused/{number}/replay")
    assert still_refused.status_code == 422
    no_second_factor = own.pop("DELETE /api/settings/members/{user_id}/second-factor")
    assert no_second_factor.json()["code"] == "second_factor_off"
    finished = own.pop("POST /api/imports/{import_id}/cancel")
    assert finished.json()["code"] == "import_finished"
    started = own.pop("POST /api/imports/{import_id}/start")
    assert started.json()["code"] == "import_started"
    unmapped = own.pop("PUT /api/imports/{import_id}/mapping")
    assert unmapped.json()["code"] == "import_started"
    assert {route: answer.text for route, answer in own.items() if answer.status_code >= 400} == {}


@pytest.mark.slow("calls every operation")
def test_every_website_id_of_another_workspace_is_401(workspace, other_workspace, operations):
    foreign, unknown, own = {}, {}, {}
    for operation in operations:
        if (
            operation.open
            or operation.website_in is None
            or (operation.method, operation.path) in APP_NOT_FOUND | NEEDS_MORE
        ):
            continue
        ids = operation.records(workspace)
        by_session = (operation.method, operation.path) in SESSION_ONLY
        client = workspace.browser if by_session else workspace.client
        foreign[str(operation)] = operation.send(client, ids, other_workspace.website_id)
        unknown[str(operation)] = operation.send(client, ids, "web_unknown")
        own[str(operation)] = operation.send(client, ids, workspace.website_id)
    assert problems_of(foreign, 401) == {}
    assert problems_of(unknown, 401) == {}
    assert {route: answer.text for route, answer in own.items() if answer.status_code >= 400} == {}
    for route, answer in foreign.items():
        same = {"instance": None}
        assert answer.json() | same == unknown[route].json() | same, route
