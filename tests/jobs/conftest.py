import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.scenario import Scene
from tests.watched import Watched


@pytest.fixture
def warehouse(warehouse: Warehouse) -> Watched:
    return Watched(warehouse)


@pytest.fixture
def scene(workspace, clock) -> Scene:
    return Scene(workspace, clock)
