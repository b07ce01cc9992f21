"""Every code block of the README and the docs runs in a test, or says here why it cannot.

A new block without a decision fails. Blocks of one language of a page often run together in another
test (`ELSEWHERE`). The tests below run the others, each known by the beginning of its text.
"""

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from docsite.pages import ROOT, Block, all_pages, blocks
from litestar import Litestar
from litestar.testing import TestClient
from pydantic import BaseModel

from penstock.disk.schema import DiskUseRecord
from penstock.events.deletions.undos.schema import UndoRecord
from penstock.events.schema import BatchRecord
from penstock.jobs.schema import JobRecord
from penstock.links.attribution.schema import ResolvedRecord
from tests.clickhouse_server import CLUSTER_RIGHTS, RIGHTS
from tests.other_programs import run_program
from tests.records import new_website
from tests.serving import Served, environment, output_of, penstock
from tests.tenant import Tenant

ELSEWHERE = {
    ("docs/start.md", "json"): "tests/e2e/test_start.py",
    ("docs/examples.md", "sh"): "tests/e2e/test_receipt.py",
    ("docs/funnels.md", "json"): "tests/test_docs.py",
    ("docs/reports.md", "json"): "tests/test_docs.py",
    ("docs/sharing.md", "json"): "tests/shares/test_shares.py",
    ("docs/receipts.md", "json"): "tests/receipts/test_files.py",
    ("docs/receipts.md", "sh"): "tests/receipts/test_files.py",
    ("docs/worked-examples.md", "yaml"): "tests/funnels/test_worked_examples.py",
    ("docs/planning-events.md", "js"): "tests/browser/test_client_snippets.py",
    ("docs/planning-events.md", "json"): "tests/funnels/test_planning_example.py",
    ("docs/identity.md", "js"): "tests/browser/test_client_snippets.py",
    ("docs/clients.md", "html"): "tests/browser/test_client_snippets.py",
    ("docs/clients.md", "js"): "tests/browser/test_client_snippets.py",
    ("docs/privacy.md", "html"): "tests/browser/test_client_snippets.py",
    ("docs/privacy.md", "js"): "tests/browser/test_client_snippets.py",
    ("docs/clients-python.md", "python"): "tests/sdk/test_snippets.py",
    ("docs/moving-in.md", "csv"): "tests/cli/test_moving_in.py",
    ("docs/moving-in.md", "sql"): "tests/cli/test_moving_in.py",
    ("docs/moving-in.md", "sh"): "tests/cli/test_moving_in.py",
    ("docs/moving-in.md", "toml"): "tests/cli/test_moving_in.py",
    ("docs/segment.md", "python"): "tests/segment/test_snippets.py",
    ("docs/segment.md", "js"): "tests/segment/test_snippets.py",
    **{
        ("docs/webhooks.md", language): "tests/webhooks/test_page.py"
        for language in ("sh", "json", "python")
    },
    ("docs/alerts.md", '{\n  "name"'): "tests/alerts/test_alerts.py",
    ("docs/assistants.md", "json"): "tests/assistants/test_doors.py",
    ("docs/assistants.md", "sh"): "tests/assistants/test_doors.py",
    ("docs/app-links.md", "json"): "tests/links/association/test_association.py",
    **{
        (f"docs/recipes/{name}.md", language): "tests/browser/test_recipes.py"
        for name, languages in {
            "nextjs": ("js", "jsx", "json"),
            "shopify": ("js", "json"),
            "tag-manager": ("html", "js", "sh"),
            "wordpress": ("php", "json"),
        }.items()
        for language in languages
    },
    ("sdk/android-core/README.md", "java"): "scripts/test-android",
}
"""Page and language -> test that runs all these blocks of the page."""

BLOCKS_ELSEWHERE = {
    ("docs/alerts.md", '{\n  "name"'): "tests/alerts/test_alerts.py",
    ("docs/alerts.md", '{\n  "text"'): "tests/alerts/test_rendering.py",
    ("docs/alerts.md", '{"weekday"'): "tests/alerts/test_digests.py",
    ("docs/moving-out.md", "penstock import"): "tests/cli/test_import_export.py",
    ("docs/moving-out.md", "-- Orders"): "tests/cli/test_export.py",
    ("docs/moving-out.md", "sources:"): "tests/cli/test_export.py",
    ("docs/moving-out.md", "-- models/"): "tests/cli/test_export.py",
    ("docs/moving-out.md", "CREATE USER"): "tests/warehouse/test_sql_of_readers.py",
    ("docs/moving-out.md", "SELECT coalesce"): "tests/warehouse/test_sql_of_readers.py",
    ("docs/moving-out.md", "export AWS_ACCESS_KEY_ID"): "tests/cli/test_export_to_bucket.py",
    ("docs/moving-out.md", "penstock export /backups/acme --every"): (
        "tests/cli/test_export_schedule.py"
    ),
    ("docs/start.md", "URL=http://127.0.0.1:8000"): "tests/e2e/test_start.py",
    ("docs/events.md", "penstock imports undo"): "tests/cli/test_imports_undo.py",
    ("docs/events.md", '{\n  "websiteId": "web_...",\n  "event"'): "tests/test_docs.py",
    ("docs/events.md", '{\n  "websiteId": "web_...",\n  "type"'): "tests/test_docs.py",
    ("docs/api.md", '{\n  "type": "/api/docs/errors#invalid"'): "tests/test_docs.py",
}
"""Page and beginning of one block -> test that runs it."""

