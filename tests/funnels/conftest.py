"""Fixtures for stories, and for the property tests, including a count of their examples."""

from collections.abc import Iterator

import pytest

from penstock.warehouse.client import Warehouse
from tests.conftest import ShiftedClock
from tests.funnels import seed
from tests.funnels.scenario import Scene
from tests.tenant import Tenant


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    return Scene(workspace, clock)


@pytest.fixture(scope="module")
def bare_warehouse(warehouse: Warehouse) -> Iterator[Warehouse]:
    """A warehouse without the view that fills the catalogue, which funnels do not read."""
    warehouse.command("DETACH TABLE catalogue_feed")
    yield warehouse
    warehouse.command("ATTACH TABLE catalogue_feed")


@pytest.fixture
def count_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """Report the number of cases that a test has stored."""
    before = seed.stored_cases()
    yield
    request.node.user_properties.append(("examples", seed.stored_cases() - before))
