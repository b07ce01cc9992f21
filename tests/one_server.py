"""A mark for tests of what only tables of one server have, or understand."""

import os

import pytest


def one_server(reason: str) -> pytest.MarkDecorator:
    """Skips a test where the tables lie in several shards, as in `make test-shards`."""
    return pytest.mark.skipif(os.environ.get("PENSTOCK_TEST_ENGINE") == "shards", reason=reason)
