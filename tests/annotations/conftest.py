"""Annotations are stored in both kinds of metadata DB."""

import pytest


@pytest.fixture
def metadb_url(database_url: str) -> str:
    return database_url