_LINK = '{\n  "websiteId": "web_01m7y0fr9gctca442s2h09dctx",\n'
REQUESTS = {
    ("docs/deletions.md", '{"websiteId"'): "/api/deletions",
    ("docs/links.md", _LINK + '  "name"'): "/api/mobile/deferred-links",
    ("docs/links.md", _LINK + '  "installId"'): "/api/mobile/deferred-links/resolve",
}
"""Bodies that the API accepts."""

RECORDS = {
    ("docs/events.md", '{"accepted": 1'): BatchRecord,
    ("docs/events.md", '{"importId"'): UndoRecord,
    ("docs/links.md", '{\n  "matched": true'): ResolvedRecord,
    ("docs/api.md", '{\n  "id": "job_'): JobRecord,
    ("docs/operating.md", '{"usedBytes"'): DiskUseRecord,
}
"""Responses, which must have every field of the record and no other."""

GRANTS = ("docs/scaling.md", "-- READ ON REMOTE")
XML = ("docs/app-links.md", "<intent-filter")
HEALTH = ("docs/operating.md", '{"status": "ready"')

SETTINGS = [
    ("docs/operating.md", "PENSTOCK_DATA="),
    ("docs/operating.md", "PENSTOCK_QUERY_MEMORY_BYTES=201326592"),
    ("docs/operating.md", "PENSTOCK_QUERY_MEMORY_BYTES=536870912"),
    ("docs/operating.md", "PENSTOCK_QUERY_MEMORY_BYTES=1073741824"),
    ("docs/operating.md", "PENSTOCK_SMTP_URL="),
    ("docs/operating.md", "PENSTOCK_PUBLIC_URL="),
    ("docs/settings.md", "public_url ="),
]
"""Settings that `penstock config` accepts, as variables or as a file."""

COMMANDS = [
    ("docs/events.md", "jq "),
    ("docs/app-links.md", "curl -I "),
    ("docs/privacy.md", 'curl "https'),
    ("docs/privacy.md", "curl https"),
    ("docs/sharing.md", "VERSION="),
    ("docs/operating.md", "head -c 32"),
    ("docs/events.md", "penstock import past"),
    ("docs/links.md", "penstock links export"),
    ("docs/moving-out.md", "penstock export /backups/acme  "),
    ("docs/funnels.md", "penstock plan"),
    ("docs/operating.md", "penstock backup"),
    ("docs/operating.md", "#!/bin/sh"),
    ("docs/operating.md", "penstock restore /backups/tuesday"),
    ("docs/operating.md", "penstock restore /backups/latest"),
    ("docs/operating.md", "penstock reset-password"),
    ("docs/operating.md", "penstock verify --accept-loss"),
]
"""Commands, in the order in which they run beside a service. The last one needs its data folder."""

PARTS_OF_COMMANDS = [
    ("docs/funnels.md", "segments:"),
    ("docs/events.md", '{"type": "event"'),
    ("docs/events.md", '{"type": "identify"'),
    ("docs/events.md", "timestamp,name"),
    ("docs/links.md", "websiteId,slug"),
]
"""Files that the commands above read."""

MAKE = [
    ("README.md", "make demo"),
    ("docs/start.md", "make demo"),
    ("CONTRIBUTING.md", "make setup"),
    ("bench/README.md", "make bench"),
]
"""Targets of the Makefile, which `make --dry-run` reads."""

