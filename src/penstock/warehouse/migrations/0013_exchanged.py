"""Creates the table through which the shards of a cluster exchange events. Others need none."""

from penstock.warehouse.client import Warehouse


def upgrade(warehouse: Warehouse) -> None:
    if warehouse.cluster is not None:
        for statement in warehouse.cluster.exchange_tables():
            warehouse.command(statement)
