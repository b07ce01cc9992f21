"""Every Python snippet of docs/clients-python.md and of the package's README runs."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.other_programs import run_program
from tests.records import create, event_steps, new_key, recent_names
from tests.segment.service import Service, Site, new_site
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
SDK = ROOT / "sdk/python"
PAGES = (ROOT / "docs/clients-python.md", SDK / "README.md")
SNIPPETS = [
    snippet
    for page in PAGES
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
]

_REQUESTS = {
    "fastapi": """
from fastapi.testclient import TestClient

with TestClient(app) as client:
    assert client.post("/orders").json() == {"status": "paid"}
""",
    "flask": """
assert app.test_client().post("/orders").json == {"status": "paid"}
""",
    "django": """
import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"], INSTALLED_APPS=["shop.apps.ShopConfig"], ROOT_URLCONF="__main__"
)
django.setup()

from django.test import Client
from django.urls import path
from shop.views import pay_order

urlpatterns = [path("orders", pay_order)]
assert Client().post("/orders").json() == {"status": "paid"}
""",
}
"""What sends a request to the application of a snippet, by the framework that it imports."""


@pytest.fixture(scope="module")
def service(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("snippets") / "data")
    yield running
    running.close()


def as_program(snippet: str, folder: Path) -> str:
    """A snippet with a request to its application, if it has one. Writes the files it names."""
    head, *files = re.split(r"^# (\S+\.py)\n", snippet, flags=re.MULTILINE)
    for name, text in zip(files[::2], files[1::2], strict=True):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    imported = re.search(r"from (fastapi|flask|django)", snippet)
    return head + (_REQUESTS[imported[1]] if imported else "")


def filled_in(snippet: str, site: Site) -> str:
    if "fun_..." in snippet:
        client = site.service.client
        funnel = {"name": site.website_id, "steps": event_steps("opened", "paid")}
        snippet = snippet.replace("fun_...", create(client, "/api/funnels", funnel)["id"])
        snippet = snippet.replace("psk_...", new_key(client))
    return (
        snippet.replace("https://penstock.example", site.service.url)
        .replace("psk_...", site.write_key)
        .replace("web_...", site.website_id)
    )


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_runs_and_its_events_are_stored(
    service: Service, snippet: str, tmp_path: Path
) -> None:
    site = new_site(service)
    program = as_program(filled_in(snippet, site), tmp_path)
    command = [sys.executable, "-W", "ignore", "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(SDK / "src")}
    run_program(command, folder=tmp_path, environment=environment)
    names = set(re.findall(r'(?:track|transaction)\(\s*"(\w+)"', snippet))
    assert names or ".results(" in snippet
    eventually(lambda: recent_names(site.service.client, site.website_id) == names)
