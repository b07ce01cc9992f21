"""Runs the tests of imports, whose jobs are in the metadata DB, on both kinds of it."""

import pytest


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url
