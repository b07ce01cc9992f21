"""The receipt log end to end: the commands of docs/examples.md equal an independent calculation."""

import csv
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from examples.receipt_funnel import FUNNEL, STEPS

from tests.serving import Served, environment, penstock

ROOT = Path(__file__).parents[2]
LOG = ROOT.parent / "shared" / "data" / "receipt.csv"
"""Test input that is not ours to publish; it lies beside the repository."""

pytestmark = pytest.mark.skipif(
    not LOG.exists(), reason="receipt.csv does not lie beside the repository"
)


def example(script, *arguments, **settings):
    command = [sys.executable, ROOT / "examples" / script, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment(**settings)
    ).stdout


@pytest.fixture(scope="module")
def table(starts_service, tmp_path_factory):
    """What the documented commands print on a fresh service."""
    folder = tmp_path_factory.mktemp("receipt")
    (folder / "receipt.ndjson").write_text(example("receipt_to_ndjson.py", LOG), "utf-8")
    with Served(folder / "data") as service:
        key, website = service.first_account()
        access = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": key}
        imported = penstock(
            "import", str(folder / "receipt.ndjson"), "--website", website, **access
        )
        assert (imported.returncode, imported.stdout.partition(" ")[0]) == (0, "8,577"), (
            imported.stderr
        )
        return example("receipt_funnel.py", website, **access)


def reached_steps():
    """Number of cases that reach each step, from the CSV alone. Equal times prove no order."""
    cases = defaultdict(list)
    with LOG.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            since_1970 = datetime.fromisoformat(row["time:timestamp"]) - datetime(
                1970, 1, 1, tzinfo=UTC
            )
            cases[row["case:concept:name"]].append(
                (since_1970 // timedelta(milliseconds=1), row["concept:name"])
            )
    reached = [0] * len(STEPS)
    for events in cases.values():
        times_ms: list[int] = []
        for at_ms, name in sorted(events, key=lambda event: event[0]):
            in_order = (
                not times_ms
                or times_ms[-1] < at_ms <= times_ms[0] + FUNNEL["conversionWindowSeconds"] * 1000
            )
            if in_order and len(times_ms) < len(STEPS) and name == STEPS[len(times_ms)]:
                reached[len(times_ms)] += 1
                times_ms.append(at_ms)
    return reached


def test_the_counts_equal_an_independent_calculation(table):
    total = next(line for line in table.splitlines() if line.startswith("| all |"))
    counts = [int(cell.replace(",", "")) for cell in total.split(" | ")[1 : 1 + len(STEPS)]]
    assert counts == reached_steps()
    assert counts[0] == 1434


def test_the_commands_print_the_documented_table(table):
    assert table in (ROOT / "docs" / "examples.md").read_text("utf-8")
