"""Programs that tests start beside themselves. A test names the fixture of each kind that it needs.

So `make quick` can leave these tests out, and a reader sees what a test costs. Whatever starts a
program calls `require`, which fails in a test that does not name the fixture.
"""

from collections.abc import Collection

import pytest

PROGRAMS = {
    "starts_service": "a Penstock service or command",
    "starts_database": "a PostgreSQL or ClickHouse server",
    "browser": "a browser",
}
"""Fixtures, with the program that each allows."""

_fixtures = set(PROGRAMS)
"""Fixtures of the running test. Outside of tests, such as in scripts, everything may start."""


def enter(fixtures: Collection[str] = PROGRAMS) -> None:
    """Note the fixtures of the test that runs from now on."""
    _fixtures.clear()
    _fixtures.update(fixtures)


def allow(fixture: str) -> None:
    """Note a fixture that the running test requests dynamically."""
    _fixtures.add(fixture)


def require(fixture: str) -> None:
    """Fail the running test unless it names the fixture."""
    if fixture not in _fixtures:
        pytest.fail(f"This test starts {PROGRAMS[fixture]}: add the fixture `{fixture}`.")
