"""A damaged SQLite file is a store that failed: nothing answers as if it were whole."""

from pathlib import Path

import httpx
import pytest

from tests.serving import Served, penstock
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("starts_service")


def damage(file: Path, first_page: int = 4) -> None:
    """Overwrite the beginning of each page; the first ones hold the list of the tables."""
    with file.open("r+b") as database:
        pages = file.stat().st_size // 4096
        for page in range(first_page, pages):
            database.seek(page * 4096)
            database.write(b"\x5a" * 64)


def event(website_id: str, name: str) -> dict[str, str]:
    return {"websiteId": website_id, "userId": "u", "event": name, "eventId": name}


def test_damage_is_named_by_a_running_service_at_the_start_and_by_verify(tmp_path: Path) -> None:
    """Pages that are overwritten, and a file that is no database."""
    with Served(tmp_path / "data") as service:
        key, website_id = service.first_account()
        assert service.client.post("/api/v1/events", json=event(website_id, "a")).is_success
        assert service.stop() == 0
    assert_damage_makes_a_running_service_unready(tmp_path / "data", key, website_id)
    for message in refusals(tmp_path / "data"):
        assert "metadata database" in message
        assert "damaged" in message
    file = tmp_path / "data" / "penstock.sqlite3"
    file.write_bytes(b"\x5a" * file.stat().st_size)
    assert all(refusals(tmp_path / "data"))


def refusals(data: Path) -> list[str]:
    """What the commands say that do not accept the database."""
    messages = list[str]()
    for command in (("serve", "--port", "0"), ("verify",)):
        run = penstock(*command, "--data", str(data))
        message = " ".join((run.stdout + run.stderr).split())
        assert (run.returncode, "Traceback" in message) == (1, False)
        assert "restore a backup" in message
        messages.append(message)
    return messages


def assert_damage_makes_a_running_service_unready(data: Path, key: str, website_id: str) -> None:
    with Served(data) as service:
        service.client.headers["Authorization"] = f"Bearer {key}"
        damage(service.data / "penstock.sqlite3")
        answer = eventually(lambda: refused_post(service, website_id))
        assert (answer.status_code, answer.json()["code"]) == (503, "store_damaged")
        assert "restore a backup" in answer.json()["detail"]
        assert "Retry-After" not in answer.headers
        ready = eventually(lambda: unready(service))
        assert ready["database"] is False
        assert "restore a backup" in ready["reason"]


def refused_post(service: Served, website_id: str) -> httpx.Response | None:
    """The first post that fails: SQLite notices damage when it next reads a page from the file."""
    answer = service.client.post("/api/v1/events", json=event(website_id, "b"))
    return None if answer.is_success else answer


def unready(service: Served) -> dict[str, object] | None:
    answer = service.client.get("/health/ready")
    document: dict[str, object] = answer.json()
    return document if answer.status_code == 503 else None