NOT_RUN = {
    ("docs/moving-out.md", "[Unit]"): "needs systemd as process 1",
    ("docs/moving-out.md", "services:"): "needs a Docker service",
    ("docs/clients.md", "npm install ./dist"): "installs packages that `make dist` builds",
    ("docs/links.md", "https://go.example.com"): "an address, not code",
    ("docs/links.md", "POST /api/mobile"): "the request line of the block below it",
    ("docs/api.md", "Authorization:"): "a header that every test of the API sends",
    ("docs/recipes/nextjs.md", "NEXT_PUBLIC"): "an .env file of Next.js",
    ("docs/recipes/tag-manager.md", "script-src"): "a header of the reader's site",
    ("docs/operating.md", "useradd"): "changes the users of the system",
    ("docs/operating.md", "cp /opt/penstock"): "needs systemd as process 1",
    ("docs/operating.md", "systemd-run"): "needs systemd as process 1",
    ("docs/operating.md", "systemctl stop penstock"): "needs systemd as process 1",
    ("docs/operating.md", "export DOMAIN"): "needs a domain and Docker's registry",
    ("docs/operating.md", "upstream penstock"): "nginx is not a program that tests need",
    ("docs/operating.md", "penstock.example.com, go"): "Caddy is not a program that tests need",
    ("docs/operating.md", "penstock reset-second"): "needs a second factor; tests/cli runs it",
    ("docs/operating.md", "penstock imports"): "needs an import; tests/events/imports runs it",
    ("docs/development/architecture.md", "src/penstock/"): "a tree of folders",
    ("src/penstock/web/README.md", "<form hx-get"): "a part of a template that tests render",
    ("src/penstock/web/README.md", "{% call ui.form"): "a part of a template that tests render",
    ("src/penstock/web/README.md", "{% block scripts"): "a part of a template that tests render",
}
"""Blocks that do not run, and why."""

Key = tuple[str, str]


@cache
def every_block() -> list[Block]:
    written = [page for page in all_pages() if not page.is_relative_to("docs/reference")]
    return [block for page in written for block in blocks(page)]


def block_at(key: Key) -> str:
    page, beginning = key
    [text] = [
        block.text
        for block in every_block()
        if str(block.page) == page and block.text.startswith(beginning)
    ]
    return text


def one_by_one() -> list[Key]:
    listed = (BLOCKS_ELSEWHERE, REQUESTS, RECORDS, SETTINGS, COMMANDS, MAKE, NOT_RUN)
    return [key for keys in (*listed, PARTS_OF_COMMANDS, [GRANTS, HEALTH, XML]) for key in keys]


def test_every_block_runs_or_says_why_it_cannot() -> None:
    undecided, used = [], set()
    for block in every_block():
        page = str(block.page)
        ways = [key for key in one_by_one() if key[0] == page and block.text.startswith(key[1])]
        ways += [(page, block.language)] if (page, block.language) in ELSEWHERE else []
        used |= set(ways)
        if len(ways) != 1:
            undecided.append(f"{page}:{block.line} {block.text.partition(chr(10))[0]} {ways}")
    assert undecided == []
    assert {*one_by_one(), *ELSEWHERE} - used == set()


@pytest.mark.parametrize(
    ("page", "test"),
    sorted({(key[0], test) for key, test in {**ELSEWHERE, **BLOCKS_ELSEWHERE}.items()}),
)
def test_the_test_that_runs_a_page_names_it(page: str, test: str) -> None:
    text = (ROOT / test).read_text("utf-8")
    path = Path(page)
    assert path.name in text or path.stem in text or path.parent.name in text


@pytest.mark.parametrize(("key", "path"), REQUESTS.items())
def test_a_documented_body_is_accepted(workspace: Tenant, key: Key, path: str) -> None:
    app_id = new_website(workspace.client, "App", "mobile")
    body = {**json.loads(block_at(key)), "websiteId": app_id}
    answer = workspace.client.post(path, json=body)
    assert answer.status_code in (200, 201, 202), answer.text


@pytest.mark.parametrize(("key", "record"), RECORDS.items())
def test_a_documented_response_has_every_field_of_its_record(
    key: Key, record: type[BaseModel]
) -> None:
    answer = json.loads(block_at(key))
    assert record.model_validate(answer).model_dump(mode="json") == answer


def names_in(value: Any, path: str = "") -> set[str]:
    if isinstance(value, list):
        return {name for item in value for name in names_in(item, f"{path}[]")}
    if isinstance(value, dict):
        return {name for key, item in value.items() for name in names_in(item, f"{path}.{key}")}
    return {path}


def test_the_documented_readiness_has_every_field(server: TestClient[Litestar]) -> None:
    documented = names_in(json.loads(block_at(HEALTH)))
    assert names_in(server.get("/health/ready").json()) <= {
        *documented,
        ".outbox.lastFailedShipment",
    }


def test_the_documented_filter_of_android_is_xml() -> None:
    block = block_at(XML).replace("android:", "")
    assert ElementTree.fromstring(block).tag == "intent-filter"


