"""A replica that returns and still lacks rows: a report has all of them or says that it has not."""

import pytest

from penstock.funnels.queries.engine import Engine, EngineRows
from penstock.funnels.statements.query import Statement
from penstock.warehouse.client import Warehouse
from tests.clickhouse_server import DATABASE
from tests.replicas.cluster import ReplicatedCluster
from tests.replicas.test_faults import visitors
from tests.tenant import Tenant
from tests.waiting import eventually
from tests.warehouse.test_shard_faults import (
    BATCH,
    Load,
    Report,
    assert_stored_once,
    entered,
    post_batch,
    read_report,
)
from tests.warehouse.test_shards import post, results_of_a_funnel

pytestmark = [pytest.mark.full("replicas"), pytest.mark.slow("stops and restarts servers")]

REPORTS = 20


def return_without_rows(cluster: ReplicatedCluster, number: int, table: str) -> None:
    """Start a server, and keep it from fetching what it has missed in this table."""
    cluster.hold_fetches(number)
    server, other = cluster.servers[number], cluster.servers[number ^ 1]
    server.start()
    count = f"SELECT count() FROM {DATABASE}.{table}"  # noqa: S608 - names of this file
    assert int(server.execute(count)) < int(other.execute(count))


@pytest.mark.parametrize("number", [0, 2], ids="server {}".format)
def test_a_report_reads_the_other_replica_while_one_still_fetches(
    cluster: ReplicatedCluster, number: int, workspace: Tenant, warehouse: Warehouse
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    cluster.servers[number].kill()
    post_batch(workspace, visitors(BATCH))
    assert entered(workspace.client, results) == 2 * BATCH
    return_without_rows(cluster, number, "events_local")
    reports = [read_report(workspace.client, results) for _ in range(REPORTS)]
    assert [each for each in reports if each and each.is_complete and each.units != 2 * BATCH] == []
    assert entered(workspace.client, results) == 2 * BATCH
    cluster.heal()
    assert entered(workspace.client, results) == 2 * BATCH
    assert_stored_once(warehouse, workspace, 2 * BATCH)


def test_a_report_is_not_fresh_while_no_replica_has_all_rows(
    cluster: ReplicatedCluster, workspace: Tenant
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    cluster.servers[2].kill()
    post_batch(workspace, visitors(BATCH))
    assert entered(workspace.client, results) == 2 * BATCH
    return_without_rows(cluster, 2, "events_local")
    cluster.servers[3].kill()
    report: Report = eventually(lambda: read_report(workspace.client, results))
    assert report.units < 2 * BATCH
    assert not report.is_complete
    cluster.heal()
    assert entered(workspace.client, results) == 2 * BATCH


def test_a_report_is_not_fresh_while_a_replica_lacks_merges(
    cluster: ReplicatedCluster, workspace: Tenant
) -> None:
    results, devices = results_of_a_funnel(workspace.client), visitors(0)
    post_batch(workspace, devices)
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    cluster.servers[0].kill()
    for device in devices:
        post(workspace, device, userId="ann")
    assert entered(workspace.client, results) == 1
    return_without_rows(cluster, 0, "visitor_aliases")
    reports = [read_report(workspace.client, results) for _ in range(5)]
    assert [each for each in reports if each and each.is_complete and each.units != 1] == []
    cluster.heal()
    assert entered(workspace.client, results) == 1


def test_reports_under_load_are_right_while_servers_die_and_return(
    cluster: ReplicatedCluster, workspace: Tenant, warehouse: Warehouse
) -> None:
    load = Load(workspace, results_of_a_funnel(workspace.client))
    with load.running():
        for number in (0, 2):
            acknowledged = load.acknowledged
            cluster.servers[number].kill()
            eventually(lambda before=acknowledged: load.acknowledged > before + BATCH)
            cluster.hold_fetches(number)
            cluster.servers[number].start()
            acknowledged, reports = load.acknowledged, load.reports
            eventually(
                lambda before=acknowledged, read=reports: (
                    load.acknowledged > before + BATCH and load.reports > read + 2
                )
            )
            cluster.heal()
    assert_stored_once(warehouse, workspace, load.acknowledged)


def test_a_report_is_not_fresh_if_a_replica_without_all_rows_takes_over_before_it(
    cluster: ReplicatedCluster, workspace: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_of_a_funnel(workspace.client)
    post_batch(workspace, visitors(0))
    assert entered(workspace.client, results) == BATCH
    cluster.sync()
    cluster.hold_fetches(3)
    post_batch(workspace, visitors(BATCH))
    run_statement = Engine.run

    def run_after_a_kill(engine: Engine, statement: Statement) -> EngineRows:
        """Run a statement when the replica that was found to have all rows is gone."""
        cluster.servers[2].end()
        return run_statement(engine, statement)

    monkeypatch.setattr(Engine, "run", run_after_a_kill)
    report: Report = eventually(lambda: read_report(workspace.client, results))
    assert report.units < 2 * BATCH
    assert not report.is_complete
    cluster.heal()
    assert entered(workspace.client, results) == 2 * BATCH
