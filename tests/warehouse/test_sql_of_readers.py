"""The SQL that docs/moving-out.md gives to other tools, on a real server as their user."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from docsite.pages import blocks

from tests.clickhouse_server import (
    READER,
    READER_PASSWORD,
    READER_RIGHTS,
    READER_SETTINGS,
    ClickHouseServer,
)


def documented(beginning: str) -> str:
    [block] = [
        block.text
        for block in blocks(Path("docs/moving-out.md"))
        if block.text.startswith(beginning)
    ]
    return block


def test_the_user_of_the_docs_is_the_user_of_the_tests() -> None:
    """The users of the tests' servers are in a file, so this statement cannot run there."""
    settings = ", ".join(f"{name} = {value}" for name, value in READER_SETTINGS.items())
    password = "IDENTIFIED BY 'a long password'"
    assert documented("CREATE USER").splitlines() == [
        f"CREATE USER {READER} {password} SETTINGS {settings};",
        *(f"{right} TO {READER};" for right in READER_RIGHTS),
    ]


@pytest.mark.usefixtures("own_http")
def test_the_documented_query_counts_events_of_canonical_visitors(
    clickhouse: ClickHouseServer,
) -> None:
    at = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    rows = [("phone", at), ("laptop", at), ("phone", at - timedelta(days=8)), ("guest", at)]
    columns = "(website_id, scope_id, visitor_id, occurred_at)"
    values = ", ".join(f"('web_docs', 'docs', '{visitor}', '{time}')" for visitor, time in rows)
    clickhouse.execute(f"INSERT INTO penstock.events {columns} VALUES {values}")  # noqa: S608
    clickhouse.execute(
        "INSERT INTO penstock.visitor_aliases (scope_id, visitor_id, canonical_id, version) VALUES "
        "('docs', 'laptop', 'tablet', 1), ('docs', 'laptop', 'phone', 2)"
    )
    statement = documented("SELECT coalesce").replace("web_...", "web_docs")
    answer = clickhouse.answer(statement, READER, READER_PASSWORD)
    assert (answer.status_code, answer.text) == (200, "phone\t2\nguest\t1\n")


@pytest.mark.usefixtures("own_http")
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO penstock.visitor_aliases (scope_id) VALUES ('a')",
        "SELECT * FROM penstock.clicks",
        "SET max_execution_time = 0",
    ],
)
def test_the_user_can_only_read_what_the_docs_name(
    clickhouse: ClickHouseServer, statement: str
) -> None:
    answer = clickhouse.answer(statement, READER, READER_PASSWORD)
    assert answer.status_code != 200
    assert any(word in answer.text for word in ("READONLY", "ACCESS_DENIED"))
