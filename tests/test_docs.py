"""The documentation of settings, routes, rules and limits is complete and true."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from pydantic_core import PydanticUndefined

from penstock.base.wording import listed
from penstock.cli.removed_settings import removed_settings
from penstock.events.imports.formats.table import READERS
from penstock.funnels.comparisons.schema import (
    AgainstBaselineRecord,
    ComparedRecord,
    ComparisonRecord,
    WarningCode,
)
from penstock.funnels.definitions.builtins import (
    ATTEMPT_BUILTINS,
    BUILTIN_FIELDS,
    COHORT,
    FIRST_TIME,
    cohort_of,
    trait_of,
)
from penstock.funnels.definitions.filters import MAX_KEY_BYTES, MAX_VALUE_BYTES
from penstock.funnels.definitions.operands import MAX_LIST_ITEMS
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.schema import MAX_FILTERS
from penstock.funnels.internal_traffic.schema import MAX_COST as MAX_INTERNAL_COST
from penstock.funnels.queries.schema import CoverageRecord, HeadRecord
from penstock.funnels.questions import QUESTIONS
from penstock.funnels.results.schema import DataQualityRecord, ResultsRecord
from penstock.funnels.saved.rows import MAX_MATCHES, MAX_ROWS, MAX_STEPS, MIN_STEPS
from penstock.funnels.saved.schema import MAX_BREAKDOWNS, MAX_OR_ROWS, WINDOWS_S
from penstock.providers.standard_events import POLAR, RENEWAL_REASONS
from penstock.providers.stripe_events import STRIPE
from penstock.providers.table import PROVIDERS
from penstock.settings import GROUPS, Settings
from penstock.web.codes import WARNINGS
from tests.funnels.test_rules import WORKED_EXAMPLES

DOCS = Path(__file__).parent.parent / "docs"


def allowed_values(field):
    """Of a setting, in words; empty for a text."""
    if field.annotation is bool:
        return "`true`, `false`"
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(field.annotation))
    bounds = {}
    for rule in field.metadata:
        bounds |= {name: getattr(rule, name) for name in ("ge", "gt", "le") if hasattr(rule, name)}
    match bounds:
        case {"ge": low, "le": high}:
            return f"{low:,} to {high:,}"
        case {"ge": low}:
            return f"{low:,} or more"
        case {"gt": low}:
            return f"above {low:,}"
    return ""


def test_every_setting_is_documented_in_its_group_with_its_default():
    sections = page_text("settings.md").split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [
        *(group.title for group in GROUPS),
        "Clients",
    ]
    for group, section in zip(GROUPS, sections, strict=False):
        assert group.__doc__ in section
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        assert rows == [setting_row(*field) for field in group.model_fields.items()]
    assert Settings.model_fields.keys() == {name for group in GROUPS for name in group.model_fields}


def setting_row(name, field):
    value = str(field.default).lower() if isinstance(field.default, bool) else field.default
    has_factory = field.default_factory is not None  # the description says how
    assert has_factory or value is not PydanticUndefined
    default = "" if value is None or has_factory else f"`{value}`"
    cells = (f"`PENSTOCK_{name.upper()}`", default, allowed_values(field), field.description)
    return f"| {' | '.join(cells)} |"


def test_every_documented_setting_exists():
    pages = [DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md", *DOCS.rglob("*.md")]
    named = {
        name for page in pages for name in re.findall(r"PENSTOCK_[A-Z_]+", page.read_text("utf-8"))
    }
    changes = page_text("../CHANGELOG.md")
    removed = {name for name in removed_settings(Settings()) if f"`{name}`" in changes}
    assert len(removed) == 24
    for page in pages:
        assert page.name == "CHANGELOG.md" or not removed & set(in_code(page))
    assert named <= {f"PENSTOCK_{name.upper()}" for name in Settings.model_fields} | {
        *removed,
        "PENSTOCK_URL",
        "PENSTOCK_CONFIG",
        "PENSTOCK_API_KEY",
        "PENSTOCK_TEST_CLICKHOUSE_URL",
        "PENSTOCK_WEBSITE",  # a constant in the recipes
    }


def page_text(page):
    return (DOCS / page).read_text("utf-8")


def in_code(page):
    """Everything that a page sets as code."""
    return set(re.findall(r"`([^`\n]+)`", page_text(page)))


def test_every_route_is_documented(server):
    """Tables list methods of one path as `GET`, `PUT`, `DELETE /path`: only the last has it."""
    cells = [
        cell.strip()
        for line in page_text("api.md").splitlines()
        if line.startswith("|")
        for cell in line.split("|")
    ]
    documented = set()
    for cell in cells:
        methods = []
        for method, path in re.findall(r"`(GET|POST|PUT|PATCH|DELETE)(?: (/[^`]*))?`", cell):
            methods.append(method)
            if path:
                documented |= {(method, path) for method in methods}
                methods = []
    paths = server.get("/api/openapi.json").json()["paths"]
    existing = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    health = {("GET", "/health/live"), ("GET", "/health/ready")}
    assert documented == existing | health


def test_the_documented_operators_are_those_of_the_table():
    section = page_text("funnels.md").split("\n### Filters\n")[1].split("\n### ")[0]
    documented = [line for line in section.splitlines() if line.startswith("| `")]
    rows = ((operator, operator.traits, operator.traits.operand) for operator in Operator)
    assert documented == [
        f"| `{operator}` | {traits.words} | {operand.documented} | {traits.cost} |"
        for operator, traits, operand in rows
    ]


def test_every_built_in_field_is_documented():
    documented = in_code("funnels.md") | in_code("reports.md")
    named = {name for name in documented if name.startswith("$")} - {"$"}
    assert {name for name in named if trait_of(name) is cohort_of(name) is None} == {
        *BUILTIN_FIELDS,
        *ATTEMPT_BUILTINS,
        FIRST_TIME,
        COHORT,
    }


def rows_of(page, heading):
    """The cells of each row of the first table below a heading."""
    section = page_text(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize(
    ("heading", "record"), [("Data quality", DataQualityRecord), ("Coverage", CoverageRecord)]
)
def test_every_field_of_these_records_is_documented(heading, record):
    documented = {
        name
        for first, *_ in rows_of("reports.md", heading)
        for name in re.findall(r"`(\w+)`", first)
    }
    assert documented == {field.alias for field in record.model_fields.values()}


def test_every_field_and_warning_of_a_comparison_is_documented():
    fields = {
        field.alias
        for record in (ComparisonRecord, ComparedRecord, AgainstBaselineRecord)
        for field in record.model_fields.values()
    }
    shared = {field.alias for field in HeadRecord.model_fields.values()}
    assert (fields - shared) | set(WarningCode) <= in_code("reports.md")


def example(page, containing):
    """The one JSON block of a page that holds a text."""
    [text] = [
        text
        for text in re.findall(r"```json\n(.*?)```", page_text(page), re.DOTALL)
        if containing in text
    ]
    return json.loads(text)


def test_the_documented_definition_can_be_saved(workspace):
    goal = {"name": "Paid", "match": {"type": "Transaction", "value": "purchase", "filters": []}}
    assert json.dumps(goal) in page_text("funnels.md")
    assert workspace.client.post("/api/goals", json=goal).status_code == 201
    assert (
        workspace.client.post(
            "/api/funnels", json=example("funnels.md", "sequenceProperty")
        ).status_code
        == 201
    )


def test_the_documented_segment_and_internal_traffic_can_be_saved(workspace):
    client, segment = workspace.client, example("reports.md", "Paying in Germany")
    assert client.post("/api/segments", json=segment).status_code == 201
    internal = example("reports.md", "localhost")
    assert client.put("/api/settings/internal-traffic", json=internal).status_code == 200
    assert f"may cost at most {MAX_INTERNAL_COST} in total" in page_text("reports.md")


@pytest.mark.usefixtures("warehouse")
def test_the_documented_cohort_can_be_saved(workspace):
    step = {"type": "Event", "value": "a"}
    funnel = workspace.client.post("/api/funnels", json={"name": "f", "steps": [step, step]}).json()
    cohort = example("reports.md", "Lost at the address") | {"funnelId": funnel["id"]}
    assert workspace.client.post("/api/cohorts", json=cohort).status_code == 201


@pytest.mark.parametrize(
    ("route", "containing"), [("/api/v1/events", '"eventId": "order'), ("/api/track", '"pageview"')]
)
def test_the_documented_events_are_accepted(workspace, route, containing):
    sent = {**example("events.md", containing), "websiteId": workspace.website_id}
    assert workspace.client.post(route, json=sent).status_code == 202


def test_the_documented_problem_is_a_real_one(workspace):
    problem = example("api.md", '"instance"')
    step = {
        "type": "Event",
        "value": "a",
        "filters": [{"property": "n", "operator": "greater_than", "value": "many"}],
    }
    assert (
        workspace.client.post(
            problem["instance"],
            json={"name": "One step", "steps": [step]},
            headers={"X-Request-Id": problem["requestId"]},
        ).json()
        == problem
    )


def test_the_documented_answer_has_every_field_and_no_other():
    answer = example("reports.md", "aggregate")
    assert ResultsRecord.model_validate(answer).model_dump(mode="json") == answer


def test_the_worked_examples_are_those_that_tests_run():
    documented = [
        (events.strip("`"), int(reached))
        for events, reached, _ in rows_of("funnels.md", "Worked examples")
    ]
    assert documented == [(story, reached) for story, reached, _ in WORKED_EXAMPLES]


def test_the_documented_limits_of_a_funnel_are_enforced():
    page = " ".join(page_text("funnels.md").split())  # a sentence may wrap anywhere
    assert f"{MIN_STEPS} to {MAX_STEPS} required rows, at most {MAX_ROWS} rows" in page
    assert f"At most {MAX_OR_ROWS} `or` rows in a row and {MAX_MATCHES} matches in a funnel" in page
    assert f"up to {MAX_BREAKDOWNS} different property keys" in page
    assert f"up to {MAX_FILTERS} of `{{property, operator, value}}`" in page
    assert f"JSON list of 1 to {MAX_LIST_ITEMS} scalars" in page
    assert (
        f"at most {MAX_VALUE_BYTES // 1024} KB, a property key 1 to {MAX_KEY_BYTES} bytes" in page
    )
    assert ", ".join(map(str, WINDOWS_S[:-1])) + f" or {WINDOWS_S[-1]}" in page


def test_every_limit_of_events_is_documented_with_its_setting():
    limits = {
        f"PENSTOCK_{name.upper()}" for name in Settings.model_fields if name.startswith("max_")
    }
    assert limits <= in_code("events.md")


def test_every_provider_is_documented(client):
    sentence = f"`provider` is {listed([f'`{provider}`' for provider in PROVIDERS], 'or')}."
    paths = client.get("/api/openapi.json").json()["paths"]
    reference = paths["/api/providers/{provider}/{website_id}"]["post"]["description"]
    assert sentence in " ".join(reference.split())
    assert sentence in page_text("providers.md")


def test_every_warning_is_documented():
    assert {row[0].strip("`") for row in rows_of("events.md", "Warnings")} == {
        code.name for code in WARNINGS
    }


@pytest.mark.parametrize(
    ("heading", "table"),
    [("Stripe events", STRIPE), ("Polar events", POLAR)],
)
def test_every_type_of_a_provider_is_documented(heading, table):
    documented = {}
    for kind, name, amount in rows_of("providers.md", heading):
        documented[kind.strip("`")] = (
            re.findall(r"`(\w+)`", name)[0],
            next(iter(re.findall(r"`(\w+)`", amount)), None),
        )
    assert documented == table


def test_what_makes_a_paid_order_a_renewal_is_documented():
    [page_text] = [
        name for kind, name, _ in rows_of("providers.md", "Polar events") if kind == "`order.paid`"
    ]
    assert set(re.findall(r"`(\w+)`", page_text)) == RENEWAL_REASONS | {
        "purchase",
        "renewal",
        "billing_reason",
    }


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("Questions", [question.path for question in QUESTIONS]),
        ("Imports", [reader.name for reader in READERS]),
    ],
)
def test_the_comparison_lists_every_question_and_format_and_no_other(label, names):
    paragraph = (
        (DOCS / "comparison.md").read_text("utf-8").split(f"**{label}.** ")[1].split("\n\n")[0]
    )
    assert re.findall(r"`([^`]+)`", paragraph) == names


def test_every_link_has_a_target():
    links = [
        (document, target)
        for document in DOCS.rglob("*.md")
        for target in re.findall(r"\]\(([^)]+)\)", document.read_text("utf-8"))
        if not target.startswith("http")
    ]
    for document, target in links:
        name, _, anchor = target.partition("#")
        file = document.parent / name if name else document
        assert file.exists(), (document, target)
        if anchor:
            assert anchor in anchors_of(file), (document, target)


@cache
def anchors_of(file):
    headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


ROOT = DOCS.parent
MARKDOWN = [
    *sorted(ROOT.glob("*.md")),
    *sorted(path for name in ("docs", "src", "bench") for path in (ROOT / name).rglob("*.md")),
]
LINK_ALONE = re.compile(r"([-*] )?(\[?!?\[[^\]]*\]\(\S+\)(\]\(\S+\))?|<?https?://\S+>?)[.,]?")


def test_no_line_is_longer_than_120_characters():
    """Table rows cannot wrap, nor can a line that is one link or image. Code blocks can."""
    too_long = []
    for document in MARKDOWN:
        in_block = False
        for number, line in enumerate(document.read_text("utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_block = not in_block
            exempt = not in_block and (line.startswith("|") or LINK_ALONE.fullmatch(line.strip()))
            if len(line) > 120 and not exempt:
                too_long.append(f"{document.relative_to(ROOT)}:{number}")
    assert too_long == []


CODE_BESIDE_PYTHON = sorted(
    path
    for folder in ("src/penstock", "bench", "sdk/js/src", "sdk/js/tests")
    for pattern in ("*.html", "*.css", "*.js", "*.ts", "*.sql")
    for path in (ROOT / folder).rglob(pattern)
    if not {"vendor", "migrations"} & set(path.parts) and path.name != "t.js"  # built from sdk/js
)
"""Except what others wrote, and migrations, which never change."""


def test_no_line_of_code_is_longer_than_100_characters():
    too_long = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in CODE_BESIDE_PYTHON
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if len(line) > 100
    ]
    assert too_long == []


def test_the_settings_for_small_machines_fit_into_their_memory():
    page = (DOCS / "operating.md").read_text("utf-8")
    _, _, section = page.partition("\n### Small machines\n")
    blocks = re.findall(r"^(\d) GB:\n\n```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert [gigabytes for gigabytes, _ in blocks] == ["1", "2", "4"]
    for gigabytes, block in blocks:
        lines = dict(line.split("=") for line in block.splitlines())
        values = {name.removeprefix("PENSTOCK_").lower(): value for name, value in lines.items()}
        assert set(values) <= set(Settings.model_fields)
        settings = Settings(**values)
        queries = settings.queries_at_once * settings.query_memory_bytes
        assert 500e6 + queries + 4 * settings.bodies_bytes < int(gigabytes) * 1e9
