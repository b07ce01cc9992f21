"""Fixtures of tests of pages."""

import pytest

from tests.conftest import ShiftedClock
from tests.funnels.scenario import Scene
from tests.tenant import Tenant


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """A website with stories that began so long ago that every window has ended."""
    return Scene(workspace, clock)
