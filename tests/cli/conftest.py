"""Fixtures of tests of the command line."""

from collections.abc import Iterator

import pytest

from tests.serving import Served


@pytest.fixture(scope="module")
def service(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service for the tests of a file. key: its API key. website: the ID of its website."""
    with Served(tmp_path_factory.mktemp("service") / "data") as running:
        running.key, running.website = running.first_account()  # type: ignore[attr-defined]
        yield running
