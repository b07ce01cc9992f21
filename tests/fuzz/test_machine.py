"""Random use of two workspaces at once, beside a plain model of what they should contain."""

from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests import user_agents
from tests.fuzz.examples import BY_HAND, fuzz_settings
from tests.fuzz.model import KeyModel, LinkModel, SentEvent, SiteModel, WorkspaceModel
from tests.tenant import Tenant, join, new_browser, sign_up, visitor
from tests.waiting import eventually

pytestmark = pytest.mark.full("random use beside a model")

DAY_MS = 86_400_000
SECOND_MS = 1000
MAX_EVENTS = 90
"""Of a website: the lists that checks read have up to 100."""
NAMES = st.sampled_from(["started", "paid", "shipped"])
VISITORS = st.sampled_from(["v-1", "v-2", "v-3", "v-4"])
USERS = st.sampled_from(["u-1", "u-2", "u-3"])
IDS = st.tuples(VISITORS, st.none() | USERS) | st.tuples(st.none(), USERS)
EVENTS = st.tuples(NAMES, IDS, st.none() | st.sampled_from(["k-1", "k-2", "k-3"]))
SentFields = tuple[str, tuple[str | None, str | None], str | None]
SIDES = st.sampled_from([0, 1])
INDEXES = st.integers(0, 5)
SCOPES = st.sets(st.sampled_from(["ingest", "read", "manage"]), min_size=1)

_numbers = count(1)


