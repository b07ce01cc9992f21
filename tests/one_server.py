"""A mark for tests of features that only a single server's tables support."""

import os

import pytest


def one_server(reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test in `make test-shards` and `make test-cluster`."""
    engine = os.environ.get("PENSTOCK_TEST_ENGINE")
    return pytest.mark.skipif(engine in ("shards", "cluster"), reason=reason)
