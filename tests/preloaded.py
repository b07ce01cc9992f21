"""Modules and objects that `penstock` commands need, preloaded by the tests' fork server.

The library of the embedded engine is only loaded, because importing its package would start the
engine, whose threads would not survive a fork.
"""

import ctypes
import gc
import os
import sys
import xml.etree.ElementTree  # noqa: F401 - the engine's package imports it
from importlib.util import find_spec
from pathlib import Path

import anyio._backends._asyncio  # noqa: F401
import clickhouse_connect.driver.httpclient  # noqa: F401
import numpy  # noqa: F401 - nobody names it here
import pyarrow  # noqa: F401
import uvicorn.lifespan.on
import uvicorn.loops.uvloop  # noqa: F401

import penstock.app
import penstock.backup.service
import penstock.backup.verification
import penstock.cli.backup
import penstock.cli.demo
import penstock.cli.doctor
import penstock.cli.import_file
import penstock.cli.migrate
import penstock.cli.serve
import penstock.cli.service_checks
import penstock.cli.settings_file
import penstock.cli.simulate
import penstock.edge.protocol
import penstock.stores  # noqa: F401
from penstock.base.user_agent import parse_user_agent
from tests.applications import build_ahead
from tests.quick_passwords import hash_cheaply


def _load_engine() -> None:
    """Load the engine's library, so that importing its package later is quick. Needed only on
    Linux.
    """
    if sys.platform != "linux":
        return
    package = find_spec("chdb")
    assert package is not None
    assert package.origin is not None
    library = Path(package.origin).parent / "_chdb.abi3.so"
    ctypes.CDLL(str(library), mode=sys.getdlopenflags() | os.RTLD_DEEPBIND)


hash_cheaply()
build_ahead()
parse_user_agent("")  # builds the parser's patterns
_load_engine()
# Otherwise a garbage collection in a forked process would touch, and so copy, every object.
gc.freeze()
