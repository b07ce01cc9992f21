"""A mark for tests of features that only a single server's tables support."""

import os

import pytest


def one_server(reason: str) -> pytest.MarkDecorator:
    """Skips a test if the tables are in several shards, as in `make test-shards`."""
    return pytest.mark.skipif(os.environ.get("PENSTOCK_TEST_ENGINE") == "shards", reason=reason)
