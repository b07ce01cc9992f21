"""The fast path for plain posts falls back to the framework only before it submits an event."""

from collections.abc import Sequence

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.app import Services
from penstock.base.errors import Unavailable
from penstock.events.model import NewEvent, Receipt
from tests.events.conftest import Post, Stored
from tests.tenant import Tenant


def test_an_ambiguous_commit_stores_an_event_without_id_once(
    post_event: Post, stored: Stored, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = services.intake.submit

    async def submit_and_lose_the_answer(events: Sequence[NewEvent]) -> list[Receipt]:
        await submit(events)
        raise Unavailable("The store does not answer.", code="store_unavailable", retry_after_s=1)

    monkeypatch.setattr(services.intake, "submit", submit_and_lose_the_answer)
    answer = post_event()
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["instance"] == "/api/v1/events"
    assert len(stored()) == 1


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unavailable("Busy.", code="overloaded", retry_after_s=1), 503, "overloaded"),
        (RuntimeError("a fault of ours"), 500, "internal_error"),
    ],
)
def test_a_refusal_of_the_intake_costs_one_submission(
    post_event: Post,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    code: str,
) -> None:
    submissions = []

    async def refuse(events: Sequence[NewEvent]) -> list[Receipt]:
        submissions.append(events)
        raise error

    monkeypatch.setattr(services.intake, "submit", refuse)
    answer = post_event()
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert len(submissions) == 1


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/track"])
def test_a_length_of_thousands_of_digits_is_no_500(
    server: TestClient[Litestar], workspace: Tenant, path: str
) -> None:
    headers = {
        "Content-Length": "0" * 5_000 + "2",
        "Content-Type": "application/json",
        "Authorization": workspace.client.headers["Authorization"],
    }
    assert server.post(path, content=b"{}", headers=headers).status_code in (400, 413, 422)
