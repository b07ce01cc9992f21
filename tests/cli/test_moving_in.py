"""docs/moving-in.md: each import command of the page, and the funnel that follows from it."""

import csv
import gzip
import io
import shlex
import sqlite3
import sys
import tomllib

import pytest
from docsite.pages import ROOT, blocks

from penstock.base.clock import system_clock
from penstock.cli.import_dry_run import _WEBSITE as WEBSITE
from penstock.events.imports.dry_runs.summaries import summarise
from penstock.events.imports.formats.reader import ReaderLimits
from penstock.events.imports.formats.schema import CompleteMapping
from penstock.events.imports.formats.table import reader_named
from tests.cli import commands
from tests.cli.commands import keys_of
from tests.events.imports.exported import FILES
from tests.events.imports.test_mapping import ORDERS
from tests.events.imports.test_moving_in import FUNNEL
from tests.records import event_steps, new_website
from tests.serving import error_of, output_of, penstock

PAGE = ROOT / "docs" / "moving-in.md"
BLOCKS = list(blocks(PAGE.relative_to(ROOT)))
ALL_COMMANDS = [block.text.strip() for block in BLOCKS if block.language == "sh"]
MAPPINGS = [block.text for block in BLOCKS if block.language == "toml"]
COMMANDS = [command for command in ALL_COMMANDS if " --from " in command]


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
    website = new_website(service.client, name)
    output = output_of(
        penstock(
            "import",
            *(str(tmp_path / file), option, name, "--website", website),
            PENSTOCK_URL=service.url,
            PENSTOCK_API_KEY=service.key,
        )
    )
    assert "1 line named a visitor who already belongs to another user" in output
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
    mapping, *_ = MAPPINGS
    [guess, import_table] = [command for command in ALL_COMMANDS if " --from " not in command]
    (tmp_path / "orders.csv").write_text(table)

    def run(command, **more):
        words = shlex.split(command.replace("web_...", more.get("website", "")))
        paths = [str(tmp_path / word) if word.startswith("orders") else word for word in words]
        return commands.run(service, *paths[1:])

    assert "customer_id         user" in output_of(run(guess)).splitlines()
    written = (tmp_path / "orders.csv.mapping.toml").read_text()
    assert tomllib.loads(written)["columns"] == tomllib.loads(mapping)["columns"]
    assert "# 1714557600 | 1714557660 | 1714561200" in written
    assert run(guess).returncode == 2, "a mapping that was corrected must not be overwritten"
    website = new_website(service.client, "table")
    tried = run(f"{import_table} --dry-run", website=website)
    assert "5 events of 2 visitors" in tried.stdout, tried.stderr
    output_of(run(import_table, website=website))
    funnel = {
        "name": "Orders",
        "websiteId": website,
        "steps": event_steps("cart_opened", "order_paid"),
        "conversionWindowSeconds": 86_400,
        "countingUnit": "attempt",
        "attemptProperty": "order_no",
    }
    total = service.client.post("/api/funnels/preview", json=funnel).json()["aggregate"]
    assert [step["count"] for step in total["steps"]] == [3, 2]
    assert total["medianCompletionMinutes"] == 1.5


def summary_of(tmp_path, content, mapping):
    """The dry run of CSV with a mapping of the page."""
    file = tmp_path / "table.csv"
    file.write_text(content)
    uses = CompleteMapping.model_validate(tomllib.loads(mapping))
    rows = reader_named("csv", uses).rows(file, ReaderLimits(sys.maxsize, sys.maxsize))
    return summarise(rows, WEBSITE, system_clock(), uses)


def test_the_orders_of_shopify_become_several_events_of_a_row(tmp_path):
    [mapping] = [text for text in MAPPINGS if '"Fulfilled at"' in text]
    summary = summary_of(tmp_path, ORDERS, mapping)
    assert (summary.events, summary.duplicates, summary.rejected, summary.visitors) == (4, 1, 0, 2)


def concat(*texts):
    """CONCAT of MySQL."""
    return None if None in texts else "".join(map(str, texts))


def query_result(product, *statements):
    """The CSV of the page's query for a product, over tables in SQLite."""
    database = sqlite3.connect(":memory:")
    database.create_function("CONCAT", -1, concat)
    for statement in statements:
        database.execute(statement)
    [query] = [block.text for block in BLOCKS if block.text.startswith(f"-- {product}")]
    result, out = database.execute(query), io.StringIO()
    writer = csv.writer(out)
    writer.writerow([column for column, *_ in result.description])
    writer.writerows(result)
    return out.getvalue()


def events_of(tmp_path, product, key, *statements):
    """Events by type and name in the page's recipe for a product. key: column of its mapping."""
    [mapping] = [text for text in MAPPINGS if f'"{key}"' in text]
    summary = summary_of(tmp_path, query_result(product, *statements), mapping)
    assert (summary.rejected, summary.error) == (0, None), summary.reasons
    events = {(str(each.type), each.name): each.events for each in summary.event_names}
    return events, summary.visitors


