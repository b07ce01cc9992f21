"""A service whose builds of stored outcomes never end: `python -m tests.browser.endless_builds`."""

from typing import Any

from penstock.funnels.outcomes.rows import OutcomeRows
from penstock.funnels.statements.query import Statement
from tests import limited

_ENDLESS = "SELECT sum(sleepEachRow(0.01)) FROM numbers(1000000) SETTINGS max_block_size = 1"


def fill(rows: OutcomeRows, *_: Any) -> None:
    rows._run(Statement(_ENDLESS, {}))


if __name__ == "__main__":
    OutcomeRows.fill = fill  # type: ignore[method-assign, assignment]
    limited.run()
