"""The entries of `@penstock/sdk` for Node.js and React Native against a service that is killed."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.segment.faulty_host import LOST, OVERLOADED, UNANSWERED, FaultyHost
from tests.segment.service import ROOT, Service, Site, new_site, node
from tests.waiting import PATIENCE_S, eventually

PACKAGE = ROOT / "sdk/js"
EVENTS = 120  # more than one request has

pytestmark = pytest.mark.skipif(not (PACKAGE / "dist").exists(), reason="make sdk builds it")

_NODE = """
import { Penstock } from "@penstock/sdk/node";
const penstock = new Penstock({ host, website, apiKey, spillTo: folder });
for (const name of names) penstock.track({ event: name, userId: "u-1" });
penstock.transaction({ event: `paid-${names[0]}`, userId: "u-1", transactionId: names[0] });
const waiting = () => penstock.waiting;
"""

_REACT_NATIVE = """
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { init } from "@penstock/sdk/react-native";
const file = (key) => `${folder}/${key}`;
const storage = {
  getAllKeys: async () => readdirSync(folder),
  getItem: async (key) => readFileSync(file(key), "utf8"),
  setItem: async (key, value) => writeFileSync(file(key), value),
  removeItem: async (key) => rmSync(file(key)),
};
const penstock = await init({ host, website, storage });
penstock.identify("u-1");
for (const name of names) penstock.track(name);
penstock.transaction(`paid-${names[0]}`, { id: names[0] });
const waiting = () => readdirSync(folder).filter((key) => key.includes("event")).length;
while (waiting() < names.length + 2) await new Promise((resolve) => setTimeout(resolve, 5));
"""

_SEND = """
console.log("queued");
while (waiting()) {
  await penstock.flush();
  await new Promise((resolve) => setTimeout(resolve, 20));
}
process.exit(0);
"""


@pytest.fixture(scope="module")
def service(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("javascript") / "data")
    yield running
    running.close()


@pytest.fixture
def host(service: Service) -> Iterator[FaultyHost]:
    faulty = FaultyHost(lambda: service.url, faults=[])
    yield faulty
    faulty.close()


def start(
    program: str, host: FaultyHost, site: Site, folder: Path, names: list[str]
) -> subprocess.Popen[str]:
    """The program, once it has queued events with these names."""
    given = {
        "host": host.url,
        "website": site.website_id,
        "apiKey": site.write_key,
        "folder": str(folder),
        "names": names,
    }
    head = f"const {{ {', '.join(given)} }} = {json.dumps(given)};"
    running = subprocess.Popen(
        [node(), "--input-type=module", "-e", head + program + _SEND],
        cwd=PACKAGE,  # it imports itself by its own name
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "queued\n"
    return running


def stored_names(site: Site) -> Counter[str]:
    query = {"websiteId": site.website_id, "userId": "u-1"}
    answer = site.service.client.get("/api/personal-data", params=query)
    lines: list[dict[str, Any]] = [json.loads(line) for line in answer.text.splitlines()]
    return Counter(line["data"]["name"] for line in lines if line["type"] == "event")


@pytest.mark.full("kills a service, a page and a backend")
@pytest.mark.parametrize("program", [_NODE, _REACT_NATIVE], ids=["node", "react-native"])
def test_every_event_is_stored_once_whatever_is_killed(
    service: Service, host: FaultyHost, tmp_path: Path, program: str
) -> None:
    """No answer comes until both were killed: the first process, and the service of the second."""
    site = new_site(service)
    names = [f"event-{number}" for number in range(2 * EVENTS)]
    host.fail(OVERLOADED, LOST, *[UNANSWERED] * 100_000)
    first = start(program, host, site, tmp_path, names[:EVENTS])
    eventually(lambda: len(host.statuses) > 6)
    first.kill()
    first.wait(PATIENCE_S)
    second = start(program, host, site, tmp_path, names[EVENTS:])
    service.kill_and_start()
    host.succeed()
    assert second.wait(PATIENCE_S) == 0
    expected = Counter([*names, f"paid-{names[0]}", f"paid-{names[EVENTS]}"])
    eventually(lambda: stored_names(site).total() >= expected.total())
    assert stored_names(site) == expected
