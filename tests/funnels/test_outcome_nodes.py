"""Two nodes share the stored outcomes of a funnel, and one of them is killed repeatedly.

Both accept events, fold and build, and the kill may interrupt any of these. The reports of both
always agree with the events. `PENSTOCK_KILLS` divided by ten is the number of kills.
"""

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from random import Random, randrange
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.clickhouse_server import ClickHouseServer
from tests.funnels.scenario import DAY_S, HOUR_S
from tests.funnels.test_outcome_kills import DEFINITION, KILLS, SETTINGS, Shop
from tests.postgres import PostgresServer
from tests.serving import Served
from tests.waiting import eventually

_UNFINISHED = (
    "SELECT count(*), count(*) FILTER (WHERE build != '') FROM outcome_claims WHERE is_open"
)


class Nodes:
    """Two nodes, and threads that use each node until it ends."""

    def __init__(self, folder: Path, settings: dict[str, str], random: Random) -> None:
        self._folder, self._settings = folder, settings
        self.served = [self._start(number) for number in range(2)]
        self.shop = Shop(self.served[0], random)
        self._log_in(self.served[1])

    def _start(self, number: int) -> Served:
        return Served(self._folder / f"node-{number}", **self._settings)

    def _log_in(self, node: Served) -> None:
        node.client.headers["Authorization"] = f"Bearer {self.shop.key}"

    def use(self, number: int, for_s: float = inf) -> Thread:
        user = Thread(target=self.shop.use, args=(self.served[number], for_s))
        user.start()
        return user

    def kill(self, number: int) -> None:
        self.served[number].kill()

    def restart(self, number: int) -> None:
        self.served[number] = self._start(number)
        self._log_in(self.served[number])

    def edit(self, random: Random) -> None:
        """Change to one of a few definitions, each of which needs its own build."""
        self.shop.definition = DEFINITION | {
            "conversionWindowSeconds": random.choice([HOUR_S, DAY_S, 7 * DAY_S])
        }
        body = {"name": "Checkout", **self.shop.definition}
        path = f"/api/funnels/{self.shop.funnel_id}"
        answer = self.served[0].client.put(path, json=body)
        assert answer.status_code == 200, answer.text

    def stop(self) -> None:
        for node in self.served:
            node.kill()


@contextmanager
def running_nodes(
    tmp_path: Path, postgres_server: PostgresServer, random: Random
) -> Iterator[tuple[Nodes, str]]:
    """The nodes, and the URL of their metadata DB."""
    clickhouse = ClickHouseServer(tmp_path / "clickhouse")
    metadb_url = postgres_server.fresh()
    settings = {
        **SETTINGS,
        "PENSTOCK_DATABASE_URL": metadb_url,
        "PENSTOCK_WAREHOUSE_URL": clickhouse.url,
        "PENSTOCK_SECRET_KEYS": urlsafe_b64encode(b"k" * 32).decode(),
    }
    nodes = None
    try:
        nodes = Nodes(tmp_path, settings, random)
        yield nodes, metadb_url
    finally:
        if nodes is not None:
            nodes.stop()
        clickhouse.stop()


@pytest.mark.usefixtures("starts_service")
@pytest.mark.full("kills of one of two nodes")
@pytest.mark.slow("starts two nodes and kills one again and again")
def test_two_nodes_agree_with_the_events_while_one_is_killed(
    tmp_path: Path,
    postgres_server: PostgresServer,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("kills", KILLS)
    seed = randrange(2**32)
    random, unfinished = Random(seed), [0, 0]
    with running_nodes(tmp_path, postgres_server, random) as (nodes, metadb_url):
        for turn in range(KILLS):
            if turn % 2:
                nodes.edit(random)
            killed = turn % 2 if turn < 2 else random.randrange(2)
            users = [nodes.use(killed), nodes.use(killed)]
            other = nodes.use(1 - killed, random.uniform(0, 2))
            time.sleep(random.uniform(0, 2))
            nodes.kill(killed)
            with psycopg.connect(metadb_url) as connection:
                row: Any = connection.execute(_UNFINISHED).fetchone()
                unfinished = [have + more for have, more in zip(unfinished, row, strict=True)]
            for user in (*users, other):
                user.join()
            nodes.shop.assert_equal(nodes.served[1 - killed])
            nodes.restart(killed)
            for node in nodes.served:
                nodes.shop.assert_equal(node)
        for node in nodes.served:
            eventually(lambda node=node: nodes.shop.answers_from_outcomes(node))
            nodes.shop.assert_equal(node)
        sources = dict(nodes.shop.sources)
    print(f"{KILLS} kills (seed {seed}), {unfinished} in a change or build: answers {sources}")
