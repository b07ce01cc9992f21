"""Chromium for tests of pages."""

from typing import Any

import pytest

from tests.browser.chromium import LAUNCH


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    if LAUNCH["executable_path"] is None:
        pytest.fail("Chromium is missing; scripts/setup tests installs it")
    return LAUNCH