class Workspaces(RuleBasedStateMachine):
    """A side is one of two workspaces; `index` chooses among its records of a kind."""

    server: Any
    setup_token: str | None = None
    clock: Any

    @initialize()
    def begin(self) -> None:
        cls = type(self)
        first = sign_up(cls.server, cls.setup_token)
        cls.setup_token = None  # it creates the first account alone
        self.tenants: list[Tenant] = [first, sign_up(cls.server)]
        self.models = [WorkspaceModel(), WorkspaceModel()]
        for tenant, model in zip(self.tenants, self.models, strict=True):
            model.sites[tenant.website_id] = SiteModel(tenant.website_id)
        self.started_ms = cls.clock() - DAY_MS
        self.moments = count(1)
        for side in (0, 1):
            self.create_a_funnel(side, ["started", "paid"])
            self.create_a_link(side)

    def teardown(self) -> None:
        """Everything is as the model says at the end of a run, whatever its steps looked at."""
        for side, model in enumerate(getattr(self, "models", ())):
            for index in range(len(model.sites)):
                self.funnels_count_what_the_model_counts(side, index)
                self.every_acknowledged_event_is_there_once(side, index)
            self.what_is_deleted_is_gone(side)
            self.the_other_workspace_sees_nothing(side)
        if hasattr(self, "models"):
            self.links_lead_where_the_model_says()

    def _site(self, side: int, index: int) -> SiteModel:
        sites = list(self.models[side].sites.values())
        return sites[index % len(sites)]

    def _has_events(self) -> bool:
        return any(site.events for model in self.models for site in model.sites.values())

    def _sent_at(self) -> int:
        """A time of its own for each event, so that their order is certain."""
        return self.started_ms + next(self.moments) * SECOND_MS

    def _created(self, side: int, path: str, body: dict[str, Any], *, by: str = "client") -> Any:
        answer = getattr(self.tenants[side], by).post(path, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    # Accounts

    @rule(side=SIDES)
    def a_member_joins_and_leaves(self, side: int) -> None:
        tenant = self.tenants[side]
        member = join(tenant)
        user_id = member.get("/api/auth/session").json()["user"]["id"]
        assert member.get("/api/funnels").status_code == 200
        assert tenant.browser.delete(f"/api/settings/members/{user_id}").status_code == 204
        # The member's session is in no workspace now, and in no other one either.
        assert member.get("/api/funnels").status_code in (401, 403)

    # Websites

    @rule(side=SIDES)
    def create_a_website(self, side: int) -> None:
        if len(self.models[side].sites) < 3:
            body = {"name": "Another", "kind": "web"}
            site = SiteModel(self._created(side, "/api/settings/websites", body)["id"])
            self.models[side].sites[site.id] = site

    @precondition(lambda self: any(len(model.sites) > 1 for model in self.models))
    @rule(index=INDEXES)
    def delete_a_website(self, index: int) -> None:
        side = next(side for side, model in enumerate(self.models) if len(model.sites) > 1)
        site, client = self._site(side, index), self.tenants[side].client
        address = f"/api/settings/websites/{site.id}"
        assert client.delete(address).status_code == 204
        del self.models[side].sites[site.id]
        self.models[side].gone.append(address)
        event = {"websiteId": site.id, "event": "late", "visitorId": "v-1"}
        assert client.post("/api/v1/events", json=event).status_code == 401
        for key in self.models[side].keys:
            key.revoked |= key.website_id == site.id

    # Keys

    @rule(side=SIDES, scopes=SCOPES, index=INDEXES, is_for_one=st.booleans())
    def create_a_key(self, side: int, scopes: set[str], index: int, is_for_one: bool) -> None:
        website_id = self._site(side, index).id if is_for_one else None
        body = {"name": "one", "scopes": sorted(scopes), "websiteId": website_id}
        key = self._created(side, "/api/settings/api-keys", body, by="browser")
        self.models[side].keys.append(KeyModel(key["id"], key["key"], scopes, website_id))

    @precondition(lambda self: any(model.keys for model in self.models))
    @rule(index=INDEXES)
    def revoke_a_key(self, index: int) -> None:
        side = next(side for side, model in enumerate(self.models) if model.keys)
        key = self.models[side].keys[index % len(self.models[side].keys)]
        answer = self.tenants[side].browser.delete(f"/api/settings/api-keys/{key.id}")
        assert answer.status_code in (204, 404), answer.text
        key.revoked = True

    @precondition(lambda self: any(model.keys for model in self.models))
    @rule(side=SIDES, index=INDEXES)
    def each_key_may_do_what_its_scopes_say_and_nothing_else(self, side: int, index: int) -> None:
        site = self._site(side, index)
        for key in self.models[side].keys:
            client = visitor(self.server, {"Authorization": f"Bearer {key.secret}"})
            event = {"websiteId": site.id, "event": "by key", "visitorId": "v-key"}
            answers = {
                "ingest": client.post("/api/v1/events", json=event),
                "read": client.get("/api/events/refused", params={"websiteId": site.id}),
                "manage": client.patch(f"/api/settings/websites/{site.id}", json={"name": "New"}),
            }
            is_for_it = key.website_id in (None, site.id)
            for scope, answer in answers.items():
                allowed = scope in key.scopes and is_for_it
                expected = 401 if key.revoked else 403 if not allowed else None
                assert answer.status_code == (expected or answer.status_code), answer.text
                assert expected or answer.status_code < 300, answer.text
            if answers["ingest"].status_code == 202:
                person, _ = site.resolve("v-key", None)
                event_id = answers["ingest"].json()["eventId"]
                site.events.append(SentEvent(event_id, "by key", person, self.clock()))

    # Events and identity

    # Hypothesis prefers rules with few arguments, and this one is what most others live on.
    @rule(sent=st.tuples(SIDES, INDEXES, st.lists(EVENTS, min_size=2, max_size=8)))
    def a_backend_sends_events(self, sent: tuple[int, int, list[SentFields]]) -> None:
        side, index, events = sent
        for name, ids, key in events:
            self._send_event(side, index, name, ids, key)

    def _send_event(
        self, side: int, index: int, name: str, ids: tuple[str | None, str | None], key: str | None
    ) -> None:
        site, at_ms = self._site(side, index), self._sent_at()
        if len(site.events) >= MAX_EVENTS:
            return
        visitor_id, user_id = ids
        body = {"websiteId": site.id, "event": name, "timestamp": at_ms}
        sent = {"visitorId": visitor_id, "userId": user_id, "eventId": key}
        body |= {field: value for field, value in sent.items() if value is not None}
        answer = self.tenants[side].client.post("/api/v1/events", json=body)
        assert answer.status_code == 202, answer.text
        receipt = answer.json()
        if key is not None and key in site.first:
            assert receipt["status"] == "duplicate"
            assert receipt["eventId"] == site.first[key]
            return
        assert receipt["status"] == "accepted"
        if key is not None:
            site.first[key] = receipt["eventId"]
        person, is_conflict = site.resolve(visitor_id, user_id)
        codes = {warning["code"] for warning in receipt.get("warnings", ())}
        assert ("identity_conflict" in codes) == is_conflict, (site, body)
        site.events.append(SentEvent(receipt["eventId"], name, person, at_ms))

    @rule(side=SIDES, index=INDEXES, visitor_id=VISITORS, user_id=USERS)
    def identify(self, side: int, index: int, visitor_id: str, user_id: str) -> None:
        site = self._site(side, index)
        body = {"websiteId": site.id, "visitorId": visitor_id, "userId": user_id}
        answer = self.tenants[side].client.post("/api/identify", json=body)
        assert answer.status_code == 200, answer.text
        _, is_conflict = site.resolve(visitor_id, user_id)
        codes = {warning["code"] for warning in answer.json().get("warnings", ())}
        assert ("identity_conflict" in codes) == is_conflict, (site, body)

    @precondition(lambda self: self._has_events())
    @rule(side=SIDES, index=INDEXES, visitor_id=VISITORS)
    def delete_a_visitor(self, side: int, index: int, visitor_id: str) -> None:
        site, client = self._site(side, index), self.tenants[side].client
        body = {"websiteId": site.id, "visitorId": visitor_id}
        record = self._created(side, "/api/deletions", body)
        site.forget(visitor_id)
        eventually(lambda: client.get(f"/api/deletions/{record['id']}").json()["state"] == "done")

    # Funnels

    @rule(side=SIDES, steps=st.lists(NAMES, min_size=2, max_size=3, unique=True))
    def create_a_funnel(self, side: int, steps: list[str]) -> None:
        rows = [{"type": "Event", "value": step} for step in steps]
        funnel = self._created(side, "/api/funnels", {"name": "Steps", "steps": rows})
        self.models[side].funnels[funnel["id"]] = steps

    @precondition(lambda self: any(model.funnels for model in self.models))
    @rule(index=INDEXES)
    def delete_a_funnel(self, index: int) -> None:
        side = next(side for side, model in enumerate(self.models) if model.funnels)
        funnel_id = list(self.models[side].funnels)[index % len(self.models[side].funnels)]
        address = f"/api/funnels/{funnel_id}"
        assert self.tenants[side].client.delete(address).status_code == 204
        del self.models[side].funnels[funnel_id]
        self.models[side].gone.append(address)

    @precondition(lambda self: self._has_events())
    @rule(side=SIDES, index=INDEXES)
    def funnels_count_what_the_model_counts(self, side: int, index: int) -> None:
        site = self._site(side, index)
        for funnel_id, steps in self.models[side].funnels.items():
            answer = self.tenants[side].client.get(
                f"/api/funnels/{funnel_id}/results", params={"websiteId": site.id}
            )
            assert answer.status_code == 200, answer.text
            counted = [step["count"] for step in answer.json()["aggregate"]["steps"]]
            assert counted == site.reached(steps), (steps, site)

    # Links

    @rule(side=SIDES)
    def create_a_link(self, side: int) -> None:
        number = next(_numbers)
        app = self._created(side, "/api/settings/websites", {"name": "App", "kind": "mobile"})
        link = LinkModel("", f"machine-{number}", f"https://shop.example.com/{number}")
        body = {
            "websiteId": app["id"],
            "name": "Spring",
            "slug": link.slug,
            "destinationPath": "/",
            "fallbackUrl": link.target,
        }
        link.id = self._created(side, "/api/mobile/deferred-links", body)["id"]
        self.models[side].links[link.id] = link

    @precondition(lambda self: any(model.links for model in self.models))
    @rule(index=INDEXES, is_active=st.booleans())
    def switch_a_link(self, index: int, is_active: bool) -> None:
        side = next(side for side, model in enumerate(self.models) if model.links)
        link = list(self.models[side].links.values())[index % len(self.models[side].links)]
        answer = self.tenants[side].client.patch(
            "/api/mobile/deferred-links", json={"id": link.id, "isActive": is_active}
        )
        assert answer.status_code == 200, answer.text
        link.active = is_active
        self.links_lead_where_the_model_says()

    def links_lead_where_the_model_says(self) -> None:
        browser = visitor(self.server, {"User-Agent": user_agents.DESKTOP["chrome_windows"]})
        for link in (link for model in self.models for link in model.links.values()):
            answer = browser.get(f"/l/{link.slug}", follow_redirects=False)
            expected = (302, link.target) if link.active else (404, None)
            assert (answer.status_code, answer.headers.get("location")) == expected

    # Of all

    @precondition(lambda self: self._has_events())
    @rule(side=SIDES, index=INDEXES)
    def every_acknowledged_event_is_there_once(self, side: int, index: int) -> None:
        site, client = self._site(side, index), self.tenants[side].client
        stored: list[str] = []
        for person in {site.canonical(event.person) for event in site.events}:
            own = {
                event.event_id for event in site.events if site.canonical(event.person) == person
            }
            visitor_id = self._visitor_of(client, site.id, next(iter(own)))
            answer = client.get(
                f"/api/visitors/{visitor_id}/events", params={"websiteId": site.id, "pageSize": 100}
            )
            assert answer.status_code == 200, answer.text
            listed = [event["eventId"] for event in answer.json()["data"]]
            assert sorted(listed) == sorted(own)
            stored += listed
        assert len(stored) == len(set(stored)) == len(site.events)

    @precondition(lambda self: any(model.gone for model in self.models))
    @rule(side=SIDES)
    def what_is_deleted_is_gone(self, side: int) -> None:
        for address in self.models[side].gone:
            assert self.tenants[side].client.get(address).status_code == 404, address

    @rule(side=SIDES)
    def the_other_workspace_sees_nothing(self, side: int) -> None:
        model, stranger = self.models[side], self.tenants[1 - side].client
        for funnel_id in model.funnels:
            assert stranger.get(f"/api/funnels/{funnel_id}").status_code == 404
        for site in model.sites.values():
            assert stranger.get(f"/api/settings/websites/{site.id}").status_code == 404
            answer = stranger.get("/api/visitors", params={"websiteId": site.id})
            assert answer.status_code == 401
        own = stranger.get("/api/funnels", params={"pageSize": 100}).json()
        assert {funnel["id"] for funnel in own["data"]} == set(self.models[1 - side].funnels)
        assert new_browser(self.tenants[side]).get("/api/funnels").status_code == 401

    def _visitor_of(self, client: Any, website_id: str, event_id: str) -> str:
        """The visitor that an event was stored under, by the list of recent events."""

        def find() -> str | None:
            recent = client.get(
                "/api/events/recent", params={"websiteId": website_id, "limit": 100}
            ).json()["data"]
            return next((e["visitorId"] for e in recent if e["eventId"] == event_id), None)

        return str(eventually(find))


@pytest.mark.slow("runs two workspaces through a hundred steps")
def test_two_workspaces_are_as_a_plain_model_says(server, services, clock):
    Workspaces.server, Workspaces.clock = server, clock
    Workspaces.setup_token = services.accounts.setup_token
    run_state_machine_as_test(
        Workspaces,
        settings=settings(
            fuzz_settings(4, times=0.2),
            stateful_step_count=60 if BY_HAND else 25,
            phases=[Phase.generate, *([Phase.shrink] if BY_HAND else [])],
        ),
    )
