import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.scenario import Scene
from tests.recording_warehouse import RecordingWarehouse


@pytest.fixture
def warehouse(warehouse: Warehouse) -> RecordingWarehouse:
    return RecordingWarehouse(warehouse)


@pytest.fixture
def scene(workspace, clock) -> Scene:
    return Scene(workspace, clock)
