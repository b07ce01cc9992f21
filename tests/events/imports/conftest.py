"""Runs the tests of imports on both kinds of metadata DB, because it stores their jobs."""

import pytest


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url
