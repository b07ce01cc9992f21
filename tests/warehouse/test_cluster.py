"""Statements for a cluster are rendered, parsed by the engine and run on two shards."""

from uuid import uuid4

import pytest
from hypothesis import given, seed, settings

from penstock.funnels.definitions.model import CountingUnit
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse
from penstock.warehouse.cluster import SHARDED, Cluster
from tests.funnels.strategies import Case, cases
from tests.funnels.test_property import assert_agreement

CLUSTER = Cluster("main")


def rendered() -> list[str]:
    statements = [each for migration in migrations.migrations() for each in migration.statements]
    tables = [*CLUSTER.distributed_tables(), *CLUSTER.exchange_tables()]
    return [*map(CLUSTER.render, statements), *map(CLUSTER.render, tables)]


def test_every_migration_runs_on_the_cluster_with_replicated_tables(warehouse: Warehouse) -> None:
    for statement in rendered():
        assert statement.count("ON CLUSTER `main`") == 1, statement
        assert "non_replicated" not in statement
        if "CREATE TABLE IF NOT EXISTS" in statement:
            assert "ENGINE = Replicated" in statement, statement
        # The engine can parse it.
        parse = "SELECT formatQuery({statement:String})"
        [[text]] = warehouse.query(parse, {"statement": statement})[1]
        assert "ON CLUSTER main" in text


@pytest.mark.parametrize(
    ("statement", "on_the_cluster"),
    [
        (
            "ALTER TABLE events\nDELETE WHERE 1",
            "ALTER TABLE events_local ON CLUSTER `main`\nDELETE WHERE 1",
        ),
        (
            "ALTER TABLE visitor_aliases\nDELETE WHERE 1",
            "ALTER TABLE visitor_aliases ON CLUSTER `main`\nDELETE WHERE 1",
        ),
        (
            "ALTER TABLE funnel_outcomes DROP PARTITION 'a'",
            "ALTER TABLE funnel_outcomes DROP PARTITION 'a'",
        ),
        (
            "TRUNCATE TABLE insert_probe",
            "TRUNCATE TABLE insert_probe ON CLUSTER `main`",
        ),
        ("KILL QUERY WHERE 1 ASYNC", "KILL QUERY ON CLUSTER `main` WHERE 1 ASYNC"),
        (
            "SELECT 1 FROM system.parts",
            "SELECT 1 FROM clusterAllReplicas(`main`, system.parts)\nSETTINGS "
            "skip_unavailable_shards = 1, connections_with_failover_max_tries = 1,\n"
            "    handshake_timeout_ms = 500\n",
        ),
        (
            "SELECT 1 FROM system.mutations",
            "SELECT 1 FROM clusterAllReplicas(`main`, system.mutations)",
        ),
        (
            "INSERT INTO catalogue SELECT * FROM (SELECT * FROM db.events_local AS events)",
            "INSERT INTO catalogue SELECT * FROM (SELECT * FROM db.events AS events)",
        ),
        ("SELECT 1 FROM events", "SELECT 1 FROM events"),
        (
            "ALTER TABLE exchanged_local DROP PARTITION 1",
            "ALTER TABLE exchanged_local ON CLUSTER `main` DROP PARTITION 1",
        ),
        (
            "ALTER TABLE catalogue_feed MODIFY QUERY SELECT name FROM events",
            "ALTER TABLE catalogue_feed ON CLUSTER `main` MODIFY QUERY SELECT name "
            "FROM events_local AS events",
        ),
    ],
)
def test_changes_and_reads_reach_every_shard(statement: str, on_the_cluster: str) -> None:
    assert CLUSTER.render(statement) == on_the_cluster


@pytest.mark.full("several shards")
def test_a_shipment_is_stored_once_over_both_shards(sharded: Warehouse) -> None:
    website = uuid4().hex
    rows = "\n".join(
        f'{{"website_id":"{website}","kind":"event","name":"a","event_id":"e{number}",'
        f'"occurred_at":"2025-01-01T00:00:00Z","visitor_id":"v{number}"}}'
        for number in range(100)
    )
    columns = ["website_id", "kind", "name", "event_id", "occurred_at", "visitor_id"]
    for _ in range(2):
        sharded.insert_json_rows("events", rows.encode(), columns, website)
    by_shard = sharded.query(
        "SELECT _shard_num, count() FROM events WHERE website_id = {website:String} GROUP BY 1",
        {"website": website},
    )[1]
    assert len(by_shard) == 2
    assert sum(count for _, count in by_shard) == 100
    named = "SELECT sum(events) FROM catalogue WHERE website_id = {website:String}"
    assert sharded.query(f"{named} AND property = ''", {"website": website})[1] == [(100,)]


@pytest.mark.parametrize("unit", CountingUnit)
@pytest.mark.slow("runs random examples")
@pytest.mark.full("several shards")
def test_a_funnel_over_two_shards_matches_the_reference(
    sharded: Warehouse, unit: CountingUnit
) -> None:
    @seed(1)
    @settings(max_examples=2, database=None)
    @given(case=cases(unit))
    def agree(case: Case) -> None:
        assert_agreement(sharded, case)

    agree()


def test_sharded_tables_are_those_of_the_migrations() -> None:
    created = "\n".join(rendered())
    assert all(f"CREATE TABLE IF NOT EXISTS {table}_local ON" in created for table in SHARDED)
