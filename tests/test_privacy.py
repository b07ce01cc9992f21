"""What docs/privacy.md promises about addresses, tables and names on devices is true."""

import re
from pathlib import Path

import pytest

from penstock.metadb.tables import metadata
from tests.segment.service import Service

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/privacy.md").read_text("utf-8")
ADDRESS = "203.0.113.77"
AGENT = "Mozilla/5.0 (Windows NT 10.0) Chrome/120.0 Safari/537.36 marked-agent"
SENDER = {"X-Forwarded-For": ADDRESS, "User-Agent": AGENT}


def rows_below(heading: str) -> list[list[str]]:
    """The cells of each row of the first table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture
def service(starts_service, tmp_path: Path):
    running = Service(tmp_path / "data")
    yield running
    running.close()


def test_no_network_address_is_stored_and_agents_only_in_the_quarantine(service, tmp_path):
    client = service.client
    website = client.post("/api/settings/websites", json={"name": "Shop", "kind": "web"}).json()
    item = {"websiteId": website["id"], "type": "pageview", "visitorId": "v-1"}
    accepted = client.post("/api/track", json={**item, "path": "/a"}, headers=SENDER)
    assert accepted.status_code == 202
    claim = {"websiteId": website["id"], "visitorId": "v-1", "userId": "u-1"}
    assert client.post("/api/identify", json=claim, headers=SENDER).status_code == 200
    wrong = {"email": "a@example.com", "password": "wrong horse battery"}
    assert client.post("/api/auth/login", json=wrong, headers=SENDER).status_code == 401

    def stored() -> bytes:
        query = {"websiteId": website["id"]}
        [event] = client.get("/api/events/recent", params=query).json()["data"]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return str(event).encode() + b"".join(path.read_bytes() for path in files)

    assert ADDRESS.encode() not in stored()
    assert b"marked-agent" not in stored()
    assert client.post("/api/track", json=item, headers=SENDER).status_code == 422
    assert ADDRESS.encode() not in stored()
    assert b"marked-agent" in stored()


def test_the_named_tables_of_the_metadata_database_exist():
    named = {
        name
        for _, store, _ in rows_below("What is stored about visitors")
        for part in re.findall(r"metadata database, ((?:`\w+`(?:, )?)+)", store)
        for name in re.findall(r"`(\w+)`", part)
    }
    assert len(named) > 10
    assert named <= set(metadata.tables)


def test_every_name_that_the_clients_store_is_listed():
    rows = rows_below("Cookies and storage on devices")
    listed = {
        name for _, names, *_ in rows for name in re.findall(r"`(penstock(?:\.[a-z]\w*)+)", names)
    }
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "sdk/js/src").rglob("*.ts"))
    used = re.findall(r"\"(penstock\.\w[\w.]*)\"|`(penstock\.\w[\w.]*)\$", sources)
    assert {(plain or template).rstrip(".") for plain, template in used} <= listed
