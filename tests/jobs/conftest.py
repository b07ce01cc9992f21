from collections.abc import Iterator

import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.scenario import Scene
from tests.recording_warehouse import RecordingWarehouse


@pytest.fixture
def warehouse(warehouse: Warehouse) -> RecordingWarehouse:
    return RecordingWarehouse(warehouse)


@pytest.fixture
def without_merges(warehouse: Warehouse) -> Iterator[None]:
    """Stop merges of parts. After a merge, the data would count as changed, and jobs would count it
    again.
    """
    warehouse.command("SYSTEM STOP MERGES")
    yield
    warehouse.command("SYSTEM START MERGES")


@pytest.fixture
def scene(workspace, clock) -> Scene:
    return Scene(workspace, clock)
