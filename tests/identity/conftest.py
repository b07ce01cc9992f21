"""Identity lives in the metadata DB: its tests run on both kinds of it."""

import pytest


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url