def test_the_documented_rights_of_a_cluster_are_those_of_the_tests() -> None:
    statements = re.findall(r"^(GRANT .*) TO penstock;", block_at(GRANTS), re.MULTILINE)
    assert statements == list(CLUSTER_RIGHTS[len(RIGHTS) :])


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize("key", SETTINGS)
def test_documented_settings_are_valid(key: Key, tmp_path: Path) -> None:
    text = block_at(key)
    if text.startswith("PENSTOCK_"):
        pairs = [pair.split("=", 1) for pair in shlex.split(text, comments=True)]
        shown = penstock("config", **dict(pairs))
        names = [name.removeprefix("PENSTOCK_").lower() for name, _ in pairs]
    else:
        file = tmp_path / "penstock.toml"
        file.write_text(text, "utf-8")
        shown = penstock("config", "--config", str(file))
        names = list(tomllib.loads(text))
    assert shown.returncode == 0, shown.stderr
    for name in names:
        [line] = [line for line in shown.stdout.splitlines() if line.startswith(f"{name} =")]
        assert line.endswith(("# environment", "# file"))


@pytest.mark.parametrize("key", MAKE)
def test_documented_targets_exist(key: Key) -> None:
    for line in block_at(key).splitlines():
        command = shlex.split(line, comments=True)
        dry_run = ["make", "--dry-run", "--always-make", *command[1:]]
        assert command[0] == "make"
        run_program(dry_run, folder=ROOT, may_warn=True)


class Installation:
    """A service with a website and an app, and a folder in which the docs' commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.service = Served(self.data)
        self.key, self.website_id = self.service.first_account()
        self.app_id = new_website(self.service.client, "Acme Shop", "mobile")
        (folder / "backups").mkdir()
        event = {"type": "event", "name": "a", "userId": "u-1"}
        self.write("events.json", json.dumps([event]))
        funnels, event_line, identify_line, rows, links = map(block_at, PARTS_OF_COMMANDS)
        self.write(
            "past.ndjson", "\n".join(" ".join(line.split()) for line in (event_line, identify_line))
        )
        self.write("past.txt", rows)
        self.write("funnels.yml", funnels)
        self.write("links.csv", links.replace("web_01m7y0fr9gctca442s2h09dctx", self.app_id))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, "utf-8")

    def filled(self, text: str) -> str:
        """A block with the folders, IDs and addresses of this installation."""
        for shown, real in {
            "/var/lib/penstock-new": f"{self.folder}/new",
            "/var/lib/penstock": str(self.data),
            "/tmp/drill": f"{self.folder}/drill",
            "--data DATA": f"--data {self.data}",
            "/backups": f"{self.folder}/backups",
            "https://penstock.example.com": self.service.url,
            "https://penstock.example": self.service.url,
            "https://go.example.com": self.service.url,
            "web_...": self.website_id,
            "ann@example.com": "owner@example.com",
            " past.": f" {self.folder}/past.",
            " links.csv": f" {self.folder}/links.csv",
            " funnels.yml": f" {self.folder}/funnels.yml",
        }.items():
            text = text.replace(shown, real)
        return text

    def settings(self) -> dict[str, str]:
        return {
            "PENSTOCK_URL": self.service.url,
            "PENSTOCK_API_KEY": self.key,
            "PENSTOCK_DATA": str(self.data),
        }

    def run(self, text: str) -> None:
        """Run a block in a shell, or without a new interpreter if it has only our commands."""
        settings = self.settings()
        parts = [part.strip() for part in re.split(r"\n|&&", text.strip())]
        if all(part.startswith("penstock ") for part in parts):
            lines = [shlex.split(part, comments=True)[1:] for part in parts]
            ran = [output_of(penstock(*line, **settings)) for line in lines if line[0] != "serve"]
        else:
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            command, own = (
                ["bash", "-euo", "pipefail", "-c", text],
                environment(**settings, PATH=path),
            )
            ran = [run_program(command, folder=self.folder, environment=own, may_warn=True)]
        for output in ran:
            assert '"status":4' not in output


@pytest.mark.full("commands that tests of their rooms also run")
@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("runs twenty commands")
def test_documented_commands_run_in_order(tmp_path: Path) -> None:
    """What one command writes, a later one reads. A service runs until the last one."""
    installation = Installation(tmp_path)
    with installation.service as service:
        *beside, last = COMMANDS
        output_of(
            penstock("links", "import", str(tmp_path / "links.csv"), **installation.settings())
        )
        for key in beside:
            if key[1] == "jq " and shutil.which("jq") is None:
                continue
            installation.run(installation.filled(block_at(key)))
        service.stop()
        installation.run(installation.filled(block_at(last)))
