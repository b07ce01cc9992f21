"""Measures posts per second while stored outcomes are refreshed.

Every post changes an attempt of the funnel, and a reader repeatedly requests the funnel's report. A
second service has the same events, without stored outcomes or readers.
"""

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

import httpx

from bench.data import BREAKDOWNS
from bench.funnels import WINDOW_S
from bench.intake import SINGLE, send
from bench.latency import in_background
from bench.long_funnel import service_with_events
from bench.model import Bench, Cell, Column, Table
from bench.service import Account, create, penstock

_REPORT_EVERY_S = (1, 5)
_STORED_S = 300
_STEPS = ("step_1", "step_2", "checkout_started")
"""Steps of the funnel. Posts are events of the last step."""


class Round(NamedTuple):
    """One round.

    rate: posts per second with stored outcomes. rate_without: the rate without them, measured just
    before. answers: number of reports completed during the round. stored_answers: number of these
    reports that came from stored outcomes.
    """

    rate: float
    rate_without: float
    answers: int
    stored_answers: int


def run(bench: Bench) -> list[Table]:
    data, account = service_with_events(bench)
    seconds, number_of_rounds = (1, 1) if bench.small else (10, 3)
    copy = bench.folder / "without-outcomes"
    shutil.copytree(data, copy, symlinks=True)
    rounds = dict[int, list[Round]]()
    with (
        penstock(
            data,
            TEST_LIMITS='{"stored_outcomes_after_ms": 0}',
            PENSTOCK_QUERY_TIMEOUT_S="300",
        ) as storing,
        penstock(copy, PENSTOCK_STORED_OUTCOMES="0") as plain,
        _client(storing.url, account) as client,
    ):
        path = f"/api/funnels/{create(client, '/api/funnels', _funnel())['id']}"
        bench.progress("a build of stored outcomes")
        _await_stored(client, path)
        for number in range(number_of_rounds):
            bench.progress(f"round {number + 1} of {number_of_rounds}")
            for every_s in _REPORT_EVERY_S:
                prefix = f"refresh-{number}-{every_s}"
                without = send(plain.url, account, SINGLE, prefix, seconds).rate
                with _repeated_reports(client, path, every_s) as sources:
                    rate = send(storing.url, account, SINGLE, prefix, seconds).rate
                measured = Round(rate, without, len(sources), sources.count("outcomes"))
                rounds.setdefault(every_s, []).append(measured)
    shutil.rmtree(copy)
    return [_table(rounds)]


def _client(url: str, account: Account) -> httpx.Client:
    headers = {"Authorization": f"Bearer {account.key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=300)


def _funnel() -> dict[str, object]:
    return {
        "name": "Refreshed",
        "countingUnit": "attempt",
        "attemptProperty": "attemptId",
        "sequenceProperty": "n",
        "breakdownProperties": list(BREAKDOWNS),
        "conversionWindowSeconds": WINDOW_S,
        "steps": [{"type": "Event", "value": name} for name in _STEPS],
    }


def _report(client: httpx.Client, path: str) -> str:
    """Request the report. Returns its `servedFrom`."""
    answer = client.get(f"{path}/results").raise_for_status().json()
    return str(answer["servedFrom"])


def _await_stored(client: httpx.Client, path: str) -> None:
    _report(client, path)
    until_s = time.monotonic() + _STORED_S
    while (state := client.get(f"{path}/outcomes").raise_for_status().json()["state"]) != "stored":
        if time.monotonic() > until_s:
            raise RuntimeError(f"outcomes are {state} after {_STORED_S} seconds")
        time.sleep(0.2)


@contextmanager
def _repeated_reports(client: httpx.Client, path: str, every_s: float) -> Iterator[list[str]]:
    """Request reports until the context ends. Yields the `servedFrom` of completed reports."""
    sources = list[str]()

    def repeat(stop: threading.Event) -> None:
        while not stop.wait(every_s):
            sources.append(_report(client, path))

    with in_background(repeat):
        yield sources


def _table(rounds: Mapping[int, list[Round]]) -> Table:
    without = median(each.rate_without for measured in rounds.values() for each in measured)
    rows: list[list[Cell]] = [["without", without, None, None, None]]
    rows += [
        [
            f"refreshed by a report every {every_s} s",
            median(each.rate for each in measured),
            median(each.rate / each.rate_without for each in measured),
            sum(each.answers for each in measured),
            sum(each.stored_answers for each in measured),
        ]
        for every_s, measured in rounds.items()
    ]
    columns = (
        Column("stored outcomes"),
        Column("posts per s", 0),
        Column("of those without", 2),
        Column("answers", 0),
        Column("answers from stored outcomes", 0),
    )
    notes = (
        "Single events as fast as they are taken, each of a new attempt; beside them a report of "
        "three steps and three breakdowns. Two services over 12 million events, in turn; medians "
        "of the rounds."
    )
    return Table("Posts while stored outcomes are refreshed", columns, rows, notes)
