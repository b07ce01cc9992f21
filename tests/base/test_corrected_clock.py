"""A clock that was ahead and is corrected: limits end, IDs rise, reports name the future."""

import pytest

from penstock.app import Services
from penstock.settings import Settings
from tests.accounts.test_second_factor import enter_code, enter_password, turn_on
from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.tenant import PASSWORD, Tenant, new_browser

HOUR_MS = 3_600_000


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"website_events_per_second": 1})


def post(tenant: Tenant, event_id: str | None = None):
    event = {"websiteId": tenant.website_id, "event": "order", "userId": "u"}
    more = {} if event_id is None else {"eventId": event_id}
    return tenant.client.post("/api/v1/events", json=event | more)


def test_a_limit_of_events_ends_with_its_window(workspace: Tenant, clock: ShiftedClock) -> None:
    clock.wrong_ms = HOUR_MS
    assert [post(workspace).status_code for _ in range(11)] == [202] * 10 + [429]
    clock.wrong_ms = 0
    refused = post(workspace)
    assert (refused.status_code, int(refused.headers["Retry-After"]) <= 10) == (429, True)
    clock.advance(seconds=10)
    assert post(workspace).status_code == 202


def test_a_limit_of_log_ins_ends_with_its_window(workspace: Tenant, clock: ShiftedClock) -> None:
    clock.wrong_ms = HOUR_MS
    browser, form = new_browser(workspace), {"email": workspace.email, "password": PASSWORD}
    wrong = form | {"password": "wrong-password"}
    answers = [browser.post("/api/auth/login", json=wrong).status_code for _ in range(11)]
    assert answers == [401] * 10 + [429]
    clock.wrong_ms = 0
    refused = browser.post("/api/auth/login", json=form)
    assert (refused.status_code, int(refused.headers["Retry-After"]) <= 300) == (429, True)
    clock.advance(seconds=300)
    assert browser.post("/api/auth/login", json=form).status_code == 200


def test_codes_of_the_future_do_not_lock_anybody_out(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    clock.wrong_ms = HOUR_MS
    owner = new_browser(workspace)
    form = {"email": workspace.email, "password": PASSWORD}
    assert owner.post("/api/auth/login", json=form).status_code == 200
    phone, _ = turn_on(owner, clock)
    browser, _ = enter_password(workspace)
    assert enter_code(browser, phone.code()).status_code == 200
    clock.wrong_ms = 0
    browser, _ = enter_password(workspace)
    code = phone.code()
    assert enter_code(browser, code).status_code == 200
    browser, _ = enter_password(workspace)
    assert enter_code(browser, code).status_code == 401  # a second time


def test_event_ids_rise_after_a_correction_and_a_restart(
    workspace: Tenant, clock: ShiftedClock, services: Services
) -> None:
    clock.wrong_ms = HOUR_MS
    event_ids = [post(workspace, "a").json()["eventId"], post(workspace).json()["eventId"]]
    clock.wrong_ms = 0
    event_ids += [post(workspace).json()["eventId"], post(workspace).json()["eventId"]]
    event_ids.append(post(workspace, "b").json()["eventId"])
    services.intake._last_id_ms = None  # as after a restart
    event_ids += [post(workspace, "c").json()["eventId"], post(workspace).json()["eventId"]]
    assert event_ids == sorted(event_ids)
    assert len(set(event_ids)) == 7


@pytest.mark.usefixtures("warehouse")
def test_events_of_the_future_are_named_and_not_counted(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    scene = Scene(workspace, clock, ago_s=7200)
    scene.story("0/order")
    clock.wrong_ms = HOUR_MS
    assert post(workspace).status_code == 202
    clock.wrong_ms = 0
    results = scene.results(funnel := scene.funnel("order", "paid", conversionWindowSeconds=3600))
    assert results["aggregate"]["steps"][0]["count"] == 1
    coverage = results["coverage"]
    assert (coverage["complete"], coverage["noteCodes"]) == (False, ["future_events"])
    [note] = coverage["notes"]
    assert note.startswith("Some events have times in the future, up to ")
    clock.advance(seconds=2 * 3600 + 60)
    results = scene.results(funnel)
    assert results["aggregate"]["steps"][0]["count"] == 2
    assert results["coverage"]["complete"] is True
