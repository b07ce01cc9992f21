"""docs/moving-in.md: each import command of the page, and the funnel that follows from it."""

import gzip
import shlex
import tomllib

import pytest
from docsite.pages import ROOT, blocks

from tests.events.imports.exported import FILES
from tests.events.imports.test_moving_in import FUNNEL
from tests.serving import Served, penstock

PAGE = ROOT / "docs" / "moving-in.md"
BLOCKS = list(blocks(PAGE.relative_to(ROOT)))
ALL_COMMANDS = [block.text.strip() for block in BLOCKS if block.language == "sh"]
COMMANDS = [command for command in ALL_COMMANDS if " --from " in command]


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
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


def test_the_table_of_the_page_is_guessed_and_imported_with_the_mapping_of_the_page(
    service, tmp_path
):
    """Customer 17 pays two of two orders, after one and two minutes, customer 18 none of one."""
    [table] = [block.text for block in BLOCKS if block.language == "csv"]
    [mapping] = [block.text for block in BLOCKS if block.language == "toml"]
    [guess, import_table] = [command for command in ALL_COMMANDS if " --from " not in command]
    (tmp_path / "orders.csv").write_text(table)

    def run(command, **more):
        words = shlex.split(command.replace("web_...", more.get("website", "")))
        paths = [str(tmp_path / word) if word.startswith("orders") else word for word in words]
        keys = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": service.key}
        return penstock(*paths[1:], **keys)

    guessed = run(guess)
    assert guessed.returncode == 0, guessed.stderr
    assert "customer_id         user" in guessed.stdout.splitlines()
    written = (tmp_path / "orders.csv.mapping.toml").read_text()
    assert tomllib.loads(written)["columns"] == tomllib.loads(mapping)["columns"]
    assert "# 1714557600 | 1714557660 | 1714561200" in written
    assert run(guess).returncode == 2, "a mapping that was corrected must not be overwritten"
    website = service.client.post(
        "/api/settings/websites", json={"name": "table", "kind": "web"}
    ).json()["id"]
    tried = run(f"{import_table} --dry-run", website=website)
    assert "5 events of 2 visitors" in tried.stdout, tried.stderr
    imported = run(import_table, website=website)
    assert imported.returncode == 0, imported.stderr + imported.stdout
    funnel = {
        "name": "Orders",
        "websiteId": website,
        "steps": [
            {"type": "Event", "value": "cart_opened"}, {"type": "Event", "value": "order_paid"},
        ],
        "conversionWindowSeconds": 86_400,
        "countingUnit": "attempt",
        "attemptProperty": "order_no",
    }  # fmt: skip
    total = service.client.post("/api/funnels/preview", json=funnel).json()["aggregate"]
    assert [step["count"] for step in total["steps"]] == [3, 2]
    assert total["medianCompletionMinutes"] == 1.5


@pytest.mark.usefixtures("starts_service")
def test_a_mapping_that_is_not_complete_is_an_error_that_names_what_is_missing(tmp_path):
    table, mapping = tmp_path / "table.csv", tmp_path / "mapping.toml"
    table.write_text("a,b\n1,2\n")
    for text, advice in (
        ("columns = [", "is not TOML"),
        ('columns = [{ column = "a", use = "user" }]', "No column has the use time"),
        ('columns = [{ column = "a", use = "person" }]', "columns[0].use: Must be"),
    ):
        mapping.write_text(text)
        result = penstock("import", str(table), "--map", str(mapping), "--dry-run")
        assert (result.returncode, advice in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("name", ["mixpanel", "posthog", "segment"])
def test_the_funnel_of_a_dry_run_can_be_applied(service, tmp_path, name):
    file = tmp_path / "export"
    file.write_bytes(FILES[name]())
    tried = penstock("import", str(file), "--from", name, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    _, command, text = tried.stdout.partition("penstock apply funnels.yml\n")
    (tmp_path / "funnels.yml").write_text(text.replace("First funnel", f"From {name}"), "utf-8")
    website = service.client.post(
        "/api/settings/websites", json={"name": f"{name} dry run", "kind": "web"}
    ).json()["id"]
    keys = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": service.key}
    imported = penstock("import", str(file), "--from", name, "--website", website, **keys)
    assert imported.returncode == 0, imported.stderr
    applied = penstock(*command.split()[1:-1], str(tmp_path / "funnels.yml"), **keys)
    assert applied.returncode == 0, applied.stderr
    [funnel] = service.client.get(f"/api/funnels?search=From {name}").json()["data"]
    path = f"/api/funnels/{funnel['id']}/results"
    steps = service.client.get(path, params={"websiteId": website}).json()["aggregate"]["steps"]
    values = [step["value"] for step in steps]
    assert values[0] == "/pricing"
    assert values[-2:] == ["checkout_started", "order_paid"]
    assert steps[0]["count"] == 5
