"""Imports keep their jobs in the metadata DB: their tests run on both kinds of it."""

import pytest


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url
