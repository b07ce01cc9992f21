"""Fixtures for accounts, which are stored in both kinds of metadata DB."""

from collections.abc import Iterator

import pytest

from tests.identity_provider import IdentityProvider, identity_provider


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running
