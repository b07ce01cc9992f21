"""Random requests to every operation of the API document, to a real service.

What schemathesis holds every answer to: no 5xx; status, media type and body as documented; what the
document forbids is refused; errors are problem documents (`tests.fuzz.hooks`).
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.fuzz import hooks
from tests.fuzz.examples import BY_HAND, fuzz_examples
from tests.serving import Served, environment

CONFIG = Path(__file__).with_name("schemathesis.toml")
STEP = {"type": "Event", "value": "checkout_started"}
SESSION_ONLY = r"^/api/(auth|settings/(api-keys|invitations|members|audit-log))"
KEEPS_SESSION = r"^(log_out|switch_workspace|leave_workspace)$"


by_hand = pytest.mark.skipif(not BY_HAND, reason="only in make fuzz")


@dataclass(frozen=True)
class Service:
    """A service with one record of each kind. key: of the workspace, with every scope. session:
    the value of its owner's cookie. known: IDs of the records by the names of parameters."""

    service: Served
    key: str
    session: str
    known: Mapping[str, str]


@pytest.fixture(scope="module")
def tested(starts_service, tmp_path_factory, postgres_server):
    """On PostgreSQL: most other tests call each operation on SQLite."""
    folder = tmp_path_factory.mktemp("fuzz")
    with Served(
        folder / "data",
        PENSTOCK_DATABASE_URL=postgres_server.fresh(),
        PENSTOCK_SIGNUP_OPEN="true",
        PENSTOCK_ADDRESS_REQUESTS_PER_SECOND="100000",
        limits={"fresh_wait_s": 1},
    ) as service:
        key, _ = service.first_account()
        yield Service(service, key, _session(service), _records(service.client))


def _session(service: Served) -> str:
    form = {"email": "owner@example.com", "password": "correct horse battery"}
    with httpx.Client(base_url=service.url) as browser:
        assert browser.post("/api/auth/login", json=form).status_code == 200
        return browser.cookies["service_session"]


def _records(client: httpx.Client) -> dict[str, str]:
    def created(path: str, **body: object) -> str:
        answer = client.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    app = created("/api/settings/websites", name="App", kind="mobile")
    event = {"websiteId": app, "event": "checkout_started", "userId": "ada"}
    visitor = client.post("/api/v1/events", json=event).json()["visitorId"]
    funnel = created(
        "/api/funnels",
        name="Checkout",
        breakdownProperties=["plan"],
        steps=[STEP, STEP | {"value": "order_placed"}],
    )
    return {
        "websiteId": app,
        "website_id": app,
        "funnel_id": funnel,
        "cohort_id": created("/api/cohorts", name="Entered", kind="list", funnelId=funnel),
        "segment_id": created(
            "/api/segments",
            name="Paying",
            filters=[{"property": "plan", "operator": "is_set"}],
        ),
        "goal_id": created("/api/goals", name="Ordered", match=STEP),
        "link_id": created(
            "/api/mobile/deferred-links",
            websiteId=app,
            name="Spring",
            slug="spring",
            destinationPath="/",
        ),
        "mapping_id": created(
            "/api/import-mappings",
            name="Orders",
            mapping={
                "columns": [
                    {"column": "at", "use": "time", "unit": "seconds"},
                    {"column": "who", "use": "user"},
                    {"column": "what", "use": "event"},
                ]
            },
        ),
        "export_id": created("/api/exports", destination="backups:/srv/acme"),
        "visitor_id": visitor,
        "visitorId": visitor,
        "property": "plan",
        "provider": "stripe",
    }


def _run(tested: Service, folder: Path, auth: str, *arguments: str) -> Counter[str]:
    """Run schemathesis. Returns how often each operation answered with each status.

    auth: a table of its configuration.
    """
    counts, config = folder / "answers.json", folder / "schemathesis.toml"
    config.write_text(f"{CONFIG.read_text()}\n{auth}\n")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
            *("run", f"{tested.service.url}/api/openapi.json", *arguments),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(
            SCHEMATHESIS_HOOKS="tests.fuzz.hooks",
            PYTHONPATH=os.pathsep.join(sys.path),
            **{
                hooks.SERVICE: f"{tested.service.url} {tested.key}",
                hooks.KNOWN: json.dumps(tested.known),
                hooks.ANSWERS: str(counts),
            },
        ),
    )
    assert run.returncode == 0, run.stdout + run.stderr
    print(run.stdout)
    assert "request_failed" not in tested.service.output()
    answers = Counter[str](json.loads(counts.read_text()))
    assert not [answer for answer in answers if re.search(r" 5\d\d$", answer)]
    return answers


def _share(examples: int) -> list[str]:
    """What `make test` runs, which is the same each time; by hand, all phases."""
    number = ["--max-examples", str(fuzz_examples(examples))]
    return number if BY_HAND else [*number, "--phases", "fuzzing", "--seed", "1", "--no-shrink"]


@pytest.mark.full("random requests to every operation")
@pytest.mark.slow("some requests to each of a hundred operations")
def test_every_operation_does_what_the_document_says_with_a_key_that_may_do_everything(
    tested, tmp_path
):
    auth = f'[auth.openapi.key]\nbearer = "{tested.key}"'
    answers = _run(tested, tmp_path, auth, *_share(1))
    assert answers.total() >= 99


@by_hand
def test_every_operation_does_what_the_document_says_without_a_key(tested, tmp_path):
    answers = _run(tested, tmp_path, "", *_share(1))
    assert not [
        answer for answer in answers if answer.endswith(" 200") and " /api/settings" in answer
    ]


@by_hand
def test_what_only_people_may_do_is_as_the_document_says_with_a_session(tested, tmp_path):
    auth = f'[auth.openapi.session]\napi_key = "{tested.session}"'
    paths = ("--include-path-regex", SESSION_ONLY, "--exclude-operation-id-regex", KEEPS_SESSION)
    answers = _run(tested, tmp_path, auth, *paths, *_share(2))
    assert answers["GET /api/settings/members 200"]
