"""Fixtures for accounts, which are stored in both kinds of metadata DB."""

from collections.abc import Iterator

import pytest

from tests.identity_provider import IdentityProvider, identity_provider
from tests.mail_server import MailServer, mail_server


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running
