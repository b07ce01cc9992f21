"""Counts the same funnel in other ways: with a bare `windowFunnel`, and self-joins in DuckDB and
PostgreSQL.

They only count how many attempts completed each step, without sequence numbers, cohorts, medians,
pending units or data quality. Simple tools use the self-join: at each step, it takes an attempt's
first event after the previous step. The self-join considers only the first entry; `windowFunnel`
tries all entries.
"""

from collections.abc import Callable
from pathlib import Path

from bench.funnels import WINDOW_S, open_events
from penstock.warehouse.client import Warehouse

LIMIT_S = 150
_WINDOW_MS = WINDOW_S * 1000
_FLAT = """
SELECT scalars.attemptId.:String AS attempt, name, toUnixTimestamp64Milli(occurred_at) AS ms
FROM events WHERE website_id = 'web_bench' AND name LIKE 'step%'"""
_BARE = f"""
SELECT level, count() FROM (
    SELECT
        windowFunnel({_WINDOW_MS})(toUInt64(toUnixTimestamp64Milli(occurred_at)), {{conditions}})
            AS level
    FROM events
    WHERE website_id = 'web_bench' AND name IN ({{names}})
    GROUP BY {{unit}})
GROUP BY level ORDER BY level"""
UNITS = {
    "bare `windowFunnel`, by the attempt's text": "scalars.attemptId.:String",
    "bare `windowFunnel`, text without NULLs": "assumeNotNull(scalars.attemptId.:String)",
    "bare `windowFunnel`, by the stored hash": "assumeNotNull(hashes.attemptId.:Int64)",
}


def bare_window_funnels(warehouse: Warehouse, steps: int = 6) -> dict[str, Callable[[], object]]:
    """Return three variants: the usual one, a tuned one, and one that groups by Penstock's hash."""

    def job(sql: str) -> Callable[[], object]:
        return lambda: warehouse.query(sql)

    names = [f"'step_{k}'" for k in range(1, steps + 1)]
    conditions = ", ".join(f"name = {name}" for name in names)
    return {
        label: job(_BARE.format(conditions=conditions, names=", ".join(names), unit=unit))
        for label, unit in UNITS.items()
    }


def self_join(steps: int = 6) -> str:
    """Return SQL that counts the attempts that completed each step, by joining the table with
    itself.
    """
    parts = [
        "step_1 AS (SELECT attempt, min(ms) AS entered, min(ms) AS ms FROM events "
        "WHERE name = 'step_1' GROUP BY attempt)"
    ]
    parts += [
        f"step_{k} AS (SELECT attempt, entered, min(events.ms) AS ms FROM step_{k - 1} "
        f"JOIN events USING (attempt) WHERE name = 'step_{k}' AND events.ms >= step_{k - 1}.ms "
        f"AND events.ms <= entered + {_WINDOW_MS} GROUP BY attempt, entered)"
        for k in range(2, steps + 1)
    ]
    counts = ", ".join(f"(SELECT count(*) FROM step_{k})" for k in range(1, steps + 1))
    return f"WITH {', '.join(parts)} SELECT {counts}"


def write_flat(data: Path, file: Path) -> None:
    """Write the step events as Parquet or CSV, by the file's suffix."""
    warehouse = open_events(data)
    warehouse.command(f"{_FLAT} INTO OUTFILE '{file}' TRUNCATE")
    warehouse.close()
