"""docs/moving-in.md: each import command of the page, and the funnel that follows from it."""

import gzip
import shlex

import pytest
from docsite.pages import ROOT, blocks

from tests.events.imports.exported import FILES
from tests.events.imports.test_moving_in import FUNNEL
from tests.serving import Served, penstock

PAGE = ROOT / "docs" / "moving-in.md"
COMMANDS = [
    block.text.strip() for block in blocks(PAGE.relative_to(ROOT)) if block.language == "sh"
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("moving-in") / "data") as running:
        running.key, _ = running.first_account()
        yield running


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_each_product_imports_its_export(service, tmp_path, command):
    program, action, file, option, name, *more = shlex.split(command)
    assert (program, action, option, more) == (
        "penstock",
        "import",
        "--from",
        ["--website", "web_..."],
    )
    content = FILES[name]()
    (tmp_path / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    website = service.client.post(
        "/api/settings/websites", json={"name": name, "kind": "web"}
    ).json()["id"]
    result = penstock(
        "import",
        *(str(tmp_path / file), option, name, "--website", website),
        PENSTOCK_URL=service.url,
        PENSTOCK_API_KEY=service.key,
    )
    assert result.returncode == 0, result.stderr + result.stdout
    assert "1 line named a visitor who already belongs to another user" in result.stdout
    answer = service.client.post("/api/funnels/preview", json={**FUNNEL, "websiteId": website})
    total = answer.json()["aggregate"]
    assert [step["count"] for step in total["steps"]] == [5, 3, 2]
    assert total["medianCompletionMinutes"] == 15


def test_the_page_has_a_command_for_each_export():
    assert {shlex.split(command)[4] for command in COMMANDS} == set(FILES)
