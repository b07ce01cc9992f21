"""Every Python snippet of docs/clients-python.md and of the package's README runs."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.segment.service import Service, Site, new_site
from tests.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
SDK = ROOT / "sdk/python"
PAGES = (ROOT / "docs/clients-python.md", SDK / "README.md")
SNIPPETS = [
    snippet
    for page in PAGES
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
]

_FASTAPI = """
import sys
from types import SimpleNamespace

class FastAPI:
    def __init__(self, lifespan):
        self.state = SimpleNamespace()

sys.modules["fastapi"] = SimpleNamespace(FastAPI=FastAPI)
"""
_REQUEST = """
import asyncio

async def answer_request():
    async with lifespan(app):
        app.state.penstock.track("order_paid", user_id="u-1")

asyncio.run(answer_request())
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("snippets") / "data")
    yield running
    running.close()


def as_program(snippet: str) -> str:
    """A snippet for FastAPI gets what FastAPI would bring, and a request."""
    return _FASTAPI + snippet + _REQUEST if "fastapi" in snippet else snippet


def filled_in(snippet: str, site: Site) -> str:
    return (
        snippet.replace("https://penstock.example", site.service.url)
        .replace("psk_...", site.write_key)
        .replace("web_...", site.website_id)
    )


def stored_names(site: Site) -> set[str]:
    query = {"websiteId": site.website_id}
    recent = site.service.client.get("/api/events/recent", params=query).json()["data"]
    return {event["name"] for event in recent}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_runs_and_its_events_are_stored(service: Service, snippet: str) -> None:
    site, program = new_site(service), as_program(snippet)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", filled_in(program, site)],
        env={**os.environ, "PYTHONPATH": str(SDK / "src")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    names = set(re.findall(r'(?:track|transaction)\(\s*"(\w+)"', program))
    assert names
    eventually(lambda: stored_names(site) == names)