def test_the_recipe_for_snowplow_gives_events(tmp_path):
    columns = (
        "event_id, event_name, derived_tstamp, domain_userid, user_id, domain_sessionid, page_url,"
        " page_title, page_referrer, geo_country, se_category, se_action, se_label, se_value"
    )
    rows = [
        ("page_view", "d1", None, "https://shop.example/pricing", None, None),
        ("page_ping", "d1", None, "https://shop.example/pricing", None, None),
        ("event", "d1", "ann", "https://shop.example/cart", "checkout_started", None),
        ("order_paid", None, "ann", None, None, 9.5),
        ("page_view", "d2", None, "https://shop.example/pricing", None, None),
    ]
    inserts = [
        f"INSERT INTO atomic.events ({columns}) VALUES ('e{number}', {quoted(name)},"  # noqa: S608
        f" '2024-05-01 10:0{number}:00.123', {quoted(device)}, {quoted(user)}, 's', {quoted(url)},"
        f" NULL, NULL, 'DE', NULL, {quoted(action)}, NULL, {quoted(value)})"
        for number, (name, device, user, url, action, value) in enumerate(rows)
    ]
    create = f"CREATE TABLE atomic.events ({columns})"
    events, visitors = events_of(
        tmp_path, "Snowplow", "derived_tstamp", "ATTACH ':memory:' AS atomic", create, *inserts
    )
    assert events == {
        ("pageview", "/pricing"): 2, ("event", "checkout_started"): 1, ("event", "order_paid"): 1,
    }  # fmt: skip
    assert visitors == 2


def quoted(value):
    return "NULL" if value is None else repr(value)


def test_the_recipe_for_matomo_gives_events(tmp_path):
    events, visitors = events_of(
        tmp_path,
        "Matomo",
        "server_time",
        "CREATE TABLE matomo_log_visit (idvisit, user_id, location_country)",
        "CREATE TABLE matomo_log_action (idaction, name, type, url_prefix)",
        "CREATE TABLE matomo_log_conversion"
        " (idvisit, idgoal, buster, server_time, idvisitor, url, idorder, revenue)",
        "CREATE TABLE matomo_log_link_visit_action (idlink_va, idvisit, idvisitor, server_time,"
        " idaction_url, idaction_name, idaction_event_action, idaction_event_category)",
        "INSERT INTO matomo_log_visit VALUES (1, 'ann', 'de'), (2, NULL, 'xx')",
        "INSERT INTO matomo_log_action VALUES (1, 'shop.example/pricing', 1, 2), (2, 'Prices', 4,"
        " NULL), (3, 'checkout_started', 11, NULL), (4, 'Shop', 10, NULL), (5, 'a.pdf', 3, NULL)",
        "INSERT INTO matomo_log_link_visit_action VALUES"
        " (1, 1, x'0A', '2024-05-01 10:00:00', 1, 2, NULL, NULL),"
        " (2, 1, x'0A', '2024-05-01 10:05:00', 1, NULL, 3, 4),"
        " (3, 2, x'0B', '2024-05-01 10:00:00', 1, 2, NULL, NULL),"
        " (4, 2, x'0B', '2024-05-01 10:01:00', 5, NULL, NULL, NULL)",
        "INSERT INTO matomo_log_conversion VALUES"
        " (1, 0, 7, '2024-05-01 10:10:00', x'0A', 'https://shop.example/thanks', 'o-1', 9.5),"
        " (1, 3, 0, '2024-05-01 10:10:00', x'0A', 'https://shop.example/thanks', NULL, 0)",
    )
    assert events == {
        ("pageview", "/pricing"): 2,
        ("event", "checkout_started"): 1,
        ("event", "order"): 1,
        ("event", "goal_3"): 1,
    }
    assert visitors == 2


@pytest.mark.usefixtures("starts_service")
def test_a_mapping_that_is_not_complete_is_an_error_that_names_what_is_missing(tmp_path):
    table, mapping = tmp_path / "table.csv", tmp_path / "mapping.toml"
    table.write_text("a,b\n1,2\n")
    for text, advice in (
        ("columns = [", "is not TOML"),
        (
            'columns = [{ column = "a", use = "user" }]',
            "Choose the column with the time of the event",
        ),
        ('columns = [{ column = "a", use = "person" }]', "columns[0].use: Must be"),
    ):
        mapping.write_text(text)
        error = error_of(penstock("import", str(table), "--map", str(mapping), "--dry-run"), 2)
        assert advice in error


@pytest.mark.parametrize("name", ["mixpanel", "posthog", "segment"])
def test_the_funnel_of_a_dry_run_can_be_applied(service, tmp_path, name):
    file = tmp_path / "export"
    file.write_bytes(FILES[name]())
    output = output_of(penstock("import", str(file), "--from", name, "--dry-run"))
    _, command, text = output.partition("penstock apply funnels.yml\n")
    (tmp_path / "funnels.yml").write_text(text.replace("First funnel", f"From {name}"), "utf-8")
    website = new_website(service.client, f"{name} dry run")
    keys = keys_of(service)
    output_of(penstock("import", str(file), "--from", name, "--website", website, **keys))
    output_of(penstock(*command.split()[1:-1], str(tmp_path / "funnels.yml"), **keys))
    [funnel] = service.client.get(f"/api/funnels?search=From {name}").json()["data"]
    path = f"/api/funnels/{funnel['id']}/results"
    steps = service.client.get(path, params={"websiteId": website}).json()["aggregate"]["steps"]
    values = [step["value"] for step in steps]
    assert values[0] == "/pricing"
    assert values[-2:] == ["checkout_started", "order_paid"]
    assert steps[0]["count"] == 5
