"""A service for the clients of Segment and RudderStack, and its websites."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.answers import body_of
from tests.records import new_key, new_website
from tests.serving import Served

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
PYTHON_PATH = {"PYTHONPATH": str(ROOT / ".venv/segment-clients")}


def node() -> str:
    """Return the Node.js program that `scripts/setup` uses."""
    program = shutil.which("node", path=f"{os.environ['PATH']}:{ROOT / '.venv/bin'}")
    assert program is not None
    return program


class Service:
    """A service that tests can kill. client: sends the owner's session."""

    def __init__(self, data: Path) -> None:
        self._data, self._served = data, Served(data)
        self._account = {"email": "a@example.com", "password": "correct horse battery"}
        self._post("signup", self._account | {"workspaceName": "Acme"})

    @property
    def url(self) -> str:
        return self._served.url

    @property
    def client(self) -> httpx.Client:
        return self._served.client

    def _post(self, action: str, form: Json) -> None:
        assert self.client.post(f"/api/auth/{action}", json=form).status_code < 300

    def kill_and_start(self) -> None:
        self.close()
        self._served = Served(self._data)
        self._post("login", self._account)

    def close(self) -> None:
        self._served.__exit__()


@dataclass(frozen=True)
class Site:
    """A website of the service, with an API key for it that serves as the write key."""

    service: Service
    website_id: str
    write_key: str

    def results(self, funnel_id: str) -> Json:
        """Return the funnel's report, without fields that differ even if the events are equal."""
        answer = self.service.client.get(
            f"/api/funnels/{funnel_id}/results", params={"websiteId": self.website_id}
        )
        report = body_of(answer)
        return {name: report[name] for name in ("aggregate", "cohorts", "dataQuality")}

    def counts(self) -> tuple[int, int]:
        """Return the numbers of stored and rejected events."""
        records = self.service.client.get("/api/events/counts").json()["data"]
        [counts] = [record for record in records if record["websiteId"] == self.website_id]
        return counts["stored"] + counts["waiting"], counts["refused"]

    def refused_fields(self) -> set[str]:
        entries = self.service.client.get(
            "/api/events/refused", params={"websiteId": self.website_id}
        ).json()["data"]
        return {error["field"] for entry in entries for error in entry["errors"]}


def new_site(service: Service) -> Site:
    website_id = new_website(service.client, "Shop")
    write_key = new_key(service.client, scopes=["ingest"], websiteId=website_id)
    return Site(service, website_id, write_key)
